"""Exploration. The current value is a buffer, so it travels with the weights; only the learner moves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from marl.data.task import Floats
from marl.policies.config import ExplorationConfig

Number = TypeVar("Number", int, float)


class Exploration(nn.Module):
    """Values between ``initial`` and ``final`` over ``timesteps`` env steps, and an optional uniformly random start."""

    value: torch.Tensor
    uniform: torch.Tensor
    temperature: float = 0.0
    """Actions are drawn by their values, ``exp(Q / temperature)``; 0: the best one is taken."""

    def __init__(self, initial: float, final: float, timesteps: int, random_timesteps: int = 0) -> None:
        super().__init__()
        self.initial, self.final, self.timesteps, self.random_timesteps = (
            initial,
            final,
            timesteps,
            random_timesteps,
        )
        self.register_buffer("value", torch.tensor(float(initial)))
        self.register_buffer("uniform", torch.tensor(random_timesteps > 0))

    def now(self) -> float:
        """The value to act with."""
        return float(self.value)

    def chance_of_random(self) -> float:
        """The chance of a random action, where actions are chosen by their values."""
        return self.now()

    def carry_size(self, coordinates: int) -> int:
        """Numbers that the noise on so many coordinates remembers per agent from one decision to the next."""
        del coordinates
        return 0

    def noisy(self, numbers: Floats, carry: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Coordinates ``[N, n]`` with noise, and what the noise remembers ``[N, carry_size]``."""
        return numbers + self.now() * rng.standard_normal(numbers.shape, np.float32), carry

    def place(self, index: int, total: int) -> None:
        """Act for worker ``index`` of ``total``; the same for all of them here."""

    def anneal(self, timesteps: int) -> None:
        done = min(1.0, timesteps / self.timesteps) if self.timesteps else 1.0
        self.value.fill_(self.initial + done * (self.final - self.initial))
        self.uniform.fill_(timesteps < self.random_timesteps)


class ExponentialEpsilon(Exploration):
    """``final + (initial - final) * exp(-timesteps / decay)``: the final value is approached and never reached."""

    def anneal(self, timesteps: int) -> None:
        left = math.exp(-timesteps / self.timesteps)
        self.value.fill_(self.final + left * (self.initial - self.final))


class OrnsteinUhlenbeckNoise(Exploration):
    """Noise that drifts, so that an agent is pushed the same way for a while (Lillicrap et al., 2016)::

        x <- x - theta * x + sigma * N(0, 1),      action = mean + scale * x

    ``x`` begins with 0 in every episode. It belongs to the agent, so it is carried with what the agent remembers.
    """

    def __init__(self, theta: float, sigma: float, scales: tuple[float, float], timesteps: int, random: int) -> None:
        super().__init__(*scales, timesteps, random)
        self.theta, self.sigma = theta, sigma

    def carry_size(self, coordinates: int) -> int:
        return coordinates

    def noisy(self, numbers: Floats, carry: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        drawn = rng.standard_normal(numbers.shape, np.float32)
        moved = (carry - self.theta * carry + self.sigma * drawn).astype(np.float32)
        return numbers + self.now() * moved, moved


class PerWorkerEpsilon(Exploration):
    """A ladder of constant epsilons (Horgan et al., 2018): some workers explore widely while others play nearly greedily.

    ``epsilon_i = base ** (1 + alpha * i / (N - 1))`` for worker ``i`` of ``N``; a single worker has ``base``. Which rung it
    is belongs to the worker and not to the weights, so it is no buffer.
    """

    def __init__(self, base: float, alpha: float) -> None:
        super().__init__(base, base, 0)
        self.alpha = alpha
        self.epsilon = base

    def now(self) -> float:
        return self.epsilon

    def place(self, index: int, total: int) -> None:
        self.epsilon = self.initial ** (1.0 + self.alpha * index / max(1, total - 1))


class ParameterNoise(Exploration):
    """Noise on the weights instead of the actions (Plappert et al., 2018): in each episode a team plays one perturbed policy.

    ``value`` is the standard deviation. It grows by 1 % after a round in which the perturbed policy acted much like the
    policy itself, nearer than ``distance``, and shrinks by as much otherwise. Which perturbation is played follows from the
    episode's lot, so nothing has to be remembered.
    """

    rounds: torch.Tensor

    def __init__(self, stddev: float, distance: float, random_timesteps: int) -> None:
        super().__init__(stddev, stddev, 0, random_timesteps)
        self.distance = distance
        self.register_buffer("rounds", torch.tensor(0))  # so that every measurement has a perturbation of its own

    def chance_of_random(self) -> float:
        return float(self.uniform)

    def noisy(self, numbers: Floats, carry: Floats, rng: np.random.Generator) -> tuple[Floats, Floats]:
        del rng
        return numbers, carry

    def anneal(self, timesteps: int) -> None:
        """Only the random start ends by time; the deviation follows from what it does."""
        self.uniform.fill_(timesteps < self.random_timesteps)

    @contextmanager
    def perturbed(self, model: nn.Module, lot: float) -> Iterator[None]:
        """The model with noise on all its weights; which noise, says the lot."""
        generator = torch.Generator().manual_seed(int(lot * 2**53))
        kept = [parameter.detach().clone() for parameter in model.parameters()]
        with torch.no_grad():
            for parameter in model.parameters():
                drawn = torch.randn(parameter.shape, generator=generator, dtype=parameter.dtype)
                parameter.add_(self.now() * drawn.to(parameter.device))
        try:
            yield
        finally:
            with torch.no_grad():
                for parameter, before in zip(model.parameters(), kept, strict=True):
                    parameter.copy_(before)

    def adapt(self, measure: Callable[[float], float], limit: float) -> None:
        """After a round: ``measure(lot)`` is how far a perturbed policy is from the policy, ``limit`` how far it may be."""
        self.rounds += 1
        lot = np.random.default_rng(int(self.rounds)).random()
        factor = 1.01 if measure(lot) <= limit else 1 / 1.01
        self.value.mul_(factor)


def rows_by_lot(
    lots: NDArray[np.float64], rows: int, rng: np.random.Generator
) -> Iterator[tuple[float, NDArray[np.int64]]]:
    """Rows that are played by the same perturbation; whoever plays without an episode gets one of his own."""
    if not len(lots):
        lots = np.full(rows, rng.random())
    for lot in np.unique(lots):
        yield float(lot), np.flatnonzero(lots == lot)


def over_values(config: ExplorationConfig, temperature: float) -> Exploration:
    """How actions are chosen by their values; ``temperature`` is that of the algorithm, 0 if it has none."""
    return OVER_VALUES[config.type](config, temperature)


def _epsilon_greedy(config: ExplorationConfig, _: float) -> Exploration:
    return _epsilon(config, 1.0, 0.02)


def _per_worker(config: ExplorationConfig, _: float) -> Exploration:
    return PerWorkerEpsilon(_given(config.epsilon_base, 0.4), _given(config.epsilon_alpha, 7.0))


def _drawn_by_values(config: ExplorationConfig, temperature: float) -> Exploration:
    found = _epsilon(config, 0.0, 0.0)
    found.temperature = _given(config.temperature, temperature or 1.0)
    return found


def _noise_on_weights(config: ExplorationConfig, _: float) -> Exploration:
    return parameter_noise(config)


def _noisy_layers(config: ExplorationConfig, _: float) -> Exploration:
    """The layers explore by themselves: no action is random besides."""
    del config
    return Exploration(0.0, 0.0, 0)


OVER_VALUES: dict[str, Callable[[ExplorationConfig, float], Exploration]] = {
    "EpsilonGreedy": _epsilon_greedy,
    "PerWorkerEpsilonGreedy": _per_worker,
    "SoftQ": _drawn_by_values,
    "NoisyLayers": _noisy_layers,
    "ParameterNoise": _noise_on_weights,
}
"""By the names of ``exploration_config.type`` that fit action values."""


def _epsilon(config: ExplorationConfig, initial: float, final: float) -> Exploration:
    """A chance of random actions that falls, linearly or exponentially, from and to these where the scenario says nothing."""
    initial, final = _given(config.initial_epsilon, initial), _given(config.final_epsilon, final)
    if config.epsilon_decay is not None:
        return ExponentialEpsilon(initial, final, config.epsilon_decay)
    return Exploration(initial, final, _given(config.epsilon_timesteps, 10_000))


def boltzmann(values: Floats, temperature: float) -> Floats:
    """Chances ``exp(Q / temperature)``, made to add up to 1, of the actions of each row ``[N, actions]``."""
    # The highest value is taken off first: exp of a large number is infinite.
    weights = np.exp((values - values.max(axis=1, keepdims=True)) / np.float32(temperature))
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def sampling(config: ExplorationConfig) -> Exploration:
    """Stochastic policies: sample, after an optional random start; GaussianNoise also sets the standard deviation."""
    random_timesteps = _given(config.random_timesteps, 0)
    if config.type == "StochasticSampling":
        return Exploration(1.0, 1.0, 0, random_timesteps)
    initial, final = _given(config.initial_scale, 1.0), _given(config.final_scale, 0.1)
    timesteps = _given(config.scale_timesteps, 10_000)
    if config.type == "OrnsteinUhlenbeckNoise":
        theta, sigma = _given(config.ou_theta, 0.15), _given(config.ou_sigma, 0.2)
        return OrnsteinUhlenbeckNoise(theta, sigma, (initial, final), timesteps, random_timesteps)
    return Exploration(initial, final, timesteps, random_timesteps)


def parameter_noise(config: ExplorationConfig) -> ParameterNoise:
    """Noise on weights, for policies by values and deterministic ones."""
    return ParameterNoise(
        _given(config.initial_stddev, 0.1), _given(config.noise_distance, 0.1), _given(config.random_timesteps, 0)
    )


def _given(value: Number | None, default: Number) -> Number:
    """What the scenario says; 0 is something that it says."""
    if value is None:
        return default
    return value
