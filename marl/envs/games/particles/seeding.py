"""Uniform random numbers for many seeds at once: a generator object per seed would cost more than the game."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Ints

Doubles: TypeAlias = NDArray[np.float64]
Words: TypeAlias = NDArray[np.uint64]

# SplitMix64 (Steele, Lea & Flood, 2014): a counter that advances by an odd constant, scrambled by two multiplications.
STRIDE = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def uniform(seeds: Ints, count: int) -> Doubles:
    """``[len(seeds), count]`` numbers in [0, 1). Row ``i`` follows from ``seeds[i]`` alone."""
    # Seeds are scrambled first, so that neighbouring seeds do not run through the same counter.
    start = _scrambled(np.asarray(seeds).astype(np.uint64) + STRIDE)
    counters = np.arange(1, count + 1, dtype=np.uint64) * STRIDE
    bits = _scrambled(start[:, None] + counters)
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _scrambled(words: Words) -> Words:
    words = (words ^ (words >> np.uint64(30))) * FIRST
    words = (words ^ (words >> np.uint64(27))) * SECOND
    return words ^ (words >> np.uint64(31))
