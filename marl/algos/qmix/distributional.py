"""Learning how returns are distributed, not only their mean (C51, Bellemare et al., 2017).

target = project(r + gamma ** elapsed * z, p'(o', u*)),   u* = argmax_u of the mean of p(o', u)
loss   = - sum_i target_i * log p_i(o, u)
"""

from __future__ import annotations

import torch
from torch import Tensor

from marl.algos.qmix.losses import best_legal, distribution_loss, divergence, moved_atoms, projected
from marl.algos.qmix.minibatch import Compared, Minibatch
from marl.algos.qmix.values import Values
from marl.policies.value import ValuePolicy


def compare_distributions(
    minibatch: Minibatch, scores: Values, choosing: Values, online: ValuePolicy, priorities: str
) -> Compared:
    """Of one policy's decisions, as teams of one: means of what was predicted and of what should have been, the loss, and its
    slopes by the scores."""
    t = minibatch.t
    (k,) = t.actions  # one policy plays agents of one kind
    support, played = online.support, t.actions[k][:, 0]
    best = best_legal(online.means(choosing[k][:, 0]), t.next.legal[k][:, 0])
    later = _of(minibatch.valuing[k][:, 0], best).softmax(-1)
    # Behind an end all returns are the reward itself. Chances of what is there would add up to 1, but not to the last digit.
    later = torch.where(minibatch.discount.unsqueeze(1) == 0, 1 / len(support), later)
    target = projected(later, moved_atoms(t.rewards, support, minibatch.discount), support)
    predicted = _of(scores[k][:, 0], played)
    loss, slope = distribution_loss(predicted, target, t.weights)
    slopes = torch.zeros_like(scores[k])
    slopes[torch.arange(len(played), device=played.device), 0, played] = slope
    chosen, mean = online.means(predicted), (target * support).sum(-1)
    surprise = divergence(predicted, target) if priorities == "divergence" else chosen - mean
    return Compared(chosen, mean, surprise, loss, {k: slopes})


def _of(distributions: Tensor, actions: Tensor) -> Tensor:
    """``[N, actions, atoms]`` of the actions ``[N]``: ``[N, atoms]``."""
    return distributions[torch.arange(len(actions), device=actions.device), actions]
