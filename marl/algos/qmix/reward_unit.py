"""The unit in which networks of action values count.

    unit = max(mean |r|, max |r| / 20)          over all rewards of decisions seen so far

An optimiser such as Adam takes steps of one size whatever the loss is, so the noise of learned values has one size too, and
what an action is worth more than another has to be larger: with a gamma of 0.99 a step that is wasted on the way to a reward
of 1 costs 0.01. On foraging (at most 1 per episode) values drifted to a constant, and agents that expect as much from going on
did not finish any more. The root mean square of the rewards was tried too: it grows while rewards become frequent, to 0.2 on
foraging, which was too coarse. The mean is not taken away: it would pay for living longer or shorter, which is another task in
envs that can end early.
"""

from __future__ import annotations

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
        self.total = 0.0  # of their sizes
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
        return float(np.float32(max(self.total / self.count, self.largest / MOST_UNITS)))

    def observe(self, rewards: Floats) -> None:
        if not len(rewards):
            return
        sizes = np.abs(rewards.astype(np.float64))
        self.count += len(sizes)
        self.total += float(sizes.sum())
        self.largest = max(self.largest, float(sizes.max()))

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "total": self.total, "largest": self.largest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count, self.total, self.largest = state["count"], state["total"], state["largest"]
