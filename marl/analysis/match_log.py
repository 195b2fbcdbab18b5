"""The matches of a cross-play on disk: one line per finished batch, only ever added to, so nothing is played twice.

A line is known by what decides its numbers: the env and how it is played (a hash), who sat where (hashes of the policies),
and the seeds. Lines of other envs or policies in the same file are left alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.seal import check_line, sealed_line
from marl.errors import DataError
from marl.inputs import parse_json, read_text
from marl.populations.matches import Job, Returns
from marl.storage import append_to, write_atomically

FILE = "crossplay.jsonl"
FORMAT = 2
UNSEALED = 1  # lines of formats up to this one have no seal


class MatchLog:
    """What was played of one setting; without a directory it is kept in memory only."""

    def __init__(self, directory: Path | None, setting: Mapping[str, Any]) -> None:
        # Sorted: the same setting has one hash, whatever the order of its keys.
        text = json.dumps(setting, sort_keys=True, default=str)
        self.setting = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.file: Path | None = None
        self._returns: dict[str, dict[int, list[float]]] = {}
        if directory is not None:
            self.file = directory / FILE
            self._open(self.file)

    def _open(self, file: Path) -> None:
        lines: list[str] = []
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if file.exists():
                lines = read_text(file).splitlines(keepends=True)
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{file} cannot be read: {error}. Choose another directory.") from error
        if lines and not lines[-1].endswith("\n"):
            del lines[-1]  # the line that was being written when the play was ended
            write_atomically(file, "".join(lines))
        for number, line in enumerate(lines, 1):
            self._read(line, f"{file}, line {number}")

    def _read(self, line: str, where: str) -> None:
        try:
            entry = parse_json(line)
            if entry["format"] not in (UNSEALED, FORMAT):
                raise ValueError(f"format {entry['format']!r}, expected {UNSEALED} or {FORMAT}")
            check_line(line, required=entry["format"] > UNSEALED)
            if entry["setting"] != self.setting:
                return
            for match in entry["matches"]:
                pairs = zip(match["seeds"], match["returns"], strict=True)
                self._rows(match["seating"]).update(pairs)
        except (KeyError, TypeError, ValueError) as error:
            raise DataError(
                f"{where} is not a line of a cross-play ({type(error).__name__}: {error}). Choose another directory, or take "
                "the line out."
            ) from error

    def _rows(self, seating: Sequence[Sequence[str]]) -> dict[int, list[float]]:
        return self._returns.setdefault(json.dumps(seating), {})

    def missing(self, job: Job) -> Job:
        """What of the job has not been played yet."""
        played = self._rows(job.seating)
        seeds = [seed for seed in job.seeds if seed not in played]
        return Job(job.seating, tuple(seeds))

    def add(self, batch: Sequence[tuple[Job, Returns]]) -> None:
        """Keep a finished batch, all of it or nothing."""
        for job, returns in batch:
            self._rows(job.seating).update(zip(job.seeds, returns.tolist(), strict=True))
        if self.file is None:
            return
        matches = []
        for job, found in batch:
            matches.append({"seating": job.seating, "seeds": job.seeds, "returns": found.tolist()})
        # One line: what was cut off when the play was ended is seen by its missing end, and lost alone.
        line = json.dumps({"format": FORMAT, "setting": self.setting, "matches": matches})
        append_to(self.file, sealed_line(line))

    def returns(self, job: Job) -> Returns:
        """Of the job's episodes, in the order of its seeds."""
        rows = self._rows(job.seating)
        return np.array([rows[seed] for seed in job.seeds])
