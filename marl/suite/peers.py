"""Curves of other libraries on the cells of a suite, measured elsewhere and read from a file.

{"peer": "BenchMARL 1.5.2", "about": "its own defaults, equal frames",
 "cells": {"balance": {"mappo": {"seeds": {"0": {"steps": [...], "values": [...]}}, "cpu_s": 1234.5}}}}
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.analysis.compare.compare import Line
from marl.errors import ConfigError
from marl.inputs import read_json
from marl.suite.load import LoadedSuite
from marl.suite.results import Curves, Estimate, best_of, curves_of, last_of


@dataclass(frozen=True)
class PeerCell:
    """What another library reached in a cell."""

    peer: str
    runs: int
    last: Estimate
    best: Estimate
    curves: Curves


@dataclass(frozen=True)
class Peer:
    name: str
    about: str
    cells: Mapping[str, PeerCell]


def read_peers(loaded: LoadedSuite) -> list[Peer]:
    """The files that the suite names, as far as they are there."""
    found = []
    for name in loaded.config.peers:
        file = loaded.file.parent / name
        if file.exists():
            found.append(_read(file, loaded.config.confidence))
    return found


def _read(file: Path, confidence: float) -> Peer:
    try:
        content = read_json(file)
        name = str(content["peer"])
        cells: dict[str, PeerCell] = {}
        for env, algos in content["cells"].items():
            for algo, given in algos.items():
                lines = [_line(curve) for curve in given["seeds"].values()]
                if lines:
                    cells[f"{env}/{algo}"] = _cell(name, lines, confidence)
        return Peer(name, str(content.get("about", "")), cells)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(
            f"{file} cannot be read as curves of a peer: {error!r}. docs/suite.md shows the form."
        ) from error


def _line(curve: Mapping[str, Any]) -> Line:
    points: Line = []
    for step, value in zip(curve["steps"], curve["values"], strict=True):
        if math.isfinite(float(value)):
            points.append((float(step), float(value)))
    if not points:
        raise ValueError("a seed has no value")
    return points


def _cell(peer: str, lines: Sequence[Line], confidence: float) -> PeerCell:
    curves = curves_of(lines)
    return PeerCell(peer, len(lines), last_of(lines, confidence), best_of(curves, confidence), curves)
