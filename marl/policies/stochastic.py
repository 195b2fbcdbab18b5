"""Policies that draw their actions: categorical, several categorical, or Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.plain_rows import PlainRows
from marl.data.task import AgentType, Array, Floats
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.custom import DISTRIBUTIONS
from marl.policies.distributions import ILLEGAL, Distribution, distribution_for
from marl.policies.exploration import sampling
from marl.policies.mlp import Tape, gradient_of
from marl.policies.network_policy import NetworkPolicy
from marl.policies.networks import Body, Sequences, seeded
from marl.policies.policy import Decision, Inputs, Insight
from marl.policies.value_scale import ValueScale


class StochasticPolicy(NetworkPolicy):
    """A network gives the numbers of an action distribution. With ``vf_share_layers`` it also gives a value."""

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        self.distribution = _distribution(kind, spec)
        config = spec.exploration or ExplorationConfig(type="StochasticSampling")
        self.noise_sets_std = config.type == "GaussianNoise"
        if self.noise_sets_std and not self.distribution.numbers:
            raise SpaceMismatchError(
                f"GaussianNoise needs Box actions, but agents {kind.agents[0]!r}, ... have {kind.action_space}. Use "
                "StochasticSampling."
            )
        self.exploration = sampling(config)
        self.starts_randomly = bool(config.random_timesteps)
        self.anneals = self.noise_sets_std or self.starts_randomly
        self.log_std: nn.Parameter | None = None
        if spec.model.free_log_std:
            self._refuse_fixed_deviations()
            self.log_std = nn.Parameter(torch.zeros(self.distribution.numbers))
        outputs = self.distribution.size
        if self.noise_sets_std or self.log_std is not None:
            outputs -= self.distribution.numbers  # the network gives no deviations
        # A value out of the same last layer; a recurrent policy's value needs the policy's memory.
        remembers_value = spec.options.get("own_value", False) and spec.model.recurrent
        self.shares_value = spec.model.vf_share_layers or bool(remembers_value)
        outputs += int(self.shares_value)
        self.value_scale = _value_scale(self.shares_value, spec)
        # A small last layer: all actions begin equally likely (Andrychowicz et al., 2021, section 3.2).
        self.set_model(Body(kind, spec.model, outputs, seeded(spec.seed), agent_id=spec.agent_id, last_gain=0.01))

    def _refuse_fixed_deviations(self) -> None:
        if not self.distribution.numbers:
            why = f"{self.kind.action_space} has no coordinates"
        elif self.noise_sets_std:
            why = "GaussianNoise sets their deviation"
        else:
            return
        raise ConfigError(
            f"free_log_std needs coordinates whose deviation is learned, but for agents {self.kind.agents[0]!r}, ... {why}. "
            "Drop it for the policy that plays them."
        )

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        model = self.model
        with torch.inference_mode():
            device = model.device
            obs, legal = torch.from_numpy(inputs.obs).to(device), torch.from_numpy(inputs.legal).to(device)
            index = torch.from_numpy(inputs.agent_index).to(device)
            if self.carry_size:
                out, memory = model.step(obs, index, torch.from_numpy(carry).to(device))
            else:
                out, memory = model(obs, index), None
            params = self._params(out, legal)
            if explore and self.starts_randomly and bool(self.exploration.uniform):
                params = forbid(torch.zeros_like(params), legal)  # equal chances; standard normal for coordinates
        actions, logp = self.distribution.sample(params.cpu().numpy(), rng, explore)
        return Decision(actions, logp, carry if memory is None else self._carried(memory, actions))

    def _carried(self, memory: Tensor, actions: Array) -> Floats:
        taken = torch.from_numpy(np.ascontiguousarray(actions)).to(memory.device)
        carried: Floats = self.model.carried(memory, taken, torch.zeros(len(taken), device=memory.device)).cpu().numpy()
        return carried

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """The distribution from which it draws, of which greedy play takes the likeliest action."""
        with torch.inference_mode():
            out = self.outputs(inputs, carry)
            legal = torch.from_numpy(inputs.legal).to(out.device)
            params = self._params(out, legal)
            if explore and self.starts_randomly and bool(self.exploration.uniform):
                params = forbid(torch.zeros_like(params), legal)
        numbers = params.cpu().numpy()
        mean, std = self.distribution.spread(numbers)
        value = self._value(out).cpu().numpy() if self.shares_value else None
        return Insight(self.distribution.probabilities(numbers), mean, std, value=value)

    def tells_logp(self, explore: bool) -> bool:
        return explore  # of a greedy choice it is the chance that it would have had

    def log_density(self, inputs: Inputs, carry: Floats, actions: Array) -> Floats | None:
        with torch.inference_mode():
            out = self.outputs(inputs, carry)
            params = self._params(out, torch.from_numpy(inputs.legal).to(out.device))
            found: Floats = self.distribution.logp(params, self.tensor(np.ascontiguousarray(actions))).cpu().numpy()
        return found

    # -- learning --------------------------------------------------------------------------------------------------

    def forward(
        self, obs: Tensor, agent_index: Tensor, legal: Tensor, sequences: Sequences | None = None
    ) -> tuple[Tensor, Tensor]:
        """Distribution numbers ``[N, size]`` and values ``[N]`` as the network gives them (zeros unless layers are shared)."""
        if sequences is None:
            out = self.model(obs, agent_index)
        else:
            out = self.model.unroll(obs, agent_index, sequences)
        values = out[:, -1] if self.shares_value else out.new_zeros(len(out))
        return self._params(out, legal), values

    def run(
        self, obs: Tensor, agent_index: Tensor, legal: Tensor, sequences: Sequences | None = None
    ) -> tuple[Tensor, Tensor, Tape | Tensor]:
        """As ``forward`` but without gradient, and what ``pull`` needs."""
        out, tape = self.model.run(obs, agent_index, sequences)
        values = out[:, -1] if self.shares_value else out.new_zeros(len(out))
        return self._params(out, legal).detach(), values, tape

    def pull(self, tape: Tape | Tensor, legal: Tensor, by_params: Tensor, by_values: Tensor | None) -> None:
        """Add d loss / d parameter to the gradients, from d loss / d distribution numbers and d loss / d values."""
        if self.log_std is not None:
            gradient_of(self.log_std).add_(by_params[:, -self.distribution.numbers :].sum(0))
        self.model.pull(tape, self.by_outputs(by_params, by_values, legal))

    def by_outputs(self, by_params: Tensor, by_values: Tensor | None, legal: Tensor) -> Tensor:
        """d loss / d outputs of the network, for rows or stacked rows: the way back of ``_params``."""
        width, numbers = legal.shape[-1], self.distribution.numbers
        if width:
            by_params[..., :width].masked_fill_(~legal, 0.0)
        if self.noise_sets_std or self.log_std is not None:
            by_params = by_params[..., : by_params.shape[-1] - numbers]
        if not self.shares_value:
            return by_params
        if by_values is None:
            by_values = by_params.new_zeros(by_params.shape[:-1])
        return torch.cat([by_params, by_values.unsqueeze(-1)], dim=-1)

    def value(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """``[N]``, of a policy without memory whose layers give it."""
        return self._value(self.model(obs, agent_index))

    def _value(self, out: Tensor) -> Tensor:
        """In units of rewards, from the network's outputs."""
        values = out[:, -1]
        return values if self.value_scale is None else self.value_scale.in_reward_units(values)

    def params(self, obs: Tensor, agent_index: Tensor, legal: Tensor, carry: Tensor) -> Tensor:
        """Distribution numbers of single decisions, each with its own carry."""
        return self._params(self.model.step(obs, agent_index, carry)[0], legal)

    def look_ahead(
        self, obs: Tensor, agent_index: Tensor, carry: Tensor, actions: Tensor, rewards: Tensor, new_obs: Tensor
    ) -> tuple[Tensor, Tensor]:
        """A recurrent policy's values before each of these decisions and after them: ``[N]`` each."""
        out, memory = self.model.step(obs, agent_index, carry)
        new_out, _ = self.model.step(new_obs, agent_index, self.model.carried(memory, actions, rewards))
        return self._value(out), self._value(new_out)

    def action_distribution(self, batch: PlainRows) -> Chances:
        """The distributions over actions for a batch of this policy or for ``{"obs": observations}``, without gradient."""
        rows = self.model.rows(batch)
        with torch.no_grad():
            legal = torch.from_numpy(rows["legal"]).to(self.model.device)
            return Chances(self.distribution, self._params(self.model.from_batch(rows), legal))

    def value_function(self, batch: PlainRows) -> Tensor:
        """Values ``[N]`` of a batch of this policy where its own layers give them (``vf_share_layers``, recurrent models)."""
        if not self.shares_value:
            raise ConfigError(
                "the value of this policy is not part of its model: its critic belongs to the learner. Ask "
                "Trainer.value_function(policy_id, batch), or set vf_share_layers."
            )
        with torch.no_grad():
            return self._value(self.model.from_batch(batch))

    def _params(self, out: Tensor, legal: Tensor, log_std: Tensor | None = None) -> Tensor:
        """The distribution's part of the network's output; illegal actions get no chance. ``log_std``: of stacked ones."""
        params = out[..., :-1] if self.shares_value else out
        if self.noise_sets_std:
            log_std = self.exploration.value.clamp(min=1e-6).log()
        elif log_std is None:
            log_std = self.log_std
        if log_std is not None:
            params = torch.cat([params, log_std.expand(*params.shape[:-1], self.distribution.numbers)], dim=-1)
        return forbid(params, legal)


@dataclass
class Chances:
    """Distributions over actions, one per row."""

    family: Distribution
    params: Tensor  # [N, size]

    def sample(self, rng: np.random.Generator | None = None, *, explore: bool = True) -> Array:
        """Actions as they are stored; without ``explore`` the most likely ones."""
        return self.family.sample(self.params.cpu().numpy(), rng or np.random.default_rng(), explore)[0]

    def logp(self, actions: Array) -> Tensor:
        return self.family.logp(self.params, torch.from_numpy(np.ascontiguousarray(actions)).to(self.params.device))

    def entropy(self) -> Tensor:
        return self.family.entropy(self.params)


def _value_scale(shares_value: bool, spec: PolicySpec) -> ValueScale | None:
    """Of a value out of the policy's own layers; other critics have their own."""
    return ValueScale() if shares_value and spec.options.get("normalize_values", False) else None


def _distribution(kind: AgentType, spec: PolicySpec) -> Distribution:
    if spec.model.custom_action_dist is None:
        return distribution_for(kind.action_space)
    return DISTRIBUTIONS.make(spec.model.custom_action_dist, kind.action_space)


def forbid(params: Tensor, legal: Tensor) -> Tensor:
    """No chance for illegal options, whose logits come first."""
    width = legal.shape[-1]
    if not width:
        return params
    if width == params.shape[-1]:
        return params.masked_fill(~legal, ILLEGAL)
    return torch.cat([params[..., :width].masked_fill(~legal, ILLEGAL), params[..., width:]], dim=-1)
