"""Exploration. The current value is a buffer, so it travels with the weights; only the learner moves it."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from marl.policies.config import ExplorationConfig

Number = TypeVar("Number", int, float)


class Exploration(nn.Module):
    """Values between ``initial`` and ``final`` over ``timesteps`` env steps, and an optional uniformly random start."""

    value: torch.Tensor
    uniform: torch.Tensor

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

    def place(self, index: int, total: int) -> None:
        """Act for worker ``index`` of ``total``; the same for all of them here."""

    def anneal(self, timesteps: int) -> None:
        done = min(1.0, timesteps / self.timesteps) if self.timesteps else 1.0
        self.value.fill_(self.initial + done * (self.final - self.initial))
        self.uniform.fill_(timesteps < self.random_timesteps)


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


def epsilon_greedy(config: ExplorationConfig) -> Exploration:
    """Chance of a random action."""
    if config.type == "PerWorkerEpsilonGreedy":
        return PerWorkerEpsilon(_given(config.epsilon_base, 0.4), _given(config.epsilon_alpha, 7.0))
    initial, final = _given(config.initial_epsilon, 1.0), _given(config.final_epsilon, 0.02)
    return Exploration(initial, final, _given(config.epsilon_timesteps, 10_000))


def sampling(config: ExplorationConfig) -> Exploration:
    """Stochastic policies: sample, after an optional random start; GaussianNoise also sets the standard deviation."""
    random_timesteps = _given(config.random_timesteps, 0)
    if config.type == "StochasticSampling":
        return Exploration(1.0, 1.0, 0, random_timesteps)
    initial, final = _given(config.initial_scale, 1.0), _given(config.final_scale, 0.1)
    return Exploration(initial, final, _given(config.scale_timesteps, 10_000), random_timesteps)


def _given(value: Number | None, default: Number) -> Number:
    """What the scenario says; 0 is something that it says."""
    if value is None:
        return default
    return value
