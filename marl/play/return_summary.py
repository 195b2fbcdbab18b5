"""What was earned in a rollout: returns of the episodes, of policies and of agents, with confidence intervals.

An agent's return is all that the env paid it in an episode, a policy's return the sum over the agents that it played. Of
``n`` returns with mean ``m`` and standard deviation ``s`` the interval

    m +- t * s / sqrt(n),      t: the 97.5 % point of Student's distribution with n - 1 degrees of freedom

holds the true mean with 95 % confidence, as far as returns are roughly normal or many.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import AgentID, Array, Floats, PolicyID

CONFIDENCE = 0.95
MOST_AGENTS = 20  # lines of a printed table; --json tells all


class Estimate(NamedTuple):
    """A mean, and how far from it the true one may be; ``margin`` is None for a single number."""

    mean: float
    margin: float | None
    episodes: int

    def __str__(self) -> str:
        if self.margin is None:
            return f"{self.mean:.4g}"
        return f"{self.mean:.4g} +- {self.margin:.2g}"

    def as_json(self) -> dict[str, Any]:
        low, high = None, None
        if self.margin is not None:
            low, high = self.mean - self.margin, self.mean + self.margin
        return {"mean": self.mean, "low": low, "high": high, "episodes": self.episodes}


def estimate(returns: Array) -> Estimate:
    """Mean and margin of the returns of at least one episode."""
    # Here, because scipy takes long to import and most commands never need it.
    from scipy.special import stdtrit

    n = len(returns)
    numbers = np.asarray(returns, np.float64)
    if n < 2:
        return Estimate(float(numbers.mean()), None, n)
    t = float(stdtrit(n - 1, 0.5 + CONFIDENCE / 2))
    return Estimate(float(numbers.mean()), t * float(numbers.std(ddof=1)) / math.sqrt(n), n)


def returns_by_agent(stats: EpisodeStats) -> dict[AgentID, Floats]:
    """Each agent's return in every episode in which it played; one that came back within an episode is added up."""
    if not len(stats.agents):
        return {}
    # One number per agent and episode, so that rows of the same agent in the same episode can be told by it.
    episodes = max(1, len(stats))
    cells, inverse = np.unique(stats.agent * episodes + stats.episode, return_inverse=True)
    totals = np.bincount(inverse, stats.returns, minlength=len(cells)).astype(np.float32)
    owner = cells // episodes
    found = {}
    for number, name in enumerate(stats.agents):
        mine = totals[owner == number]
        if mine.size:
            found[name] = mine
    return found


@dataclass(frozen=True)
class Tally:
    """Episodes that were played in one way."""

    explore: bool
    env_steps: int
    stats: EpisodeStats
    policy_ids: Sequence[PolicyID]

    @property
    def manner(self) -> str:
        if self.explore:
            return "exploring"
        return "greedy"

    def policies(self) -> dict[PolicyID, Estimate]:
        """Who played at all."""
        found = {}
        for number, name in enumerate(self.policy_ids):
            returns = self.stats.policy_returns(number)
            if len(returns):
                found[name] = estimate(returns)
        return found

    def agents(self) -> dict[AgentID, Estimate]:
        return {name: estimate(returns) for name, returns in returns_by_agent(self.stats).items()}

    def as_json(self) -> dict[str, Any]:
        rewards, lengths = self.stats.rewards, self.stats.lengths
        mean, least, most, length = None, None, None, None  # no episode ended
        if len(rewards):
            mean = estimate(rewards).as_json()
            least, most = float(rewards.min()), float(rewards.max())
            length = float(lengths.mean())
        return {
            "explore": self.explore,
            "env_steps": self.env_steps,
            "episodes": len(self.stats),
            "episode_reward": mean,
            "episode_reward_min": least,
            "episode_reward_max": most,
            "episode_len_mean": length,
            "policies": {name: found.as_json() for name, found in self.policies().items()},
            "agents": {name: found.as_json() for name, found in self.agents().items()},
            "episode_rewards": rewards.tolist(),
            "episode_lengths": lengths.tolist(),
        }

    def summary(self) -> str:
        """One line."""
        stats = self.stats
        steps = "1 env step" if self.env_steps == 1 else f"{self.env_steps} env steps"
        if not len(stats):
            return f"{steps}, no episode ended"
        episodes = "1 episode" if len(stats) == 1 else f"{len(stats)} episodes"
        return (
            f"{steps}, {episodes}: reward mean {estimate(stats.rewards)} min "
            f"{stats.rewards.min():.4g} max {stats.rewards.max():.4g}  length mean {stats.lengths.mean():.4g}"
        )


def episode_line(stats: EpisodeStats, policies: Sequence[PolicyID]) -> str:
    """What one episode brought, by policy."""
    earned = []
    for number, name in enumerate(policies):
        returns = stats.policy_returns(number)
        if len(returns):
            earned.append(f"{name} {returns[0]:.4g}")
    return f"reward {stats.rewards[0]:.4g}  length {stats.lengths[0]}  {'  '.join(earned)}"


def table(summaries: Sequence[Tally]) -> list[str]:
    """Returns per policy and per agent, ways of playing side by side."""
    if not any(len(tally.stats) for tally in summaries):
        return []
    titles, episodes = ["mean return, 95 %"], ["episode"]
    for tally in summaries:
        titles.append(tally.manner)
        episodes.append(str(estimate(tally.stats.rewards)) if len(tally.stats) else "-")
    rows = [
        titles,
        episodes,
        *_rows("policy", [tally.policies() for tally in summaries]),
        *_rows("agent", [tally.agents() for tally in summaries]),
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = map(str.ljust, row, widths)
        lines.append("  ".join(cells).rstrip())
    return lines


def _rows(heading: str, columns: Sequence[Mapping[str, Estimate]]) -> list[list[str]]:
    """A row for each name that stands in any of the columns."""
    names = list(dict.fromkeys(chain.from_iterable(columns)))
    rows = []
    for name in names[:MOST_AGENTS]:
        means = [str(column.get(name, "-")) for column in columns]
        rows.append([f"{heading} {name}", *means])
    more = len(names) - MOST_AGENTS
    if more > 0:
        rows.append([f"{heading}s: {more} more, see --json"] + [""] * len(columns))
    return rows
