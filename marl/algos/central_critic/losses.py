"""The arithmetic of policy gradients: pure functions from tensors to tensors.

A loss has a number per row, whose mean is minimised, and comes with its *slope*: the derivative of each row's loss by what it
was computed from, which ``pull`` of the networks takes back to the parameters.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


def policy_gradient_loss(logp: Tensor, advantages: Tensor) -> tuple[Tensor, Tensor]:
    """``-log pi(a) * A`` (REINFORCE and A2C), and its slope by ``logp``."""
    return -(logp * advantages), -advantages


def clipped_loss(logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float) -> tuple[Tensor, Tensor]:
    """PPO's clipped surrogate objective (Schulman et al., 2017), ``r = pi(a) / pi_old(a)``, ``clip`` is ``clip_param``::

        -min(r A, clip(r, 1 - clip, 1 + clip) A)

    and its slope by ``logp``: that of ``-r A``, since ``dr / d logp = r``, and 0 where clipping decides.
    """
    ratio = (logp - old_logp).exp()
    gain, clipped_gain = ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages
    slope = gain.masked_fill(gain > clipped_gain, 0.0).neg_()
    return torch.min(gain, clipped_gain).neg_(), slope


def value_loss(
    values: Tensor, targets: Tensor, old_values: Tensor, clip: float | None, huber: float | None = None
) -> tuple[Tensor, Tensor]:
    """Squared or Huber error, and its slope by ``values``; with ``clip`` (``vf_clip_param``) a value that moved further from
    its old one gains nothing."""
    loss, slope = error_loss(values - targets, huber)
    if clip is None:
        return loss, slope
    clipped_loss, _ = error_loss(old_values + (values - old_values).clamp(-clip, clip) - targets, huber)
    # Where the clipped error is the larger one, the value does not decide: it may move on for nothing.
    return torch.max(loss, clipped_loss), slope.masked_fill_(loss < clipped_loss, 0.0)


def error_loss(error: Tensor, huber: float | None) -> tuple[Tensor, Tensor]:
    """``e^2`` and its slope ``2 e``; with ``huber`` (``vf_huber_delta``) straight lines ``h (2 |e| - h)`` beyond ``h``."""
    if huber is None:
        return error.square(), 2 * error
    bounded = error.clamp(-huber, huber)
    return bounded * (2 * error - bounded), 2 * bounded


def means_of(parts: dict[str, Tensor], rows: int) -> dict[str, Tensor]:
    """Over the rows that count, which are the first ones; all at once, as each call costs more than its arithmetic."""
    losses = torch.stack(list(parts.values()))
    if rows < losses.shape[-1]:
        losses = losses[..., :rows]
    return dict(zip(parts, losses.mean(-1).unbind(0), strict=True))


def weighted(numbers: dict[str, Tensor], weight: float) -> dict[str, Tensor]:
    """What they count in the mean over the rows of all learners."""
    return numbers if weight == 1.0 else {key: number * weight for key, number in numbers.items()}


def with_slope(loss: Callable[[Tensor], Tensor], at: Tensor) -> tuple[Tensor, Tensor]:
    """The value of a loss and its slope by autograd, for terms that few runs have; several losses: the slope of their sum."""
    leaf = at.detach().requires_grad_()
    with torch.enable_grad():
        value = loss(leaf)
        total = value.sum()
    return value.detach(), torch.autograd.grad(total, leaf)[0]


def adapted_kl_coeff(coeff: float, kl: float, target: float) -> float:
    """Half as much again when the policy moved twice too far, half when it moved too little."""
    if kl > 2.0 * target:
        return coeff * 1.5
    if kl < 0.5 * target:
        return coeff * 0.5
    return coeff


def normalized(advantages: Tensor) -> Tensor:
    """Mean 0, standard deviation 1; a single row becomes 0."""
    centred = advantages - advantages.mean()
    return centred / (advantages.std(unbiased=False) + 1e-8)


def explained_variance(values: Tensor, targets: Tensor) -> Tensor:
    """1: the critic explains the returns; 0: no better than their mean."""
    spread = targets.var(unbiased=False)
    return 1 - (targets - values).var(unbiased=False) / spread.clamp(min=1e-8)
