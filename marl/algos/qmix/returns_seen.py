"""The highest and the lowest return that the rewards seen so far can explain.

    highest = H_ended + H_cut / (1 - gamma ** length)

``H_ended`` is the most that any episode paid that ended (its positive rewards alone, undiscounted), ``H_cut`` the most that
any paid that was cut off; what is cut off may go on, so it is taken to be paid again and again. Values far above are no
estimate of anything that was seen: they bootstrap from their own mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from marl.data.batch import SampleBatch
from marl.data.task import Bools


@dataclass
class Extremes:
    """Of what is paid: the sum of positive rewards and that of negative ones."""

    highest: float = 0.0
    lowest: float = 0.0

    def include(self, highest: float, lowest: float) -> None:
        self.highest, self.lowest = max(self.highest, highest), min(self.lowest, lowest)


@dataclass
class Running:
    """An episode so far."""

    highest: float = 0.0
    lowest: float = 0.0
    steps: int = 0


@dataclass
class ReturnsSeen:
    """By the decisions of all teams of a learner, with rewards as they are learned from."""

    gamma: float
    ended: Extremes = field(default_factory=Extremes)
    cut: Extremes = field(default_factory=Extremes)  # already divided by 1 - gamma ** length
    episodes: int = 0
    running: dict[tuple[str, int], Running] = field(default_factory=dict)  # by team and stream

    def observe(self, team: str, rows: SampleBatch) -> None:
        """Take these decisions into account, which stand in the order of time within each stream."""
        if not len(rows):
            return
        order = np.argsort(rows["stream"], kind="stable")
        streams, ends = rows["stream"][order], rows["ended"][order]
        starts = np.flatnonzero(_starts(streams, ends))
        rewards = rows["rewards"][order].astype(np.float64)
        highest = np.add.reduceat(np.maximum(rewards, 0.0), starts)
        lowest = np.add.reduceat(np.minimum(rewards, 0.0), starts)
        steps = np.add.reduceat(rows["elapsed"][order], starts)
        lasts = np.append(starts[1:], len(order)) - 1
        terminated = rows["terminateds"][order]
        for i, last in enumerate(lasts.tolist()):
            key = (team, int(streams[last]))
            so_far = self.running.pop(key, Running())
            episode = Running(
                so_far.highest + float(highest[i]), so_far.lowest + float(lowest[i]), so_far.steps + int(steps[i])
            )
            if ends[last]:
                self._close(episode, terminated=bool(terminated[last]))
            else:
                self.running[key] = episode
                self.ended.include(episode.highest, episode.lowest)  # so much can be paid, however it ends

    def _close(self, episode: Running, *, terminated: bool) -> None:
        self.episodes += 1
        if terminated or self.gamma == 1.0:  # without a discount nothing can be said of what goes on for ever
            self.ended.include(episode.highest, episode.lowest)
            return
        forever = 1.0 / (1.0 - self.gamma**episode.steps)
        self.cut.include(forever * episode.highest, forever * episode.lowest)

    def bounds(self) -> dict[str, float]:
        """Lowest and highest, as results tell them; nothing before any episode has ended."""
        if not self.episodes:
            return {}
        return {
            "min_return": self.ended.lowest + self.cut.lowest,
            "max_return": self.ended.highest + self.cut.highest,
        }

    def state_dict(self) -> dict[str, Any]:
        running = []
        for (team, stream), episode in self.running.items():
            running.append([team, stream, episode.highest, episode.lowest, episode.steps])
        return {
            "ended": [self.ended.highest, self.ended.lowest], "cut": [self.cut.highest, self.cut.lowest],
            "episodes": self.episodes, "running": running,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.ended, self.cut = Extremes(*state["ended"]), Extremes(*state["cut"])
        self.episodes = state["episodes"]
        self.running = {}
        for team, stream, *episode in state["running"]:
            self.running[team, stream] = Running(*episode)


def _starts(streams: np.ndarray[Any, Any], ends: Bools) -> Bools:
    """Where another stream or another episode begins."""
    found = np.ones(len(streams), bool)
    found[1:] = (streams[1:] != streams[:-1]) | ends[:-1]
    return found
