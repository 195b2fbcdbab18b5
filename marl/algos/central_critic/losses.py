"""The arithmetic of policy gradients: pure functions from tensors to tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def policy_gradient_loss(logp: Tensor, advantages: Tensor) -> Tensor:
    """``-mean(log pi(a) * A)`` (REINFORCE and A2C)."""
    return -(logp * advantages).mean()


def clipped_loss(logp: Tensor, old_logp: Tensor, advantages: Tensor, clip: float) -> Tensor:
    """PPO's clipped surrogate objective (Schulman et al., 2017), ``r = pi(a) / pi_old(a)``, ``clip`` is ``clip_param``::

    -mean(min(r A, clip(r, 1 - clip, 1 + clip) A))
    """
    ratio = (logp - old_logp).exp()
    return -torch.min(ratio * advantages, ratio.clamp(1 - clip, 1 + clip) * advantages).mean()


def value_loss(values: Tensor, targets: Tensor, old_values: Tensor, clip: float | None) -> Tensor:
    """Mean squared error; with ``clip`` (``vf_clip_param``) a value that moved further from its old one gains nothing."""
    error = (values - targets).square()
    if clip is None:
        return error.mean()
    moved = old_values + (values - old_values).clamp(-clip, clip)
    return torch.max(error, (moved - targets).square()).mean()


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
