"""Regret matching and the three losses, as pure functions; each loss comes with its derivative by the network's outputs.

Rows are weighted by the iteration ``t`` that they are from, so that what a network learns is

    sum_t t * target_t / sum_t t        (linear CFR: Brown & Sandholm, 2019)

of all rows that show the same. Only ratios of weights count: each batch divides by their sum.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from marl.data.task import Bools, Floats
from marl.policies.distributions import log_softmax


def matched(regrets: Floats, legal: Bools) -> NDArray[np.float64]:
    """Regret matching (Hart & Mas-Colell, 2000): chances in proportion to positive regrets.

    Where none is positive the highest one is played, as in Deep CFR (Brown et al., 2019, section 3); equal ones share, so that
    a network that knows nothing yet plays all legal actions alike.
    """
    allowed = np.asarray(np.where(legal, regrets, -np.inf), np.float64)
    highest = allowed.max(axis=1, keepdims=True)
    chances = np.where(highest > 0, np.maximum(allowed, 0.0), allowed == highest)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def regret_loss(found: Tensor, target: Tensor, legal: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """``sum_i w_i sum_legal (R(o, u) - r_u)^2``, and its slope. Illegal actions have no regret."""
    share = (weight / weight.sum()).unsqueeze(1)
    error = (found - target) * legal
    return (share * error.square()).sum(), 2 * share * error


def average_loss(logits: Tensor, target: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """``-sum_i w_i sum_u sigma(u) log pi(u | o)``, and its slope ``w (pi - sigma)``."""
    share = (weight / weight.sum()).unsqueeze(1)
    logs = log_softmax(logits)
    # 0 * log 0 is 0: an illegal action has a logit of -1e9 and no chance in any target.
    loss = -(share * torch.where(target > 0, target * logs, 0.0)).sum()
    return loss, share * (logs.exp() - target)


def value_loss(found: Tensor, actions: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """``mean (q(h, u) - y)^2`` of the actions that were played, and its slope by all values."""
    error = found.gather(1, actions.unsqueeze(1)).squeeze(1) - target
    slope = torch.zeros_like(found).scatter_(1, actions.unsqueeze(1), 2 * error.unsqueeze(1) / len(found))
    return error.square().mean(), slope
