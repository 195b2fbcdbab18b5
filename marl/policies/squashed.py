"""Policies of maximum entropy: a Gaussian squeezed into the bounds of a Box, or chances of Discrete actions.

    u = mean + std * noise,   a = tanh(u)
    log pi(a) = log N(u; mean, std) - sum_i log(1 - tanh(u_i)^2)
    log(1 - tanh(u)^2) = 2 * (log 2 - u - softplus(-2u))

The last form is exact for every ``u``; the difference itself is rounded to zero from ``|u| = 10`` on. Coordinates without two
finite bounds are not squeezed and stay Gaussian.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from marl.data.task import AgentType, Array, Bools, Floats
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import Categorical, DiagGaussian, Distribution
from marl.policies.exploration import sampling
from marl.policies.memories import remembers_by
from marl.policies.mlp import Tape, gradient_of
from marl.policies.network_policy import NetworkPolicy
from marl.policies.networks import Body, seeded
from marl.policies.policy import Decision, Inputs, Insight
from marl.policies.stochastic import forbid

LOG_STD = (-5.0, 2.0)  # the network's output is bent into this range, so that no gradient is lost at its ends


class SquashedGaussian(Distribution):
    """Independent normal numbers, those with ``bounded`` behind a tanh. ``params``: means, then log standard deviations."""

    def __init__(self, bounded: Sequence[bool]) -> None:
        self.gaussian = DiagGaussian(len(bounded))
        self.width = self.numbers = self.gaussian.width
        self.size = self.gaussian.size
        self.bounded = np.array(bounded, bool)
        self._bounded = torch.from_numpy(self.bounded)
        self.all_bounded = bool(self.bounded.all())

    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Floats, Floats]:
        free, logp = self.gaussian.sample(params, rng, explore)
        shrinkage = np.where(self.bounded, 2 * (math.log(2) - free - np.logaddexp(0, -2 * free)), 0.0).sum(1)
        return np.where(self.bounded, np.tanh(free), free), (logp - shrinkage).astype(np.float32)

    def uniform(self, rows: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Bounded coordinates drawn evenly between their bounds, others from a standard normal; and log densities."""
        even = rng.uniform(-1, 1, (rows, self.width))
        normal = rng.standard_normal((rows, self.width))
        logp = np.where(self.bounded, -math.log(2), -0.5 * normal**2 - 0.5 * math.log(2 * math.pi)).sum(1)
        return np.where(self.bounded, even, normal).astype(np.float32), logp.astype(np.float32)

    def draw(self, params: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions and log probabilities as differentiable functions of ``params``; ``noise`` is standard normal."""
        mean, log_std = params.chunk(2, 1)
        free = mean + noise * log_std.exp()
        surprise = 0.5 * noise.square() + log_std + self._shrinkage(free)
        actions = free.tanh()
        if not self.all_bounded:
            actions = torch.where(self._bounded.to(free.device), actions, free)
        return actions, -surprise.sum(1) - 0.5 * math.log(2 * math.pi) * self.width

    def slopes(self, params: Tensor, noise: Tensor, actions: Tensor, by_actions: Tensor, by_logp: Tensor) -> Tensor:
        """d loss / d ``params`` by d loss / d what ``draw`` gave; ``by_logp`` is ``[N, 1]`` or one number for all rows.

        With ``u = mean + std * noise`` and ``a = tanh(u)``: ``da/du = 1 - a^2``, ``dlogp/du = 2a``, ``du/dlog_std = u - mean``
        and, at a given ``u``, ``dlogp/dlog_std = -1``. What is not squeezed has ``da/du = 1`` and ``dlogp/du = 0``.
        """
        _, log_std = params.chunk(2, 1)
        by_free = by_actions * (1 - actions.square()) + by_logp * 2 * actions
        if not self.all_bounded:
            by_free = torch.where(self._bounded.to(params.device), by_free, by_actions)
        by_log_std = by_free * noise * log_std.exp() - by_logp
        return torch.cat([by_free, by_log_std], dim=1)

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        inside = 1 - torch.finfo(actions.dtype).eps
        free = torch.where(self._bounded.to(actions.device), actions.clamp(-inside, inside).atanh(), actions)
        return self.gaussian.logp(params, free) - self._shrinkage(free).sum(1)

    def entropy(self, params: Tensor) -> Tensor:
        """``H(u) + E[log |da / du|]``; the expectation by Gauss-Hermite quadrature."""
        nodes, weights = (torch.from_numpy(a).to(params) for a in np.polynomial.hermite_e.hermegauss(64))
        mean, log_std = params.chunk(2, 1)
        free = mean[:, None] + log_std.exp()[:, None] * nodes[:, None]  # [N, nodes, width]
        narrowing = (self._shrinkage(free) * weights[:, None]).sum((1, 2)) / weights.sum()
        return self.gaussian.entropy(params) + narrowing

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """That of the Gaussians: squeezing both alike takes away no difference between them."""
        return self.gaussian.kl(old, new)

    def spread(self, params: Floats) -> tuple[Floats | None, Floats | None]:
        """Of the squeezed numbers, by Gauss-Hermite quadrature."""
        mean, log_std = params[:, : self.width], params[:, self.width :]
        nodes, weights = np.polynomial.hermite_e.hermegauss(64)
        # 64 nodes: exact to float32 for every deviation that LOG_STD allows.
        drawn = np.tanh(mean[..., None] + np.exp(log_std)[..., None] * nodes)
        share = weights / weights.sum()
        middle = (drawn * share).sum(-1)
        squeezed = np.sqrt((np.square(drawn - middle[..., None]) * share).sum(-1))
        std = np.where(self.bounded, squeezed, np.exp(log_std)).astype(np.float32)
        return np.where(self.bounded, np.tanh(mean), mean), std

    def _shrinkage(self, free: Tensor) -> Tensor:
        """``log da / du`` per coordinate."""
        double = -2 * free
        shrinkage = torch.sub(double, F.softplus(double), alpha=2) + 2 * math.log(2)
        if self.all_bounded:
            return shrinkage
        return torch.where(self._bounded.to(free.device), shrinkage, 0.0)


class SquashedTape(NamedTuple):
    """What ``SquashedPolicy.pull`` needs of ``run``."""

    body: Tape | Tensor
    params: Tensor
    legal: Tensor


class SquashedPolicy(NetworkPolicy):
    """Box: squashed Gaussian. Discrete: softmax. A greedy choice is the squeezed mean, or the likeliest action."""

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        _refuse(kind, spec)
        self.gaussian: SquashedGaussian | None = None
        self.categorical: Categorical | None = None
        self.distribution: SquashedGaussian | Categorical
        if kind.columns.choices:
            self.distribution = self.categorical = Categorical(kind.columns.options)
        else:
            self.distribution = self.gaussian = SquashedGaussian(kind.columns.bounded.tolist())
        self.exploration = sampling(spec.exploration or ExplorationConfig(type="StochasticSampling"))
        self.log_std: nn.Parameter | None = None
        outputs = self.distribution.size
        if self.gaussian is not None and spec.model.free_log_std:
            self.log_std = nn.Parameter(torch.zeros(self.gaussian.numbers))
            outputs -= self.gaussian.numbers  # the network gives no deviations
        self.set_model(Body(kind, spec.model, outputs, seeded(spec.seed), agent_id=spec.agent_id, last_gain=0.01))
        if self.model.carry_size:
            raise ConfigError(
                f"{_who(kind)} have the custom model {spec.model.custom_model!r}, which remembers {self.model.carry_size} "
                "numbers, but sac learns from single decisions. Use a model with carry_size 0, or ppo, mappo, dqn, qmix."
            )

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        if explore and bool(self.exploration.uniform):
            actions, logp = self._uniform(inputs.legal, len(inputs), rng)
        else:
            with torch.inference_mode():
                params = self.forward(*self.tensors(inputs, self.model.device)).cpu().numpy()
            actions, logp = self.distribution.sample(params, rng, explore)
        return Decision(actions, logp, carry)

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        del carry, explore
        with torch.inference_mode():
            params = self.forward(*self.tensors(inputs, self.model.device)).cpu().numpy()
        mean, std = self.distribution.spread(params)
        return Insight(self.distribution.probabilities(params), mean, std)

    def tells_logp(self, explore: bool) -> bool:
        return explore

    def log_density(self, inputs: Inputs, carry: Floats, actions: Array) -> Floats | None:
        del carry
        with torch.inference_mode():
            params = self.forward(*self.tensors(inputs, self.model.device))
            found: Floats = self.distribution.logp(params, self.tensor(np.ascontiguousarray(actions))).cpu().numpy()
        return found

    def _uniform(self, legal: Bools, rows: int, rng: np.random.Generator) -> tuple[Array, Floats]:
        if self.gaussian is not None:
            return self.gaussian.uniform(rows, rng)
        equal = forbid(torch.zeros(rows, self.distribution.size), torch.from_numpy(legal)).numpy()
        return self.distribution.sample(equal, rng, True)

    # -- learning --------------------------------------------------------------------------------------------------

    def forward(self, obs: Tensor, agent_index: Tensor, legal: Tensor) -> Tensor:
        """``[N, size]``: logits, with no chance for illegal actions; or means and log standard deviations."""
        return self._params(self.model(obs, agent_index), legal)

    def _params(self, out: Tensor, legal: Tensor) -> Tensor:
        if self.gaussian is None:
            return forbid(out, legal)
        if self.log_std is not None:
            out = torch.cat([out, self.log_std.expand(len(out), -1)], dim=1)
        mean, raw = out.chunk(2, 1)
        low, high = LOG_STD
        return torch.cat([mean, low + 0.5 * (high - low) * (raw.tanh() + 1)], dim=1)

    @torch.no_grad()
    def run(self, obs: Tensor, agent_index: Tensor, legal: Tensor) -> tuple[Tensor, SquashedTape]:
        """As ``forward`` but without gradient, and what ``pull`` needs."""
        out, tape = self.model.run(obs, agent_index)
        params = self._params(out, legal)
        return params, SquashedTape(tape, params, legal)

    @torch.no_grad()
    def pull(self, tape: SquashedTape, slopes: Tensor) -> None:
        """Add d loss / d parameter to the gradients; ``slopes`` are d loss / d ``params``."""
        if self.gaussian is None:
            if tape.legal.shape[1]:
                slopes = slopes.masked_fill(~tape.legal, 0.0)
            self.model.pull(tape.body, slopes)
            return
        by_mean, by_log_std = slopes.chunk(2, 1)
        # log_std = low + half * (tanh(raw) + 1), whose slope half * (1 - tanh^2) is this of log_std itself.
        low, high = LOG_STD
        log_std = tape.params[:, self.gaussian.width :]
        by_raw = by_log_std * (log_std - low) * (high - log_std) * (2 / (high - low))
        if self.log_std is None:
            self.model.pull(tape.body, torch.cat([by_mean, by_raw], dim=1))
        else:  # deviations that no observation changes
            gradient_of(self.log_std).add_(by_raw.sum(0))
            self.model.pull(tape.body, by_mean)


def _who(kind: AgentType) -> str:
    return f"agents {kind.agents[0]!r}, ..."


def _refuse(kind: AgentType, spec: PolicySpec) -> None:
    """What a policy of maximum entropy cannot be."""
    if not isinstance(kind.action_space, spaces.Discrete) and kind.columns.choices:
        raise SpaceMismatchError(
            f"sac takes Box or Discrete actions, but {_who(kind)} have {kind.action_space}. Use ppo, a2c, "
            "pg or mappo for them."
        )
    if spec.model.recurrent:
        raise ConfigError(
            f"{_who(kind)} have a recurrent model, but sac learns from single decisions. Drop {remembers_by(spec.model)}, or "
            "use ppo, mappo, dqn or qmix."
        )
