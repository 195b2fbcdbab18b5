"""Comparing nested state bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np


def differences(a: Any, b: Any, path: str = "") -> list[str]:
    """Places where two trees of dicts, lists and arrays are not equal to the last bit."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        a, b = np.asarray(a), np.asarray(b)
        same = a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
        return [] if same else [f"{path}: arrays differ"]
    if isinstance(a, dict) and isinstance(b, dict):
        if set(a) != set(b):
            return [f"{path}: keys {sorted(set(a) ^ set(b), key=str)}"]
        return [d for key in a for d in differences(a[key], b[key], f"{path}/{key}")]
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} items"]
        return [d for i, (x, y) in enumerate(zip(a, b, strict=True)) for d in differences(x, y, f"{path}/{i}")]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} != {b!r}"]
