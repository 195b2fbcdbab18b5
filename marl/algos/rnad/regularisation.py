"""The policy that rewards are changed by, and the slow copies that it is made of.

    log pi_reg = share * log newer + (1 - share) * log older         share: from 0 to 1 in the first half of its time

After ``every`` training batches the newer one becomes the older one, and the slow copy of the policy becomes the newer one.
The fixed points of the changed game come ever closer to an equilibrium of the game itself (Perolat et al., 2021).
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from marl.algos.learner import load_numpy, to_numpy
from marl.algos.rnad.losses import mixed_logs
from marl.policies.distributions import log_softmax
from marl.policies.stochastic import StochasticPolicy


class Regularisation:
    """Of one policy. ``actor`` learns; ``slow`` follows it, ``newer`` and ``older`` are what ``slow`` was."""

    def __init__(self, actor: StochasticPolicy, every: int, tau: float) -> None:
        self.actor, self.every, self.tau = actor, every, tau
        self.slow = still(actor)
        self.newer, self.older = still(actor), still(actor)
        self.batches = 0  # since it was renewed

    @property
    def share(self) -> float:
        """How much of ``newer`` is in it."""
        return min(1.0, 2 * self.batches / self.every)

    @torch.no_grad()
    def logs(self, obs: Tensor, agent_index: Tensor, legal: Tensor) -> Tensor:
        """Log probabilities of all actions, ``[N, actions]``; not normalised, which changes no difference of two rewards."""
        newer, _ = self.newer(obs, agent_index, legal)
        older, _ = self.older(obs, agent_index, legal)
        return mixed_logs(log_softmax(newer), log_softmax(older), self.share)

    def follow(self) -> None:
        """After a training batch."""
        move_towards(self.slow, self.actor, self.tau)
        self.batches += 1
        if self.batches >= self.every:
            self.older, self.newer = self.newer, still(self.slow)
            self.batches = 0

    def state_dict(self) -> dict[str, Any]:
        copies = {"slow": self.slow, "newer": self.newer, "older": self.older}
        return {"batches": self.batches, **{name: to_numpy(copy.state_dict()) for name, copy in copies.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.batches = int(state["batches"])
        load_numpy(self.slow, state["slow"])
        load_numpy(self.newer, state["newer"])
        load_numpy(self.older, state["older"])


def still(network: Any) -> Any:
    """A copy that does not learn."""
    return deepcopy(network).requires_grad_(False)


@torch.no_grad()
def move_towards(copy: nn.Module, network: nn.Module, tau: float) -> None:
    """A step of a slow copy; what is not learned (counters, statistics of observations) is taken over as it is."""
    learned = dict(network.named_parameters())
    theirs = network.state_dict()
    for name, tensor in copy.state_dict().items():
        if name in learned:
            tensor.lerp_(theirs[name], tau)
        else:
            tensor.copy_(theirs[name])
