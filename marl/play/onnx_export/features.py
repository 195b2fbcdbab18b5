"""The first stage: each part of an observation is an input, and all of them become one row of floats, as ``Features`` does."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.space_batches import dtype_of, named_parts, shape_of
from marl.data.task import AgentType, AnySpace
from marl.errors import ConfigError
from marl.play.onnx_export.graph import Graph
from marl.policies.networks import byte_scale


def observation(graph: Graph, kind: AgentType) -> str:
    """Floats ``[N, width]``: choices one-hot, bytes divided by their upper bound, parts one after the other."""
    space = kind.observation_space
    row = graph.join(_floats(graph, space, "obs"))
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return row  # no choice is a byte
    scale = byte_scale(space)
    if (scale == 1.0).all():
        return row
    return graph.add("Mul", row, graph.constant(scale))


def seat(graph: Graph, seats: int) -> str:
    """Which agent it is, one-hot ``[N, seats]``."""
    index = graph.input("agent_index", np.int64, (), f"which agent is played, 0..{seats - 1}, in the order of `agents`")
    return one_hot(graph, graph.reshape(index, (1,)), [seats])


def one_hot(graph: Graph, chosen: str, sizes: list[int]) -> str:
    """Choices ``[N, len(sizes)]`` that count from 0, as ``[N, sum(sizes)]`` zeros and ones."""
    # Each option asks its own column whether it is the one.
    column_of: list[int] = []
    option: list[int] = []
    for column, size in enumerate(sizes):
        column_of += [column] * size
        option += range(size)
    asked = graph.pick(chosen, column_of)
    return graph.cast(graph.add("Equal", asked, graph.constant(option, np.int64)), np.float32)


def _floats(graph: Graph, space: AnySpace, name: str) -> list[str]:
    """The parts of an observation ``[N, ...]``, in the order in which they are stored."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        found: list[str] = []
        for key, part in named_parts(space):
            found += _floats(graph, part, f"{name}.{inner_name(key)}")
        return found
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        return [_choices(graph, space, name)]
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return [_numbers(graph, space, name)]
    # Texts, graphs and sequences have no fixed number of numbers that an operation could read.
    raise ConfigError(f"observations of {space} have no form in ONNX")


def _numbers(graph: Graph, space: AnySpace, name: str) -> str:
    shape = shape_of(space)
    given = graph.input(name, dtype_of(space), shape, f"numbers of a {type(space).__name__}")
    # First to floats of 32 bits, which is how the package stores doubles as well.
    floats = graph.cast(given, np.float32)
    return graph.reshape(floats, (int(np.prod(shape)),))


def _choices(graph: Graph, space: AnySpace, name: str) -> str:
    columns = columns_of(space)
    meaning = f"choices of a {type(space).__name__}, as the env counts them"
    given = graph.input(name, dtype_of(space), shape_of(space), meaning)
    whole = graph.reshape(graph.cast(given, np.int64), (len(columns),))
    counted = graph.add("Sub", whole, graph.constant(columns.starts, np.int64))
    return one_hot(graph, counted, list(columns.sizes))


def inner_name(key: str | int) -> str:
    """A part's name within dotted names: dots of its own are written as %2E, so no two parts have one name."""
    return str(key).replace("%", "%25").replace(".", "%2E")
