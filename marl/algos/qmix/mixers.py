"""How the values of a team's members become the team's value. "No mixing" is a mixer as well."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class KeepApart(nn.Module):
    """A team of one: its value is the member's value."""

    def __init__(self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0) -> None:
        super().__init__()
        del state_size, embed, generator, hyper
        assert members == 1, "values are kept apart for one member at a time"

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """``[N, 1]`` to ``[N]``."""
        del state
        return values.squeeze(1)


class SumMixer(nn.Module):
    """Value decomposition (Sunehag et al., 2018): the sum."""

    def __init__(self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0) -> None:
        super().__init__()
        del members, state_size, embed, generator, hyper

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """``[N, n]`` to ``[N]``."""
        del state
        return values.sum(dim=1)


class MonotonicMixer(nn.Module):
    """QMIX (Rashid et al., 2018): a small network over the members' values whose weights the state decides.

    ``Q_tot = |w2(s)| . elu(|w1(s)| q + b1(s)) + v(s)``; ``hyper`` units stand between the state and w1 and w2, 0: none.
    """

    def __init__(self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0) -> None:
        super().__init__()
        self.members, self.embed = members, embed
        self.w1 = _hyper(state_size, hyper, members * embed, generator)
        self.b1 = _linear(state_size, embed, generator)
        self.w2 = _hyper(state_size, hyper, embed, generator)
        self.v_hidden = _linear(state_size, embed, generator)
        self.v = _linear(embed, 1, generator)

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """``[N, n]`` and ``[N, state_size]`` to ``[N]``."""
        # Monotonic mixing: dQ_tot/dQ_a >= 0 keeps each agent's own argmax part of the joint argmax.
        w1 = self.w1(state).abs().view(-1, self.members, self.embed)
        w2 = self.w2(state).abs()
        hidden = F.elu(torch.bmm(values.unsqueeze(1), w1).squeeze(1) + self.b1(state))
        offset = self.v(torch.relu(self.v_hidden(state))).squeeze(1)
        mixed: Tensor = (hidden * w2).sum(dim=1) + offset
        return mixed


MIXERS: dict[str, type[KeepApart] | type[SumMixer] | type[MonotonicMixer]] = {
    "none": KeepApart, "sum": SumMixer, "monotonic": MonotonicMixer,
}  # fmt: skip


def _hyper(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Module:
    """From the state to weights: one layer, or two with ``hidden`` units between them."""
    if not hidden:
        return _linear(inputs, outputs, generator)
    return nn.Sequential(_linear(inputs, hidden, generator), nn.ReLU(), _linear(hidden, outputs, generator))


def _linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    # The range that nn.Linear itself would draw from, but by our generator: two runs of one seed begin alike.
    layer = nn.Linear(inputs, outputs)
    bound = inputs**-0.5 if inputs else 0.0
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer
