"""What was earned in a rollout: returns of the episodes, of policies and of agents, with confidence intervals.

An agent's return is all that the env paid it in an episode, a policy's return the sum over the agents that it played. Of
``n`` returns with mean ``m`` and standard deviation ``s`` the interval

    m +- t * s / sqrt(n),      t: the 97.5 % point of Student's distribution with n - 1 degrees of freedom

holds the true mean with 95 % confidence, as far as returns are roughly normal or many.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
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
        return f"{self.mean:.4g}" if self.margin is None else f"{self.mean:.4g} +- {self.margin:.2g}"

    def as_json(self) -> dict[str, Any]:
        low, high = (None, None) if self.margin is None else (self.mean - self.margin, self.mean + self.margin)
        return {"mean": self.mean, "low": low, "high": high, "episodes": self.episodes}


def estimate(returns: Array) -> Estimate:
    """Mean and margin of the returns of at least one episode."""
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
    cells, inverse = np.unique(stats.agent * max(1, len(stats)) + stats.episode, return_inverse=True)
    totals = np.bincount(inverse, stats.returns, minlength=len(cells)).astype(np.float32)
    owner = cells // max(1, len(stats))
    return {name: totals[owner == i] for i, name in enumerate(stats.agents) if (owner == i).any()}


@dataclass(frozen=True)
class Tally:
    """Episodes that were played in one way."""

    explore: bool
    env_steps: int
    stats: EpisodeStats
    policy_ids: Sequence[PolicyID]

    @property
    def manner(self) -> str:
        return "exploring" if self.explore else "greedy"

    def policies(self) -> dict[PolicyID, Estimate]:
        """Who played at all."""
        found = {name: self.stats.policy_returns(i) for i, name in enumerate(self.policy_ids)}
        return {name: estimate(returns) for name, returns in found.items() if len(returns)}

    def agents(self) -> dict[AgentID, Estimate]:
        return {name: estimate(returns) for name, returns in returns_by_agent(self.stats).items()}

    def as_json(self) -> dict[str, Any]:
        rewards, some = self.stats.rewards, len(self.stats) > 0
        return {
            "explore": self.explore,
            "env_steps": self.env_steps,
            "episodes": len(self.stats),
            "episode_reward": estimate(rewards).as_json() if some else None,
            "episode_reward_min": float(rewards.min()) if some else None,
            "episode_reward_max": float(rewards.max()) if some else None,
            "episode_len_mean": float(self.stats.lengths.mean()) if some else None,
            "policies": {name: found.as_json() for name, found in self.policies().items()},
            "agents": {name: found.as_json() for name, found in self.agents().items()},
            "episode_rewards": rewards.tolist(),
            "episode_lengths": self.stats.lengths.tolist(),
        }

    def summary(self) -> str:
        """One line."""
        stats, steps = self.stats, f"{self.env_steps} env step{'' if self.env_steps == 1 else 's'}"
        if not len(stats):
            return f"{steps}, no episode ended"
        return (
            f"{steps}, {len(stats)} episode{'' if len(stats) == 1 else 's'}: reward mean {estimate(stats.rewards)} min "
            f"{stats.rewards.min():.4g} max {stats.rewards.max():.4g}  length mean {stats.lengths.mean():.4g}"
        )


def episode_line(stats: EpisodeStats, policies: Sequence[PolicyID]) -> str:
    """What one episode brought, by policy."""
    parts = [(name, stats.policy_returns(i)) for i, name in enumerate(policies)]
    earned = "  ".join(f"{name} {returns[0]:.4g}" for name, returns in parts if len(returns))
    return f"reward {stats.rewards[0]:.4g}  length {stats.lengths[0]}  {earned}"


def table(tallies: Sequence[Tally]) -> list[str]:
    """Returns per policy and per agent, ways of playing side by side."""
    if not any(len(tally.stats) for tally in tallies):
        return []
    titles = [tally.manner for tally in tallies]
    rows = [("mean return, 95 %", *titles), ("episode", *(_episode(t) for t in tallies))]
    for heading, found in (("policy", [t.policies() for t in tallies]), ("agent", [t.agents() for t in tallies])):
        names = list(dict.fromkeys(name for part in found for name in part))
        for name in names[:MOST_AGENTS]:
            rows.append((f"{heading} {name}", *(str(part.get(name, "-")) for part in found)))
        if len(names) > MOST_AGENTS:
            rows.append((f"{heading}s: {len(names) - MOST_AGENTS} more, see --json", *("" for _ in tallies)))
    widths = [max(len(row[c]) for row in rows) for c in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _episode(tally: Tally) -> str:
    return str(estimate(tally.stats.rewards)) if len(tally.stats) else "-"
