"""Recorded episodes as text: one JSON object per line, one line per episode, one file per worker and 1000 episodes.

``output-<date>_worker-<i>_<n>.json`` lies beside ``trajectories.json``, as the ``.npz`` files do. A line has

    worker, length        who played it, env steps
    returns, policies     what each agent earned, and who played it
    columns               the columns of ``offline/trajectories.py``, as nested lists with one row per env step
    seal                  the hash of all that (see ``data/seal.py``); a line without one is read too

Numbers are written as short as they can be without losing anything.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marl.data.seal import check_line, sealed_line
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
    found = []
    for path in directory.glob("output-*.json"):
        match = NAME.fullmatch(path.name)
        if match is not None:
            # As numbers: by their texts, the tenth file would come before the second.
            order = (match["date"], int(match["worker"]), int(match["number"]))
            found.append((order, path))
    found.sort()
    return [path for _, path in found]


def to_line(rows: Mapping[str, Array], agents: Sequence[AgentID], policies: Sequence[PolicyID], worker: int) -> bytes:
    """One episode as a line, with its end."""
    paid, there = rows["rewards"].sum(axis=0), np.asarray(rows["alive"].any(axis=0))
    returns: dict[AgentID, float] = {}
    played_by: dict[AgentID, PolicyID | None] = {}
    for seat, agent in enumerate(agents):
        if not (there[seat] or paid[seat]):
            continue
        returns[agent] = float(str(paid[seat]))  # the shortest text, as in `_plain`
        played_by[agent] = None
        policy = int(rows["policy"][0, seat])
        if 0 <= policy < len(policies):  # else nobody decided for it at the start
            played_by[agent] = policies[policy]
    about = {
        "worker": worker,
        "length": len(rows["rewards"]),
        "returns": returns,
        "policies": played_by,
        "columns": {name: _plain(column) for name, column in rows.items()},
    }
    return sealed_line(json.dumps(about, separators=(",", ":"))).encode()


def _plain(column: Array) -> Any:
    """Nested lists. The shortest text of a float32 is that of a much shorter double, which reads back as the same number."""
    if column.dtype == np.float32:
        column = column.astype("U").astype(np.float64)
    return column.tolist()


def read_traces(path: Path) -> list[Trace]:
    """The episodes of a file; a last line that a kill left half-written is left out."""
    try:
        *lines, rest = read_text(path).split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path} cannot be read as recorded episodes ({error}). Record them again.") from error
    if rest and not lines:
        raise DataError(f"{path} holds no recorded episode: its only line is not complete. Record them again.")
    traces = []
    for number, line in enumerate(lines, start=1):
        if line:
            traces.append(_read(path, number, line))
    return traces


def _read(path: Path, number: int, line: str) -> Trace:
    try:
        check_line(line, required=False)  # other programs may write lines too
        about: dict[str, Any] = parse_json(line)
        rows = {name: np.asarray(column) for name, column in about.pop("columns").items()}
        lengths = {len(column) for column in rows.values()}
        if len(lengths) != 1 or "rewards" not in rows:
            raise ValueError("its columns differ in length")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(
            f"{path}, line {number}: not a recorded episode ({type(error).__name__}: {error}). Mend or delete that line."
        ) from error
    return Trace(rows, about)
