"""The last stage: choices and coordinates as the env takes them, one output per part of the action space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from marl.data.action_units import Units
from marl.data.actions import Columns, columns_of
from marl.data.task import AnySpace, Array
from marl.play.onnx_export.features import inner_name, one_hot
from marl.play.onnx_export.graph import Graph


@dataclass(frozen=True)
class Stored:
    """Actions as policies speak of them: ``choices`` ``[N, choices]`` from 0, ``numbers`` ``[N, coordinates]``."""

    choices: str | None
    numbers: str | None


def likeliest(graph: Graph, logits: str, sizes: Sequence[int]) -> str:
    """The best option of each choice ``[N, len(sizes)]``."""
    chosen, first = [], 0
    for size in sizes:
        part = graph.pick(logits, range(first, first + size))
        first += size
        # By weights as the policy compares them: logits closer than these can tell are equal, and the first one wins.
        below = graph.add("Sub", part, graph.add("ReduceMax", part, axes=[1], keepdims=1))
        chosen.append(graph.add("ArgMax", graph.add("Exp", below), axis=1, keepdims=1))
    return graph.join(chosen)


def encoded(graph: Graph, columns: Columns, stored: Stored) -> list[str]:
    """An action as the next decision is shown it: choices one-hot, then coordinates."""
    parts = []
    if stored.choices is not None:
        parts.append(one_hot(graph, stored.choices, [columns.sizes[c] for c in columns.choices]))
    if stored.numbers is not None:
        parts.append(stored.numbers)
    return parts


def to_env(graph: Graph, space: AnySpace, stored: Stored, units: Units) -> None:
    """Hand the actions out: ``action``, or ``action.PART`` for each part of a Tuple or Dict."""
    columns = columns_of(space)
    numbers = stored.numbers
    if numbers is not None:
        numbers = _in_units(graph, columns, numbers, units)
    _hand_out(graph, space, "action", Stored(stored.choices, numbers), [0, 0])


def _in_units(graph: Graph, columns: Columns, numbers: str, units: Units) -> str:
    """Coordinates stretched from -1..1 to their bounds, or cut to them, as the run says."""
    places = list(columns.numbers)
    low, high = (bound[places] for bound in columns.bounds)
    if units.normalize_actions:
        return graph.between(_stretched(graph, numbers, columns.bounded[places], low, high), low, high)
    if units.clip_actions:
        return graph.between(numbers, low, high)
    return numbers


def _stretched(graph: Graph, numbers: str, bounded: Array, low: Array, high: Array) -> str:
    # Where there are no two bounds, zeros stand in for them: what is computed there is not used.
    lowest = np.where(bounded, low, 0).astype(np.float32)
    span = np.where(bounded, high, 0).astype(np.float32) - lowest
    inside = graph.between(numbers, np.array(-1, np.float32), np.array(1, np.float32))
    share = graph.add("Mul", graph.add("Add", inside, graph.constant(1.0)), graph.constant(0.5))
    stretched = graph.add("Add", graph.add("Mul", share, graph.constant(span)), graph.constant(lowest))
    return graph.add("Where", graph.constant(bounded, np.bool_), stretched, numbers)


def _hand_out(graph: Graph, space: AnySpace, name: str, stored: Stored, used: list[int]) -> None:
    """``used``: how many choices and coordinates belong to the parts before."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        named = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        for key, part in named:
            _hand_out(graph, part, f"{name}.{inner_name(key)}", stored, used)
        return
    is_box = isinstance(space, spaces.Box)
    source = stored.numbers if is_box else stored.choices
    assert source is not None
    width = len(columns_of(space))
    mine = graph.pick(source, range(used[is_box], used[is_box] + width))
    used[is_box] += width
    shape = space.shape or ()
    typed = _boxed(graph, space, mine) if isinstance(space, spaces.Box) else _counted(graph, space, mine)
    graph.output(name, graph.reshape(typed, shape), space.dtype or np.int64, shape, f"the greedy action, of {space}")


def _counted(graph: Graph, space: AnySpace, choices: str) -> str:
    """Choices counted from where the env counts them."""
    counted = graph.add("Add", choices, graph.constant(columns_of(space).starts, np.int64))
    return graph.cast(counted, space.dtype or np.int64)


def _boxed(graph: Graph, space: spaces.Box, numbers: str) -> str:
    """Whole numbers are rounded; a double keeps to bounds that float32 rounding would just miss."""
    if space.dtype == np.float32:
        return numbers
    low, high = (bound.reshape(-1).astype(np.float64) for bound in (space.low, space.high))
    doubles = graph.cast(numbers, np.float64)
    if np.issubdtype(space.dtype, np.integer):
        return graph.cast(graph.between(graph.add("Round", doubles), low, high), space.dtype)
    cut = graph.between(doubles, low, high)
    size = graph.add("Max", graph.add("Abs", cut), graph.constant(1.0, np.float64))
    allowed = graph.add("Mul", size, graph.constant(1e-6, np.float64))
    far = graph.add("Greater", graph.add("Abs", graph.add("Sub", doubles, cut)), allowed)
    return graph.cast(graph.add("Where", far, doubles, cut), space.dtype)
