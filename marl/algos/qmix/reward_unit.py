"""The unit in which networks of action values count.

    unit = max(sqrt(mean r^2), max |r| / 20)          over all rewards of decisions seen so far

An optimiser such as Adam takes steps of one size whatever the loss is, so the noise of learned values has one size too. Where
rewards are small beside it values drift: on foraging (at most 1 per episode) they came to 1.4, and agents that expect more
from going on avoid to finish. Dividing by the size of the rewards makes this impossible. The mean is not taken away: it
would pay for living longer or shorter, which is another task in envs that can end early.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.task import Floats

MOST_UNITS = 20.0
"""A single reward counts at most so many units: rewards that are hardly ever paid would else have a tiny one."""


class RewardUnit:
    """Sums over rewards as they are learned from (shifted, of a whole decision)."""

    def __init__(self) -> None:
        self.count = 0
        self.squares = 0.0
        self.largest = 0.0

    @property
    def known(self) -> bool:
        """Whether anything but 0 was ever paid."""
        return self.largest > 0.0

    @property
    def value(self) -> float:
        if not self.known:
            return 1.0
        # Through float32, as networks hold it: what is divided and what is multiplied by it is the same number.
        return float(np.float32(max(math.sqrt(self.squares / self.count), self.largest / MOST_UNITS)))

    def observe(self, rewards: Floats) -> None:
        if not len(rewards):
            return
        exact = rewards.astype(np.float64)
        self.count += len(exact)
        self.squares += float(np.dot(exact, exact))
        self.largest = max(self.largest, float(np.abs(exact).max()))

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "squares": self.squares, "largest": self.largest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count, self.squares, self.largest = state["count"], state["squares"], state["largest"]
