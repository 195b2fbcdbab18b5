"""Common random numbers: an agent draws the same in two ways of playing on, also where others have come, gone or ended.

One generator for all would give an agent other numbers as soon as somebody before it is not asked any more. So every step,
kind of agents and policy has a generator of its own, and it draws a row for every seat of every copy, of which those who are
asked get theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from marl.data.task import Array, Bools, Floats
from marl.rollout.cells import MarkedCells
from marl.rollout.env_runner import EnvRunner


class SeatGenerator(np.random.Generator):
    """Draws rows for all cells of ``asked`` and returns those of the true ones; any other shape is drawn as usual."""

    def __init__(self, seeds: Sequence[int], asked: Bools) -> None:
        super().__init__(np.random.PCG64(np.random.SeedSequence(seeds)))
        self.asked = asked.reshape(-1)
        self.rows = int(self.asked.sum())
        self.used = False

    def random(self, size: Any = None, *args: Any, **keys: Any) -> Any:
        return self._rows(super().random, (), size, args, keys)

    def standard_exponential(self, size: Any = None, *args: Any, **keys: Any) -> Any:
        return self._rows(super().standard_exponential, (), size, args, keys)

    def standard_normal(self, size: Any = None, *args: Any, **keys: Any) -> Any:
        return self._rows(super().standard_normal, (), size, args, keys)

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return self._rows(super().uniform, (low, high), size, (), {})

    def _rows(
        self, draw: Callable[..., Any], first: tuple[Any, ...], size: Any, args: tuple[Any, ...], keys: dict[str, Any]
    ) -> Any:
        self.used = True
        shape = (size,) if isinstance(size, int | np.integer) else size
        # Part of the rows, as of one member of a mixture, cannot be told whose they are.
        if not shape or shape[0] != self.rows:
            return draw(*first, size, *args, **keys)
        return draw(*first, (self.asked.size, *shape[1:]), *args, **keys)[self.asked]


class PairedRunner(EnvRunner):
    """An env runner whose policies draw by ``seeds`` and the step, whatever generator is given to ``decide``."""

    seeds: tuple[int, ...] = (0,)
    drew = False  # whether a policy has drawn anything since this was last set to False

    def _act(
        self, k: int, index: int, cells: MarkedCells, rng: np.random.Generator, explore: bool
    ) -> tuple[Array, Floats]:
        del rng
        own = SeatGenerator([*self.seeds, k, index], cells.mask)
        before = own.bit_generator.state
        found = super()._act(k, index, cells, own, explore)
        # Other methods of the generator than those above are not noticed, so its state is looked at.
        self.drew = self.drew or own.used or own.bit_generator.state != before
        return found
