"""Regularised self-play: a policy is drawn towards a slowly moving copy of itself.

    loss += magnet_coeff * KL(policy || magnet)            magnet += magnet_tau * (policy - magnet), every magnet_every batches

Policy gradients in self-play chase each other around an equilibrium; a pull towards where they came from makes them
settle near it (Sokota et al., 2023), and a slowly moving copy lets the resting point itself move to the equilibrium. A copy
that stands still for many training batches and then jumps to the policy is that of NashPG (Yu et al., 2025).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.train_batch import Minibatch
from marl.data.task import Array
from marl.policies.stochastic import StochasticPolicy

WAITED = "batches_waited"  # beside the weights in its state


class Magnet:
    """The copy."""

    def __init__(self, actor: StochasticPolicy, coeff: float, tau: float, every: int = 1) -> None:
        self.actor, self.coeff, self.tau, self.every = actor, coeff, tau, every
        self.waited = 0  # training batches since it moved
        self.copy = deepcopy(actor).requires_grad_(False)

    def divergence(self, params: Tensor, part: Minibatch) -> Tensor:
        """KL of the policy's distributions from the magnet's, of each row."""
        with torch.no_grad():
            there, _ = self.copy(part.data["obs"], part.data["agent_index"], part.data["legal"], part.sequences)
        return self.actor.distribution.kl(params, there)

    @torch.no_grad()
    def follow(self) -> None:
        """A step towards the policy after every ``every``-th training batch; counters and statistics of observations are taken
        over as they are."""
        self.waited += 1
        if self.waited < self.every:
            return
        self.waited = 0
        mine, theirs = self.copy.state_dict(), self.actor.state_dict()
        learned = dict(self.actor.named_parameters())
        for name, tensor in mine.items():
            if name in learned:
                tensor.lerp_(theirs[name], self.tau)
            else:
                tensor.copy_(theirs[name])

    def state_dict(self) -> dict[str, Array]:
        state = self.copy.get_weights()
        if self.every > 1:  # else there is nothing to remember
            state[WAITED] = np.array(self.waited)
        return state

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        weights = dict(state)
        self.waited = int(weights.pop(WAITED, 0))
        self.copy.set_weights(weights)
