"""Learning how returns are distributed, not only their mean (C51, Bellemare et al., 2017).

target = project(r + gamma ** elapsed * z, p'(o', u*)),   u* = argmax_u of the mean of p(o', u)
loss   = - sum_i target_i * log p_i(o, u)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.losses import best_legal, distribution_loss, moved_atoms, projected
from marl.data.batch import SampleBatch
from marl.policies.value import ValuePolicy


def compare_distributions(
    rows: SampleBatch, k: int, online: ValuePolicy, target: ValuePolicy, config: QmixConfig,
    tensor: Callable[[np.ndarray[Any, Any]], Tensor],
) -> tuple[Tensor, Tensor, Tensor]:  # fmt: skip
    """Of one policy's decisions, as teams of one of kind ``k``: means of what was predicted and of what should have been
    (``[N]`` each, no gradient), and the loss."""
    index = tensor(rows[f"agent_index.{k}"][:, 0])
    log_chances = _of(online.log_chances(tensor(rows[f"obs.{k}"][:, 0]), index), tensor(rows[f"actions.{k}"][:, 0]))
    with torch.no_grad():
        new_obs, legal = tensor(rows[f"new_obs.{k}"][:, 0]), tensor(rows[f"new_legal.{k}"][:, 0])
        later = target.log_chances(new_obs, index).exp()
        choosing = online.values(new_obs, index) if config.double_q else (later * online.support).sum(-1)
        moved = moved_atoms(
            tensor(rows["rewards"]), online.support, tensor(rows["elapsed"]), tensor(rows["terminateds"]), config.gamma
        )
        wanted = projected(_of(later, best_legal(choosing, legal)), moved, online.support)
        means = [(chances * online.support).sum(-1) for chances in (log_chances.exp(), wanted)]
    return means[0], means[1], distribution_loss(log_chances, wanted, tensor(rows["weights"]))


def _of(distributions: Tensor, actions: Tensor) -> Tensor:
    """``[N, actions, atoms]`` of the actions ``[N]``: ``[N, atoms]``."""
    return distributions[torch.arange(len(actions), device=actions.device), actions]
