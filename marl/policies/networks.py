"""The network of a policy, stage by stage: stored observation -> features -> filter -> vision net or not -> fully
connected layers -> memory or not -> outputs. ``Body`` joins them; each stage can be replaced by keys of ``model:``.

The carry of a recurrent policy is ``memory | last action | last reward``; the last two only where they are asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from marl.data.actions import Columns
from marl.data.batch import SampleBatch
from marl.data.plain_rows import PlainRows, as_rows
from marl.data.task import AgentType, AnySpace, Array
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.custom import Model, custom_model, custom_preprocessor
from marl.policies.filters import MeanStdFilter
from marl.policies.memories import last_seen, memory_of
from marl.policies.memory import Memory, by_steps
from marl.policies.mlp import MLP, Tape
from marl.policies.size import parameter_table
from marl.policies.vision import ConvEncoder, image_encoder


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
        # Equal ones read equal rows alike, whatever their agents are called.
        self.meaning = (tuple(self.one_hot), scale.tobytes() if self.scaled else b"", self.seats)

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
            x = torch.cat([x, one_hot(agent_index, self.seats)], dim=1)
        return x


def one_hot(index: Tensor, size: int) -> Tensor:
    """``[N]`` to floats ``[N, size]``; ``F.one_hot`` looks through the index twice before it begins."""
    return torch.zeros(len(index), size, device=index.device).scatter_(1, index.unsqueeze(1), 1.0)


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
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8:
        return np.ones(spaces.flatdim(space), np.float32)
    highest = np.maximum(space.high.reshape(-1), 1)  # 0 where all that is ever shown is 0
    return np.asarray(1 / highest.astype(np.float64), np.float32)


def build_mlp(inputs: int, outputs: int, model: ModelConfig, generator: torch.Generator, last_gain: float = 1.0) -> MLP:
    sizes = [inputs, *model.fcnet_hiddens, *model.post_fcnet_hiddens, outputs]
    activations = [model.fcnet_activation] * len(model.fcnet_hiddens)
    activations += [model.post_fcnet_activation] * len(model.post_fcnet_hiddens)
    return MLP(sizes, activations, generator, last_gain)


def seeded(*numbers: int) -> torch.Generator:
    """A torch generator that follows from these numbers."""
    seed = int(np.random.SeedSequence(list(numbers)).generate_state(1, np.uint64)[0] >> np.uint64(1))
    return torch.Generator().manual_seed(seed)


@dataclass
class Sequences:
    """Rows of decisions in the order of sequences: ``lengths`` ``[C]`` of them, and the carry ``[C, carry_size]`` with which
    each began. ``actions`` and ``rewards`` ``[N]`` are what a decision did and what it was paid until the next one."""

    lengths: Tensor
    carry: Tensor
    actions: Tensor
    rewards: Tensor


class Body(nn.Module):
    """``outputs`` numbers per row of raw observations. Without ``memory`` (critics, which look at one moment) a recurrent or
    custom model is replaced by the fully connected layers."""

    def __init__(
        self, kind: AgentType, model: ModelConfig, outputs: int, generator: torch.Generator, *, agent_id: bool = False,
        last_gain: float = 1.0, memory: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.kind, self.config, self.outputs = kind, model, outputs
        inputs = self._build_encoder(agent_id, generator)
        self.network: MLP | Model | nn.Identity
        self.memory: Memory | None = None
        self.head: MLP | None = None
        self.memory_size, self.prev_action, self.prev_reward = 0, 0, 0
        if memory and model.custom_model is not None:
            self._build_custom(inputs, generator)
        elif memory and model.recurrent:
            self._build_recurrent(inputs, generator, last_gain)
        else:
            self.network = build_mlp(inputs, outputs, model, generator, last_gain)
        self.carry_size = self.memory_size + self.prev_action + self.prev_reward
        self._anchor = tuple(self.parameters())[:1]
        self.plain = self._only_layers()

    def _build_encoder(self, agent_id: bool, generator: torch.Generator) -> int:
        """Everything before the fully connected layers; returns how many numbers these see."""
        kind, model = self.kind, self.config
        self.features = Features(kind, agent_id, custom_preprocessor(kind, model))
        seats = self.features.seats
        self.filter: MeanStdFilter | None = None
        if model.observation_filter == "MeanStdFilter":
            self.filter = MeanStdFilter(self.features.size - seats)
        self.vision: ConvEncoder | None = None
        if model.custom_preprocessor is None:  # what a preprocessor gives is no image any more
            self.vision = image_encoder(kind.observation_space, model, generator)
        if self.vision is None:
            return self.features.size
        return self.vision.size + seats

    def _build_custom(self, inputs: int, generator: torch.Generator) -> None:
        inputs += self._look_back()
        self.network = custom_model(self.config, inputs, self.outputs, generator)
        self.memory_size = int(self.network.carry_size)
        if self.memory_size:
            return
        if self.prev_action or self.prev_reward:
            raise ConfigError(
                f"lstm_use_prev_action and lstm_use_prev_reward need a model with a memory, but custom model "
                f"{self.config.custom_model!r} has carry_size 0. Drop them, or give it a carry_size."
            )

    def _build_recurrent(self, inputs: int, generator: torch.Generator, last_gain: float) -> None:
        model = self.config
        sizes = [inputs, *model.fcnet_hiddens]
        layers = [model.fcnet_activation] * len(model.fcnet_hiddens)
        self.network = MLP(sizes, layers, generator) if model.fcnet_hiddens else nn.Identity()
        memory = memory_of(model)
        assert memory is not None
        self.memory = memory.make(sizes[-1] + self._look_back(), model, last_seen(model, self.kind), generator)
        self.memory_size = self.memory.carry_size
        after = [self.memory.size, *model.post_fcnet_hiddens, self.outputs]
        self.head = MLP(after, [model.post_fcnet_activation] * len(model.post_fcnet_hiddens), generator, last_gain)

    def _look_back(self) -> int:
        """Whether the memory sees the last action and reward; returns their width."""
        self.prev_action, self.prev_reward = last_seen(self.config, self.kind)
        return self.prev_action + self.prev_reward

    @property
    def device(self) -> torch.device:
        return self._anchor[0].device if self._anchor else torch.device("cpu")

    # -- one moment ------------------------------------------------------------------------------------------------

    def encode(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """Everything before the fully connected layers."""
        x: Tensor = self.features(obs, agent_index)
        if self.filter is None and self.vision is None:
            return x
        width = self.features.size - self.features.seats
        seen, seat = x[:, :width], x[:, width:]
        if self.filter is not None:
            seen = self.filter(seen)
        if self.vision is not None:
            seen = self.vision(seen)
        return torch.cat([seen, seat], dim=1)

    def forward(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        """``[N, outputs]`` of a model without memory."""
        x = self.encode(obs, agent_index)
        out: Tensor
        if isinstance(self.network, Model):
            out, _ = self.network(x, x[:, :0])
        else:
            out = self.network(x)
        return out

    # -- learning: the two verbs -----------------------------------------------------------------------------------

    def _only_layers(self) -> bool:
        """Whether nothing but fully connected layers has to be learned: their backward pass is written out (mlp.py)."""
        if not isinstance(self.network, MLP) or self.memory is not None or self.vision is not None:
            return False
        preprocessor = self.features.custom
        return preprocessor is None or next(preprocessor.parameters(), None) is None

    def run(self, obs: Tensor, agent_index: Tensor, sequences: Sequences | None = None) -> tuple[Tensor, Tape | Tensor]:
        """``[N, outputs]`` without gradient, and what ``pull`` needs: a tape, or the same outputs as autograd knows them."""
        if sequences is None and self.plain:
            assert isinstance(self.network, MLP)
            return self.network.run(self.encode(obs, agent_index).detach())
        with torch.enable_grad():
            out = self.forward(obs, agent_index) if sequences is None else self.unroll(obs, agent_index, sequences)
        return out.detach(), out

    def pull(self, tape: Tape | Tensor, slopes: Tensor) -> None:
        """Add d loss / d parameter to the gradients; ``slopes`` are d loss / d outputs."""
        if isinstance(tape, Tensor):
            tape.backward(slopes)  # type: ignore[no-untyped-call]
        else:
            assert isinstance(self.network, MLP)
            self.network.pull(tape, slopes)

    def step(self, obs: Tensor, agent_index: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """``[N, outputs]`` and the new memory ``[N, memory_size]``."""
        if not self.carry_size:
            return self.forward(obs, agent_index), carry
        return self._advance(self._before_memory(obs, agent_index), carry[:, self.memory_size :], self._memory(carry))

    def _memory(self, carry: Tensor) -> Tensor:
        return carry[:, : self.memory_size]

    def _before_memory(self, obs: Tensor, agent_index: Tensor) -> Tensor:
        x = self.encode(obs, agent_index)
        if isinstance(self.network, Model):
            return x
        out: Tensor = self.network(x)
        return out

    def _advance(self, x: Tensor, last: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        if last.shape[1]:
            x = torch.cat([x, last], dim=1)
        if self.memory is None:
            out, memory = self.network(x, memory)
            return out, memory
        assert self.head is not None
        out, memory = self.memory(x, memory)
        return self.head(out), memory

    def carried(self, memory: Tensor, actions: Tensor, rewards: Tensor) -> Tensor:
        """The carry for the next decision."""
        parts = [memory]
        if self.prev_action:
            parts.append(encode_actions(self.kind.columns, actions))
        if self.prev_reward:
            parts.append(rewards.float().view(-1, 1))
        return torch.cat(parts, dim=1) if len(parts) > 1 else memory

    # -- sequences -------------------------------------------------------------------------------------------------

    def at_start(self, carry: Tensor) -> Tensor:
        """What of a recorded carry a training sequence begins with."""
        if self.memory is None:
            return carry
        return torch.cat([self.memory.at_start(self._memory(carry)), carry[:, self.memory_size :]], dim=1)

    def unroll(self, obs: Tensor, agent_index: Tensor, sequences: Sequences) -> Tensor:
        """Outputs of the rows ``[N]``, which stand one sequence after the other."""
        x = self._before_memory(obs, agent_index)
        parts = x, self._last(sequences)
        before = self._memory(sequences.carry)
        if self.memory is None:
            return by_steps(self.network, parts, before, sequences.lengths)
        assert self.head is not None
        return self.memory.unroll(parts, self.memory.at_start(before), sequences.lengths, self.head)

    def _last(self, sequences: Sequences) -> Tensor:
        """For each row what the row before it did and was paid; for the first of a sequence what its carry tells."""
        nothing = sequences.carry.new_zeros(len(sequences.actions), 0)
        last = self.carried(nothing, sequences.actions, sequences.rewards).roll(1, dims=0)
        starts = torch.cumsum(sequences.lengths, 0) - sequences.lengths
        last[starts] = sequences.carry[:, self.memory_size :]
        return last

    # -- looking at it ---------------------------------------------------------------------------------------------

    def last_layer(self) -> tuple[nn.Parameter, ...]:
        """Parameters of the layer that gives the outputs; none of a custom model."""
        layers = self.head if self.head is not None else self.network
        return layers.last() if isinstance(layers, MLP) else ()

    def rows(self, given: PlainRows) -> SampleBatch:
        """A policy's batch, or ``{"obs": observations}``, with all columns that this network looks at."""
        return as_rows(given, self.kind, self.carry_size, told_apart=bool(self.features.seats))

    def from_batch(self, batch: PlainRows) -> Tensor:
        """Outputs for the rows of a policy's batch, each with the carry it was played with, or for ``{"obs": ...}``."""
        rows = self.rows(batch)
        obs, index, carry = (torch.from_numpy(rows[name]).to(self.device) for name in ("obs", "agent_index", "carry"))
        if not self.carry_size:
            return self.forward(obs, index)
        return self.step(obs, index, carry[:, : self.carry_size])[0]

    def observe(self, obs: Array, agent_index: Array) -> None:
        """Let the filter learn from raw observations; called by the learner alone."""
        if self.filter is None:
            return
        features = self.features(torch.from_numpy(obs).to(self.device), torch.from_numpy(agent_index).to(self.device))
        self.filter.observe(features[:, : self.features.size - self.features.seats])

    def _stages(self) -> str:
        """What happens to an observation, in one line."""
        model, stages = self.config, [f"{self.features.size} features"]
        stages += ["filter"] if self.filter is not None else []
        stages += [f"vision net of {self.vision.size}"] if self.vision is not None else []
        if isinstance(self.network, Model):
            stages.append(type(self.network).__name__)
        else:
            stages += _layers(model.fcnet_hiddens, model.fcnet_activation)
            if self.memory is not None:
                stages.append(str(self.memory))
            stages += _layers(model.post_fcnet_hiddens, model.post_fcnet_activation)
        text = " -> ".join([*stages, f"{self.outputs} outputs"])
        return f"{text}; remembers {self.carry_size} numbers" if self.carry_size else text

    def summary(self) -> str:
        """One line per tensor: name, shape, numbers; and their sum."""
        return "\n".join([self._stages(), *parameter_table(self)])


def _layers(sizes: list[int], activation: str) -> list[str]:
    return [f"{' x '.join(map(str, sizes))} {activation}"] if sizes else []


def action_width(columns: Columns) -> int:
    """Numbers that tell an action: one per option of every choice, one per coordinate."""
    return columns.options + len(columns.numbers)


def encode_actions(columns: Columns, actions: Tensor) -> Tensor:
    """Stored actions ``[N, ...]`` as floats ``[N, action_width]``: choices one-hot, then coordinates."""
    table = actions.reshape(len(actions), -1)
    if not columns.choices:
        return table.float()  # a Box: all columns are coordinates
    encoded = torch.zeros(len(table), action_width(columns), device=table.device)
    at = 0
    for c in columns.choices:
        encoded[:, at : at + columns.sizes[c]].scatter_(1, table[:, c : c + 1].long(), 1.0)
        at += columns.sizes[c]
    if columns.numbers:
        encoded[:, at:] = table[:, list(columns.numbers)]
    return encoded
