"""Fully connected layers, forward and backward.

    outputs, tape = network.run(x)       forward, and what the backward pass needs of it
    network.pull(tape, slopes)           backward: adds d loss / d parameter to its .grad; slopes = d loss / d outputs

Autograd finds the same gradients. It pays for each small operation twice, once to note it and once to walk back, which at the
minibatches of reinforcement learning is half of an update. Where gradients are enabled, ``forward`` is ordinary autograd.

Weights are ``[out, in]`` for rows ``[N, in]``. Those of K networks of one shape may be stacked: ``[K, out, in]`` for rows
``[K, N, in]``.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NARROW = 16
"""Layers with fewer outputs are computed the other way round, ``[out, N]`` in memory: that is faster, and what follows over
the few outputs of a row (a softmax, a sum) is many times faster."""

FEW = 1_024
"""Below so many numbers the calls cost more than the arithmetic, and one call of torch's own ``tanh`` is the fastest."""
FEW_ROWS = 48
"""The same for turning a layer round: a single env's decision is a matter of microseconds."""

FEW_INPUTS, MANY_ROWS = 32, 64
"""Where a layer has few inputs and many rows, the product for its gradient is faster the other way round."""

_aten = torch.ops.aten  # torch's own derivatives of activations, which autograd would call
_MINUS_ONE: dict[tuple[torch.dtype, torch.device], Tensor] = {}


class Activation(NamedTuple):
    """``apply`` may work in place and is not seen by autograd; ``slope`` turns d loss / d result into d loss / d input."""

    apply: Callable[[Tensor], Tensor]  # of the input times ``scale``
    slope: Callable[[Tensor, Tensor], Tensor]  # the second one is the result, or the input if ``needs_input``
    traced: Callable[[Tensor], Tensor]  # the same function for autograd
    needs_input: bool = False
    scale: float = 1.0  # a product of matrices is multiplied by a number for nothing
    few: Callable[[Tensor], Tensor] | None = None  # of the input itself: the fastest for a few numbers
    gain: float = math.sqrt(2)
    """Scale of the first weights. It keeps the mean square of what passes through a layer: 1 / sqrt(E[f(z)^2]) for normal z
    (He et al., 2015), which for relu is sqrt(2). That of tanh is the one with which PPO is used everywhere."""

    def of(self, x: Tensor) -> Tensor:
        """The function itself, in place, for those who have not scaled its input; not seen by autograd."""
        return self.apply(x if self.scale == 1.0 else x.mul_(self.scale))


def tanh_of_half_(x: Tensor) -> Tensor:
    """``tanh(x / 2)`` in place as ``2 sigmoid(x) - 1``: four times as fast as torch's on a CPU, wrong by 2e-7 at most."""
    s = x.sigmoid_()
    # A tensor of no dimension, because 2s - 1 is then one pass over the numbers and not two.
    minus_one = _MINUS_ONE.get((x.dtype, x.device))
    if minus_one is None:
        minus_one = _MINUS_ONE[x.dtype, x.device] = torch.tensor(-1.0, dtype=x.dtype, device=x.device)
    return torch.add(minus_one, s, alpha=2, out=s)


def _traced_tanh(x: Tensor) -> Tensor:
    return x.mul(2).sigmoid().mul(2).sub(1)


def _tanh_slope(slopes: Tensor, result: Tensor) -> Tensor:
    return _aten.tanh_backward(slopes, result)  # type: ignore[no-any-return]


def _relu_slope(slopes: Tensor, result: Tensor) -> Tensor:
    return _aten.threshold_backward(slopes, result, 0.0)  # type: ignore[no-any-return]


def _elu_(x: Tensor) -> Tensor:
    return F.elu(x, inplace=True)


def _elu_slope(slopes: Tensor, result: Tensor) -> Tensor:
    return _aten.elu_backward(slopes, 1.0, 1.0, 1.0, True, result)  # type: ignore[no-any-return]


def _silu_slope(slopes: Tensor, x: Tensor) -> Tensor:
    return _aten.silu_backward(slopes, x)  # type: ignore[no-any-return]


def _gelu_slope(slopes: Tensor, x: Tensor) -> Tensor:
    return _aten.gelu_backward(slopes, x)  # type: ignore[no-any-return]


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(tanh_of_half_, _tanh_slope, _traced_tanh, scale=2.0, few=torch.tanh_),
    "relu": Activation(torch.relu_, _relu_slope, torch.relu),
    "silu": Activation(F.silu, _silu_slope, F.silu, needs_input=True, gain=1.6765),
    "gelu": Activation(F.gelu, _gelu_slope, F.gelu, needs_input=True, gain=1.5335),
    "elu": Activation(_elu_, _elu_slope, F.elu, gain=1.2452),
}


class Layer(NamedTuple):
    """One layer; the gradients are ``weight.grad`` and ``bias.grad``."""

    weight: Tensor
    bias: Tensor
    activation: Activation | None


class Kept(NamedTuple):
    """What the backward pass of one layer needs: its input, and the argument of its activation's slope."""

    x: Tensor
    activated: Tensor | None


Tape: TypeAlias = list[Kept]


def run_layers(layers: Sequence[Layer], x: Tensor) -> tuple[Tensor, Tape]:
    """Outputs and tape; autograd does not see it."""
    if torch.is_grad_enabled():
        with torch.no_grad():
            return run_layers(layers, x)
    tape: Tape = []
    for layer in layers:
        if layer.activation is None:
            y, kept = _linear(x, layer), None
        else:
            y, kept = _activated(x, layer, layer.activation)
        tape.append(Kept(x, kept))
        x = y
    return x, tape


def first_rows(tape: Tape, rows: int) -> Tape:
    """A tape of the first rows alone, for losses that do not depend on the others."""
    found: Tape = []
    for kept in tape:
        activated = None if kept.activated is None else kept.activated[:rows]
        found.append(Kept(kept.x[:rows], activated))
    return found


def pull_layers(
    layers: Sequence[Layer], tape: Tape, slopes: Tensor, *, inputs: bool = False, parameters: bool = True
) -> Tensor | None:
    """Add to the gradients of the parameters; with ``inputs`` returns d loss / d x."""
    if torch.is_grad_enabled():
        with torch.no_grad():
            return pull_layers(layers, tape, slopes, inputs=inputs, parameters=parameters)
    for i in range(len(layers) - 1, -1, -1):
        layer, kept = layers[i], tape[i]
        if layer.activation is not None:
            assert kept.activated is not None
            slopes = layer.activation.slope(slopes, kept.activated)
        if parameters:
            _add_gradient(layer, kept.x, slopes)
        if i > 0 or inputs:
            slopes = torch.matmul(slopes, layer.weight)
    return slopes if inputs else None


def _activated(x: Tensor, layer: Layer, activation: Activation) -> tuple[Tensor, Tensor]:
    """What comes out of a layer, and what its slope needs."""
    weight, bias, scale = layer.weight, layer.bias, activation.scale
    if weight.dim() == 3:
        y = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2), beta=scale, alpha=scale)
    elif activation.few is not None and len(x) * len(weight) < FEW:
        y = activation.few(F.linear(x, weight, bias))
        return y, y
    else:
        y = torch.addmm(bias, x, weight.t(), beta=scale, alpha=scale)
    result = activation.apply(y)
    return result, y if activation.needs_input else result


def _linear(x: Tensor, layer: Layer) -> Tensor:
    """A layer without an activation: the last one."""
    weight, bias = layer.weight, layer.bias
    narrow = weight.shape[-2] < NARROW
    if weight.dim() == 2:
        if narrow and x.shape[0] >= FEW_ROWS:
            return torch.addmm(bias.unsqueeze(1), weight, x.t()).t()
        return F.linear(x, weight, bias)
    if narrow:
        return torch.baddbmm(bias.unsqueeze(2), weight, x.transpose(1, 2)).transpose(1, 2)
    return torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))


def _add_gradient(layer: Layer, x: Tensor, slopes: Tensor) -> None:
    weight, bias = gradient_of(layer.weight), gradient_of(layer.bias)
    if weight.dim() == 2:
        if x.shape[1] < FEW_INPUTS and len(x) >= MANY_ROWS:
            weight.add_(torch.mm(x.t(), slopes).t())
        else:
            weight.addmm_(slopes.t(), x)
    else:
        weight.baddbmm_(slopes.transpose(1, 2), x)
    bias.add_(slopes.sum(-2))


def gradient_of(parameter: Tensor) -> Tensor:
    """Where its gradient is added up."""
    grad = parameter.grad
    if grad is None:
        grad = parameter.grad = torch.zeros_like(parameter)
    return grad


class MLP(nn.Module):
    """Fully connected layers, written flat: half the call overhead of a ``Sequential`` at the size of a rollout step."""

    def __init__(
        self, sizes: Sequence[int], activations: Sequence[str], generator: torch.Generator, last_gain: float = 1.0
    ) -> None:
        """Sizes from inputs to outputs, and an activation per layer; the last layer may go without."""
        super().__init__()
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        self.activations = tuple(activations)
        for i, (wide, narrow) in enumerate(itertools.pairwise(sizes)):
            # Orthogonal weights keep the scale of what passes through; the gain makes up for what the activation takes away.
            gain = last_gain if i == len(activations) else ACTIVATIONS[activations[i]].gain
            weight = torch.empty(narrow, wide)
            nn.init.orthogonal_(weight, gain, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(narrow)))
        self._look_up()

    def _look_up(self) -> None:
        """Layers outside of nn.Module's slow attribute look-up."""
        self.layers: list[Layer] = []
        functions: list[Activation | None] = [ACTIVATIONS[name] for name in self.activations]
        functions.append(None)  # of the last layer, if it has none; else never reached
        for weight, bias, function in zip(self.weights, self.biases, functions, strict=False):
            self.layers.append(Layer(weight, bias, function))

    def share(self, donor: MLP, layers: int) -> None:
        """From now on the first ``layers`` layers are the donor's own tensors."""
        for i in range(layers):
            self.weights[i], self.biases[i] = donor.weights[i], donor.biases[i]
        self._look_up()

    def first(self, layers: int) -> tuple[nn.Parameter, ...]:
        """Parameters of the first ``layers`` layers."""
        found: list[nn.Parameter] = []
        for i in range(layers):
            found += [self.weights[i], self.biases[i]]
        return tuple(found)

    def last(self) -> tuple[nn.Parameter, ...]:
        """Parameters of the last layer."""
        return (self.weights[-1], self.biases[-1])

    @property
    def device(self) -> torch.device:
        return self.layers[0].weight.device

    def run(self, x: Tensor) -> tuple[Tensor, Tape]:
        """``[N, outputs]`` and what ``pull`` needs."""
        return run_layers(self.layers, x)

    def pull(self, tape: Tape, slopes: Tensor, *, inputs: bool = False, parameters: bool = True) -> Tensor | None:
        """Add d loss / d parameter to the gradients; ``inputs``: return d loss / d x."""
        return pull_layers(self.layers, tape, slopes, inputs=inputs, parameters=parameters)

    def forward(self, x: Tensor) -> Tensor:
        traced = torch.is_grad_enabled()
        leading = x.shape[:-1]
        if len(leading) != 1:
            x = x.reshape(-1, x.shape[-1])
        for layer in self.layers:
            if layer.activation is None:
                x = _linear(x, layer)
            elif traced:
                x = layer.activation.traced(F.linear(x, layer.weight, layer.bias))
            else:
                x, _ = _activated(x, layer, layer.activation)
        return x if len(leading) == 1 else x.reshape(*leading, -1)
