"""Layers of JoyRL's networks as keys of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from marl.errors import ConfigError
from marl.scenario.joyrl_keys import Keys

Refuse = Callable[[str, Any, str], ConfigError]
"""The error for a key, what it is and what was expected."""


@dataclass(frozen=True)
class Layers:
    """Keys of ``model:``, and of noisy layers the deviation with which they begin."""

    model: Keys
    sigma0: float | None


def read_layers(key: str, layers: Any, refused: Refuse) -> Layers:
    """Linear layers, noisy or not, with one activation."""
    if not isinstance(layers, list):
        layers = [layers]
    sizes: list[Any] = []
    activations: set[str] = set()
    deviations: list[Any] = []
    for layer in layers:
        kind = layer.get("layer_type", "linear") if isinstance(layer, dict) else None
        if kind not in ("linear", "noisy_linear"):
            expected = "linear layers; for images write a scenario with model: {conv_filters: [[16, 4, 2], ...]}"
            raise refused(key, layer, expected)
        if kind == "noisy_linear":
            deviations.append(layer.get("std_init", 0.4))  # JoyRL's default
        sizes.append(_size(layer))
        activations.add(str(layer.get("activation", "relu")).lower())
    if len(activations) != 1:
        raise refused(key, sorted(activations), "one activation for all layers")
    if any(deviation != deviations[0] for deviation in deviations):
        raise refused(key, deviations, "one std_init for all layers")
    model = {"fcnet_hiddens": sizes, "fcnet_activation": activations.pop()}
    return Layers(model, deviations[0] if deviations else None)


def _size(layer: Keys) -> Any:
    size = layer.get("layer_dim", layer.get("layer_size"))
    if isinstance(size, list) and size:
        return size[-1]  # JoyRL writes a size as a list: layer_dim: [256]
    return size
