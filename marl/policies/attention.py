"""Memory by attention: the gated transformer of Parisotto et al. (2019, "Stabilizing Transformers for Reinforcement Learning",
GTrXL) with the relative positions of Dai et al. (2019, "Transformer-XL").

A unit looks at its own input and at its last ``attention_memory_inference`` inputs. These inputs are the carry::

    how many there are | inputs of unit 1, oldest first | of unit 2 | ... | older actions | older rewards

The newest action and reward stand behind the carry of every memory (``Body``); only where more than one is shown are the older
ones kept here. Places that hold nothing yet are masked, so what stands in them does not matter.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marl.policies.config import ModelConfig
from marl.policies.memory import Last, Memory, Parts


class Gate(nn.Module):
    """Around a sublayer instead of a sum: ``g(x, y) = (1 - z) * x + z * h``, a GRU whose memory is the way around.

    With a large ``bias`` z is near 0, and the unit begins as the identity.
    """

    def __init__(self, size: int, bias: float, generator: torch.Generator) -> None:
        super().__init__()
        self.size = size
        self.from_y = _weight(3 * size, size, generator)  # of r, z and h
        self.from_x = _weight(2 * size, size, generator)  # of r and z
        self.from_kept = _weight(size, size, generator)
        self.bias = nn.Parameter(torch.full((size,), bias))

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        r_y, z_y, h_y = F.linear(y, self.from_y).chunk(3, -1)
        r_x, z_x = F.linear(x, self.from_x).chunk(2, -1)
        r, z = torch.sigmoid(r_y + r_x), torch.sigmoid(z_y + z_x - self.bias)
        h = torch.tanh(h_y + F.linear(r * x, self.from_kept))
        return (1 - z) * x + z * h


class Unit(nn.Module):
    """Attention, then a small network at every position; both see normalised inputs and end in a gate."""

    places: Tensor

    def __init__(self, model: ModelConfig, generator: torch.Generator) -> None:
        super().__init__()
        size, hidden = model.attention_dim, model.attention_position_wise_mlp_dim
        self.heads, self.head_dim = model.attention_num_heads, model.attention_head_dim
        wide = self.heads * self.head_dim
        self.norm, self.norm_mlp = nn.LayerNorm(size), nn.LayerNorm(size)
        self.w_query, self.w_key, self.w_value, self.w_place = (_weight(wide, size, generator) for _ in range(4))
        self.w_out = _weight(size, wide, generator)
        # u and v of Dai et al.: what a head looks for, and how far back it looks, whatever it is shown.
        self.content_bias, self.place_bias = (nn.Parameter(torch.zeros(self.heads, self.head_dim)) for _ in range(2))
        self.w_first, self.b_first = _weight(hidden, size, generator), nn.Parameter(torch.zeros(hidden))
        self.w_second, self.b_second = _weight(size, hidden, generator), nn.Parameter(torch.zeros(size))
        bias = model.attention_init_gru_gate_bias
        self.gate, self.gate_mlp = Gate(size, bias, generator), Gate(size, bias, generator)
        self.register_buffer("places", sinusoids(model.attention_memory_inference + 1, size), persistent=False)

    def forward(self, stream: Tensor, steps: int, distance: Tensor, hidden: Tensor) -> Tensor:
        """``[C, M + T, size]``, what is remembered and then the inputs of ``T`` steps, to outputs ``[C, T, size]``.

        ``distance`` ``[T, M + T]`` tells how far back a step finds each of them, ``hidden`` ``[C, T, M + T]`` which it may not
        see.
        """
        x = stream[:, -steps:]
        x = self.gate(x, torch.relu(self.attend(self.norm(stream), steps, distance, hidden)))
        inner = torch.relu(F.linear(self.norm_mlp(x), self.w_first, self.b_first))
        y: Tensor = self.gate_mlp(x, torch.relu(F.linear(inner, self.w_second, self.b_second)))
        return y

    def attend(self, seen: Tensor, steps: int, distance: Tensor, hidden: Tensor) -> Tensor:
        """Score of input j for step i: ``(q_i + u) k_j + (q_i + v) W R(i - j)``, over the root of the head's width."""
        query = self._by_head(F.linear(seen[:, -steps:], self.w_query))
        key, value = self._by_head(F.linear(seen, self.w_key)), self._by_head(F.linear(seen, self.w_value))
        place = self._by_head(F.linear(self.places, self.w_place)[None])
        by_content = torch.matmul(query + self.content_bias[:, None], key.mT)
        by_distance = torch.matmul(query + self.place_bias[:, None], place.mT)  # [C, heads, T, M + 1]
        by_place = by_distance.gather(3, distance.expand(*by_distance.shape[:3], -1))
        scores = (by_content + by_place) / math.sqrt(self.head_dim)
        weights = scores.masked_fill(hidden[:, None], -math.inf).softmax(-1)
        return F.linear(torch.matmul(weights, value).transpose(1, 2).flatten(2), self.w_out)

    def _by_head(self, x: Tensor) -> Tensor:
        """``[C, J, heads * head_dim]`` to ``[C, heads, J, head_dim]``."""
        return x.view(*x.shape[:2], self.heads, self.head_dim).transpose(1, 2)


class Attention(Memory):
    """``attention_num_transformer_units`` units behind a layer that makes ``attention_dim`` numbers of the inputs."""

    SIZED_BY = (
        "attention_memory_inference", "attention_dim", "attention_num_transformer_units", "attention_num_heads",
        "attention_head_dim", "attention_position_wise_mlp_dim", "attention_use_n_prev_actions",
        "attention_use_n_prev_rewards",
    )  # fmt: skip

    def __init__(self, inputs: int, model: ModelConfig, last: Last, generator: torch.Generator) -> None:
        super().__init__()
        self.size, self.memory = model.attention_dim, model.attention_memory_inference
        self.at_most = min(model.attention_memory_training, self.memory)
        self.last, self.older = last, _older(model)
        self.carry_size = self.remembered(model, last)
        self.w_in = _weight(self.size, _seen(inputs, model, last), generator)
        self.b_in = nn.Parameter(torch.zeros(self.size))
        units = [Unit(model, generator) for _ in range(model.attention_num_transformer_units)]
        self.units = nn.ModuleList(units)

    @classmethod
    def make(cls, inputs: int, model: ModelConfig, last: Last, generator: torch.Generator) -> Self:
        return cls(inputs, model, last, generator)

    @classmethod
    def width(cls, model: ModelConfig) -> int:
        return model.attention_dim

    @classmethod
    def remembered(cls, model: ModelConfig, last: Last) -> int:
        streams = model.attention_num_transformer_units * model.attention_memory_inference * model.attention_dim
        older = _older(model)
        return 1 + streams + older.action * last.action + older.reward * last.reward

    @classmethod
    def weights(cls, inputs: int, model: ModelConfig, last: Last) -> int:
        size, hidden = model.attention_dim, model.attention_position_wise_mlp_dim
        wide = model.attention_num_heads * model.attention_head_dim
        heads = 5 * wide * size + 2 * wide
        layers = (size + 1) * hidden + (hidden + 1) * size
        gates = 2 * (6 * size * size + size)
        norms = 4 * size
        unit = heads + layers + gates + norms
        return (_seen(inputs, model, last) + 1) * size + model.attention_num_transformer_units * unit

    def __str__(self) -> str:
        return f"attention of {self.size} over {self.memory} inputs, {len(self.units)} x"

    def at_start(self, carry: Tensor) -> Tensor:
        """Older inputs than ``attention_memory_training`` are masked like places that hold nothing."""
        return torch.cat([carry[:, :1].clamp(max=self.at_most), carry[:, 1:]], dim=1)

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        out, after = self.look(x[:, None], carry)
        return out[:, 0], after

    def unroll(self, parts: Parts, carry: Tensor, lengths: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
        """All steps at once: each sees what a loop would show it, by the mask."""
        x = torch.cat(parts, dim=1)
        steps = int(lengths.max())
        rows = torch.arange(steps, device=x.device) < lengths[:, None]
        grid = x.new_zeros(len(lengths), steps, x.shape[1])
        grid[rows] = x
        # Short sequences are filled up at their ends, which nothing looks back at.
        return head(self.look(grid, carry)[0][rows])

    def look(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """``T`` steps ``[C, T, inputs]`` to outputs ``[C, T, size]`` and the carry after the last one."""
        streams = len(self.units) * self.memory * self.size
        # A carry may come from outside (``state=``): whatever its count is, a step sees itself.
        count = carry[:, :1].clamp(0, self.memory)
        remembered, older = carry[:, 1 : 1 + streams], carry[:, 1 + streams :]
        x, older = self._with_older(x, older)
        x = F.linear(x, self.w_in, self.b_in)
        distance, hidden = self._view(x.shape[1], count)
        kept = []
        memories = remembered.reshape(len(x), len(self.units), self.memory, self.size).unbind(1)
        for unit, before in zip(self.units, memories, strict=True):
            stream = torch.cat([before, x], dim=1)
            kept.append(stream[:, -self.memory :].flatten(1))
            x = unit(stream, x.shape[1], distance, hidden)
        count = (count + x.shape[1]).clamp(max=self.memory)
        return x, torch.cat([count, *kept, older], dim=1)

    def _view(self, steps: int, count: Tensor) -> tuple[Tensor, Tensor]:
        """How far back ``[T, M + T]`` each step finds the inputs, and which it does not see ``[C, T, M + T]``."""
        at = torch.arange(self.memory + steps, device=count.device)
        distance = at[self.memory :, None] - at
        out_of_sight = (distance < 0) | (distance > self.memory)
        empty = at < self.memory - count
        return distance.clamp(0, self.memory), out_of_sight | empty[:, None]

    def _with_older(self, x: Tensor, older: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs with all actions and rewards that they are to show, and those that the next step calls older."""
        if not older.shape[1]:
            return x, older
        features, action, reward = torch.split(x, [x.shape[2] - sum(self.last), *self.last], 2)
        widths = [self.older.action * self.last.action, self.older.reward * self.last.reward]
        actions, rewards = torch.split(older, widths, 1)
        action, actions = _window(action, actions, self.older.action)
        reward, rewards = _window(reward, rewards, self.older.reward)
        return torch.cat([features, action, reward], dim=2), torch.cat([actions, rewards], dim=1)


def _window(newest: Tensor, older: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Each of ``[C, T, n]`` behind the ``count`` before it, ``[C, T, (count + 1) * n]``, and the last ``count`` of all."""
    if not count:
        return newest, older
    line = torch.cat([older.reshape(len(older), count, newest.shape[2]), newest], dim=1)
    shown = line.unfold(1, count + 1, 1).transpose(2, 3).flatten(2)
    return shown, line[:, -count:].flatten(1)


def _older(model: ModelConfig) -> Last:
    """How many actions and rewards are shown beside the newest ones."""
    return Last(max(0, model.attention_use_n_prev_actions - 1), max(0, model.attention_use_n_prev_rewards - 1))


def _seen(inputs: int, model: ModelConfig, last: Last) -> int:
    """Numbers that the first layer sees."""
    older = _older(model)
    return inputs + older.action * last.action + older.reward * last.reward


def _weight(outputs: int, inputs: int, generator: torch.Generator) -> nn.Parameter:
    weight = torch.empty(outputs, inputs)
    nn.init.xavier_uniform_(weight, generator=generator)
    return nn.Parameter(weight)


def sinusoids(distances: int, size: int) -> Tensor:
    """``R`` ``[distances, size]`` of Vaswani et al. (2017): sines, then cosines, of frequencies from 1 to 1 / 10,000."""
    frequency = 10_000 ** (-torch.arange(0, size, 2) / size)
    angle = torch.arange(distances)[:, None] * frequency
    return torch.cat([angle.sin(), angle.cos()], dim=1)[:, :size]
