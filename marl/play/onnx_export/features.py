"""The first stage: each part of an observation is an input, and all of them become one row of floats, as ``Features`` does."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from marl.data.actions import columns_of
from marl.data.task import AgentType, AnySpace
from marl.errors import ConfigError
from marl.play.onnx_export.graph import Graph
from marl.policies.networks import byte_scale


def observation(graph: Graph, kind: AgentType) -> str:
    """Floats ``[N, width]``: choices one-hot, bytes divided by their upper bound, parts one after the other."""
    space = kind.observation_space
    row = graph.join(_floats(graph, space, "obs"))
    scale = byte_scale(space)
    # Choices at the top have fewer stored numbers than floats, and none of them is a byte.
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) or (scale == 1.0).all():
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
        named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        found: list[str] = []
        for key, part in named:
            found += _floats(graph, part, f"{name}.{inner_name(key)}")
        return found
    shape = space.shape or ()
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        given = graph.input(name, space.dtype or np.int64, shape, f"a choice of {space}")
        return [_choices(graph, given, space)]
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        given = graph.input(name, space.dtype or np.float32, shape, f"numbers of {space}")
        return [graph.reshape(graph.cast(given, np.float32), (int(np.prod(shape)),))]
    raise ConfigError(f"observations of {space} have no form in ONNX")


def _choices(graph: Graph, given: str, space: AnySpace) -> str:
    columns = columns_of(space)
    whole = graph.reshape(graph.cast(given, np.int64), (len(columns),))
    counted = graph.add("Sub", whole, graph.constant(columns.starts, np.int64))
    return one_hot(graph, counted, list(columns.sizes))


def inner_name(key: str | int) -> str:
    """A part's name within dotted names: dots of its own are written as %2E, so no two parts have one name."""
    return str(key).replace("%", "%25").replace(".", "%2E")
