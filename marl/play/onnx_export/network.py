"""The middle: everything that ``Body`` does between the row of floats and its outputs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from marl.data.task import Array
from marl.play.onnx_export.activations import activated
from marl.play.onnx_export.attention import attention
from marl.play.onnx_export.features import observation, seat
from marl.play.onnx_export.graph import Graph
from marl.policies.attention import Attention
from marl.policies.filters import LIMIT, MeanStdFilter
from marl.policies.memory import Gru, Lstm, Memory
from marl.policies.mlp import MLP
from marl.policies.networks import Body
from marl.policies.vision import COLOURS, ConvEncoder


@dataclass(frozen=True)
class Outputs:
    """What a network gives: ``out`` ``[N, outputs]`` and, where it remembers, its new memory ``[N, memory_size]``."""

    out: str
    memory: str | None = None


def array(tensor: Tensor) -> Array:
    found: Array = tensor.detach().cpu().numpy()
    return found


def body(graph: Graph, network: Body) -> Outputs:
    """The whole network of a policy, its inputs included."""
    x = _encoded(graph, network)
    if isinstance(network.network, MLP):  # a recurrent network may have no layers before its memory
        x = _layers(graph, network.network, x)
    if network.memory is None:
        return Outputs(x)
    assert network.head is not None
    return _remembering(graph, network, network.memory, network.head, x)


def _encoded(graph: Graph, network: Body) -> str:
    seats = network.features.seats
    x = observation(graph, network.kind)
    if network.filter is not None:
        x = _filtered(graph, network.filter, x)
    if network.vision is not None:
        x = _seen(graph, network.vision, x)
    # Neither filter nor vision net sees which agent it is.
    if seats:
        x = graph.join([x, seat(graph, seats)])
    return x


def _layers(graph: Graph, layers: MLP, x: str) -> str:
    """Fully connected layers; the last one may go without an activation."""
    pairs = list(zip(layers.weights, layers.biases, strict=True))
    for i, (weight, bias) in enumerate(pairs):
        x = _linear(graph, x, weight, bias)
        if i < len(layers.activations):
            x = activated(graph, layers.activations[i], x)
    return x


def _linear(graph: Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    constants = graph.constant(array(weight)), graph.constant(array(bias))
    return graph.add("Gemm", x, *constants, transB=1)  # torch keeps weights as [outputs, inputs]


def _filtered(graph: Graph, stats: MeanStdFilter, x: str) -> str:
    """``(x - mean) / std``, cut; as it came where nothing was observed."""
    if not bool(stats.count > 1):
        return x
    std = (stats.squares / stats.count).sqrt().clamp(min=1e-4)
    centred = graph.add("Sub", x, graph.constant(array(stats.mean)))
    scaled = graph.add("Div", centred, graph.constant(array(std)))
    return graph.between(scaled, np.array(-LIMIT, np.float32), np.array(LIMIT, np.float32))


# -- memory ------------------------------------------------------------------------------------------------------------


def _remembering(graph: Graph, network: Body, memory: Memory, head: MLP, x: str) -> Outputs:
    size = network.memory_size
    carry = graph.input("carry", np.float32, (network.carry_size,), "carry_out of the call before; zeros at the start")
    if network.carry_size > size:  # the last action and reward stand behind the memory
        x = graph.join([x, graph.pick(carry, range(size, network.carry_size))])
    before = graph.pick(carry, range(size))
    shown, after = MEMORIES[type(memory)](graph, memory, x, before)
    return Outputs(_layers(graph, head, shown), after)


def _lstm(graph: Graph, cell: Lstm, x: str, carry: str) -> tuple[str, str]:
    """``h`` and the new carry, ``h`` followed by ``c``; gates are input, forget, cell, output."""
    n = cell.size
    h, c = graph.pick(carry, range(n)), graph.pick(carry, range(n, 2 * n))
    from_x, from_h = _linear(graph, x, cell.w_in, cell.b_in), _linear(graph, h, cell.w_back, cell.b_back)
    i, f, g, o = _gates(graph, graph.add("Add", from_x, from_h), n, 4)
    kept = graph.add("Mul", graph.add("Sigmoid", f), c)
    added = graph.add("Mul", graph.add("Sigmoid", i), graph.add("Tanh", g))
    c = graph.add("Add", kept, added)
    h = graph.add("Mul", graph.add("Sigmoid", o), graph.add("Tanh", c))
    return h, graph.join([h, c])


def _gru(graph: Graph, cell: Gru, x: str, h: str) -> tuple[str, str]:
    """The new ``h``, which is the new carry as well; gates are reset, update, new."""
    n = cell.size
    r_x, z_x, n_x = _gates(graph, _linear(graph, x, cell.w_in, cell.b_in), n, 3)
    r_h, z_h, n_h = _gates(graph, _linear(graph, h, cell.w_back, cell.b_back), n, 3)
    reset = graph.add("Sigmoid", graph.add("Add", r_x, r_h))
    update = graph.add("Sigmoid", graph.add("Add", z_x, z_h))
    new = graph.add("Tanh", graph.add("Add", n_x, graph.add("Mul", reset, n_h)))
    # (1 - update) * new + update * h
    moved = graph.add("Add", new, graph.add("Mul", update, graph.add("Sub", h, new)))
    return moved, moved


def _gates(graph: Graph, value: str, size: int, gates: int) -> list[str]:
    """The columns of each gate, side by side as torch keeps them."""
    found = []
    for gate in range(gates):
        first = gate * size
        found.append(graph.pick(value, range(first, first + size)))
    return found


MEMORIES: dict[type[Memory], Callable[[Graph, Any, str, str], tuple[str, str]]] = {
    Lstm: _lstm, Gru: _gru, Attention: attention,
}  # fmt: skip
"""Inputs and carry to what is shown to the layers behind the memory, and the new carry."""


# -- images ------------------------------------------------------------------------------------------------------------


def _seen(graph: Graph, vision: ConvEncoder, pixels: str) -> str:
    """Layers of convolutions, and what they give as one row."""
    x = _prepared(graph, vision, pixels)
    layers = list(zip(vision.weights, vision.biases, vision.filters, strict=True))
    for i, (weight, bias, (_, _, stride)) in enumerate(layers):
        pads = [0, 0, 0, 0]
        if i < vision.padded:
            kernel = weight.shape[2], weight.shape[3]
            pads = _padding(vision.sides[i], kernel, stride)
        constants = graph.constant(array(weight)), graph.constant(array(bias))
        x = graph.add("Conv", x, *constants, strides=[stride, stride], pads=pads)
        x = activated(graph, vision.activation, x)
    return graph.reshape(x, (vision.size,))


def _prepared(graph: Graph, vision: ConvEncoder, pixels: str) -> str:
    """Images ``[N, channels, height, width]`` as the first layer sees them."""
    height, width, _ = vision.shape
    x = graph.reshape(pixels, vision.shape)
    x = graph.add("Transpose", x, perm=[0, 3, 1, 2])
    if vision.frames:
        # Channels are red, green and blue of one frame after the other.
        x = graph.reshape(x, (vision.frames, COLOURS, height, width))
        x = graph.add("ReduceMean", x, axes=[2], keepdims=0)
    if vision.dim is not None and (vision.dim, vision.dim) != (height, width):
        x = _resized(graph, x, (height, width), vision.dim)
    if vision.zero_mean:
        doubled = graph.add("Mul", x, graph.constant(2.0))
        x = graph.add("Sub", doubled, graph.constant(1.0))
    return x


def _resized(graph: Graph, x: str, sides: tuple[int, int], dim: int) -> str:
    """Resizing is linear in the rows and in the columns, so it is a product with a matrix on either side."""
    # Operators of this name differ between runtimes in how they average; matrices cannot.
    height, width = sides
    mode = "area" if dim <= min(sides) else "bilinear"
    rows, columns = _resizing(height, dim, mode), _resizing(width, dim, mode)
    narrow = graph.add("MatMul", x, graph.constant(columns.T))
    return graph.add("MatMul", graph.constant(rows), narrow)


def _resizing(side: int, dim: int, mode: str) -> Array:
    """``[dim, side]``: what becomes of each single pixel of a line."""
    lines = torch.eye(side).reshape(1, side, side, 1)
    resized = F.interpolate(lines, (dim, 1), mode=mode)
    return array(resized[0, :, :, 0].T)


def _padding(sides: tuple[int, int], kernel: tuple[int, int], stride: int) -> list[int]:
    """Zeros above, left, below and right, so that ``ceil(side / stride)`` is left; the odd one below and right."""
    before, after = [], []
    for side, length in zip(sides, kernel, strict=True):
        covered = (math.ceil(side / stride) - 1) * stride + length
        missing = max(0, covered - side)
        before.append(missing // 2)
        after.append(missing - missing // 2)
    return before + after
