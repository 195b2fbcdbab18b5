"""An ONNX graph that grows operation by operation. Values are known by their names; the first axis ``N`` is left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from numpy.typing import DTypeLike
from onnx import helper, numpy_helper

from marl.data.task import Array

OPSET = 17  # of 2022: every runtime of the last years reads it
IR_VERSION = 8  # the file format that came with it


@dataclass(frozen=True)
class Port:
    """An input or output of the graph, as ``policy.json`` tells it."""

    name: str
    dtype: str
    shape: tuple[str | int, ...]
    meaning: str

    def told(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype, "shape": list(self.shape), "meaning": self.meaning}


class Graph:
    """Operations in the order in which they are computed, and the arrays that they need."""

    def __init__(self) -> None:
        self.inputs: list[Port] = []
        self.outputs: list[Port] = []
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def input(self, name: str, dtype: DTypeLike, shape: Sequence[int], meaning: str) -> str:
        """A value that the user gives, ``[N, *shape]``."""
        self.inputs.append(Port(name, np.dtype(dtype).name, ("N", *shape), meaning))
        return name

    def output(self, name: str, value: str, dtype: DTypeLike, shape: Sequence[int], meaning: str) -> None:
        """Hand a value ``[N, *shape]`` to the user, by this name."""
        # By an operation of its own: a value that is an input, or an output already, cannot have a second name.
        self._nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(Port(name, np.dtype(dtype).name, ("N", *shape), meaning))

    def constant(self, array: Any, dtype: DTypeLike = np.float32) -> str:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(array, dtype, order="C"), name))
        return name

    def add(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """One more operation with one result, whose name is returned."""
        name = f"{operation.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    # -- what several stages need ----------------------------------------------------------------------------------

    def cast(self, value: str, dtype: DTypeLike) -> str:
        return self.add("Cast", value, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def pick(self, value: str, columns: Sequence[int]) -> str:
        """Some columns ``[N, len(columns)]`` of ``[N, width]``."""
        return self.add("Gather", value, self.constant(list(columns), np.int64), axis=1)

    def join(self, values: Sequence[str]) -> str:
        """Columns side by side."""
        if len(values) == 1:
            return values[0]
        return self.add("Concat", *values, axis=1)

    def reshape(self, value: str, shape: Sequence[int]) -> str:
        """``[N, ...]`` as ``[N, *shape]``; 0 keeps the first axis as long as it is, also where it is empty."""
        return self.add("Reshape", value, self.constant([0, *shape], np.int64))

    def repeat(self, row: Array, like: str) -> str:
        """One row for each of the rows of another value: ``[N, len(row)]``."""
        rows = self.add("Shape", like, start=0, end=1)
        shape = self.add("Concat", rows, self.constant([len(row)], np.int64), axis=0)
        return self.add("Expand", self.constant(row[None], row.dtype), shape)

    def between(self, value: str, low: Array, high: Array) -> str:
        """Cut to bounds per column; infinite ones cut nothing."""
        raised = self.add("Max", value, self.constant(low, low.dtype))
        return self.add("Min", raised, self.constant(high, high.dtype))

    # -- the file --------------------------------------------------------------------------------------------------

    def to_bytes(self, name: str, about: str) -> bytes:
        inputs, outputs = list(map(_info, self.inputs)), list(map(_info, self.outputs))
        graph = helper.make_graph(self._nodes, name, inputs, outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, producer_name="marl", doc_string=about, opset_imports=opsets)
        model.ir_version = IR_VERSION
        # Types and shapes are followed through the whole graph: a mistake here is found now, not by its users.
        onnx.checker.check_model(model, full_check=True)
        return bytes(model.SerializeToString(deterministic=True))


def _info(port: Port) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        port.name, helper.np_dtype_to_tensor_dtype(np.dtype(port.dtype)), list(port.shape), port.meaning
    )
