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
    # As a function of the error it is smooth at d: value and slope of both parts agree there.
    size = error.abs()
    inner = size.clamp(max=linear_beyond)
    return (weights * inner * (2 * size - inner)).mean()


def moved_atoms(rewards: Tensor, support: Tensor, elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """Where each return of ``support`` lies seen from one decision earlier, ``r + gamma ** elapsed * z``: ``[N, atoms]``."""
    later = (gamma**elapsed * ~terminated).unsqueeze(1) * support
    return (rewards.unsqueeze(1) + later).clamp(float(support[0]), float(support[-1]))


def projected(chances: Tensor, moved: Tensor, support: Tensor) -> Tensor:
    """Chances of returns between two atoms, shared out to both by their distance (C51): ``[N, atoms]``, rows add up to 1.

    ``out[i] = sum_j chances[j] * max(0, 1 - |moved[j] - z_i| / gap)``
    """
    gap = support[1] - support[0]
    nearness = (1 - (moved.unsqueeze(1) - support.unsqueeze(1)).abs() / gap).clamp(min=0)  # [N, atoms i, moved j]
    return (nearness * chances.unsqueeze(1)).sum(-1)


def distribution_loss(log_chances: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean cross entropy ``-sum target * log p``; no gradient through the target."""
    return (weights * -(target.detach() * log_chances).sum(-1)).mean()


def best_legal(values: Tensor, legal: Tensor) -> Tensor:
    """Index of the highest legal value per row; ``legal`` of width 0 allows everything."""
    return (values.masked_fill(~legal, ILLEGAL) if legal.shape[-1] else values).argmax(dim=-1)
