"""Action distributions: drawn from in numpy while acting, measured in torch while learning, with their derivatives.

``torch.distributions`` on the rollout step would cost more than the whole forward pass; these are the few formulas
needed. All take any number of leading axes: rows ``[N, size]``, or those of stacked policies ``[K, N, size]``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from marl.data.actions import Columns, columns_of
from marl.data.task import AnySpace, Array, Floats, Ints
from marl.policies.mlp import NARROW

ILLEGAL = -1e9  # logit of an action that may not be played


class Measured(NamedTuple):
    """Log probabilities and entropies, one per row, and how they depend on the numbers of the distribution."""

    logp: Tensor
    entropy: Tensor
    slopes: Callable[[Tensor, float], Tensor]
    """``slopes(by_logp, by_entropy)``: d loss / d params, from d loss / d logp per row and d loss / d entropy of all rows."""


class Distribution(ABC):
    """A family of distributions over actions; ``size`` numbers per row pick one member."""

    size: int
    numbers = 0
    """Coordinates among the actions: their log standard deviations are the last ``numbers`` of the ``size`` numbers."""

    def __init_subclass__(cls) -> None:
        """A user's class with formulas of its own must not be measured by those of the class that it is derived from."""
        super().__init_subclass__()
        measured = next(base for base in cls.__mro__ if "measure" in vars(base))
        # Whoever they come from, a mix-in say.
        if cls.logp is not measured.logp or cls.entropy is not measured.entropy:  # type: ignore[attr-defined]
            cls.measure = Distribution.measure  # type: ignore[method-assign]

    @abstractmethod
    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Array, Floats]:
        """Actions and their log probabilities; without ``explore`` the most likely action."""

    @abstractmethod
    def logp(self, params: Tensor, actions: Tensor) -> Tensor: ...

    @abstractmethod
    def entropy(self, params: Tensor) -> Tensor: ...

    @abstractmethod
    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        """``KL(old || new)`` per row."""

    def measure(self, params: Tensor, actions: Tensor) -> Measured:
        """``logp`` and ``entropy`` with their slopes: by autograd, where a distribution does not say better."""
        leaf = params.detach().requires_grad_()
        with torch.enable_grad():
            logp, entropy = self.logp(leaf, actions), self.entropy(leaf)

        def slopes(by_logp: Tensor, by_entropy: float) -> Tensor:
            found = torch.zeros_like(leaf)
            for result, outside in ((logp, by_logp), (entropy, torch.full_like(entropy, by_entropy))):
                if result.requires_grad:  # an entropy, say, may be the same whatever the numbers are
                    found += torch.autograd.grad(result, leaf, outside, retain_graph=True, materialize_grads=True)[0]
            return found

        return Measured(logp.detach(), entropy.detach(), slopes)

    def probabilities(self, params: Floats) -> Floats | None:
        """Chance of every option ``[N, options]``, all choices side by side; None where there are no choices."""
        del params
        return None

    def spread(self, params: Floats) -> tuple[Floats | None, Floats | None]:
        """The greedy coordinates ``[N, numbers]`` and their standard deviations; None where there are none."""
        del params
        return None, None


class Categorical(Distribution):
    """One of ``n`` actions by softmax of ``n`` logits."""

    def __init__(self, n: int) -> None:
        self.size = n

    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Ints, Floats]:
        # numpy's maximum over a short last axis is ten times slower than over a first one: [n, N] from here on.
        logits = np.ascontiguousarray(params.T)
        p = logits - np.maximum.reduce(logits)
        np.exp(p, out=p)
        actions = race(p.T, rng) if explore else p.T.argmax(axis=1)
        chosen = p[actions, np.arange(len(actions))]
        np.maximum(chosen, 1e-38, out=chosen)
        chosen /= np.add.reduce(p)
        return actions, np.log(chosen, out=chosen)

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        return log_softmax(params).gather(-1, actions.long().unsqueeze(-1)).squeeze(-1)

    def entropy(self, params: Tensor) -> Tensor:
        logs = log_softmax(params)
        return -(logs.exp() * logs).sum(-1)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        before, after = log_softmax(old), log_softmax(new)
        return (before.exp() * (before - after)).sum(-1)

    def measure(self, params: Tensor, actions: Tensor) -> Measured:
        """With ``p = softmax(z)``: ``d logp / dz = [a] - p`` and ``d H / dz = -p (log p + H)``."""
        logs = log_softmax(params)
        p, taken = logs.exp(), actions.long().unsqueeze(-1)
        entropy = (p * logs).sum(-1).neg_()

        def slopes(by_logp: Tensor, by_entropy: float) -> Tensor:
            by_logp = by_logp.unsqueeze(-1)
            by_logits = (p * by_logp).neg_().scatter_add_(-1, taken, by_logp)
            if by_entropy:
                by_logits.addcmul_(p, logs + entropy.unsqueeze(-1), value=-by_entropy)
            return by_logits

        return Measured(logs.gather(-1, taken).squeeze(-1), entropy, slopes)

    def probabilities(self, params: Floats) -> Floats | None:
        weights = np.exp(params - params.max(axis=1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


class MultiCategorical(Distribution):
    """Several independent choices, side by side."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.parts = [Categorical(int(n)) for n in sizes]
        self.sizes = [int(n) for n in sizes]
        self.size = sum(self.sizes)

    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Ints, Floats]:
        pieces = np.split(params, np.cumsum(self.sizes)[:-1], axis=1)
        actions, logps = [], []
        for part, piece in zip(self.parts, pieces, strict=True):
            action, logp = part.sample(piece, rng, explore)
            actions.append(action)
            logps.append(logp)
        return np.stack(actions, axis=1), np.stack(logps).sum(axis=0)

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        pieces = zip(self.parts, torch.split(params, self.sizes, -1), actions.unbind(-1), strict=True)
        return torch.stack([part.logp(p, a) for part, p, a in pieces]).sum(0)

    def entropy(self, params: Tensor) -> Tensor:
        pieces = zip(self.parts, torch.split(params, self.sizes, -1), strict=True)
        return torch.stack([part.entropy(p) for part, p in pieces]).sum(0)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        pieces = zip(self.parts, torch.split(old, self.sizes, -1), torch.split(new, self.sizes, -1), strict=True)
        return torch.stack([part.kl(a, b) for part, a, b in pieces]).sum(0)

    def measure(self, params: Tensor, actions: Tensor) -> Measured:
        """Logarithms of independent choices add up, and so do entropies; each choice has its own logits."""
        pieces = zip(self.parts, torch.split(params, self.sizes, -1), actions.unbind(-1), strict=True)
        return _independent([part.measure(p, a) for part, p, a in pieces])

    def probabilities(self, params: Floats) -> Floats | None:
        pieces = np.split(params, np.cumsum(self.sizes)[:-1], axis=1)
        chances = [part.probabilities(piece) for part, piece in zip(self.parts, pieces, strict=True)]
        return np.concatenate([np.asarray(chance) for chance in chances], axis=1)


class DiagGaussian(Distribution):
    """Independent normal numbers; ``params`` are means followed by log standard deviations."""

    def __init__(self, width: int) -> None:
        self.width = self.numbers = width
        self.size = 2 * width

    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Floats, Floats]:
        mean, log_std = params[:, : self.width], params[:, self.width :]
        noise = rng.standard_normal(mean.shape, np.float32) if explore else np.zeros_like(mean)
        logp = -(0.5 * noise**2 + log_std + 0.5 * math.log(2 * math.pi)).sum(1)
        return mean + noise * np.exp(log_std), logp.astype(np.float32)

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        mean, log_std = params.chunk(2, -1)
        noise = (actions - mean) * (-log_std).exp()
        return -(0.5 * noise.square() + log_std + 0.5 * math.log(2 * math.pi)).sum(-1)

    def entropy(self, params: Tensor) -> Tensor:
        _, log_std = params.chunk(2, -1)
        return (log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(-1)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        (m0, s0), (m1, s1) = old.chunk(2, -1), new.chunk(2, -1)
        return (s1 - s0 + ((2 * s0).exp() + (m0 - m1).square()) / (2 * (2 * s1).exp()) - 0.5).sum(-1)

    def measure(self, params: Tensor, actions: Tensor) -> Measured:
        """With ``n = (a - mean) / std``: ``d logp = n / std`` by mean, ``n^2 - 1`` by log_std; ``d H = 1`` by log_std."""
        mean, log_std = params.chunk(2, -1)
        precision = (-log_std).exp()
        noise = (actions - mean) * precision
        squared = noise.square()

        def slopes(by_logp: Tensor, by_entropy: float) -> Tensor:
            by_logp = by_logp.unsqueeze(-1)
            return torch.cat([by_logp * noise * precision, by_logp * (squared - 1) + by_entropy], dim=-1)

        logp = -(0.5 * squared + log_std + 0.5 * math.log(2 * math.pi)).sum(-1)
        return Measured(logp, self.entropy(params), slopes)

    def spread(self, params: Floats) -> tuple[Floats | None, Floats | None]:
        return params[:, : self.width], np.exp(params[:, self.width :])


class Mixed(Distribution):
    """Choices and coordinates in one action: logits, then means, then log standard deviations."""

    def __init__(self, columns: Columns) -> None:
        self.choices, self.coordinates = list(columns.choices), list(columns.numbers)
        self.discrete = MultiCategorical([columns.sizes[c] for c in self.choices])
        self.gaussian = DiagGaussian(len(self.coordinates))
        self.numbers = self.gaussian.width
        self.size = self.discrete.size + self.gaussian.size

    def sample(self, params: Floats, rng: np.random.Generator, explore: bool) -> tuple[Floats, Floats]:
        cut = self.discrete.size
        chosen, logp = self.discrete.sample(params[:, :cut], rng, explore)
        drawn, more = self.gaussian.sample(params[:, cut:], rng, explore)
        actions = np.empty((len(params), len(self.choices) + self.numbers), np.float32)
        actions[:, self.choices], actions[:, self.coordinates] = chosen, drawn
        return actions, logp + more

    def logp(self, params: Tensor, actions: Tensor) -> Tensor:
        logits, rest = self._parts(params)
        return self.discrete.logp(logits, actions[..., self.choices]) + self.gaussian.logp(
            rest, actions[..., self.coordinates]
        )

    def entropy(self, params: Tensor) -> Tensor:
        logits, rest = self._parts(params)
        return self.discrete.entropy(logits) + self.gaussian.entropy(rest)

    def kl(self, old: Tensor, new: Tensor) -> Tensor:
        (logits, rest), (new_logits, new_rest) = self._parts(old), self._parts(new)
        return self.discrete.kl(logits, new_logits) + self.gaussian.kl(rest, new_rest)

    def probabilities(self, params: Floats) -> Floats | None:
        return self.discrete.probabilities(params[:, : self.discrete.size])

    def spread(self, params: Floats) -> tuple[Floats | None, Floats | None]:
        return self.gaussian.spread(params[:, self.discrete.size :])

    def measure(self, params: Tensor, actions: Tensor) -> Measured:
        """Choices and coordinates are independent of each other."""
        logits, rest = self._parts(params)
        choices = self.discrete.measure(logits, actions[..., self.choices])
        return _independent([choices, self.gaussian.measure(rest, actions[..., self.coordinates])])

    def _parts(self, params: Tensor) -> tuple[Tensor, Tensor]:
        return params[..., : self.discrete.size], params[..., self.discrete.size :]


def _independent(parts: Sequence[Measured]) -> Measured:
    """Of several draws that do not depend on each other; their numbers stand side by side."""

    def slopes(by_logp: Tensor, by_entropy: float) -> Tensor:
        return torch.cat([part.slopes(by_logp, by_entropy) for part in parts], dim=-1)

    logp = torch.stack([part.logp for part in parts]).sum(0)
    return Measured(logp, torch.stack([part.entropy for part in parts]).sum(0), slopes)


def log_softmax(logits: Tensor) -> Tensor:
    """Over the last axis; torch is 15 times faster over another one where there are few options."""
    if logits.shape[-1] < NARROW:
        return logits.transpose(-1, -2).log_softmax(-2).transpose(-1, -2)
    return logits.log_softmax(-1)


def race(weights: Floats, rng: np.random.Generator) -> Ints:
    """One index per row with chance proportional to its weight: the fastest of exponential clocks wins.

    float32 clocks are exactly 0 once in ten million draws; without the floor 0/0 would let an illegal action win.
    """
    clocks = rng.standard_exponential(weights.shape, np.float32)
    np.maximum(clocks, np.float32(1e-30), out=clocks)
    # Into the rows of the clocks, which are searched faster than columns; better weights keep their type.
    speeds = np.divide(weights, clocks, out=clocks if weights.dtype == np.float32 else None)
    return np.asarray(speeds.argmax(axis=1))


def distribution_for(space: AnySpace) -> Distribution:
    """The distribution that fits an action space (stored form)."""
    if isinstance(space, spaces.Discrete):
        return Categorical(int(space.n))
    columns = columns_of(space)
    if not columns.numbers:
        return MultiCategorical(columns.sizes)
    return Mixed(columns) if columns.choices else DiagGaussian(len(columns))
