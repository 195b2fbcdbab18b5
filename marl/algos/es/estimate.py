"""From scores of perturbed policies to a direction: pure functions.

    g = 1 / (2 n sigma) * sum_i (u_i+ - u_i-) epsilon_i

estimates the gradient of the mean of ``u`` over policies around ``theta`` (Salimans et al., 2017). ``u`` are centred ranks
of the scores, so neither the scale of the rewards nor a single lucky episode decides how far the policy moves.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.algos.es.noise import noise
from marl.data.task import Array, Floats


def centred_ranks(scores: Array) -> Floats:
    """Ranks of all numbers, stretched to -0.5 (worst) .. 0.5 (best).

    Equal scores share the mean of their ranks: else the order in which they stand would push the policy about where all
    perturbations are paid the same.
    """
    if scores.size < 2:
        return np.zeros(scores.shape, np.float32)
    _, place, counts = np.unique(scores.reshape(-1), return_inverse=True, return_counts=True)
    mean_rank = np.cumsum(counts) - (counts + 1) / 2
    ranks = mean_rank[place.reshape(-1)] / (scores.size - 1) - 0.5
    return np.asarray(ranks.reshape(scores.shape), np.float32)


def search_gradient(seeds: Sequence[int], utilities: Array, sigma: float, size: int) -> Floats:
    """The estimate above. ``utilities`` ``[n, 2]``: of the policy moved by ``+`` and by ``-`` each seed's noise."""
    total = np.zeros(size, np.float64)
    for seed, (plus, minus) in zip(seeds, utilities.tolist(), strict=True):
        if plus != minus:  # else the noise need not even be drawn
            total += (plus - minus) * noise(seed, size)
    return np.asarray(total / (2 * len(seeds) * sigma), np.float32)
