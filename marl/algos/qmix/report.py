"""What the updates of a round tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from marl.algos.learner import Metrics
from marl.data.task import PolicyID


class Update(NamedTuple):
    """One gradient step. Nothing is worked out of it before the round is over."""

    loss: float
    values: Sequence[Tensor]  # of every team [3, N]: what its values were and should be, and their surprise
    lr: float
    norms: Sequence[Tensor]  # of gradients, those of the policies first


def summary(trained: Sequence[PolicyID], updates: Sequence[Update], returns: Mapping[str, float]) -> Metrics:
    """Means over the updates, for every policy; smallest and largest values are those of each update. ``returns``: what the
    rewards seen so far can explain."""
    parts: list[Tensor] = []
    starts: list[int] = []  # of each update among all rows
    rows = 0
    for update in updates:
        starts.append(rows)
        parts += update.values
        rows += sum(values.shape[1] for values in update.values)
    # In float64: sums over many rows would lose digits.
    q, target, _ = torch.cat(parts, dim=1).double().cpu().numpy()
    lengths = np.diff([*starts, rows])
    stats = {
        "td_loss": fmean([update.loss for update in updates]),
        "mean_q": (np.add.reduceat(q, starts) / lengths).mean(),
        "min_q": np.minimum.reduceat(q, starts).mean(),
        "max_q": np.maximum.reduceat(q, starts).mean(),
        "mean_td_error": (np.add.reduceat(np.abs(q - target), starts) / lengths).mean(),
        "cur_lr": fmean([update.lr for update in updates]),
        **returns,
    }
    metrics: Metrics = {}
    for i, name in enumerate(trained):
        norms = [float(update.norms[i]) for update in updates]
        metrics[name] = {**{key: float(value) for key, value in stats.items()}, "grad_norm": fmean(norms)}
    return metrics
