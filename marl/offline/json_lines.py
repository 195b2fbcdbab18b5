"""Recorded episodes as text: one JSON object per line, one line per episode, one file per worker and 1000 episodes.

``output-<date>_worker-<i>_<n>.json`` lies beside ``trajectories.json``, as the ``.npz`` files do. A line has

    worker, length        who played it, env steps
    returns, policies     what each agent earned, and who played it
    columns               the columns of ``offline/trajectories.py``, as nested lists with one row per env step

Numbers are written as short as they can be without losing anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marl.data.task import AgentID, Array, PolicyID
from marl.errors import DataError
from marl.inputs import parse_json, read_text

NAME = re.compile(r"output-(?P<date>[\d_-]+)_worker-(?P<worker>\d+)_(?P<number>\d+)\.json", re.ASCII)


class Trace(NamedTuple):
    """One recorded episode and what its line says about it."""

    rows: dict[str, Array]
    about: Mapping[str, Any]


def trace_name(date: str, worker: int, number: int) -> str:
    return f"output-{date}_worker-{worker}_{number}.json"


def trace_files(directory: Path) -> list[Path]:
    """The traces of a directory, by worker and number."""
    found = [(match, path) for path in directory.glob("output-*.json") if (match := NAME.fullmatch(path.name))]
    return [path for _, path in sorted(found, key=lambda pair: _order(pair[0]))]


def _order(match: re.Match[str]) -> tuple[str, int, int]:
    return match["date"], int(match["worker"]), int(match["number"])


def to_line(rows: Mapping[str, Array], agents: Sequence[AgentID], policies: Sequence[PolicyID], worker: int) -> bytes:
    """One episode as a line, with its end."""
    paid, there = rows["rewards"].sum(axis=0), np.asarray(rows["alive"].any(axis=0))
    seats = [seat for seat in range(len(agents)) if there[seat] or paid[seat]]
    about = {
        "worker": worker,
        "length": len(rows["rewards"]),
        "returns": {agents[seat]: float(str(paid[seat])) for seat in seats},
        "policies": {agents[seat]: _name(policies, int(rows["policy"][0, seat])) for seat in seats},
        "columns": {name: _plain(column) for name, column in rows.items()},
    }
    return (json.dumps(about, separators=(",", ":")) + "\n").encode()


def _name(policies: Sequence[PolicyID], index: int) -> PolicyID | None:
    return policies[index] if 0 <= index < len(policies) else None


def _plain(column: Array) -> Any:
    """Nested lists. The shortest text of a float32 is that of a much shorter double, which reads back as the same number."""
    return (column.astype("U").astype(np.float64) if column.dtype == np.float32 else column).tolist()


def read_traces(path: Path) -> list[Trace]:
    """The episodes of a file; a last line that a kill left half-written is left out."""
    try:
        *lines, rest = read_text(path).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as recorded episodes ({error}). Record them again.") from error
    if rest and not lines:
        raise DataError(f"{path} holds no recorded episode: its only line is not complete. Record them again.")
    return [_read(path, number, line) for number, line in enumerate(lines, start=1) if line]


def _read(path: Path, number: int, line: str) -> Trace:
    try:
        about: dict[str, Any] = parse_json(line)
        rows = {name: np.asarray(column) for name, column in about.pop("columns").items()}
        if len({len(column) for column in rows.values()}) != 1 or "rewards" not in rows:
            raise ValueError("its columns differ in length")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}, line {number}: not a recorded episode ({type(error).__name__}: {error}). Mend or delete that line."
        ) from error
    return Trace(rows, about)
