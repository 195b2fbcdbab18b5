"""What each person at a table may see: the own observation, the env's drawing for this seat, the own rewards. No more.

Whatever leaves this module about a game that is not over is made for one seat. Drawings that do not know who looks (what
``render`` gives) are left out where several agents play, unless whoever opened the game has allowed them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.task import AgentID
from marl.envs.scenes import scene_of
from marl.play.trace import as_env_takes, plain
from marl.policies.scripted import as_shown
from marl.watch.play.moves import described, legal_options
from marl.watch.play.seating import has_opinions

if TYPE_CHECKING:
    from marl.watch.play.table import Table

MOST_FRAMES = 24  # drawings of what happened since a person's last decision
MOST_HISTORY = 400  # decisions that are told when a game is over
FOR_EVERYBODY = ("picture", "text")  # kinds of scenes that render gives, whoever looks


class Sights:
    """Drawings by seat, gathered while policies play between two decisions of a person."""

    def __init__(self, table: Table, quiet: bool) -> None:
        self.table, self.quiet = table, quiet  # while a game is played again nobody looks
        self.draws_for_everybody = False  # whether its drawings were seen to know no viewer
        self.frames: dict[AgentID, list[Any]] = {agent: [] for agent in table.seating.people}

    def forget(self, agents: Iterable[AgentID]) -> None:
        """These people have decided: what came before is past."""
        for agent in agents:
            self.frames[agent] = []

    def look(self, last: bool = False) -> None:
        """Draw what is to be seen now; the ``last`` drawing before a decision replaces the one of its step."""
        if self.quiet:
            return
        for agent, frames in self.frames.items():
            drawn = last and frames and not self.table.over  # this state is there already
            if not drawn:
                scene = self.scene(agent)
                frames.append(scene)
                # Of a long way only the end is shown.
                del frames[:-MOST_FRAMES]

    def scene(self, viewer: AgentID | None) -> Any:
        """The drawing for one seat; of a game that is over, everything."""
        table = self.table
        env = table.runner.env
        several = len(env.seat_names) > 1
        if viewer is None or not several or table.open_picture:
            return scene_of(env, 0, viewer)
        if self.draws_for_everybody:
            return None
        found = scene_of(env, 0, viewer)
        # A scene of the env's own has a kind of ours and was made for the viewer.
        if found is not None and found["kind"] in FOR_EVERYBODY:
            self.draws_for_everybody = True
            found = None
        return found

    # -- what is told ----------------------------------------------------------------------------------------------

    def told(self) -> dict[str, Any]:
        """For the server, which gives every person the part of the own seats alone."""
        table = self.table
        told: dict[str, Any] = {
            "waiting": table.waiting,
            "turn": table.steps,
            "mark": table.mark,
            "over": table.over,
            "views": {agent: self.view(agent) for agent in sorted(table.seating.people)},
        }
        if table.over:
            told["revealed"] = self.revealed()
        return told

    def view(self, agent: AgentID) -> dict[str, Any]:
        """The game from one seat."""
        table = self.table
        kind = table.kind_of(agent)
        place = None if table.over else table.place_of(agent)
        view: dict[str, Any] = {
            "asked": place is not None,
            "action": described(kind, table.names_of(agent)),
            "frames": self.frames[agent] or [self.scene(agent)],
            "return": self._return_of(agent),
            "observation": None,
            "legal": None,
            "advice": False,
        }
        if place is not None:
            k, seat = place
            column = seat - kind.first_seat
            shadow = table.runner.policies[int(table.runner.policy_of[0, seat])]
            view["advice"] = has_opinions(shadow)
            view["observation"] = plain(as_shown(kind, table.runner.view.obs[k][0, column].copy()))
            view["legal"] = legal_options(kind, table.runner.view.legal[k][0, column])
        return view

    def _return_of(self, agent: AgentID) -> float:
        """All that the agent was paid so far."""
        table = self.table
        if table.over:
            return table.returns.get(agent, 0.0)
        env, stats = table.runner.env, table.runner.stats
        total = 0.0
        for name, _, paid in stats.past[0]:
            total += paid if name == agent else 0.0
        for seat in range(len(env.seat_names)):
            if env.agent_at(0, seat) == agent:
                total += float(stats.returns[0, seat])
        return total

    def revealed(self) -> dict[str, Any]:
        """What everybody may know when the game is over."""
        table = self.table
        return {
            "scene": self.scene(None),
            "returns": table.returns,
            "history": self._history(),
            "steps": table.steps,
            "seed": table.seed,
            "cut": table.cut,
        }

    def _history(self) -> list[Mapping[str, Any]]:
        """Who did what, step by step."""
        table = self.table
        batch, config = table.batch(), table.seating.playable.setup.rollout.config
        found: list[Mapping[str, Any]] = []
        for step in range(max(0, table.steps - MOST_HISTORY), table.steps):
            for seat in np.flatnonzero(batch.present[step, 0]).tolist():
                agent = table.asked[step][seat]
                k = batch.task.kind_of(seat)
                kind = batch.task.kinds[k]
                stored = batch.actions[k][step, 0, seat - kind.first_seat]
                action = plain(as_env_takes(kind, stored, config))
                name = table.name_of(agent, stored)
                found.append({"step": step, "agent": agent, "action": action, "name": name})
        return found[-MOST_HISTORY:]
