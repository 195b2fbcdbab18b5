"""The last stage: choices and coordinates as the env takes them, one output per part of the action space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium import spaces

from marl.data.action_units import Units
from marl.data.actions import Columns, columns_of
from marl.data.space_batches import dtype_of, named_parts, shape_of
from marl.data.task import AnySpace, Array
from marl.play.onnx_export.features import inner_name, one_hot
from marl.play.onnx_export.graph import Graph


@dataclass(frozen=True)
class Stored:
    """Actions as policies speak of them: ``choices`` ``[N, choices]`` from 0, ``numbers`` ``[N, coordinates]``."""

    choices: str | None
    numbers: str | None

    @property
    def is_drawn(self) -> bool:
        """Whether there is no greedy action, so that whoever plays draws one."""
        return self.choices is None and self.numbers is None


def choice_sizes(columns: Columns) -> list[int]:
    """How many options each choice has."""
    return [columns.sizes[column] for column in columns.choices]


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
        sizes = choice_sizes(columns)
        parts.append(one_hot(graph, stored.choices, sizes))
    if stored.numbers is not None:
        parts.append(stored.numbers)
    return parts


def to_env(graph: Graph, space: AnySpace, stored: Stored, units: Units) -> None:
    """Hand the actions out: ``action``, or ``action.PART`` for each part of a Tuple or Dict."""
    columns = columns_of(space)
    numbers = stored.numbers
    if numbers is not None:
        numbers = _in_units(graph, columns, numbers, units)
    _hand_out(graph, space, "action", Stored(stored.choices, numbers), Used())


def _in_units(graph: Graph, columns: Columns, numbers: str, units: Units) -> str:
    """Coordinates stretched from -1..1 to their bounds, or cut to them, as the run says."""
    places = list(columns.numbers)
    lowest, highest = columns.bounds
    low, high = lowest[places], highest[places]
    if units.normalize_actions:
        stretched = _stretched(graph, numbers, columns.bounded[places], low, high)
        return graph.between(stretched, low, high)  # a coordinate may have one bound alone
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


def _hand_out(graph: Graph, space: AnySpace, name: str, stored: Stored, used: Used) -> None:
    """One part after the other, each with its columns."""
    if isinstance(space, spaces.Tuple | spaces.Dict):
        for key, part in named_parts(space):
            _hand_out(graph, part, f"{name}.{inner_name(key)}", stored, used)
        return
    if isinstance(space, spaces.Box):
        typed = _boxed(graph, space, used.of_numbers(graph, stored, space))
    else:
        typed = _counted(graph, space, used.of_choices(graph, stored, space))
    shape = shape_of(space)
    meaning = f"the greedy action, of a {type(space).__name__}"
    graph.output(name, graph.reshape(typed, shape), dtype_of(space), shape, meaning)


@dataclass
class Used:
    """How many choices and coordinates belong to the parts before: the next part has those that follow."""

    choices: int = 0
    numbers: int = 0

    def of_choices(self, graph: Graph, stored: Stored, space: AnySpace) -> str:
        first, width = self.choices, len(columns_of(space))
        self.choices += width
        assert stored.choices is not None
        return graph.pick(stored.choices, range(first, first + width))

    def of_numbers(self, graph: Graph, stored: Stored, space: AnySpace) -> str:
        first, width = self.numbers, len(columns_of(space))
        self.numbers += width
        assert stored.numbers is not None
        return graph.pick(stored.numbers, range(first, first + width))


def _counted(graph: Graph, space: AnySpace, choices: str) -> str:
    """Choices counted from where the env counts them."""
    starts = columns_of(space).starts
    counted = graph.add("Add", choices, graph.constant(starts, np.int64))
    return graph.cast(counted, dtype_of(space))


def _boxed(graph: Graph, space: spaces.Box, numbers: str) -> str:
    """Whole numbers are rounded; a double keeps to bounds that float32 rounding would just miss."""
    if space.dtype == np.float32:
        return numbers
    low, high = space.low.reshape(-1).astype(np.float64), space.high.reshape(-1).astype(np.float64)
    doubles = graph.cast(numbers, np.float64)
    if np.issubdtype(space.dtype, np.integer):
        return graph.cast(graph.between(graph.add("Round", doubles), low, high), space.dtype)
    cut = graph.between(doubles, low, high)
    size = graph.add("Max", graph.add("Abs", cut), graph.constant(1.0, np.float64))
    allowed = graph.add("Mul", size, graph.constant(1e-6, np.float64))
    far = graph.add("Greater", graph.add("Abs", graph.add("Sub", doubles, cut)), allowed)
    return graph.cast(graph.add("Where", far, doubles, cut), space.dtype)
