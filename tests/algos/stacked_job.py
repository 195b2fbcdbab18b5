"""A small job as learners have them: one gradient step of a network on rows of data, alone or for many seeds in one go."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from marl.algos.together import stacked, whole

HIDDEN = 64


class Net:
    """Two layers whose weights are views of a flat vector that is a whole number of slices long."""

    def __init__(self, inputs: int, outputs: int, seed: int) -> None:
        self.inputs, self.outputs = inputs, outputs
        length = whole(HIDDEN * inputs + outputs * HIDDEN)
        drawn = np.random.default_rng(seed).standard_normal(length).astype(np.float32) / 8
        self.flat = torch.from_numpy(drawn)


class Step:
    """Regression: sigmoids, squared error, plain gradient descent with a rate of its own."""

    pad = True  # tests take these away and see what happens
    in_twos = True

    def __init__(self, net: Net, rows: Tensor, targets: Tensor, rate: float) -> None:
        self.net, self.rows, self.targets, self.rate = net, rows, targets, rate

    @property
    def key(self) -> Hashable:
        return self.net.inputs, self.net.outputs, len(self.rows)

    @classmethod
    def run_together(cls, jobs: Sequence[Step]) -> list[float | Exception]:
        doubled = stacked() and cls.in_twos and len(jobs) == 1
        members = [*jobs, *jobs] if doubled else list(jobs)
        first, count = members[0].net, len(members[0].rows)
        length = whole(count) if cls.pad else count
        flat = torch.stack([job.net.flat for job in members])
        x = torch.zeros(len(members), length, first.inputs)
        y = torch.zeros(len(members), length, first.outputs)
        for index, job in enumerate(members):
            x[index, :count], y[index, :count] = job.rows, job.targets
        losses, grad = _gradient(flat, x, y, count, first)
        results: list[float | Exception] = []
        for index, job in enumerate(jobs):
            loss = float(losses[index])
            if not np.isfinite(loss):
                results.append(ArithmeticError("the loss is no number"))
                continue
            job.net.flat = flat[index] - job.rate * grad[index]
            results.append(loss)
        return results


def _gradient(flat: Tensor, x: Tensor, y: Tensor, count: int, net: Net) -> tuple[Tensor, Tensor]:
    """Losses and gradients of a stack ``[K, ...]``."""
    stack, split = len(flat), HIDDEN * net.inputs
    end = split + net.outputs * HIDDEN
    grad = torch.zeros_like(flat)
    w1, g1 = (t[:, :split].view(stack, HIDDEN, net.inputs) for t in (flat, grad))
    w2, g2 = (t[:, split:end].view(stack, net.outputs, HIDDEN) for t in (flat, grad))
    hidden = torch.bmm(x, w1.transpose(1, 2)).sigmoid_()
    out = torch.bmm(hidden, w2.transpose(1, 2)).sigmoid_()
    wrong = out - y
    wrong[:, count:] = 0.0  # rows of padding get no slope
    losses = wrong[:, :count].square().mean((1, 2))
    wrong *= out * (1 - out)
    g2.baddbmm_(wrong.transpose(1, 2), hidden)
    slope = torch.bmm(wrong, w2) * hidden * (1 - hidden)
    g1.baddbmm_(slope.transpose(1, 2), x)
    return losses, grad / count


def steps_of(net: Net, seed: int, count: int, rate: float = 0.1) -> Step:
    """A job on drawn data."""
    rng = np.random.default_rng([seed, 7])
    rows = torch.from_numpy(rng.standard_normal((count, net.inputs)).astype(np.float32))
    targets = torch.from_numpy(rng.standard_normal((count, net.outputs)).astype(np.float32))
    return Step(net, rows, targets, rate)
