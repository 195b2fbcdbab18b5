"""The vision net: from flat rows of pixels to features, by layers of convolutions.

    without padding      side after a layer = (side - kernel) // stride + 1
    with padding         side after a layer = ceil(side / stride), in all layers but the last, which has none

Zeros are put around an image where ``conv_padding`` is same; by default where ``conv_filters`` are written for that, as
RLlib's are: they do not fit without, and with it the last kernel is as large as what is left.

An observation is an image if it is a ``Box`` of shape (height, width, channels), or of shape (height, width) with bytes, and
both sides have at least 8 pixels; smaller boards are taken as numbers. ``conv_filters`` makes an image of every Box with two
or three axes. Channels come last; a stack of frames is more channels.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from gymnasium import spaces
from torch import Tensor, nn

from marl.data.task import AnySpace
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.mlp import ACTIVATIONS

SMALLEST_SIDE = 8  # pixels
COLOURS = 3

Filter: TypeAlias = tuple[int, int | tuple[int, int], int]
"""Channels, kernel (one side, or height and width), stride."""
Shape: TypeAlias = tuple[int, int, int]
"""Height, width, channels."""


class ConvEncoder(nn.Module):
    """Rows of pixels ``[N, H * W * C]`` to features ``[N, size]``.

    Before the first layer: the mean over the colours of each frame (``grayscale``), resizing to ``dim`` x ``dim`` (areas are
    averaged where the image shrinks, else straight lines between pixels), and pixels of -1..1 instead of 0..1 (``zero_mean``).
    """

    def __init__(
        self, shape: Sequence[int], filters: Sequence[Filter] | None, activation: str, generator: torch.Generator,
        dim: int | None = None, grayscale: bool = False, zero_mean: bool = False, padding: str = "auto",
    ) -> None:  # fmt: skip
        super().__init__()
        self.shape = with_channels(shape)
        self.dim, self.zero_mean = dim, zero_mean
        self.frames = 0
        if grayscale and self.shape[2] > 1:
            self.frames = _frames(self.shape[2])
        height, width, channels = self.shape
        seen = (dim or height, dim or width, self.frames or channels)
        if filters is None:
            filters = default_filters(seen)
        self.filters = tuple(filters)
        self.padded = _layers_padded(seen, self.filters, padding)
        self.sides = sides_after(seen, self.filters, self.padded)
        channels_out = self.filters[-1][0] if self.filters else seen[2]
        self.size = math.prod(self.sides[-1]) * channels_out
        self.activation = activation
        function = ACTIVATIONS[activation]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        before = seen[2]
        for after, kernel, _ in self.filters:
            weight = torch.empty(after, before, *_pair(kernel))
            nn.init.orthogonal_(weight, function.gain, generator=generator)
            self.weights.append(nn.Parameter(weight))
            self.biases.append(nn.Parameter(torch.zeros(after)))
            before = after

    def forward(self, pixels: Tensor) -> Tensor:
        x = self.prepare(pixels)
        function = ACTIVATIONS[self.activation]
        activate = function.traced if torch.is_grad_enabled() else function.of
        for i, (weight, bias, (_, _, stride)) in enumerate(zip(self.weights, self.biases, self.filters, strict=True)):
            if i < self.padded:
                x = _surrounded(x, (weight.shape[2], weight.shape[3]), stride)
            x = activate(F.conv2d(x, weight, bias, stride))
        return x.flatten(1)

    def prepare(self, pixels: Tensor) -> Tensor:
        """Images ``[N, channels, height, width]`` as the first layer sees them."""
        x = pixels.reshape(len(pixels), *self.shape).permute(0, 3, 1, 2)
        if self.frames:
            x = x.reshape(len(x), self.frames, COLOURS, *self.shape[:2]).mean(2)
        if self.dim is not None and (self.dim, self.dim) != self.shape[:2]:
            mode = "bilinear"
            if self.dim <= min(self.shape[:2]):
                mode = "area"
            x = F.interpolate(x, (self.dim, self.dim), mode=mode)
        if self.zero_mean:
            x = x * 2 - 1
        return x


def image_encoder(space: AnySpace, model: ModelConfig, generator: torch.Generator) -> ConvEncoder | None:
    """The vision net of a policy that sees ``space``; None where it sees no image or wants none (``conv_filters: []``)."""
    if not isinstance(space, spaces.Box) or not is_image(space, forced=bool(model.conv_filters)):
        _refuse_keys(model, space)
        return None
    if model.conv_filters == []:
        return None
    if model.zero_mean and not _from_zero_to_one(space):
        raise ConfigError(
            f"zero_mean shifts pixels of 0..1 to -1..1, but observations are {space}. Use bytes or floats of 0..1, or drop it."
        )
    return ConvEncoder(
        space.shape, model.conv_filters, model.conv_activation, generator, model.dim, model.grayscale, model.zero_mean,
        model.conv_padding,
    )  # fmt: skip


def _refuse_keys(model: ModelConfig, space: AnySpace) -> None:
    """Keys of a vision net are refused where observations are no images."""
    wanted = [key for key in ("conv_filters", "dim", "grayscale", "zero_mean") if getattr(model, key)]
    wanted += model.changed("conv_activation")
    if not wanted:
        return
    raise ConfigError(
        f"{', '.join(wanted)} given, but observations are {space}, which is no image. Expected a Box of shape "
        f"(height, width, channels), or (height, width) with bytes, of {SMALLEST_SIDE} pixels or more per side. "
        f"Drop the key{'s' if len(wanted) > 1 else ''}, or give them to the policies that see images."
    )


def is_image(space: spaces.Box, forced: bool = False) -> bool:
    """Whether a Box holds an image; ``forced``: whether it can be taken as one."""
    axes = len(space.shape)
    if axes not in (2, 3):
        return False
    if forced:
        return True
    if min(space.shape[:2]) < SMALLEST_SIDE:
        return False
    return axes == 3 or space.dtype == np.uint8  # without channels only bytes are taken for a picture


def default_filters(shape: Sequence[int]) -> list[Filter]:
    """Layers for images of any size: kernel 8 with stride 4 while a side has more than 48 pixels, then 4 with stride 2 while
    it has more than 10, then 3 with stride 1 if at least 5 x 5 remain; 32 channels first, then 64. Kernels are cut to short
    sides.

    84 x 84 gives the three layers of Mnih et al. (2015).
    """
    sides, layers = with_channels(shape)[:2], list[Filter]()

    def add(kernel: int, stride: int) -> tuple[int, int]:
        cut = min(kernel, sides[0]), min(kernel, sides[1])
        layers.append((64 if layers else 32, cut[0] if cut[0] == cut[1] else cut, stride))
        return _side(sides[0], cut[0], stride), _side(sides[1], cut[1], stride)

    while max(sides) > 48:
        sides = add(8, 4)
    while max(sides) > 10:
        sides = add(4, 2)
    if min(sides) >= 5 or not layers:
        sides = add(3, 1)
    return layers


def _layers_padded(shape: Sequence[int], filters: Sequence[Filter], padding: str) -> int:
    """How many of the first layers get padding: none, or all but the last."""
    if padding == "valid" or not filters:
        return 0
    all_but_one = len(filters) - 1
    if padding == "same":
        return all_but_one
    try:
        sides_after(shape, filters)
    except ConfigError:
        # What does not fit is a mistake, unless it is the list of a net that ends with one pixel by padding.
        height, width = shape[:2]
        for _, _, stride in filters[:-1]:
            height, width = math.ceil(height / stride), math.ceil(width / stride)
        ends_with_one_pixel = _pair(filters[-1][1]) == (height, width)
        return all_but_one if ends_with_one_pixel else 0
    return 0


def _surrounded(x: Tensor, kernel: tuple[int, int], stride: int) -> Tensor:
    """Zeros around images so that ``ceil(side / stride)`` is left; the odd one at the right and at the bottom."""
    pads = []
    for side, length in ((x.shape[3], kernel[1]), (x.shape[2], kernel[0])):  # F.pad begins with the last axis
        missing = max(0, (math.ceil(side / stride) - 1) * stride + length - side)
        pads += [missing // 2, missing - missing // 2]
    return F.pad(x, pads)


def sides_after(shape: Sequence[int], filters: Sequence[Filter], padded: int = 0) -> list[tuple[int, int]]:
    """Height and width before the first layer and after each one; refuses layers that do not fit. The first ``padded``
    layers always do."""
    sides = [(shape[0], shape[1])]
    for i, (_, kernel, stride) in enumerate(filters):
        height, width = _pair(kernel)
        if i < padded:
            sides.append((math.ceil(sides[-1][0] / stride), math.ceil(sides[-1][1] / stride)))
            continue
        if height > sides[-1][0] or width > sides[-1][1]:
            raise ConfigError(_misfit(shape, filters, sides))
        sides.append((_side(sides[-1][0], height, stride), _side(sides[-1][1], width, stride)))
    return sides


def with_channels(shape: Sequence[int]) -> Shape:
    """Height, width, channels; an image without channels has one."""
    height, width, channels = (*shape, 1)[:3]
    return height, width, channels


def _misfit(shape: Sequence[int], filters: Sequence[Filter], sides: Sequence[tuple[int, int]]) -> str:
    """The size after each layer, up to the one that is too large."""
    steps = [f"{sides[0][0]} x {sides[0][1]}"]
    steps += [f"{_written(f)} gives {h} x {w}" for f, (h, w) in zip(filters, sides[1:], strict=False)]
    culprit = filters[len(sides) - 1]
    hint = ""
    if shape[0] <= 4 < min(shape[1:]):
        hint = (
            f" Is this image channels-first? Channels have to come last: (height, width, channels), not {tuple(shape)}."
        )
    return (
        f"conv_filters do not fit images of {sides[0][0]} x {sides[0][1]} pixels: {', '.join(steps)}, but {_written(culprit)} "
        f"needs {_pair(culprit[1])[0]} x {_pair(culprit[1])[1]}. Make its kernel or the strides before it smaller, leave "
        f"layers out, resize images with a larger dim, or drop conv_filters for the default.{hint}"
    )


def _written(layer: Filter) -> str:
    channels, kernel, stride = layer
    sides = list(kernel) if isinstance(kernel, tuple) else kernel
    return str([channels, sides, stride])


def _frames(channels: int) -> int:
    if channels % COLOURS:
        raise ConfigError(
            f"grayscale takes the mean over {COLOURS} colours, but images have {channels} channels. Drop grayscale, or show "
            "red, green and blue of each frame."
        )
    return channels // COLOURS


def _from_zero_to_one(space: spaces.Box) -> bool:
    if space.dtype == np.uint8:  # bytes are divided by their upper bound on the way in
        return True
    return np.array_equal(space.low, np.zeros_like(space.low)) and np.array_equal(space.high, np.ones_like(space.high))


def _pair(kernel: int | tuple[int, int]) -> tuple[int, int]:
    return kernel if isinstance(kernel, tuple) else (kernel, kernel)


def _side(before: int, kernel: int, stride: int) -> int:
    return (before - kernel) // stride + 1
