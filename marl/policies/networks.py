"""Networks and what comes before them: from raw observations to features, from features to outputs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from marl.data.task import AgentType, AnySpace
from marl.policies.config import ModelConfig


class MLP(nn.Module):
    """Fully connected layers, written flat: half the call overhead of a ``Sequential`` at the size of a rollout step."""

    def __init__(
        self, sizes: Sequence[int], activations: Sequence[str], generator: torch.Generator, last_gain: float = 1.0
    ) -> None:
        """Sizes from inputs to outputs, and an activation per layer; the last layer may go without."""
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.activations = tuple(activations)
        for i, (wide, narrow) in enumerate(itertools.pairwise(sizes)):
            gain = last_gain if i == len(activations) else math.sqrt(2)
            weight = torch.empty(narrow, wide)
            nn.init.orthogonal_(weight, gain, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(narrow)))
        self._look_up()

    def _look_up(self) -> None:
        """Layers outside of nn.Module's slow attribute look-up."""
        functions = [torch.tanh_ if name == "tanh" else torch.relu_ for name in self.activations]
        self._pairs = list(zip(self.weights, self.biases, strict=True))
        self._hidden = [(w, b, f) for (w, b), f in zip(self._pairs, functions, strict=False)]
        self._last = self._pairs[len(functions) :]

    def share(self, donor: MLP, layers: int) -> None:
        """From now on the first ``layers`` layers are the donor's own tensors."""
        for i in range(layers):
            self.weights[i], self.biases[i] = donor.weights[i], donor.biases[i]
        self._look_up()

    def first(self, layers: int) -> tuple[nn.Parameter, ...]:
        """Parameters of the first ``layers`` layers."""
        return tuple(parameter for pair in self._pairs[:layers] for parameter in pair)

    @property
    def device(self) -> torch.device:
        device: torch.device = self._pairs[0][0].device
        return device

    def forward(self, x: Tensor) -> Tensor:
        for weight, bias, activation in self._hidden:
            x = activation(F.linear(x, weight, bias))
        for weight, bias in self._last:
            x = F.linear(x, weight, bias)
        return x


class Features(nn.Module):
    """Raw observations (and the seat, where the policy is shown it) as one float vector per row.

    Bytes, also those of an image within a Tuple or Dict, are divided by the upper bound of their space.
    """

    offsets: Tensor
    scale: Tensor

    def __init__(self, kind: AgentType, agent_id: bool, custom: nn.Module | None = None) -> None:
        super().__init__()
        self.seats = kind.size if agent_id else 0
        self.custom = custom  # the user's Preprocessor
        self.one_hot = one_hot_sizes(kind.observation_space)
        scale = byte_scale(kind.observation_space)
        self.scaled = bool((scale != 1.0).any())
        self.register_buffer("scale", torch.from_numpy(scale), persistent=False)
        width = sum(self.one_hot) if self.one_hot else kind.obs_width
        if custom is not None:
            width = int(custom.size)  # type: ignore[arg-type]
        self.size = width + self.seats
        offsets = np.cumsum([0, *self.one_hot[:-1]]) if self.one_hot else np.zeros(0, np.int64)
        self.register_buffer("offsets", torch.from_numpy(np.asarray(offsets, np.int64)), persistent=False)

    def forward(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        x: Tensor
        if self.custom is not None:
            x = self.custom(obs)
        elif self.one_hot:
            width = self.size - self.seats
            x = torch.zeros(len(obs), width, device=obs.device).scatter_(1, obs + self.offsets, 1.0)
        else:
            x = obs.float() * self.scale if self.scaled else obs.float()
        if self.seats:
            x = torch.cat([x, F.one_hot(agent_index, self.seats).float()], dim=1)
        return x


def one_hot_sizes(space: AnySpace) -> list[int]:
    """Sizes of the one-hot parts of a stored observation; empty where it is numbers already."""
    if isinstance(space, spaces.Discrete):
        return [int(space.n)]
    if isinstance(space, spaces.MultiDiscrete):
        return [int(n) for n in space.nvec.reshape(-1)]
    return []


def byte_scale(space: AnySpace) -> NDArray[np.float32]:
    """What each number of a stored observation is multiplied with: 1 / upper bound for bytes, 1 for everything else."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        parts = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        return np.concatenate([byte_scale(part) for part in parts])
    if isinstance(space, spaces.Box) and space.dtype == np.uint8:
        return np.asarray(1 / np.maximum(space.high.reshape(-1), 1).astype(np.float64), np.float32)
    return np.ones(spaces.flatdim(space), np.float32)


def build_mlp(inputs: int, outputs: int, model: ModelConfig, generator: torch.Generator, last_gain: float = 1.0) -> MLP:
    sizes = [inputs, *model.fcnet_hiddens, *model.post_fcnet_hiddens, outputs]
    activations = [model.fcnet_activation] * len(model.fcnet_hiddens)
    activations += [model.post_fcnet_activation] * len(model.post_fcnet_hiddens)
    return MLP(sizes, activations, generator, last_gain)


def seeded(*numbers: int) -> torch.Generator:
    """A torch generator that follows from these numbers."""
    seed = int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(seed)
