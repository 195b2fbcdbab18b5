"""Policies that draw their actions: categorical, several categorical, or Gaussian."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.task import Floats, Kind
from marl.errors import SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import ILLEGAL, distribution_for
from marl.policies.exploration import sampling
from marl.policies.networks import Features, build_mlp, seeded
from marl.policies.policy import Decision, Inputs, Policy


class StochasticPolicy(Policy):
    """A network gives the numbers of an action distribution. With ``vf_share_layers`` it also gives a value."""

    def __init__(self, kind: Kind, spec: PolicySpec) -> None:
        super().__init__(kind)
        self.distribution = distribution_for(kind.action_space)
        config = spec.exploration or ExplorationConfig(type="StochasticSampling")
        self.noise_sets_std = config.type == "GaussianNoise"
        if self.noise_sets_std and not self.distribution.numbers:
            raise SpaceMismatchError(
                f"GaussianNoise needs Box actions, but agents {kind.agents[0]!r}, ... have {kind.action_space}. Use "
                "StochasticSampling."
            )
        self.features = Features(kind, spec.agent_id)
        self.exploration = sampling(config)
        self._build(spec)

    def _build(self, spec: PolicySpec) -> None:
        generator = seeded(spec.seed)
        numbers = self.distribution.numbers
        own_std = numbers > 0 and not self.noise_sets_std
        self.log_std = nn.Parameter(torch.zeros(numbers)) if own_std and spec.model.free_log_std else None
        from_network = own_std and self.log_std is None
        outputs = self.distribution.size - (0 if from_network else numbers)
        self.shares_value = spec.model.vf_share_layers  # then the value comes out of the same last layer
        outputs += int(self.shares_value)
        self.network = build_mlp(self.features.size, outputs, spec.model, generator, last_gain=0.01)

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        with torch.inference_mode():
            network = self.network
            legal = torch.from_numpy(inputs.legal).to(network.device)
            params = self._params(network(self.features.of(inputs, network.device)), legal)
            if explore and bool(self.exploration.uniform):
                params = self._uniform(params, legal)
        actions, logp = self.distribution.sample(params.cpu().numpy(), rng, explore)
        return Decision(actions, logp, carry)

    def forward(self, features: Tensor, legal: Tensor) -> tuple[Tensor, Tensor]:
        """Distribution numbers ``[N, size]`` and values ``[N]`` (zeros unless layers are shared)."""
        out = self.network(features)
        value = out[:, -1] if self.shares_value else out.new_zeros(len(out))
        return self._params(out, legal), value

    def _params(self, out: Tensor, legal: Tensor) -> Tensor:
        """The distribution's part of the network's output; illegal actions get no chance."""
        params = out[:, :-1] if self.shares_value else out
        if self.noise_sets_std:
            scale = self.exploration.value.clamp(min=1e-6).log()
            params = torch.cat([params, scale.expand(len(params), self.distribution.numbers)], dim=1)
        elif self.log_std is not None:
            params = torch.cat([params, self.log_std.expand(len(params), -1)], dim=1)
        return forbid(params, legal)

    def anneal(self, timesteps: int) -> None:
        self.exploration.anneal(timesteps)

    def _uniform(self, params: Tensor, legal: Tensor) -> Tensor:
        """Equal chances for all legal actions; standard normal for continuous ones."""
        return forbid(torch.zeros_like(params), legal)


def forbid(params: Tensor, legal: Tensor) -> Tensor:
    """No chance for illegal options, whose logits come first."""
    width = legal.shape[1]
    if not width:
        return params
    if width == params.shape[1]:
        return params.masked_fill(~legal, ILLEGAL)
    return torch.cat([params[:, :width].masked_fill(~legal, ILLEGAL), params[:, width:]], dim=1)
