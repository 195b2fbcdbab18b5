"""The scale of bonuses that have none of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.task import Array, Bools, Floats

SMALLEST = 1e-8  # below, there is nothing to divide by


class ReturnScale:
    """The running deviation of discounted sums of bonuses (Burda et al., 2018): ``S[t] = gamma * S[t - 1] + bonus[t]``.

    Every seat of every copy has a sum of its own, which is not begun anew with an episode: novelty does not start over either.
    Mean and squared distances are merged round by round (Welford).
    """

    def __init__(self, gamma: float, seats: int) -> None:
        self.gamma = gamma
        self.sums = np.zeros((0, seats))  # [copies of the run, A]
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def observe(self, bonuses: Floats, paid: Bools, first_lane: int) -> None:
        """Take the new steps ``[T, E, A]`` of these copies into account; only cells with ``paid`` count."""
        lanes = slice(first_lane, first_lane + bonuses.shape[1])
        self._make_room(lanes.stop)
        returns = np.zeros(bonuses.shape)
        running = self.sums[lanes]
        for t in range(len(bonuses)):
            running = np.where(paid[t], self.gamma * running + bonuses[t], running)
            returns[t] = running
        self.sums[lanes] = running
        self._merge(returns[paid])

    def _make_room(self, copies: int) -> None:
        missing = copies - len(self.sums)
        if missing > 0:  # programs at the other end of a network may play any number of episodes at once
            more = np.zeros((missing, self.sums.shape[1]))
            self.sums = np.concatenate([self.sums, more])

    def _merge(self, values: Array) -> None:
        if not len(values):
            return
        count, mean = len(values), float(values.mean())
        total, moved = self.count + count, mean - self.mean
        self.squares += float(np.square(values - mean).sum()) + moved**2 * self.count * count / total
        self.mean += moved * count / total
        self.count = total

    @property
    def deviation(self) -> float:
        """What bonuses are divided by; 1 while all sums are alike."""
        found = float(np.sqrt(self.squares / max(self.count, 1)))
        return found if found > SMALLEST else 1.0

    def state_dict(self) -> dict[str, Any]:
        return {"sums": self.sums.copy(), "count": self.count, "mean": self.mean, "squares": self.squares}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.sums = np.array(state["sums"], np.float64)
        self.count, self.mean, self.squares = int(state["count"]), float(state["mean"]), float(state["squares"])
