"""Regularised self-play: a policy is drawn towards a slowly moving copy of itself.

    loss += magnet_coeff * KL(policy || magnet)            magnet += magnet_tau * (policy - magnet)

Policy gradients in self-play chase each other around an equilibrium; a pull towards where they came from makes them
settle near it (Sokota et al., 2023), and a slowly moving copy lets the resting point itself move to the equilibrium.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import torch
from torch import Tensor

from marl.algos.central_critic.train_batch import Minibatch
from marl.data.task import Array
from marl.policies.stochastic import StochasticPolicy


class Magnet:
    """The copy."""

    def __init__(self, actor: StochasticPolicy, coeff: float, tau: float) -> None:
        self.actor, self.coeff, self.tau = actor, coeff, tau
        self.copy = deepcopy(actor).requires_grad_(False)

    def pull(self, params: Tensor, part: Minibatch) -> Tensor:
        """Mean KL of the policy's distributions from the magnet's."""
        with torch.no_grad():
            there, _ = self.copy(part.data["obs"], part.data["agent_index"], part.data["legal"], part.sequences)
        return self.actor.distribution.kl(params, there).mean()

    @torch.no_grad()
    def follow(self) -> None:
        """A step towards the policy; counters and statistics of observations are taken over as they are."""
        mine, theirs = self.copy.state_dict(), self.actor.state_dict()
        learned = dict(self.actor.named_parameters())
        for name, tensor in mine.items():
            if name in learned:
                tensor.lerp_(theirs[name], self.tau)
            else:
                tensor.copy_(theirs[name])

    def state_dict(self) -> dict[str, Array]:
        return self.copy.get_weights()

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        self.copy.set_weights(dict(state))
