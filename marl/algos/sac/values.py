"""Soft values of moments: by one drawn action for Box, by the sum over all legal actions for Discrete.

Both kinds of actions have the same face, so the learner is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.joint_view import Actions, JointActionView
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import expected_soft_value, soft_value
from marl.algos.transitions import JointObs, Transitions
from marl.policies.config import ModelConfig
from marl.policies.distributions import Categorical
from marl.policies.networks import build_mlp, seeded
from marl.policies.squashed import SquashedGaussian, SquashedPolicy


@dataclass
class Moment:
    """What is seen before decisions, or at their outcome, with everything random about it already drawn: what the other
    agents do, and the noise of the agent's own action."""

    joint: JointObs
    others: Actions
    noise: Tensor

    def part(self, index: slice) -> Moment:
        """The same of some rows."""
        others = {k: actions[index] for k, actions in self.others.items()}
        return Moment(self.joint.part(index), others, self.noise[index])


class Twins(nn.Module):
    """Two critics of the same inputs: the smaller value is used wherever an overestimate would be believed."""

    def __init__(self, inputs: int, outputs: int, model: ModelConfig, *seeds: int) -> None:
        super().__init__()
        self.nets = nn.ModuleList(build_mlp(inputs, outputs, model, seeded(*seeds, i)) for i in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """``[2, N, outputs]``."""
        return torch.stack([net(x) for net in self.nets])


class SoftValues(ABC):
    """How a policy's critics are asked. ``outputs`` is the number of values that a critic gives per row."""

    outputs: int
    noise_width: int

    def __init__(self, policy: SquashedPolicy, view: JointActionView) -> None:
        self.policy, self.view = policy, view

    @abstractmethod
    def chosen(self, critics: nn.Module, transitions: Transitions) -> Tensor:
        """``[2, N]``: values of what was done."""

    @abstractmethod
    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's soft value and its entropy, ``[N]`` each; differentiable in the policy."""

    @abstractmethod
    def target_entropy(self, joint: JointObs, config: SacConfig) -> Tensor:
        """What the temperature holds the entropy at: one number, or one per row."""


class DrawnValues(SoftValues):
    """Box: ``Q(joint observation, joint action)`` of one drawn action, through which the gradient flows."""

    outputs = 1

    def __init__(self, policy: SquashedPolicy, gaussian: SquashedGaussian, view: JointActionView) -> None:
        super().__init__(policy, view)
        self.gaussian, self.noise_width = gaussian, gaussian.width

    def chosen(self, critics: nn.Module, transitions: Transitions) -> Tensor:
        values: Tensor = critics(self.view(transitions.now, self.view.played(transitions)))
        return values.squeeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        params = self.policy(*self.view.own(moment.joint))
        mine, logp = self.gaussian.draw(params, moment.noise)
        actions = self.view.with_own(moment.joint, moment.others, mine)
        values = critics(self.view(moment.joint, actions)).squeeze(2)
        return soft_value(values, logp, alpha), -logp

    def target_entropy(self, joint: JointObs, config: SacConfig) -> Tensor:
        del joint
        if config.target_entropy == "auto":
            return torch.tensor(-float(self.gaussian.width))
        return torch.tensor(float(config.target_entropy))


class SummedValues(SoftValues):
    """Discrete: the critics give a value for each own action, knowing what the others do; expectations are exact."""

    noise_width = 0

    def __init__(self, policy: SquashedPolicy, categorical: Categorical, view: JointActionView) -> None:
        super().__init__(policy, view)
        self.outputs = categorical.size

    def chosen(self, critics: nn.Module, transitions: Transitions) -> Tensor:
        done = self.view.of_own(transitions.now, transitions.actions[self.view.visible.k])
        values = self._all_values(critics, transitions.now, self.view.played(transitions))
        return values.gather(2, done.expand(2, -1)[:, :, None]).squeeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        logs = self.policy(*self.view.own(moment.joint)).log_softmax(1)
        values = self._all_values(critics, moment.joint, moment.others)
        return expected_soft_value(values, logs, alpha), -(logs.exp() * logs).sum(1)

    def _all_values(self, critics: nn.Module, joint: JointObs, actions: Actions) -> Tensor:
        """``[2, N, actions]``; the own action is blanked out, as the critics give a value for each of them."""
        blank = torch.zeros(len(joint), self.outputs, device=self.view.device)
        values: Tensor = critics(self.view(joint, self.view.with_own(joint, actions, blank)))
        return values

    def target_entropy(self, joint: JointObs, config: SacConfig) -> Tensor:
        if config.target_entropy != "auto":
            return torch.tensor(float(config.target_entropy))
        _, _, legal = self.view.own(joint)
        options = legal.sum(1).cpu().numpy() if legal.shape[1] else np.full(len(joint), self.outputs)
        wanted = (config.target_entropy_share * np.log(options)).astype(np.float32)
        return torch.from_numpy(wanted).to(self.view.device)


def soft_values(policy: SquashedPolicy, view: JointActionView) -> SoftValues:
    """What fits the policy's actions."""
    if policy.gaussian is not None:
        return DrawnValues(policy, policy.gaussian, view)
    assert policy.categorical is not None
    return SummedValues(policy, policy.categorical, view)
