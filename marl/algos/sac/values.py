"""Soft values of moments: by one drawn action for Box, by the sum over all legal actions for Discrete.

Both kinds of actions have the same face, so the learner is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.joint_view import Actions, JointActionView
from marl.algos.sac.config import SacConfig
from marl.algos.sac.losses import expected_soft_value, soft_value
from marl.data.batch import SampleBatch
from marl.data.task import Floats
from marl.policies.config import ModelConfig
from marl.policies.distributions import Categorical
from marl.policies.networks import action_width, build_mlp, seeded
from marl.policies.squashed import SquashedGaussian, SquashedPolicy


@dataclass
class Moment:
    """The view before decisions, or (``new_``) at their outcome, with everything random about it already drawn: what the
    other agents do, and the noise of the agent's own action."""

    rows: SampleBatch
    when: Literal["", "new_"]
    others: Actions
    noise: Tensor

    def part(self, index: slice) -> Moment:
        """The same of some rows."""
        others = {k: actions[index] for k, actions in self.others.items()}
        return Moment(self.rows.rows(index), self.when, others, self.noise[index])


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
    def chosen(self, critics: nn.Module, rows: SampleBatch) -> Tensor:
        """``[2, N]``: values of what was done."""

    @abstractmethod
    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """The policy's soft value and its entropy, ``[N]`` each; differentiable in the policy."""

    @abstractmethod
    def target_entropy(self, rows: SampleBatch, config: SacConfig) -> Tensor:
        """What the temperature holds the entropy at: one number, or one per row."""

    def _params(self, moment: Moment) -> Tensor:
        inputs = self.view.own(moment.rows, moment.when)
        params: Tensor = self.policy(*self.policy.tensors(inputs, self.view.device))
        return params


class DrawnValues(SoftValues):
    """Box: ``Q(joint observation, joint action)`` of one drawn action, through which the gradient flows."""

    outputs = 1

    def __init__(self, policy: SquashedPolicy, gaussian: SquashedGaussian, view: JointActionView) -> None:
        super().__init__(policy, view)
        self.gaussian, self.noise_width = gaussian, gaussian.width

    def chosen(self, critics: nn.Module, rows: SampleBatch) -> Tensor:
        values: Tensor = critics(self.view(rows, "", self.view.played(rows)))
        return values.squeeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        mine, logp = self.gaussian.draw(self._params(moment), moment.noise)
        actions = self.view.with_own(moment.rows, moment.others, mine)
        values = critics(self.view(moment.rows, moment.when, actions)).squeeze(2)
        return soft_value(values, logp, alpha), -logp

    def target_entropy(self, rows: SampleBatch, config: SacConfig) -> Tensor:
        del rows
        auto = config.target_entropy == "auto"
        return torch.tensor(-float(self.gaussian.width) if auto else float(config.target_entropy))


class SummedValues(SoftValues):
    """Discrete: the critics give a value for each own action, knowing what the others do; expectations are exact."""

    noise_width = 0

    def __init__(self, policy: SquashedPolicy, categorical: Categorical, view: JointActionView) -> None:
        super().__init__(policy, view)
        self.outputs = categorical.size

    def chosen(self, critics: nn.Module, rows: SampleBatch) -> Tensor:
        k, slot = self.view.sight.k, self.view.sight.own[rows["seat"]]
        done = self.view.tensor(rows[f"actions.{k}"][np.arange(len(rows)), slot])
        values = self._all_values(critics, rows, "", self.view.played(rows))
        return values.gather(2, done.expand(2, -1)[:, :, None]).squeeze(2)

    def __call__(self, critics: nn.Module, moment: Moment, alpha: Tensor) -> tuple[Tensor, Tensor]:
        logs = self._params(moment).log_softmax(1)
        values = self._all_values(critics, moment.rows, moment.when, moment.others)
        return expected_soft_value(values, logs, alpha), -(logs.exp() * logs).sum(1)

    def _all_values(self, critics: nn.Module, rows: SampleBatch, when: Literal["", "new_"], actions: Actions) -> Tensor:
        nothing = torch.zeros(len(rows), self.outputs, device=self.view.device)
        values: Tensor = critics(self.view(rows, when, self.view.with_own(rows, actions, nothing)))
        return values

    def target_entropy(self, rows: SampleBatch, config: SacConfig) -> Tensor:
        if config.target_entropy != "auto":
            return torch.tensor(float(config.target_entropy))
        legal = self.view.own(rows, "").legal
        options = legal.sum(1) if legal.shape[1] else np.full(len(rows), self.outputs)
        return self.view.tensor((config.target_entropy_share * np.log(options)).astype(np.float32))


def soft_values(policy: SquashedPolicy, view: JointActionView) -> SoftValues:
    """What fits the policy's actions."""
    if policy.gaussian is not None:
        return DrawnValues(policy, policy.gaussian, view)
    assert policy.categorical is not None
    return SummedValues(policy, policy.categorical, view)


def nothing(view: JointActionView, rows: int) -> Actions:
    """Nobody does anything, or nobody is seen."""
    kinds = view.sight.task.kinds
    return {
        k: torch.zeros(rows, table.shape[1], action_width(kinds[k].columns), device=view.device)
        for k, table in view.sight.columns.items()
    }


def noise_for(values: SoftValues, rows: int, rng: np.random.Generator) -> Floats:
    """Standard normal numbers for drawn actions."""
    return rng.standard_normal((rows, values.noise_width), np.float32)
