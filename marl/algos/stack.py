"""Blocks of parameters of one shape, laid out so that they can be computed with as one: row k of a tensor is block k.

Every block keeps its own parameters, gradients and optimiser: they are views of its row. ``stacked`` shows the same parameter
of all blocks as one tensor ``[K, ...]``, whose gradient is in the same way a view of all gradients.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from marl.algos.optimiser import FlatOptimiser, step_together, too_large
from marl.algos.together import whole
from marl.errors import TrainingError
from marl.policies.mlp import MLP, Layer


class FlatStack:
    """The flat vectors of several optimisers as rows ``[K, length]``. One optimiser alone gets a copy of itself for company,
    because one matrix is multiplied by other code than two are (see together.py); what the copy learns is not used."""

    def __init__(self, optimisers: Sequence[FlatOptimiser]) -> None:
        self.optimisers = list(optimisers)
        first = self.optimisers[0].flat
        count, length = max(2, len(self.optimisers)), whole(len(first))
        self.flat = torch.zeros(count, length, dtype=first.dtype, device=first.device)
        self.grad = torch.zeros_like(self.flat)
        for row in range(count):
            own = self.optimisers[min(row, len(self.optimisers) - 1)]
            self.flat[row, : len(own.flat)] = own.flat
        for row, own in enumerate(self.optimisers):
            own.move_to(self.flat[row], self.grad[row])
            own.stack = self

    @classmethod
    def of(cls, optimisers: Sequence[FlatOptimiser]) -> FlatStack:
        """The stack that they are in already, or a new one."""
        stack = optimisers[0].stack
        if isinstance(stack, FlatStack) and stack.holds(optimisers):
            stack.flat[len(optimisers) :] = stack.flat[len(optimisers) - 1]  # the copy for company follows
            return stack
        return cls(optimisers)

    def holds(self, optimisers: Sequence[FlatOptimiser]) -> bool:
        """Whether it has exactly these, in this order, and none of them has left for another stack since."""
        same = len(optimisers) == len(self.optimisers)
        return same and all(a is b and a.stack is self for a, b in zip(optimisers, self.optimisers, strict=True))

    def stacked(self, parameter: Tensor) -> Tensor:
        """A parameter of the first block, and the same of all others: ``[K, *shape]`` with its ``.grad``."""
        row = self.optimisers[0].flat
        begin = parameter.storage_offset() - row.storage_offset()
        shape, strides = (len(self.flat), *parameter.shape), (self.flat.stride(0), *parameter.stride())
        together = torch.as_strided(self.flat, shape, strides, begin)
        together.grad = torch.as_strided(self.grad, shape, strides, begin)
        return together

    def layers(self, network: MLP) -> list[Layer]:
        """Those of the first block's network, and of all others."""
        found = []
        for layer in network.layers:
            found.append(Layer(self.stacked(layer.weight.data), self.stacked(layer.bias.data), layer.activation))
        return found

    def zero(self) -> None:
        self.grad.zero_()

    def step(self, max_norm: float | None, lrs: Sequence[float]) -> tuple[Tensor, dict[int, TrainingError]]:
        """Check, clip and apply each block's gradient by itself; returns their norms before clipping, and the errors of
        blocks whose gradient is not finite: those are left as they are."""
        norms: Tensor = torch.linalg.vector_norm(self.grad, dim=1)
        sizes = norms.tolist()[: len(self.optimisers)]
        errors: dict[int, TrainingError] = {}
        for k, size in enumerate(sizes):
            if not math.isfinite(size):
                errors[k] = too_large(self.optimisers[k].name, size)
            elif max_norm is not None and size > max_norm:
                self.grad[k].mul_(max_norm / (size + 1e-6))
        by_lr: dict[float, list[FlatOptimiser]] = {}
        for k, (optimiser, lr) in enumerate(zip(self.optimisers, lrs, strict=True)):
            if k not in errors:
                by_lr.setdefault(lr, []).append(optimiser)
        for lr, optimisers in by_lr.items():
            step_together(optimisers, lr)
        return norms[: len(sizes)], errors
