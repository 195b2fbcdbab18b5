"""Pictures small enough that a page can hold those of a whole episode."""

from __future__ import annotations

import base64
import io
from typing import Any

import numpy as np

from marl.data.task import Array
from marl.envs.scene_forms import BrokenScene

LONGEST_SIDE = 480  # pixels
SMALLEST_SIDE = 60
MOST_BYTES = 15_000  # 500 pictures stay below 10 MB, also in base64
COLOURS = 64  # of pictures that would be too large with all of theirs


def picture_scene(drawn: Array, text: str) -> dict[str, Any]:
    """A scene of kind ``picture`` from an array of height x width x 3 (or 4, or grey)."""
    image = _image(drawn)
    png = _small_png(image)
    return {"kind": "picture", "png": base64.b64encode(png).decode(), "text": text}


def _image(drawn: Array) -> Any:
    from PIL import Image

    layers = drawn
    if drawn.ndim == 2:  # grey
        layers = drawn[:, :, None]
    is_picture = layers.ndim == 3 and layers.shape[-1] in (1, 3, 4) and layers.size > 0
    if not is_picture or drawn.dtype != np.uint8:
        raise BrokenScene(
            f"render gave an array of {drawn.dtype} with shape {drawn.shape}; a picture is (height, width, 3) of uint8, from "
            "0 to 255."
        )
    height, width, _ = layers.shape
    colours = np.broadcast_to(layers[:, :, :3], (height, width, 3))  # a grey layer is all three
    return Image.fromarray(np.ascontiguousarray(colours))


def _small_png(image: Any) -> bytes:
    """As large as it may be: fewer colours first, then fewer pixels."""
    side = LONGEST_SIDE
    image = _shrunk(image, side)
    png = _png(image)
    while len(png) > MOST_BYTES and side > SMALLEST_SIDE:
        png = _png(_shrunk(image, side).quantize(COLOURS))
        side = side * 3 // 4
    return png


def _shrunk(image: Any, side: int) -> Any:
    longest = max(image.size)
    if longest <= side:
        return image
    width, height = (max(1, round(pixels * side / longest)) for pixels in image.size)
    return image.resize((width, height))


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
