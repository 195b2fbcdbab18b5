"""How large a policy's networks will be, known before they are built; and how large the built ones are."""

from __future__ import annotations

from itertools import pairwise

from gymnasium import spaces
from torch import nn

from marl.data.task import AgentType
from marl.errors import ResourceError
from marl.memory import free_memory, in_words
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.memories import carry_count, last_seen, memory_keys, memory_of
from marl.policies.value_table import TABLE

FLOAT = 4  # bytes


def parameter_count(spec: PolicySpec, kind: AgentType) -> int:
    """Weights of the layers ``fcnet_hiddens``, ``post_fcnet_hiddens`` and the memory between them, of one network.

    A layer from ``n`` to ``m`` numbers has ``(n + 1) * m``, twice as many if it is noisy; a memory knows its own count. Vision
    nets and custom models are not counted.
    """
    if spec.scripted is not None or spec.acts == TABLE or spec.model.custom_model is not None:
        return 0
    model = spec.model
    inputs = _inputs(kind)
    if spec.agent_id:
        inputs += kind.size
    before, after = [inputs, *model.fcnet_hiddens], list(model.post_fcnet_hiddens)
    outputs = kind.columns.options + 2 * len(kind.columns.numbers)
    memory = memory_of(model)
    beside = 2 if spec.options.get("noisy") else 1  # a deviation beside every weight
    if memory is None:
        return beside * _layer_weights([*before, *after, outputs])
    last = last_seen(model, kind)
    remembering = memory.weights(before[-1] + sum(last), model, last)
    layers = _layer_weights(before) + _layer_weights([memory.width(model), *after, outputs])
    return beside * layers + remembering


def _layer_weights(widths: list[int]) -> int:
    total = 0
    for before, after in pairwise(widths):
        total += (before + 1) * after
    return total


def _inputs(kind: AgentType) -> int:
    """Numbers that a network sees: choices as one-hot vectors; images are made small by a vision net first."""
    space = kind.observation_space
    if isinstance(space, spaces.Box) and len(space.shape) == 3:
        return 0
    return int(spaces.flatdim(space))


def check_size(spec: PolicySpec, kind: AgentType) -> None:
    """Refuse networks that do not fit into memory, before torch is asked for them."""
    needed, free = FLOAT * (parameter_count(spec, kind) + _moments(spec.model, kind)), free_memory()
    if needed > free:
        raise ResourceError(
            f"the network of a policy for {kind.agents[0]!r} would take {in_words(needed)} of memory, and {in_words(free)} "
            f"are free: its layers are {[*spec.model.fcnet_hiddens, *spec.model.post_fcnet_hiddens]}"
            f"{_memory_in_words(spec.model)}, for observations "
            f"{kind.observation_space}. Lower {' or '.join(keys_by_size(spec.model)[:2])}, or show the policy less."
        )


def _moments(model: ModelConfig, kind: AgentType) -> int:
    """Numbers of one decision that a memory takes: what it remembers, before and after. Attention has a table no larger."""
    return 2 * carry_count(model, kind)


def keys_by_size(model: ModelConfig) -> tuple[str, ...]:
    """Keys that make a network large, the largest numbers first."""
    widest = max([*model.fcnet_hiddens, *model.post_fcnet_hiddens], default=0)
    of_memory = memory_keys(model)
    larger = [key for key in of_memory if getattr(model, key) > widest]
    return (*larger, "fcnet_hiddens", *of_memory[len(larger) :])


def _memory_in_words(model: ModelConfig) -> str:
    memory = memory_of(model)
    if memory is None:
        return ""
    return f", its memory has {memory.width(model)} cells"


def parameter_table(network: nn.Module) -> list[str]:
    """One line per tensor of a built network: name, shape, numbers; and their sum."""
    names, shapes, counts = [], [], []
    for name, parameter in network.named_parameters():
        names.append(name)
        shapes.append("x".join(map(str, parameter.shape)) or "1")
        counts.append(parameter.numel())
    names, shapes, counts = [*names, "total"], [*shapes, ""], [*counts, sum(counts)]
    wide, narrow = max(map(len, names)), max(map(len, shapes))
    lines = []
    for name, shape, count in zip(names, shapes, counts, strict=True):
        lines.append(f"{name:<{wide}}  {shape:>{narrow}}  {count:>10,}")
    return lines
