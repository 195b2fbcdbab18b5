"""Policies that draw their actions: categorical, several categorical, or Gaussian."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
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
        self.continuous = isinstance(kind.action_space, spaces.Box)
        config = spec.exploration or ExplorationConfig(type="StochasticSampling")
        self.noise_sets_std = config.type == "GaussianNoise"
        if self.noise_sets_std and not self.continuous:
            raise SpaceMismatchError(
                f"GaussianNoise needs Box actions, but agents {kind.agents[0]!r}, ... have {kind.action_space}. Use "
                "StochasticSampling."
            )
        self.distribution = distribution_for(kind.action_space)
        self.features = Features(kind, spec.agent_id)
        self.exploration = sampling(config)
        self._build(spec)

    def _build(self, spec: PolicySpec) -> None:
        generator = seeded(spec.seed)
        width = self.distribution.size // 2 if self.continuous else self.distribution.size
        own_std = self.continuous and not self.noise_sets_std
        self.log_std = nn.Parameter(torch.zeros(width)) if own_std and spec.model.free_log_std else None
        outputs = width * 2 if own_std and self.log_std is None else width
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
            params = torch.cat([params, self.exploration.value.clamp(min=1e-6).log().expand_as(params)], dim=1)
        elif self.log_std is not None:
            params = torch.cat([params, self.log_std.expand_as(params)], dim=1)
        if legal.shape[1]:
            params = params.masked_fill(~legal, ILLEGAL)
        return params

    def anneal(self, timesteps: int) -> None:
        self.exploration.anneal(timesteps)

    def _uniform(self, params: Tensor, legal: Tensor) -> Tensor:
        """Equal chances for all legal actions; standard normal for continuous ones."""
        flat = torch.zeros_like(params)
        return flat.masked_fill(~legal, ILLEGAL) if legal.shape[1] else flat
