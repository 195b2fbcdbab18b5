"""The arithmetic of action values: pure functions from tensors to tensors. A loss comes with its slope, the derivative by
what the networks gave, so that it can be taken back through them (``pull``)."""

from __future__ import annotations

import torch
from torch import Tensor

from marl.policies.distributions import ILLEGAL


def discounts(elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """``gamma ** elapsed``, and 0 where the episode was terminated: what a value after a decision counts before it."""
    return gamma**elapsed * ~terminated


def backed_up(rewards: Tensor, discount: Tensor, next_value: Tensor) -> Tensor:
    """``r + gamma ** elapsed * next_value`` where ``discounts`` are known already."""
    return torch.addcmul(rewards, discount, next_value)


def td_target(rewards: Tensor, next_value: Tensor, elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """``r + gamma ** elapsed * next_value``, without the second part where the episode was terminated."""
    return rewards + gamma**elapsed * next_value * ~terminated


def td_loss(
    chosen: Tensor,
    target: Tensor,
    weights: Tensor,
    linear_beyond: float | None = None,
    negative_weight: float = 1.0,
) -> tuple[Tensor, Tensor]:
    """Weighted mean squared temporal difference and its slope by ``chosen``, ``2 weights * error / N``.

    Rows that turned out worse than their value (target below chosen: a negative temporal difference) count ``negative_weight``
    times as much (hysteretic Q-learning, Matignon et al., 2007; 0: distributed Q-learning, Lauer & Riedmiller, 2000).

    Beyond ``linear_beyond`` = d an error counts ``2 d |error| - d^2`` instead of its square (Huber, 1964): its slope is that
    of an error of d. With ``inner`` for the error cut off at d, both are ``inner * (2 error - inner)``.
    """
    error = chosen - target
    if negative_weight != 1.0:
        weights = torch.where(error > 0, weights * negative_weight, weights)
    inner = beyond = error
    if linear_beyond is not None:
        inner = error.clamp(-linear_beyond, linear_beyond)
        beyond = 2 * error - inner
    slope = (weights * inner).mul_(2 / len(error))
    return torch.dot(slope, beyond) / 2, slope


def moved_atoms(rewards: Tensor, support: Tensor, discount: Tensor) -> Tensor:
    """Where each return of ``support`` lies seen from one decision earlier, ``r + gamma ** elapsed * z``: ``[N, atoms]``."""
    moved = torch.addcmul(rewards.unsqueeze(1), discount.unsqueeze(1), support)
    return moved.clamp(support[0].item(), support[-1].item())


def projected(chances: Tensor, moved: Tensor, support: Tensor) -> Tensor:
    """Chances of returns between two atoms, shared out to both by their distance (C51): ``[N, atoms]``, rows add up to 1.

    ``out[i] = sum_j chances[j] * max(0, 1 - |moved[j] - z_i| / gap)``
    """
    gap = support[1] - support[0]
    nearness = (1 - (moved.unsqueeze(1) - support.unsqueeze(1)).abs() / gap).clamp(min=0)  # [N, atoms i, moved j]
    return (nearness * chances.unsqueeze(1)).sum(-1)


def distribution_loss(scores: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """Weighted mean cross entropy ``-sum_i target_i * log p_i`` with ``p`` the softmax of the scores ``[N, atoms]``; and its
    slope by the scores, ``weights * (p - target) / N``."""
    log_chances = scores.log_softmax(-1)
    shares = weights / len(weights)
    loss = -torch.dot(shares, (target * log_chances).sum(-1))
    return loss, (log_chances.exp() - target) * shares.unsqueeze(1)


def soft_value(choosing: Tensor, valuing: Tensor, legal: Tensor, temperature: float) -> Tensor:
    """``sum_u pi(u) * (Q'(u) - temperature * log pi(u))`` over the last dimension, ``pi`` the softmax of ``choosing /
    temperature`` over legal actions.

    Where both values are the same it is ``temperature * log(sum_u exp(Q'(u) / temperature))`` (Haarnoja et al., 2017); with
    double Q one network says how to play and the other one what that is worth.
    """
    allowed = choosing.masked_fill(~legal, ILLEGAL) if legal.shape[-1] else choosing
    log_chances = (allowed / temperature).log_softmax(-1)
    return (log_chances.exp() * (valuing - temperature * log_chances)).sum(-1)


def divergence(scores: Tensor, target: Tensor) -> Tensor:
    """``sum_i target_i * log(target_i / p_i)`` with ``p`` the softmax of the scores: how far ``[N]`` predictions were off."""
    return (torch.xlogy(target, target) - target * scores.log_softmax(-1)).sum(-1)


def best_legal(values: Tensor, legal: Tensor) -> Tensor:
    """Index of the highest legal value per row; ``legal`` of width 0 allows everything."""
    allowed = values.masked_fill(~legal, ILLEGAL) if legal.shape[-1] else values
    return allowed.max(dim=-1).indices  # three times as fast as argmax over the few actions of a row
