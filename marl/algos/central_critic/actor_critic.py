"""The networks that a policy is trained with, behind two verbs: ``run`` them on a minibatch, ``pull`` their gradients."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic
from marl.algos.central_critic.train_batch import Minibatch
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.policies.mlp import Tape
from marl.policies.stochastic import StochasticPolicy


@dataclass
class Outputs:
    """What actor and critic say of a minibatch, without gradient; and their tapes, for the way back."""

    params: Tensor  # [N, size] numbers of the distributions
    values: Tensor  # [N]; zeros where there is no critic
    actor_tape: Tape | Tensor
    critic_tape: Tape | Tensor | None = None


@dataclass
class Slopes:
    """Derivatives of the loss by ``Outputs.params`` and ``Outputs.values``; None: these are not learned."""

    by_params: Tensor
    by_values: Tensor | None = None

    def scaled(self, weight: float) -> Slopes:
        """Of a loss that counts only so much."""
        return Slopes(self.by_params * weight, None if self.by_values is None else self.by_values * weight)


@dataclass
class ActorCritic:
    """A policy and its critic. ``critic`` is None where the policy's own layers give the values, or none are learned."""

    actor: StochasticPolicy
    critic: Critic | None

    def run(self, minibatch: Minibatch) -> Outputs:
        data = minibatch.data
        params, values, tape = self.actor.run(data["obs"], data["agent_index"], data["legal"], minibatch.sequences)
        outputs = Outputs(params, values, tape)
        if self.critic is not None:
            shown = data["obs"], data["agent_index"], data["critic_features"]
            outputs.values, outputs.critic_tape = self.critic.run(*shown)
        return outputs

    def pull(self, minibatch: Minibatch, outputs: Outputs, slopes: Slopes) -> None:
        """Add the gradient of the loss to those of all parameters."""
        by_own_values = slopes.by_values if self.critic is None else None
        self.actor.pull(outputs.actor_tape, minibatch.data["legal"], slopes.by_params, by_own_values)
        if self.critic is not None and slopes.by_values is not None:
            assert outputs.critic_tape is not None
            self.critic.pull(outputs.critic_tape, slopes.by_values)

    def run_traced(self, minibatch: Minibatch) -> tuple[Outputs, Tensor, Tensor]:
        """For users' losses: the same, and ``params`` and ``values`` as autograd knows them."""
        data = minibatch.data
        with torch.enable_grad():
            params, values = self.actor(data["obs"], data["agent_index"], data["legal"], minibatch.sequences)
            if self.critic is not None:
                values = self.critic(data["obs"], data["agent_index"], data["critic_features"])
        return Outputs(params.detach(), values.detach(), params), params, values


def check_entropy(name: PolicyID, config: CentralCriticConfig, actor: StochasticPolicy) -> None:
    """Noise of a fixed size has an entropy that no policy can change."""
    wants_entropy = config.entropy_coeff > 0 or config.entropy_coeff_schedule
    if actor.noise_sets_std and wants_entropy:
        raise ConfigError(f"policy {name!r}: GaussianNoise fixes the entropy, so entropy_coeff must be 0.")
