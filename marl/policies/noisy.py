"""Layers that draw their weights, and learn how far these spread: exploration without an epsilon (Fortunato et al., 2018).

    y = (w + s_w * n_out n_in') x + b + s_b * n_out           n = sign(e) * sqrt(|e|),  e ~ N(0, 1)

``w`` and ``b`` are the means, which are ordinary layers; ``s_w`` and ``s_b`` their deviations. The noise is factorised: one
number per input and one per output of a layer, ``n_in`` and ``n_out``. Without noise the means play.

Noise comes from the generator of whoever asks: one network for all rows where rows are learned from, and a network for each
row where somebody acts, so that no two decisions are pushed alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marl.policies.mlp import MLP, Layer, Tape, gradient_of, pull_layers, run_layers
from marl.policies.networks import Body


class LayerNoise(NamedTuple):
    """Of one layer: ``[in]`` and ``[out]``, or with rows ``[N, in]`` and ``[N, out]``."""

    inputs: Tensor
    outputs: Tensor


class Drawn(NamedTuple):
    """A network that was drawn for all rows: its layers, and by what each deviation was multiplied."""

    layers: list[Layer]
    factors: list[Layer]


class NoisyMLP(MLP):
    """The layers of an ``MLP`` as means, with deviations that begin as ``sigma0 / sqrt(inputs)``."""

    def __init__(self, means: MLP, sigma0: float) -> None:
        nn.Module.__init__(self)  # not MLP's, which would draw weights: these are there already
        self.weights, self.biases, self.activations = means.weights, means.biases, means.activations
        self.weight_sigmas, self.bias_sigmas = nn.ParameterList(), nn.ParameterList()
        for weight, bias in zip(self.weights, self.biases, strict=True):
            sigma = sigma0 / math.sqrt(weight.shape[1])
            self.weight_sigmas.append(nn.Parameter(torch.full_like(weight, sigma)))
            self.bias_sigmas.append(nn.Parameter(torch.full_like(bias, sigma)))
        self.noise: list[LayerNoise] = []  # of each layer, while it is noisy
        self.later: list[LayerNoise] = []  # the same for outcomes
        self._drawn: Drawn | None = None
        self._look_up()

    def _look_up(self) -> None:
        super()._look_up()
        self.deviations: list[Layer] = []
        for weight, bias in zip(self.weight_sigmas, self.bias_sigmas, strict=True):
            self.deviations.append(Layer(weight, bias, None))

    def share(self, donor: MLP, layers: int) -> None:
        assert isinstance(donor, NoisyMLP)  # who shares layers agrees on the keys of the algorithm
        for i in range(layers):
            self.weight_sigmas[i], self.bias_sigmas[i] = donor.weight_sigmas[i], donor.bias_sigmas[i]
        super().share(donor, layers)

    def first(self, layers: int) -> tuple[nn.Parameter, ...]:
        found = list(super().first(layers))
        for i in range(layers):
            found += [self.weight_sigmas[i], self.bias_sigmas[i]]
        return tuple(found)

    def last(self) -> tuple[nn.Parameter, ...]:
        return (*super().last(), self.weight_sigmas[-1], self.bias_sigmas[-1])

    # -- noise -----------------------------------------------------------------------------------------------------

    def draw(self, rng: np.random.Generator, *rows: int) -> list[LayerNoise]:
        """Noise of every layer, one for all rows or, with their number, one for each."""
        widths: list[int] = []
        for layer in self.layers:
            widths += [layer.weight.shape[1], layer.weight.shape[0]]
        normal = torch.from_numpy(rng.standard_normal((*rows, sum(widths)), np.float32))
        shaped = (normal.sign() * normal.abs().sqrt()).to(self.layers[0].weight)
        parts = torch.split(shaped, widths, dim=-1)
        return [LayerNoise(*pair) for pair in zip(parts[::2], parts[1::2], strict=True)]

    def use(self, noise: list[LayerNoise], later: list[LayerNoise]) -> None:
        """Be noisy in this way from now on; by empty lists quiet."""
        self.noise, self.later, self._drawn = noise, later, None

    # -- running ---------------------------------------------------------------------------------------------------

    def forward(self, x: Tensor) -> Tensor:
        if not self.noise:
            return super().forward(x)
        for layer, deviation, noise in zip(self.layers, self.deviations, self.noise, strict=True):
            # The noise of a row reaches it by two products of matrices: its own weights are never put together.
            pushed = noise.outputs * F.linear(x * noise.inputs, deviation.weight, deviation.bias)
            x = F.linear(x, layer.weight, layer.bias) + pushed
            if layer.activation is not None:
                x = layer.activation.traced(x)
        return x

    def run(self, x: Tensor) -> tuple[Tensor, Tape]:
        if not self.noise:
            return super().run(x)
        return run_layers(self.drawn().layers, x)

    def pull(self, tape: Tape, slopes: Tensor, *, inputs: bool = False, parameters: bool = True) -> Tensor | None:
        """d loss / d drawn weight is d loss / d mean, and times its noise d loss / d deviation."""
        if not self.noise:
            return super().pull(tape, slopes, inputs=inputs, parameters=parameters)
        drawn = self.drawn()
        back = pull_layers(drawn.layers, tape, slopes, inputs=inputs, parameters=parameters)
        if parameters:
            self._hand_on(drawn)
        return back

    def _hand_on(self, drawn: Drawn) -> None:
        for i, layer in enumerate(drawn.layers):
            _add_slopes(layer.weight, self.layers[i].weight, self.deviations[i].weight, drawn.factors[i].weight)
            _add_slopes(layer.bias, self.layers[i].bias, self.deviations[i].bias, drawn.factors[i].bias)

    @torch.no_grad()
    def drawn(self) -> Drawn:
        """The layers that this noise makes, put together once for ``run`` and ``pull``."""
        if self._drawn is None:
            self._drawn = Drawn([], [])
            for layer, deviation, noise in zip(self.layers, self.deviations, self.noise, strict=True):
                factor = Layer(torch.outer(noise.outputs, noise.inputs), noise.outputs, None)
                weight = torch.addcmul(layer.weight, deviation.weight, factor.weight)
                bias = torch.addcmul(layer.bias, deviation.bias, factor.bias)
                self._drawn.layers.append(Layer(weight, bias, layer.activation))
                self._drawn.factors.append(factor)
        return self._drawn


def _add_slopes(drawn: Tensor, mean: Tensor, deviation: Tensor, factor: Tensor) -> None:
    slopes = gradient_of(drawn)
    gradient_of(mean).add_(slopes)
    gradient_of(deviation).addcmul_(slopes, factor)
    slopes.zero_()  # they are handed on: the next way back through the same network begins anew


def make_noisy(model: Body, sigma0: float) -> tuple[NoisyMLP, ...]:
    """All fully connected layers of a model draw their weights from now on."""
    found: list[NoisyMLP] = []
    if isinstance(model.network, MLP):
        model.network = NoisyMLP(model.network, sigma0)
        found.append(model.network)
    if model.head is not None:  # behind a memory
        model.head = NoisyMLP(model.head, sigma0)
        found.append(model.head)
    return tuple(found)


@contextmanager
def noise_for_all(layers: Sequence[NoisyMLP], rng: np.random.Generator) -> Iterator[None]:
    """While it lasts all rows see one network, and their outcomes another one."""
    # Drawn for all of them, whoever has rows: a member of a learner group must draw what the others draw.
    for part in layers:
        part.use(part.draw(rng), part.draw(rng))
    try:
        yield
    finally:
        _quieten(layers)


@contextmanager
def noise_for_each(layers: Sequence[NoisyMLP], rng: np.random.Generator, rows: int) -> Iterator[None]:
    """While it lasts each of so many rows sees a network of its own."""
    for part in layers:
        part.use(part.draw(rng, rows), [])
    try:
        yield
    finally:
        _quieten(layers)


@contextmanager
def noise_of_outcomes(layers: Sequence[NoisyMLP]) -> Iterator[None]:
    """While it lasts rows see the network of outcomes."""
    now = [part.noise for part in layers]
    later = [part.later for part in layers]
    for part, noise in zip(layers, later, strict=True):
        part.use(noise, [])
    try:
        yield
    finally:
        for part, before, after in zip(layers, now, later, strict=True):
            part.use(before, after)


def _quieten(layers: Sequence[NoisyMLP]) -> None:
    for part in layers:
        part.use([], [])
