"""Running mean and deviation of observations (Welford's sums, merged batch by batch).

They are buffers of the policy: workers read them with the weights, only the learner moves them, a checkpoint holds them.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

LIMIT = 10.0  # deviations beyond which a filtered number is cut


class MeanStdFilter(nn.Module):
    """``(x - mean) / std``, cut to +-10; as it came before anything was observed."""

    count: Tensor
    mean: Tensor
    squares: Tensor

    def __init__(self, width: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(width, dtype=torch.float64))
        # The sum of squared distances from the mean.
        self.register_buffer("squares", torch.zeros(width, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        if not bool(self.count > 1):
            return x
        std = (self.squares / self.count).sqrt().clamp(min=1e-4)
        return ((x - self.mean.float()) / std.float()).clamp(-LIMIT, LIMIT)

    @torch.no_grad()
    def observe(self, x: Tensor) -> None:
        """Take more rows ``[N, width]`` into account."""
        if not len(x):
            return
        rows = x.double()
        count, mean = len(rows), rows.mean(0)
        total = self.count + count
        moved = mean - self.mean
        self.squares += (rows - mean).square().sum(0) + moved.square() * self.count * count / total
        self.mean += moved * count / total
        self.count += count
