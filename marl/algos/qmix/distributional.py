"""Learning how returns are distributed, not only their mean (C51, Bellemare et al., 2017).

target = project(r + gamma ** elapsed * z, p'(o', u*)),   u* = argmax_u of the mean of p(o', u)
loss   = - sum_i target_i * log p_i(o, u)
"""

from __future__ import annotations

import torch
from torch import Tensor

from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.losses import best_legal, distribution_loss, moved_atoms, projected
from marl.algos.transitions import Transitions
from marl.policies.value import ValuePolicy


def compare_distributions(
    t: Transitions, online: ValuePolicy, target: ValuePolicy, config: QmixConfig
) -> tuple[Tensor, Tensor, Tensor]:
    """Of one policy's decisions, as teams of one: means of what was predicted and of what should have been (``[N]`` each, no
    gradient), and the loss."""
    (k,) = t.actions  # one policy plays agents of one kind
    index, support = t.now.agent_index[k][:, 0], online.support
    log_chances = _of(online.log_chances(t.now.obs[k][:, 0], index), t.actions[k][:, 0])
    with torch.no_grad():
        new_obs, legal = t.next.obs[k][:, 0], t.next.legal[k][:, 0]
        later = target.log_chances(new_obs, index).exp()
        choosing = online.values(new_obs, index) if config.double_q else (later * support).sum(-1)
        moved = moved_atoms(t.rewards, support, t.elapsed, t.terminated, config.gamma)
        wanted = projected(_of(later, best_legal(choosing, legal)), moved, support)
        predicted, expected = (log_chances.exp() * support).sum(-1), (wanted * support).sum(-1)
    return predicted, expected, distribution_loss(log_chances, wanted, t.weights)


def _of(distributions: Tensor, actions: Tensor) -> Tensor:
    """``[N, actions, atoms]`` of the actions ``[N]``: ``[N, atoms]``."""
    return distributions[torch.arange(len(actions), device=actions.device), actions]
