"""Policies of deterministic actor-critics: one action per observation, and noise on top of it while exploring.

Coordinates of a Box with two finite bounds are ``tanh`` of the network's outputs, -1..1 of the bounds; others are the outputs
themselves. Choices are made by logits: the most likely option when greedy, a draw from ``softmax(logits)`` when exploring. For
learning a draw is made differentiable by the straight-through Gumbel-softmax (Jang et al., 2017)::

    y       = softmax((logits + g) / temperature),   g_i = -log(-log(u_i))
    forward = one_hot(argmax y),                     backward = dy
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from marl.data.task import AgentType, Floats, Ints
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import ILLEGAL, MultiCategorical, race
from marl.policies.exploration import Exploration, ParameterNoise, parameter_noise, rows_by_lot, sampling
from marl.policies.memories import remembers_by
from marl.policies.network_policy import NetworkPolicy
from marl.policies.networks import Body, action_width, seeded
from marl.policies.policy import Decision, Inputs, Insight
from marl.policies.stochastic import forbid

Chooser: TypeAlias = Callable[[Tensor], Tensor]
"""From the logits of one choice ``[N, size]`` to its encoding."""


class DeterministicPolicy(NetworkPolicy):
    """A network gives one logit per option of every choice, then one number per coordinate."""

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        self.columns = kind.columns
        self.exploration = _exploration(kind, spec.exploration)
        # A small last layer: actions begin in the middle, where tanh has its full slope, and options equally likely.
        outputs = action_width(kind.columns)
        self.set_model(Body(kind, spec.model, outputs, seeded(spec.seed), agent_id=spec.agent_id, last_gain=0.01))
        if self.model.carry_size:
            raise ConfigError(
                f"the model has a memory of {self.model.carry_size} numbers, but ddpg, td3 and maddpg learn from single "
                f"decisions of a replay. Drop {remembers_by(spec.model)}, or use ppo, mappo or dqn."
            )
        self.carry_size = self.exploration.carry_size(len(kind.columns.numbers))
        if isinstance(self.exploration, ParameterNoise):
            self.use_noisy_weights()
        self.bounded = kind.columns.bounded[list(kind.columns.numbers)]
        self._sizes = [kind.columns.sizes[c] for c in kind.columns.choices]
        self._squash = None if self.bounded.all() else torch.from_numpy(self.bounded)

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        noise = self.exploration
        noisy_weights = explore and isinstance(noise, ParameterNoise)
        with torch.inference_mode():
            out = self._noisy_outputs(inputs, rng) if noisy_weights else self._outputs(inputs)
        uniform = explore and bool(noise.uniform)
        actions = np.empty((len(out), len(self.columns)), self.columns.dtype)
        # Noisy weights explore by themselves: their best option is taken, not drawn.
        draws = uniform or (explore and not noisy_weights)
        for column, logits in self.columns.options_of(out):
            actions[:, column] = _chosen(logits, uniform, draws, rng)
        if self.columns.numbers:
            numbers = out[:, self.columns.options :]
            if uniform:
                numbers = self._uniform(numbers.shape, rng)
            elif explore:
                numbers, carry = self._noisy(numbers, carry, rng)
            actions[:, list(self.columns.numbers)] = numbers
        return Decision(actions.reshape(len(out), *self.kind.action_shape), np.zeros(len(out), np.float32), carry)

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """Chances of options by their logits, and coordinates without noise."""
        del carry, explore
        with torch.inference_mode():
            out = self._outputs(inputs)
        options = self.columns.options
        mean = out[:, options:] if self.columns.numbers else None
        if not options:
            return Insight(mean=mean)
        return Insight(MultiCategorical(self._sizes).probabilities(out[:, :options]), mean)

    def _noisy(self, numbers: Floats, carry: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Coordinates with noise, within their bounds, and what the noise remembers."""
        noisy, carry = self.exploration.noisy(numbers, carry, rng)
        return np.where(self.bounded, np.clip(noisy, -1, 1), noisy).astype(np.float32), carry

    def _outputs(self, inputs: Inputs) -> Floats:
        """Logits of legal options and coordinates ``[N, action_width]``."""
        obs, index, legal = self.tensors(inputs, self.device)
        found: Floats = forbid(self._squashed(self.model(obs, index)), legal).cpu().numpy()
        return found

    def _noisy_outputs(self, inputs: Inputs, rng: np.random.Generator) -> Floats:
        """The same where every episode is played by weights with noise of its own."""
        noise = self.exploration
        assert isinstance(noise, ParameterNoise)
        found = np.empty((len(inputs), action_width(self.columns)), np.float32)
        for lot, rows in rows_by_lot(inputs.episode_uniform, len(inputs), rng):
            with noise.perturbed(self.model, lot):
                found[rows] = self._outputs(Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows]))
        return found

    def distance(self, plain: Tensor, noisy: Tensor) -> float:
        """Root mean square of the difference of coordinates and of the chances of options."""
        before, after = (self._encoded(self._squashed(out), chances) for out in (plain, noisy))
        return float((before - after).square().mean().sqrt())

    def _uniform(self, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
        """Uniform over the box; normal where it has no bounds."""
        uniform, normal = 2 * rng.random(shape, np.float32) - 1, rng.standard_normal(shape, np.float32)
        return np.where(self.bounded, uniform, normal)

    # -- learning --------------------------------------------------------------------------------------------------

    def forward(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """``[N, action_width]``: logits and coordinates before ``tanh``."""
        out: Tensor = self.model(obs, agent_index)
        return out

    def greedy(self, out: Tensor, legal: Tensor) -> Tensor:
        """The best guess, encoded ``[N, action_width]``: options one-hot, then coordinates."""
        return self._encoded(forbid(self._squashed(out), legal), hard)

    def drawn(self, out: Tensor, legal: Tensor, gumbel: Tensor | None, temperature: float) -> tuple[Tensor, Tensor]:
        """The same with options drawn by Gumbel noise ``[N, options]``; and ``soft``, what gradients go through instead: the
        chances of options, then coordinates."""
        masked = forbid(self._squashed(out), legal)
        if gumbel is None:  # there are no options
            return masked, masked
        options = self.columns.options
        noisy = torch.cat([(masked[:, :options] + gumbel) / temperature, masked[:, options:]], dim=1)
        return self._encoded(noisy, hard), self._encoded(noisy, chances)

    def slopes(self, soft: Tensor, by_action: Tensor, temperature: float) -> Tensor:
        """d loss / d outputs by d loss / d action: of options ``y_i (s_i - sum_j y_j s_j) / temperature``, which is 0 for
        illegal ones, as their ``y`` is; of squashed coordinates ``(1 - a^2) s``."""
        widths = [*self._sizes, len(self.columns.numbers)]
        *choices, numbers = zip(torch.split(soft, widths, 1), torch.split(by_action, widths, 1), strict=True)
        parts = []
        for y, slope in choices:
            parts.append(y * (slope - (y * slope).sum(1, keepdim=True)) / temperature)
        coordinates, slope = numbers
        bent = slope * (1 - coordinates.square())
        if self._squash is not None:
            bent = torch.where(self._squash.to(slope.device), bent, slope)
        return torch.cat([*parts, bent], dim=1)

    def _encoded(self, out: Tensor, choose: Chooser) -> Tensor:
        options = self.columns.options
        if not options:
            return out
        parts = [choose(logits) for logits in torch.split(out[:, :options], self._sizes, dim=1)]
        if self.columns.numbers:
            parts.append(out[:, options:])
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)

    def _squashed(self, out: Tensor) -> Tensor:
        options = self.columns.options
        if not self.columns.numbers:
            return out
        raw = out[:, options:]
        numbers = raw.tanh()
        if self._squash is not None:
            numbers = torch.where(self._squash.to(out.device), numbers, raw)
        if not options:
            return numbers
        return torch.cat([out[:, :options], numbers], dim=1)


def _chosen(logits: Floats, uniform: bool, draws: bool, rng: np.random.Generator) -> Ints:
    """One option per row: drawn by its chance, drawn from all legal ones alike, or the most likely one."""
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    if uniform:
        weights = (logits > ILLEGAL).astype(np.float32)
    return race(weights, rng) if draws else weights.argmax(axis=1)


def hard(logits: Tensor) -> Tensor:
    """The highest of each row, one-hot; no gradient."""
    highest = logits.contiguous().argmax(dim=1, keepdim=True)  # over columns that lie apart it is ten times slower
    return torch.zeros_like(logits).scatter_(1, highest, 1.0)


def chances(logits: Tensor) -> Tensor:
    """Softmax over the options of each row."""
    return logits.t().softmax(dim=0).t()  # over a few numbers that lie side by side it is several times slower


def _exploration(kind: AgentType, config: ExplorationConfig | None) -> Exploration:
    """Noise for coordinates, drawing for choices: which of them has to be named follows from the action space."""
    fits = ["StochasticSampling", "ParameterNoise"]
    if kind.columns.numbers:
        fits = ["GaussianNoise", "OrnsteinUhlenbeckNoise", "ParameterNoise"]
    if config is None:
        config = ExplorationConfig.model_validate({"type": fits[0]})
    if config.type not in fits:
        raise SpaceMismatchError(
            f"exploration_config.type {config.type} does not fit agents {kind.agents[0]!r}, ... with {kind.action_space}: "
            f"expected {' or '.join(fits)}. Coordinates of a Box get GaussianNoise; choices are drawn by StochasticSampling."
        )
    if config.type == "ParameterNoise":
        return parameter_noise(config)
    return sampling(config)
