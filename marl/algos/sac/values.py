"""Soft values of moments: by one drawn action for Box, by the sum over all legal actions for Discrete.

Both kinds of actions have the same face, so the learner is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.critics import ActionCritics
from marl.algos.joint_view import Actions, JointActionView
from marl.algos.off_policy import ActorLoss
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import expected_soft_value, smallest, soft_value
from marl.algos.transitions import JointObs, Transitions
from marl.policies.config import ModelConfig
from marl.policies.distributions import Categorical, log_softmax
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
        if index == slice(0, len(self.joint)):
            return self
        others = {k: actions[index] for k, actions in self.others.items()}
        return Moment(self.joint.part(index), others, self.noise[index])


class Twins(ActionCritics):
    """Two critics of the same inputs: the smaller value is used wherever an overestimate would be believed."""

    def __init__(self, inputs: int, outputs: int, model: ModelConfig, *seeds: int) -> None:
        super().__init__()
        self.each = tuple([build_mlp(inputs, outputs, model, seeded(*seeds, i)) for i in range(2)])
        self.nets = nn.ModuleList(self.each)

    def forward(self, x: Tensor) -> Tensor:
        """``[2, N, outputs]``."""
        return torch.stack([net(x) for net in self.each])


@dataclass(frozen=True)
class SoftLoss(ActorLoss):
    """Minus the mean soft value of what a policy does, and the entropy ``[N]`` that is counted in it."""

    entropy: Tensor


class SoftValues(ABC):
    """How a policy's critics are asked. ``outputs`` is the number of values that a critic gives per row."""

    outputs: int
    noise_width: int

    def __init__(self, policy: SquashedPolicy, view: JointActionView) -> None:
        self.policy, self.view = policy, view

    def seen(self, transitions: Transitions) -> Tensor:
        """What critics look at to value what was done."""
        view: Tensor = self.view(transitions.now, self.view.played(transitions))
        return view

    def chosen(self, critics: nn.Module, transitions: Transitions) -> Tensor:
        """``[2, N]``: values of what was done."""
        values: Tensor = critics(self.seen(transitions))
        return self.pick(values, transitions)

    @abstractmethod
    def pick(self, values: Tensor, transitions: Transitions) -> Tensor:
        """Of all that critics gave ``[2, N, outputs]`` the values of what was done ``[2, N]``."""

    @abstractmethod
    def spread(self, slopes: Tensor, transitions: Transitions) -> Tensor:
        """The other way: d loss / d all values, by d loss / d those of what was done."""

    @abstractmethod
    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's soft value and its entropy, ``[N]`` each; differentiable in the policy."""

    @abstractmethod
    def loss(self, critics: ActionCritics, moment: Moment, params: Tensor, alpha: Tensor) -> SoftLoss:
        """Of a policy with these ``params``: what its actor minimises, and the slopes by ``params``."""

    @abstractmethod
    def target_entropy(self, joint: JointObs, config: SacConfig) -> Tensor:
        """What the temperature holds the entropy at: one number, or one per row."""


class DrawnValues(SoftValues):
    """Box: ``Q(joint observation, joint action)`` of one drawn action, through which the gradient flows."""

    outputs = 1

    def __init__(self, policy: SquashedPolicy, gaussian: SquashedGaussian, view: JointActionView) -> None:
        super().__init__(policy, view)
        self.gaussian, self.noise_width = gaussian, gaussian.width

    def pick(self, values: Tensor, transitions: Transitions) -> Tensor:
        del transitions  # there is one value, that of what was done
        return values.squeeze(2)

    def spread(self, slopes: Tensor, transitions: Transitions) -> Tensor:
        del transitions
        return slopes.unsqueeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        params = self.policy(*self.view.own(moment.joint))
        mine, logp = self.gaussian.draw(params, moment.noise)
        values = critics(self._seen(moment, mine)).squeeze(2)
        return soft_value(values, logp, alpha), -logp

    def loss(self, critics: ActionCritics, moment: Moment, params: Tensor, alpha: Tensor) -> SoftLoss:
        """``mean(alpha * logp - min_i Q_i)``; the critics' own slopes by the drawn action, then those of drawing it."""
        mine, logp = self.gaussian.draw(params, moment.noise)
        values, tapes = critics.run(self._seen(moment, mine))
        # The critics are climbed, not changed: the gradient of their parameters is not even computed.
        by_view = critics.pull(tapes, smallest(values) * (-1 / len(mine)), inputs=True, parameters=False)
        assert by_view is not None
        by_mine = self.view.by_own_action(by_view, moment.joint)
        slopes = self.gaussian.slopes(params, moment.noise, mine, by_mine, alpha / len(mine))
        return SoftLoss(-soft_value(values.squeeze(2), logp, alpha).mean(), slopes, -logp)

    def _seen(self, moment: Moment, mine: Tensor) -> Tensor:
        return self.view.with_own_action(self.view(moment.joint, moment.others), moment.joint, mine)

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

    def seen(self, transitions: Transitions) -> Tensor:
        return self._blank(transitions.now, self.view.played(transitions))

    def pick(self, values: Tensor, transitions: Transitions) -> Tensor:
        return values.gather(2, self._done(transitions)).squeeze(2)

    def spread(self, slopes: Tensor, transitions: Transitions) -> Tensor:
        nothing = slopes.new_zeros(*slopes.shape, self.outputs)
        return nothing.scatter_(2, self._done(transitions), slopes.unsqueeze(2))

    def _done(self, transitions: Transitions) -> Tensor:
        """``[2, N, 1]``: the own actions, for both critics."""
        done = self.view.of_own(transitions.now, transitions.actions[self.view.visible.k])
        return done.expand(2, -1).unsqueeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        logs = log_softmax(self.policy(*self.view.own(moment.joint)))
        values = critics(self._blank(moment.joint, moment.others))
        return expected_soft_value(values, logs, alpha)[0], -(logs.exp() * logs).sum(1)

    def loss(self, critics: ActionCritics, moment: Moment, params: Tensor, alpha: Tensor) -> SoftLoss:
        logs = log_softmax(params)
        values, _ = critics.run(self._blank(moment.joint, moment.others))
        value, slopes = expected_soft_value(values, logs, alpha)
        return SoftLoss(-value.mean(), slopes * (-1 / len(params)), -(logs.exp() * logs).sum(1))

    def _blank(self, joint: JointObs, actions: Actions) -> Tensor:
        """What critics look at; the own action is blanked out, as they give a value for each of them."""
        blank = torch.zeros(len(joint), self.outputs, device=self.view.device)
        return self.view.with_own_action(self.view(joint, actions), joint, blank)

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
