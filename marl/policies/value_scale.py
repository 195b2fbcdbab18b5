"""Values in units of their own: a critic learns returns of mean 0 and deviation 1, whatever a reward is worth.

    V = mean + deviation * n(x)            n: what the network gives
    n learns (V_target - mean) / deviation

``mean`` and ``deviation`` are those of the targets seen so far, recent ones more. When they move, the network's last layer is
changed so that all values stay what they were (PopArt; van Hasselt et al., 2016): ``n' = (V - mean') / deviation'`` is linear
in ``n``. So nothing jumps, and a network whose rewards are 1000 times larger learns as the same network would from small ones.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from marl.policies.mlp import MLP

KEPT = 0.99
"""What of the statistics stays after each training batch: about the last hundred of them count."""
SMALLEST = 1e-4
"""The least deviation: where all returns are alike there is nothing to divide by."""


class ValueScale(nn.Module):
    """Mean and deviation of the targets of one critic, as a buffer: it is saved, sent and copied with the weights."""

    sums: Tensor

    def __init__(self) -> None:
        super().__init__()
        # Weight, and weighted sums of targets and of their squares. The weight makes up for having begun at zero.
        self.register_buffer("sums", torch.zeros(3, dtype=torch.float64))

    @property
    def mean_and_deviation(self) -> tuple[float, float]:
        """0 and 1 before the first target."""
        weight, total, squares = self.sums.tolist()
        if weight == 0.0:
            return 0.0, 1.0
        mean = total / weight
        variance = squares / weight - mean**2
        return mean, max(variance, SMALLEST**2) ** 0.5

    def normalized(self, values: Tensor) -> Tensor:
        """From units of rewards to those of the network."""
        mean, deviation = self.mean_and_deviation
        return (values - mean) / deviation

    def in_reward_units(self, outputs: Tensor) -> Tensor:
        """The other way."""
        mean, deviation = self.mean_and_deviation
        return outputs * deviation + mean

    @torch.no_grad()
    def observe(self, targets: Tensor, network: MLP | None, outputs: int = 1) -> None:
        """Take a training batch's targets into account. The last ``outputs`` of ``network`` are values, in the new units from
        now on; None: the layers are the user's own, so they have to learn the new units.

        Values of actions begin at the mean of the first targets. They would otherwise come up to it one by one, those of
        actions that are taken more often first, and the policy would follow them.
        """
        begins_at_mean = outputs > 1 and float(self.sums[0]) == 0.0
        old_mean, old_deviation = self.mean_and_deviation
        exact = targets.double()
        seen = torch.stack([torch.ones_like(exact[0]), exact.mean(), exact.square().mean()])
        self.sums.mul_(KEPT).add_(seen, alpha=1 - KEPT)
        if network is None or begins_at_mean:
            return
        mean, deviation = self.mean_and_deviation
        last = network.layers[-1]
        last.weight[-outputs:].mul_(old_deviation / deviation)
        last.bias[-outputs:].mul_(old_deviation).add_(old_mean - mean).div_(deviation)
