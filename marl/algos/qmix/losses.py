"""The arithmetic of action values: pure functions from tensors to tensors."""

from __future__ import annotations

from torch import Tensor

from marl.policies.distributions import ILLEGAL


def td_target(rewards: Tensor, next_value: Tensor, elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """``r + gamma ** elapsed * next_value``, without the second part where the episode was terminated."""
    return rewards + gamma**elapsed * next_value * ~terminated


def td_loss(chosen: Tensor, target: Tensor, weights: Tensor, linear_beyond: float | None = None) -> Tensor:
    """Weighted mean squared temporal difference; no gradient through the target.

    Beyond ``linear_beyond`` = d an error counts ``2 d |error| - d^2`` instead of its square (Huber, 1964).
    """
    error = chosen - target.detach()
    if linear_beyond is None:
        return (weights * error.square()).mean()
    size = error.abs()
    inner = size.clamp(max=linear_beyond)
    return (weights * inner * (2 * size - inner)).mean()


def best_legal(values: Tensor, legal: Tensor) -> Tensor:
    """Index of the highest legal value per row; ``legal`` of width 0 allows everything."""
    return (values.masked_fill(~legal, ILLEGAL) if legal.shape[-1] else values).argmax(dim=-1)
