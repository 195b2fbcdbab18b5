"""Episodes: what a mapper may know of a running one, and the numbers that remain of those that ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypedDict

import numpy as np

from marl.data.task import AgentID, Array, Floats, Ints, PolicyID


@dataclass
class Episode:
    """A running episode as a ``policy_mapping_fn`` sees it. Its ``rng`` follows from the run's seed alone."""

    episode_id: int
    seed: int
    worker_index: int = 0
    env_index: int = 0
    policies: dict[AgentID, PolicyID] = field(default_factory=dict)
    """Who plays whom in this episode, as far as it has been asked."""

    @cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, 0x6D6172])


class Remarks(TypedDict, total=False):
    """What callbacks noted in one episode, by name: numbers, lists of numbers, pictures."""

    custom_metrics: dict[str, float]
    hist_data: dict[str, Any]
    media: dict[str, list[Any]]


@dataclass
class EpisodeStats:
    """Numbers of ``n`` ended episodes, and of the ``m`` agents that played in them.

    An agent's return is all that the env paid it in the episode. A policy's return is the sum over all agents that it
    played. ``remarks`` are ``n``, or none where no callbacks watch.
    """

    rewards: Floats  # [n] sum over all agents
    lengths: Ints  # [n] env steps
    agents: Sequence[AgentID]  # names that the next column points into
    agent: Ints  # [m]
    episode: Ints  # [m] which of the n episodes
    policy: Ints  # [m] index into the run's policies
    returns: Floats  # [m]
    remarks: list[Remarks] = field(default_factory=list)

    @staticmethod
    def empty() -> EpisodeStats:
        none, floats = np.zeros(0, np.int64), np.zeros(0, np.float32)
        return EpisodeStats(floats, none, [], none, none, none, floats)

    def __len__(self) -> int:
        return len(self.rewards)

    @staticmethod
    def concat(parts: Sequence[EpisodeStats]) -> EpisodeStats:
        parts = [part for part in parts if len(part)]
        if not parts:
            return EpisodeStats.empty()
        if len(parts) == 1:
            return parts[0]
        names: dict[AgentID, int] = {}
        agent, episode, before = [], [], 0
        coded: Sequence[AgentID] | None = None
        for part in parts:
            if part.agents is not coded:  # parts of one recorder share their names
                codes = np.array([names.setdefault(name, len(names)) for name in part.agents], np.int64)
                coded = part.agents
            agent.append(codes[part.agent])
            episode.append(part.episode + before)
            before += len(part)
        joined: dict[str, Array] = {}
        for name in ("rewards", "lengths", "policy", "returns"):
            joined[name] = np.concatenate([getattr(part, name) for part in parts])
        agents, where = np.concatenate(agent), np.concatenate(episode)
        return EpisodeStats(agents=list(names), agent=agents, episode=where, remarks=_all_remarks(parts), **joined)

    def last(self, count: int) -> EpisodeStats:
        """The newest ``count`` episodes."""
        drop = max(0, len(self) - count)
        keep = self.episode >= drop
        return EpisodeStats(
            self.rewards[drop:], self.lengths[drop:], self.agents,
            self.agent[keep], self.episode[keep] - drop, self.policy[keep], self.returns[keep], self.remarks[drop:],
        )  # fmt: skip

    def chosen(self, places: Ints) -> EpisodeStats:
        """Some of the episodes; ``places`` grow."""
        mine = np.isin(self.episode, places)
        return EpisodeStats(
            self.rewards[places], self.lengths[places], self.agents,
            self.agent[mine], np.searchsorted(places, self.episode[mine]), self.policy[mine], self.returns[mine],
            [self.remarks[place] for place in places.tolist()] if self.remarks else [],
        )  # fmt: skip

    def renumbered(self, places: Sequence[int]) -> EpisodeStats:
        """The same where policy ``i`` is now number ``places[i]``; -1: it is there no longer."""
        return replace(self, policy=np.asarray(places, np.int64)[self.policy])

    def policy_returns(self, policy: int) -> Floats:
        """The policy's return in each episode in which it played."""
        mine = self.policy == policy
        totals = np.bincount(self.episode[mine], self.returns[mine], minlength=len(self))
        played = np.bincount(self.episode[mine], minlength=len(self)) > 0
        return totals[played].astype(np.float32)

    def agent_means(self) -> dict[AgentID, float]:
        """Mean return of each agent over the episodes in which it played."""
        if not len(self.agents):
            return {}
        key = self.episode * len(self.agents) + self.agent  # an agent that came back has several entries in an episode
        cells, inverse = np.unique(key, return_inverse=True)
        totals = np.bincount(inverse, self.returns, minlength=len(cells))
        agent = cells % len(self.agents)
        sums, counts = (
            np.bincount(agent, totals, len(self.agents)),
            np.bincount(agent, minlength=len(self.agents)),
        )
        return {name: float(sums[i] / counts[i]) for i, name in enumerate(self.agents) if counts[i]}


def _all_remarks(parts: Sequence[EpisodeStats]) -> list[Remarks]:
    """One per episode, with empty ones for parts that have none; none at all where nobody remarked anything."""
    if not any(part.remarks for part in parts):
        return []
    found: list[Remarks] = []
    for part in parts:
        found.extend(part.remarks or [Remarks()] * len(part))
    return found
