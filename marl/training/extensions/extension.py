"""The protocol of everything that a trainer does beside collecting and learning.

An iteration passes five moments, and every extension hears of them in the order of ``Trainer.extensions``:

1. ``after_learning``: everything is collected and learned from, the counters count it, and there is no result yet.
2. ``numbers``: its part of the result, as the result is begun.
3. ``after_iteration``: what is due is measured.
4. ``after_done``: ``result["done"]`` says whether this was the last iteration.
5. ``after_result``: the result is complete, with its times; only the files are still to be written.

An extension owns its state. What it may use of the trainer: scenario, setup, policies, workers, learning, timers, store, the
counters, and ``notes``, to which it may append.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.runs.result import Result

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


def episode_seed(*numbers: int) -> int:
    """The seed of an episode that is played beside the training: it follows from these numbers alone."""
    return int(np.random.SeedSequence(list(numbers)).generate_state(1)[0] >> 1)


class Extension:
    """Does nothing at any moment: extensions override what they need."""

    name: str

    def after_learning(self, trainer: Trainer) -> None:
        """The last round of the iteration has been learned from."""

    def numbers(self, trainer: Trainer) -> Result:
        """What it adds to a result that is begun."""
        del trainer
        return {}

    def after_iteration(self, trainer: Trainer, result: Result) -> None:
        """The result is begun; measure what is due."""

    def after_done(self, trainer: Trainer, result: Result) -> None:
        """Whether the run ends with this iteration has been decided."""

    def after_result(self, trainer: Trainer, result: Result) -> None:
        """The result is complete."""

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps of it; ``{}``: nothing."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where the state was taken."""

    def close(self) -> None:
        """Free what it holds."""
