"""How the values of a team's members become the team's value. "No mixing" is a mixer as well.

Beside ``forward``, which autograd can follow, every mixer can do it in steps without autograd:

    weights = mixer.weights(state)           all that the state decides
    mixed = mixer.mix(values, weights)       the team's value
    mixed, tape = mixer.run(values, state)   both, with what the way back needs
    mixer.pull(tape, slopes)                 from d loss / d mixed: adds d loss / d parameter to each .grad, and returns
                                             d loss / d values. No gradient goes into the state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marl.policies.filters import MeanStdFilter
from marl.policies.mlp import ACTIVATIONS, gradient_of

_ELU = ACTIVATIONS["elu"]
SMALL = 0.1
"""How large layers begin that add to values, compared to the others."""

Tape: TypeAlias = tuple[Any, ...]
"""What ``pull`` needs of a ``run``."""
Weights: TypeAlias = tuple[Tensor, ...]
"""What a state makes of a mixer: one row per state."""


class Mixer(nn.Module, ABC):
    """Built as ``Mixer(members, state_size, embed, generator, hyper, filtered)``."""

    def forward(self, values: Tensor, state: Tensor) -> Tensor:
        """``[N, n]`` and ``[N, state_size]`` to ``[N]``."""
        return self.mix(values, self.weights(state))

    def weights(self, state: Tensor) -> Weights:
        """None, unless the mixer looks at the state."""
        del state
        return ()

    @abstractmethod
    def mix(self, values: Tensor, weights: Weights) -> Tensor: ...

    def run(self, values: Tensor, state: Tensor) -> tuple[Tensor, Tape]:
        return self.forward(values, state), (values.shape,)

    @abstractmethod
    def pull(self, tape: Tape, slopes: Tensor) -> Tensor: ...

    def observe(self, state: Tensor) -> None:
        """Running statistics take these states into account; nothing, unless the mixer keeps some."""

    def set_unit(self, unit: float, *, keep_values: bool) -> None:
        """Count in this unit of rewards from now on; nothing, where values that are added up have the unit of the sum."""


class KeepApart(Mixer):
    """A team of one: its value is the member's value."""

    def __init__(
        self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0, filtered: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        del state_size, embed, generator, hyper, filtered
        assert members == 1, "values are kept apart for one member at a time"

    def mix(self, values: Tensor, weights: Weights) -> Tensor:
        """``[N, 1]`` to ``[N]``."""
        del weights
        return values.squeeze(1)

    def pull(self, tape: Tape, slopes: Tensor) -> Tensor:
        """``d Q_tot / d q = 1``."""
        del tape
        return slopes.unsqueeze(1)


class SumMixer(Mixer):
    """Value decomposition (Sunehag et al., 2018): the sum."""

    def __init__(
        self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0, filtered: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        del members, state_size, embed, generator, hyper, filtered

    def mix(self, values: Tensor, weights: Weights) -> Tensor:
        """``[N, n]`` to ``[N]``."""
        del weights
        return values.sum(dim=1)

    def pull(self, tape: Tape, slopes: Tensor) -> Tensor:
        """``d Q_tot / d q_a = 1``."""
        (shape,) = tape
        return slopes.unsqueeze(1).expand(shape)


class MonotonicMixer(Mixer):
    """QMIX (Rashid et al., 2018): a small network over the members' values whose weights the state decides.

    ``Q_tot = unit * (|w2(s)| . h + v(s))``, ``h = elu(|w1(s)| q / unit + b1(s))``; ``hyper`` units stand between the state and
    w1 and w2, 0: none. ``filtered``: ``s`` is the state less its running mean, divided by its running deviation. The learner
    sets the ``unit`` by the size of the rewards; 1: as they are.

    The first layers are small where they add to the values (b1, v): before anything is learned a team's value is near 0.
    """

    unit: Tensor

    def __init__(
        self, members: int, state_size: int, embed: int, generator: torch.Generator, hyper: int = 0, filtered: bool = False
    ) -> None:  # fmt: skip
        super().__init__()
        self.members, self.embed = members, embed
        self.filter = MeanStdFilter(state_size) if filtered else None
        self.register_buffer("unit", torch.ones(()))
        self.w1 = _hyper(state_size, hyper, members * embed, generator)
        self.b1 = _linear(state_size, embed, generator, SMALL)
        self.w2 = _hyper(state_size, hyper, embed, generator)
        self.v_hidden = _linear(state_size, embed, generator)
        self.v = _linear(embed, 1, generator, SMALL)
        # Outside of nn.Module's slow attribute look-up.
        self._nets = [_HyperNet(self.w1), _HyperNet(self.b1), _HyperNet(self.w2), _HyperNet(self.v_hidden, self.v)]

    def observe(self, state: Tensor) -> None:
        if self.filter is not None:
            self.filter.observe(state)

    @torch.no_grad()
    def set_unit(self, unit: float, *, keep_values: bool) -> None:
        """``keep_values``: w1 is multiplied and w2 and v are divided by what the unit is multiplied by, so that no value of
        the team changes."""
        grows = unit / float(self.unit)
        if keep_values:
            for parameter in _last_layer(self.w1):
                parameter.mul_(grows)
            for parameter in (*_last_layer(self.w2), *_last_layer(self.v)):
                parameter.div_(grows)
        self.unit.fill_(unit)

    def weights(self, state: Tensor) -> Weights:
        """``|w1| / unit``, ``b1``, ``unit * |w2|`` and ``unit * v``."""
        (w1, b1, w2, v), _ = self._run_nets(state)
        # Monotonic mixing: dQ_tot/dQ_a >= 0 keeps each agent's own argmax part of the joint argmax.
        return (
            (w1.abs() / self.unit).view(-1, self.members, self.embed),
            b1,
            w2.abs() * self.unit,
            v.squeeze(1) * self.unit,
        )

    def _run_nets(self, state: Tensor) -> tuple[list[Tensor], list[list[Tensor]]]:
        """Outputs of the hypernetworks, and what their layers were given."""
        if self.filter is not None:
            state = self.filter(state)
        runs = [net.run(state) for net in self._nets]
        return [out for out, _ in runs], [given for _, given in runs]

    def mix(self, values: Tensor, weights: Weights) -> Tensor:
        """``[N, n]`` to ``[N]``."""
        w1, b1, w2, v = weights
        hidden = F.elu(torch.baddbmm(b1.unsqueeze(1), values.unsqueeze(1), w1).squeeze(1))
        return (hidden * w2).sum(dim=1) + v

    def run(self, values: Tensor, state: Tensor) -> tuple[Tensor, Tape]:
        (w1, b1, w2, v), given = self._run_nets(state)
        counted = values / self.unit
        size1, size2 = w1.abs().view(-1, self.members, self.embed), w2.abs()
        hidden = F.elu(torch.baddbmm(b1.unsqueeze(1), counted.unsqueeze(1), size1).squeeze(1))
        mixed = (hidden * size2).sum(dim=1) + v.squeeze(1)
        return mixed * self.unit, (counted, hidden, (w1, size1), (w2, size2), given)

    def pull(self, tape: Tape, slopes: Tensor) -> Tensor:
        """With ``g`` for ``unit`` times the slopes, ``q`` for values over ``unit`` and ``x = |w1| q + b1``, the chain rule
        backwards through the formula above:

        ``d/dv = g``, ``d/d|w2| = g h``, ``d/dx = g |w2| elu'(x)``, ``d/db1 = d/dx``, ``d/d|w1| = q d/dx``,
        ``d/dq = |w1| d/dx``, over ``unit`` for the values themselves; ``elu'(x) = min(h, 0) + 1`` and ``d|w|/dw = sign(w)``.
        """
        values, hidden, (w1, size1), (w2, size2), given = tape
        g = (slopes * self.unit).unsqueeze(1)
        # Below 0 elu is exp(x) - 1 = h, so that its slope exp(x) is h + 1; above it is 1.
        dx = _ELU.slope(size2 * g, hidden)
        dw2 = (hidden * g).mul_(w2.sign())
        dw1 = (values.unsqueeze(2) * dx.unsqueeze(1)).flatten(1).mul_(w1.sign())
        for net, net_given, slope in zip(self._nets, given, (dw1, dx, dw2, g), strict=True):
            net.pull(net_given, slope)
        return torch.bmm(size1, dx.unsqueeze(2)).squeeze(2) / self.unit


class _HyperNet:
    """From the state to some weights of a mixer: linear layers with relu between them. Few rows and few units: what counts is
    the number of calls, so that this is shorter than the layers of ``mlp.py``."""

    def __init__(self, *nets: nn.Module) -> None:
        layers = [layer for net in nets for layer in net.modules() if isinstance(layer, nn.Linear)]
        self.layers = [(layer.weight, layer.bias) for layer in layers]

    def run(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        """Outputs, and what each layer was given."""
        given: list[Tensor] = []
        for weight, bias in self.layers:
            if given:
                x = torch.relu(x)
            given.append(x)
            x = F.linear(x, weight, bias)
        return x, given

    def pull(self, given: list[Tensor], slopes: Tensor) -> None:
        """``dW = slopes^T x``, ``db = sum slopes``, and before a relu ``slopes W`` where it let anything through."""
        for i in range(len(given) - 1, -1, -1):
            (weight, bias), x = self.layers[i], given[i]
            gradient_of(weight).addmm_(slopes.t(), x)
            gradient_of(bias).add_(slopes.sum(0))
            if i:
                slopes = torch.mm(slopes, weight).mul_(x > 0)


MIXERS: dict[str, type[KeepApart] | type[SumMixer] | type[MonotonicMixer]] = {
    "none": KeepApart, "sum": SumMixer, "monotonic": MonotonicMixer,
}  # fmt: skip


def _hyper(inputs: int, hidden: int, outputs: int, generator: torch.Generator) -> nn.Module:
    """From the state to weights: one layer, or two with ``hidden`` units between them."""
    if not hidden:
        return _linear(inputs, outputs, generator)
    return nn.Sequential(_linear(inputs, hidden, generator), nn.ReLU(), _linear(hidden, outputs, generator))


def _last_layer(net: nn.Module) -> list[nn.Parameter]:
    """Weight and bias of the last linear layer."""
    return list(net.parameters())[-2:]


def _linear(inputs: int, outputs: int, generator: torch.Generator, gain: float = 1.0) -> nn.Linear:
    # The range that nn.Linear itself would draw from, but by our generator: two runs of one seed begin alike.
    layer = nn.Linear(inputs, outputs)
    bound = gain * inputs**-0.5 if inputs else 0.0
    nn.init.uniform_(layer.weight, -bound, bound, generator=generator)
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer
