"""Activations of layers as operations of a graph, by the names of ``fcnet_activation``."""

from __future__ import annotations

import math
from collections.abc import Callable

from marl.play.onnx_export.graph import Graph


def activated(graph: Graph, name: str, x: str) -> str:
    """What an activation makes of a value."""
    return OPERATIONS[name](graph, x)


def _tanh(graph: Graph, x: str) -> str:
    return graph.add("Tanh", x)


def _relu(graph: Graph, x: str) -> str:
    return graph.add("Relu", x)


def _elu(graph: Graph, x: str) -> str:
    return graph.add("Elu", x, alpha=1.0)


def _silu(graph: Graph, x: str) -> str:
    """x * sigmoid(x)."""
    return graph.add("Mul", x, graph.add("Sigmoid", x))


def _gelu(graph: Graph, x: str) -> str:
    """x * Phi(x) = x * (1 + erf(x / sqrt(2))) / 2. An operation of this name came with opset 20 only."""
    erf = graph.add("Erf", graph.add("Mul", x, graph.constant(math.sqrt(0.5))))
    share = graph.add("Add", graph.constant(0.5), graph.add("Mul", erf, graph.constant(0.5)))
    return graph.add("Mul", x, share)


OPERATIONS: dict[str, Callable[[Graph, str], str]] = {
    "tanh": _tanh, "relu": _relu, "silu": _silu, "gelu": _gelu, "elu": _elu,
}  # fmt: skip
