"""The arithmetic of regularised Nash dynamics: pure functions from tensors to tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from marl.policies.distributions import ILLEGAL


def mixed_logs(newer: Tensor, older: Tensor, share: float) -> Tensor:
    """Log probabilities of the regularisation policy, ``share * log newer + (1 - share) * log older``.

    It moves from the older to the newer one in the first half of its time, so that rewards do not jump.
    """
    return share * newer + (1 - share) * older


def action_advantages(
    logs: Tensor, regular: Tensor, taken: Tensor, sampled: Tensor, weight: Tensor, eta: float
) -> Tensor:
    """What each action is worth more than the policy, ``[N, actions]``, of which one was tried::

        q(a) = -eta * log(pi(a) / pi_reg(a)) + [a = taken] * sampled * weight          weight = 1 / mu(taken)
        A(a) = q(a) - sum_b pi(b) q(b)

    The own payment is known for all actions; only what followed has to be sampled. On the mean over the actions that might
    have been taken, ``q`` is what it estimates, up to a constant.
    """
    paid = -eta * (logs - regular)
    q = paid.scatter_add(-1, taken.unsqueeze(-1), (sampled * weight).unsqueeze(-1))
    return q - (logs.exp() * q).sum(-1, keepdim=True)


def neurd_loss(logits: Tensor, advantages: Tensor, legal: Tensor, threshold: float, clip: float) -> Tensor:
    """Neural replicator dynamics (Hennes et al., 2020), ``-sum_a z(a) A(a)``: logits move by advantages themselves, not times
    the chance of the action as with policy gradients, so that an action that was given up can come back.

    A logit further than ``threshold`` from the mean of the legal ones is pushed no further. Returns one number per row.
    """
    allowed = legal.to(logits.dtype)
    centred = (logits - (logits * allowed).sum(-1, keepdim=True) / allowed.sum(-1, keepdim=True)) * allowed
    force = advantages.clamp(-clip, clip) * allowed
    place = centred.detach()
    free = torch.where(force > 0, place < threshold, place > -threshold)
    return -(centred * (force * free).detach()).sum(-1)


def legal_of(logits: Tensor) -> Tensor:
    """Which actions may be played, told by their logits: masks of width 0 mean all."""
    return logits > ILLEGAL / 2
