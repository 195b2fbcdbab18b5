"""The unit in which networks of action values count.

    unit = max(mean |r|, max |r| / 20)          over all rewards of decisions seen so far

An optimiser such as Adam takes steps of one size whatever the loss is, so the noise of learned values has one size too, and
what an action is worth more than another has to be larger: with a gamma of 0.99 a step that is wasted on the way to a reward
of 1 costs 0.01. On foraging (at most 1 per episode) values drifted to a constant, and agents that expect as much from going on
did not finish any more. The root mean square of the rewards was tried too: it grows while rewards become frequent, to 0.2 on
foraging, which was too coarse. The mean is taken away only with ``center_rewards``: it changes what living longer pays,
which is another task in envs that can end early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.task import Floats

MOST_UNITS = 20.0
"""A single reward counts at most so many units: rewards that are hardly ever paid would else have a tiny one."""


class RewardUnit:
    """Sums over rewards as they are learned from (shifted, of a whole decision). ``centred``: the size of a reward is its
    distance from the mean."""

    def __init__(self, centred: bool = False) -> None:
        self.centred = centred
        self.count = 0
        self.steps = 0.0  # that these decisions lasted, discounted like rewards
        self.paid = 0.0
        self.sizes = 0.0
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
        return float(np.float32(max(self.sizes / self.count, self.largest / MOST_UNITS)))

    @property
    def mean(self) -> float:
        """What is taken away from the reward of every env step; 0, unless it is ``centred``."""
        if not self.centred or not self.count:
            return 0.0
        return self.paid / self.steps

    def observe(self, rewards: Floats, steps: Floats) -> None:
        """``steps`` are what a reward of 1 in every step of each decision would have paid."""
        if not len(rewards):
            return
        exact = rewards.astype(np.float64)
        self.count += len(exact)
        self.steps += float(steps.sum())
        self.paid += float(exact.sum())
        sizes = np.abs(exact - self.mean * steps)
        self.sizes += float(sizes.sum())
        self.largest = max(self.largest, float(sizes.max()))

    def state_dict(self) -> dict[str, Any]:
        return {
            "count": self.count, "steps": self.steps, "paid": self.paid, "sizes": self.sizes, "largest": self.largest,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in self.state_dict():
            setattr(self, name, state[name])
