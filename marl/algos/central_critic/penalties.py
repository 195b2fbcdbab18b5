"""What draws a policy back while it learns: divergences from the policy before the training batch, and from a magnet.

    loss += kl_coeff          * KL(old || new)         Schulman et al. (2017, section 4), beside the clipping or instead of it
    loss += backward_kl_coeff * KL(new || old)         magnetic mirror descent (Sokota et al., 2023): 1 / step size
    loss += magnet_coeff      * KL(new || magnet)      see magnet.py

With the backward divergence a training batch is one step of mirror descent. Where the entropy bonus draws to uniform play
besides, the last policy of self-play settles close to an equilibrium, and closer the smaller the bonus becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor

from marl.algos.central_critic.losses import with_slope
from marl.algos.central_critic.magnet import Magnet
from marl.algos.central_critic.train_batch import Minibatch
from marl.policies.distributions import Distribution


class Penalty(NamedTuple):
    """One term: its name among the metrics, its weight, and the divergence of each row as a function of the policy."""

    metric: str
    coeff: float
    divergence: Callable[[Tensor], Tensor]

    def with_slope(self, params: Tensor, rows: int) -> tuple[Tensor, Tensor]:
        """The mean over the rows that count, without its weight, and its derivative by ``params``."""
        return with_slope(lambda leaf: self.divergence(leaf)[..., :rows].mean(-1), params)


def penalties(
    distribution: Distribution, minibatch: Minibatch, kl_coeff: float, backward_kl_coeff: float, magnet: Magnet | None
) -> Iterator[Penalty]:
    """Those that have a weight."""
    data = minibatch.data
    if kl_coeff > 0:
        yield Penalty("kl", kl_coeff, lambda params: distribution.kl(data["old_params"], params))
    if backward_kl_coeff > 0:
        yield Penalty("backward_kl", backward_kl_coeff, lambda params: distribution.kl(params, data["old_params"]))
    if magnet is not None:
        yield Penalty("magnet_kl", magnet.coeff, lambda params: magnet.divergence(params, minibatch))
