"""Memory by attention as operations: one step of ``marl.policies.attention``."""

from __future__ import annotations

import math

import numpy as np
from torch import Tensor, nn

from marl.data.task import Array
from marl.play.onnx_export.graph import Graph
from marl.policies.attention import Attention, Gate, Unit

FAR = -1e9  # added to scores of places that hold nothing: softmax makes 0 of it


def attention(graph: Graph, memory: Attention, x: str, carry: str) -> tuple[str, str]:
    """``[N, inputs]`` and the carry to outputs ``[N, size]`` and the new carry."""
    size, length = memory.size, memory.memory
    streams = len(memory.units) * length * size
    count = graph.pick(carry, [0])
    x, older = _with_older(graph, memory, x, graph.pick(carry, range(1 + streams, memory.carry_size)))
    x = graph.add("Gemm", x, graph.constant(_array(memory.w_in)), graph.constant(_array(memory.b_in)), transB=1)
    empty = _empty(graph, memory, count)
    kept = []
    for number, unit in enumerate(memory.units):
        assert isinstance(unit, Unit)
        first = 1 + number * length * size
        before = graph.pick(carry, range(first, first + length * size))
        whole = graph.join([before, x])
        kept.append(graph.pick(whole, range(size, (length + 1) * size)))
        x = _unit(graph, unit, graph.reshape(whole, (length + 1, size)), x, empty)
    more = graph.add("Add", count, graph.constant(1.0))
    counted = graph.add("Min", more, graph.constant(np.array(length, np.float32)))
    return x, graph.join([counted, *kept, *older])


def _with_older(graph: Graph, memory: Attention, x: str, older: str) -> tuple[str, list[str]]:
    """Inputs with older actions and rewards before the newest ones, and what the next step calls older."""
    parts, kept = [], []
    inputs = memory.w_in.shape[1] - _numbers(memory)
    at = inputs - sum(memory.last)
    parts.append(graph.pick(x, range(at)))
    first = 0
    for width, count in zip(memory.last, memory.older, strict=True):
        newest = graph.pick(x, range(at, at + width))
        line = graph.join([graph.pick(older, range(first, first + count * width)), newest])
        parts.append(line)
        if count:
            kept.append(graph.pick(line, range(width, (count + 1) * width)))
        at, first = at + width, first + count * width
    return graph.join(parts), kept


def _numbers(memory: Attention) -> int:
    """Of older actions and rewards."""
    return memory.older.action * memory.last.action + memory.older.reward * memory.last.reward


def _empty(graph: Graph, memory: Attention, count: str) -> str:
    """What is added to scores ``[N, 1, M + 1]``: nothing, or so much that a place that holds nothing is not seen."""
    # Place j of M holds an input where it is one of the last ``count``; the step's own input stands behind them.
    first = graph.add("Sub", graph.constant(np.array(memory.memory, np.float32)), count)
    places = graph.constant(np.arange(memory.memory + 1))
    hidden = graph.cast(graph.add("Less", places, first), np.float32)
    return graph.reshape(graph.add("Mul", hidden, graph.constant(FAR)), (1, memory.memory + 1))


def _unit(graph: Graph, unit: Unit, stream: str, x: str, empty: str) -> str:
    attended = graph.add("Relu", _attend(graph, unit, _normal(graph, unit.norm, stream), empty))
    x = _gate(graph, unit.gate, x, attended)
    inner = _product(graph, _normal(graph, unit.norm_mlp, x), unit.w_first)
    inner = graph.add("Relu", graph.add("Add", inner, graph.constant(_array(unit.b_first))))
    outer = graph.add("Add", _product(graph, inner, unit.w_second), graph.constant(_array(unit.b_second)))
    return _gate(graph, unit.gate_mlp, x, graph.add("Relu", outer))


def _attend(graph: Graph, unit: Unit, seen: str, empty: str) -> str:
    """All heads, each with ``[N, 1, M + 1]`` scores of the places for the one step."""
    places, wide = len(unit.places), unit.head_dim
    own = graph.add("Gather", seen, graph.constant([places - 1], np.int64), axis=1)
    # The oldest input is the furthest, and the step itself has distance 0.
    by_place = _array(unit.places.flip(0) @ unit.w_place.T)
    heads = []
    for head in range(unit.heads):
        rows = slice(head * wide, (head + 1) * wide)
        query = _product(graph, own, unit.w_query[rows])
        key, value = _product(graph, seen, unit.w_key[rows]), _product(graph, seen, unit.w_value[rows])
        content = graph.add("Add", query, graph.constant(_array(unit.content_bias[head])))
        place = graph.add("Add", query, graph.constant(_array(unit.place_bias[head])))
        keys = graph.add("Transpose", key, perm=[0, 2, 1])
        scores = graph.add("Add", graph.add("MatMul", content, keys), _times(graph, place, by_place[:, rows].T))
        scaled = graph.add("Mul", scores, graph.constant(1 / math.sqrt(wide)))
        weights = graph.add("Softmax", graph.add("Add", scaled, empty), axis=2)
        heads.append(graph.reshape(graph.add("MatMul", weights, value), (wide,)))
    return _product(graph, graph.join(heads), unit.w_out)


def _gate(graph: Graph, gate: Gate, x: str, y: str) -> str:
    """``(1 - z) * x + z * h``."""
    n = gate.size
    by_y, by_x = _product(graph, y, gate.from_y), _product(graph, x, gate.from_x)
    r = graph.add("Sigmoid", graph.add("Add", graph.pick(by_y, range(n)), graph.pick(by_x, range(n))))
    z = graph.add("Add", graph.pick(by_y, range(n, 2 * n)), graph.pick(by_x, range(n, 2 * n)))
    z = graph.add("Sigmoid", graph.add("Sub", z, graph.constant(_array(gate.bias))))
    kept = _product(graph, graph.add("Mul", r, x), gate.from_kept)
    h = graph.add("Tanh", graph.add("Add", graph.pick(by_y, range(2 * n, 3 * n)), kept))
    # x + z * (h - x)
    return graph.add("Add", x, graph.add("Mul", z, graph.add("Sub", h, x)))


def _normal(graph: Graph, norm: nn.LayerNorm, x: str) -> str:
    scale, bias = graph.constant(_array(norm.weight)), graph.constant(_array(norm.bias))
    return graph.add("LayerNormalization", x, scale, bias, axis=-1, epsilon=norm.eps)


def _product(graph: Graph, x: str, weight: Tensor) -> str:
    """By a matrix ``[outputs, inputs]``, as torch keeps them."""
    return _times(graph, x, _array(weight).T)


def _times(graph: Graph, x: str, matrix: Array) -> str:
    return graph.add("MatMul", x, graph.constant(matrix))


def _array(tensor: Tensor) -> Array:
    found: Array = tensor.detach().cpu().numpy()
    return found
