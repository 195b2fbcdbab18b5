"""What a recurrent policy remembers between two decisions of an agent.

One step maps inputs ``[N, F]`` and carry ``[N, M]`` to outputs ``[N, H]`` and a new carry. A sequence is the same step in a
loop, so acting and learning cannot differ; a memory that knows a faster way (``unroll``) has to give the same.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar, NamedTuple, Self, TypeAlias

import torch
from torch import Tensor, nn

from marl.policies.config import ModelConfig

Step: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Inputs and carry of some rows to their outputs and new carry."""

Parts: TypeAlias = tuple[Tensor, Tensor]
"""Rows of inputs: the features, and what was last. They are joined late, so that gradients of features come in one piece."""


class Last(NamedTuple):
    """How many of a memory's inputs, which stand behind the features, tell the last action and the last reward."""

    action: int
    reward: int


class Memory(nn.Module, ABC):
    """``size`` outputs per row; ``carry_size`` numbers are remembered, all of them 0 at the beginning of a life."""

    SIZED_BY: ClassVar[tuple[str, ...]]  # keys of ``model:`` that make it large

    size: int
    carry_size: int

    @classmethod
    @abstractmethod
    def make(cls, inputs: int, model: ModelConfig, last: Last, generator: torch.Generator) -> Self:
        """As the keys of ``model:`` say. ``inputs`` counts the features and what was last."""

    @classmethod
    @abstractmethod
    def width(cls, model: ModelConfig) -> int:
        """The ``size`` of what ``make`` would build."""

    @classmethod
    @abstractmethod
    def remembered(cls, model: ModelConfig, last: Last) -> int:
        """Its ``carry_size``."""

    @classmethod
    @abstractmethod
    def weights(cls, inputs: int, model: ModelConfig, last: Last) -> int:
        """How many parameters it would have."""

    @abstractmethod
    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        """``[N, inputs]`` and ``[N, carry_size]`` to ``[N, size]`` and the new carry."""

    @abstractmethod
    def __str__(self) -> str:
        """In a few words, for the summary of a model."""

    def at_start(self, carry: Tensor) -> Tensor:
        """What of a recorded carry a training sequence begins with."""
        return carry

    def unroll(self, parts: Parts, carry: Tensor, lengths: Tensor, head: Callable[[Tensor], Tensor]) -> Tensor:
        """What ``head`` makes of the outputs, for rows ``[N]`` that stand one sequence after the other; ``carry`` ``[C, ...]``
        is that with which they begin."""

        def step(row: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
            out, after = self(row, before)
            return head(out), after

        return by_steps(step, parts, carry, lengths)


def by_steps(step: Step, parts: Parts, carry: Tensor, lengths: Tensor) -> Tensor:
    """Outputs for rows ``[N]`` that stand one sequence after the other: all sequences move on together, step by step."""
    # The longest sequences first: those that still go on at a step are then the first rows, a slice and no gather.
    order = torch.argsort(lengths, descending=True, stable=True)
    starts = (torch.cumsum(lengths, 0) - lengths)[order]
    carry = carry[order]
    (x, last), size = parts, carry.shape[1]
    outs, rows = [], []
    for number, count in enumerate(still_going(lengths[order])):
        here = starts[:count] + number
        # Memory and what was last are views of one tensor, as they are while acting: products of views round alike.
        whole = torch.cat([carry[:count], last[here]], dim=1)
        out, carry = step(torch.cat([x[here], whole[:, size:]], dim=1), whole[:, :size])
        outs.append(out)
        rows.append(here)
    return torch.cat(outs)[torch.argsort(torch.cat(rows))]


def still_going(lengths: Tensor) -> list[int]:
    """How many sequences have a row at each step; ``lengths`` are sorted downwards."""
    if not len(lengths):
        return []
    steps = torch.arange(int(lengths[0]), device=lengths.device)
    going: list[int] = (lengths[None] > steps[:, None]).sum(1).tolist()
    return going


class Cells(Memory):
    """``lstm_cell_size`` cells behind gates; ``VECTORS`` of that many numbers are carried on."""

    SIZED_BY = ("lstm_cell_size",)
    GATES: ClassVar[int]
    VECTORS: ClassVar[int]

    def __init__(self, inputs: int, cells: int, generator: torch.Generator) -> None:
        super().__init__()
        self.size, self.carry_size = cells, self.VECTORS * cells
        self.w_in, self.w_back, self.b_in, self.b_back = _weights(inputs, cells, self.GATES, generator)

    @classmethod
    def make(cls, inputs: int, model: ModelConfig, last: Last, generator: torch.Generator) -> Self:
        del last  # part of the inputs, like all others
        return cls(inputs, model.lstm_cell_size, generator)

    @classmethod
    def width(cls, model: ModelConfig) -> int:
        return model.lstm_cell_size

    @classmethod
    def remembered(cls, model: ModelConfig, last: Last) -> int:
        del last
        return cls.VECTORS * model.lstm_cell_size

    @classmethod
    def weights(cls, inputs: int, model: ModelConfig, last: Last) -> int:
        del last
        return cls.GATES * model.lstm_cell_size * (inputs + model.lstm_cell_size + 2)

    def __str__(self) -> str:
        return f"{type(self).__name__.upper()} of {self.size}"


class Lstm(Cells):
    """Hochreiter and Schmidhuber (1997). The carry is ``h`` followed by ``c``."""

    GATES = 4
    VECTORS = 2

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        h, c = carry[:, : self.size], carry[:, self.size :]
        h, c = torch.lstm_cell(x, (h, c), self.w_in, self.w_back, self.b_in, self.b_back)
        return h, torch.cat([h, c], dim=1)


class Gru(Cells):
    """Cho et al. (2014). The carry is the output itself."""

    GATES = 3
    VECTORS = 1

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.gru_cell(x, carry, self.w_in, self.w_back, self.b_in, self.b_back)
        return h, h


def _weights(
    inputs: int, cells: int, gates: int, generator: torch.Generator
) -> tuple[nn.Parameter, nn.Parameter, nn.Parameter, nn.Parameter]:
    """Uniform in ``+- 1 / sqrt(cells)`` towards the gates, orthogonal from step to step, no bias at first."""
    w_in, w_back = torch.empty(gates * cells, inputs), torch.empty(gates * cells, cells)
    nn.init.uniform_(w_in, -1 / math.sqrt(cells), 1 / math.sqrt(cells), generator=generator)
    for gate in range(gates):
        nn.init.orthogonal_(w_back[gate * cells : (gate + 1) * cells], generator=generator)
    bias, back = torch.zeros(gates * cells), torch.zeros(gates * cells)
    if gates == Lstm.GATES:
        bias[cells : 2 * cells] = 1.0  # the forget gate begins open: what was seen is kept
    return nn.Parameter(w_in), nn.Parameter(w_back), nn.Parameter(bias), nn.Parameter(back)
