"""The arithmetic of weighted imitation: pure functions from tensors to tensors."""

from __future__ import annotations

import math

from torch import Tensor


def advantage_weights(advantages: Tensor, squared_norm: float, beta: float, largest: float) -> Tensor:
    """``exp(beta * A / sqrt(c2))``, at most ``largest``. The bound is applied before exp, so that nothing overflows."""
    scaled = advantages * (beta / math.sqrt(squared_norm))
    return scaled.clamp(max=math.log(largest)).exp()


def imitation_loss(logp: Tensor, weights: Tensor) -> Tensor:
    """``-mean(w * log pi(a))``; with equal weights that is behaviour cloning."""
    return -(weights * logp).mean()


def value_loss(values: Tensor, returns: Tensor) -> Tensor:
    """``mean((R - V)^2)``."""
    return (returns - values).square().mean()


def moved_average(before: float, squares: float, rate: float) -> float:
    """``c2 + rate * (mean(A^2) - c2)``."""
    return before + rate * (squares - before)
