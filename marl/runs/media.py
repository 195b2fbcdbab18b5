"""Pictures and short films of a run: checked, and encoded as PNG and GIF."""

from __future__ import annotations

import io
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError

Pixels: TypeAlias = NDArray[np.uint8]

FRAMES_PER_SECOND = 10


def pixels(name: str, picture: Any) -> Pixels:
    """A picture as bytes ``[H, W, 3]``, a film as ``[T, H, W, 3]``.

    Taken are grey ``[H, W]`` and coloured ``[H, W, 3 or 4]`` pictures and films of coloured ones, as whole numbers from 0
    to 255 or as fractions from 0 to 1.
    """
    given = np.asarray(picture)
    shaped = given
    if given.ndim == 2:
        shaped = given[..., None]
    is_number = given.dtype.kind in "buif"
    is_picture = shaped.ndim in (3, 4) and shaped.shape[-1] in (1, 3, 4)
    if not is_number or not is_picture or not given.size:
        raise ConfigError(
            f"picture {name!r} has shape {given.shape} and type {given.dtype}; expected [H, W], [H, W, 3] or, for a film, "
            "[T, H, W, 3], as whole numbers from 0 to 255 or fractions from 0 to 1."
        )
    if given.dtype.kind in "fb":
        shaped = 255.0 * np.nan_to_num(shaped.astype(np.float64)) + 0.5  # a half: the cut below then rounds
    whole = np.clip(shaped, 0, 255).astype(np.uint8)[..., :3]  # without transparency
    return np.ascontiguousarray(np.broadcast_to(whole, (*whole.shape[:-1], 3)))


def encoded(picture: Pixels) -> tuple[str, bytes]:
    """The ending of the file and its content: a PNG, or a GIF for a film."""
    import imageio.v3 as imageio

    file = io.BytesIO()
    if picture.ndim == 3:
        imageio.imwrite(file, picture, extension=".png")
        return "png", file.getvalue()
    imageio.imwrite(file, picture, extension=".gif", duration=1_000 / FRAMES_PER_SECOND, loop=0)
    return "gif", file.getvalue()
