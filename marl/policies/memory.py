"""What a recurrent policy remembers between two decisions of an agent.

One step maps inputs ``[N, F]`` and carry ``[N, M]`` to outputs ``[N, H]`` and a new carry. A sequence is the same step in a
loop, so acting and learning cannot differ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn


class Lstm(nn.Module):
    """Hochreiter and Schmidhuber (1997). The carry is ``h`` followed by ``c``."""

    GATES = 4

    def __init__(self, inputs: int, cells: int, generator: torch.Generator) -> None:
        super().__init__()
        self.size, self.carry_size = cells, 2 * cells
        self.w_in, self.w_back, self.b_in, self.b_back = _weights(inputs, cells, self.GATES, generator)

    def forward(self, x: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        h, c = carry[:, : self.size], carry[:, self.size :]
        h, c = torch.lstm_cell(x, (h, c), self.w_in, self.w_back, self.b_in, self.b_back)
        return h, torch.cat([h, c], dim=1)


class Gru(nn.Module):
    """Cho et al. (2014). The carry is the output itself."""

    GATES = 3

    def __init__(self, inputs: int, cells: int, generator: torch.Generator) -> None:
        super().__init__()
        self.size = self.carry_size = cells
        self.w_in, self.w_back, self.b_in, self.b_back = _weights(inputs, cells, self.GATES, generator)

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
