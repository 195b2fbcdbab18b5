"""The journal of a server: every message that was taken and every answer, in lines that outlive the process.

``segment_N.jsonl`` begins with a snapshot of all that is open, followed by lines in the order in which they happened. A line
is handed to the operating system before anything that it tells goes out, so the end of the process at any moment loses nothing
(a failure of the machine's power is not covered). Lines are chained by checksums; they hold data, and nothing of them is run.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from marl.errors import JournalError
from marl.storage import make_folder, storing, write_atomically

FORMAT = 1
NAME = re.compile(r"segment_(\d+)\.jsonl")
BEGINNING = re.compile(rb'\{"crc":"([0-9a-f]{8})","line":')
LENGTH = len(b'{"crc":"00000000","line":')
REMEDY = "Restore it from a copy, or move the folder away: the server then starts without the open episodes."
_PLAIN = json.JSONEncoder(separators=(",", ":"), allow_nan=False)


class Journal:
    """Segments in a folder, written at the end alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.segment: int | None = None  # that is written to; None: ``read`` or ``mark`` comes first
        self._file = -1
        self._size = 0
        self._crc = 0

    def segments(self) -> list[int]:
        found = []
        if self.folder.is_dir():
            for path in self.folder.iterdir():
                name = NAME.fullmatch(path.name)
                if name is not None:
                    found.append(int(name[1]))
        return sorted(found)

    def path(self, segment: int) -> Path:
        return self.folder / f"segment_{segment}.jsonl"

    # -- writing ---------------------------------------------------------------------------------------------------

    def append(self, line: Mapping[str, Any]) -> None:
        """All of a line or nothing of it; it is with the operating system when this returns."""
        assert self.segment is not None, "a journal is read, or begun by a mark, before it is written to"
        data, crc = _written(line, self._crc)
        left = memoryview(data)
        with storing(self.path(self.segment)):
            try:
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                with suppress(OSError):  # a part of a line would make all that follow unreadable
                    os.ftruncate(self._file, self._size)
                raise
        self._size, self._crc = self._size + len(data), crc

    def mark(self, snapshot: Iterable[Mapping[str, Any]]) -> int:
        """A new segment that begins with a snapshot. A checkpoint keeps its number: from there on the journal tells all."""
        make_folder(self.folder)
        number = max(self.segments(), default=-1) + 1
        lines = list(snapshot)
        header = {"kind": "journal", "format": FORMAT, "segment": number, "snapshot": len(lines)}
        crc, parts = 0, []
        for line in (header, *lines):
            data, crc = _written(line, crc)
            parts.append(data)
        content = b"".join(parts)
        write_atomically(self.path(number), content)  # a segment is there with its whole snapshot or not at all
        self._open(number, len(content), crc)
        return number

    def forget(self, before: int) -> None:
        """Remove the segments that no checkpoint needs any more."""
        for segment in self.segments():
            if segment < before and segment != self.segment:
                with storing(self.path(segment)):
                    self.path(segment).unlink(missing_ok=True)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self.segment = -1, None

    def _open(self, segment: int, size: int, crc: int) -> None:
        self.close()
        path = self.path(segment)
        with storing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0))
            os.ftruncate(self._file, size)  # what a half-written line left behind
        self.segment, self._size, self._crc = segment, size, crc

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, first: int | None = None) -> Iterator[dict[str, Any]]:
        """The snapshot of a segment (default: the oldest) and all lines since; then the journal is open for more.

        Nothing at all where there is no segment yet.
        """
        segments = self.segments()
        if first is not None:
            segments = [segment for segment in segments if segment >= first]
            if not segments or segments[0] != first:
                raise JournalError(f"{self.path(first)} is missing; the checkpoint goes on from there. {REMEDY}")
        for before, segment in pairwise(segments):
            if segment != before + 1:
                raise JournalError(f"{self.path(before + 1)} is missing between its neighbours. {REMEDY}")
        for segment in segments:
            yield from self._read_segment(segment, segment == segments[0], segment == segments[-1])

    def _read_segment(self, segment: int, with_snapshot: bool, is_last: bool) -> Iterator[dict[str, Any]]:
        path = self.path(segment)
        size, crc, skipped = 0, 0, 0
        try:
            file = path.open("rb")
        except OSError as error:
            raise JournalError(f"{path} cannot be read: {error.strerror}. {REMEDY}") from error
        with file:
            for number, raw in enumerate(file, 1):
                if is_last and not raw.endswith(b"\n") and number > 1:
                    break  # the process ended while it wrote this line; nothing of it went out
                line, crc = _read_line(path, number, raw, crc)
                if number == 1:
                    skipped = _check_header(path, line, segment)
                elif with_snapshot or number > 1 + skipped:
                    yield line
                size += len(raw)
        if not size:
            raise JournalError(f"{path} is empty. {REMEDY}")
        if is_last:
            self._open(segment, size, crc)


def _written(line: Mapping[str, Any], crc: int) -> tuple[bytes, int]:
    """A line as it stands in the file, and the checksum that the next one goes on from."""
    try:
        text = _PLAIN.encode(line)
    except TypeError:
        text = _with_bytes(line)
    body = text.encode()
    crc = zlib.crc32(body, crc)
    return b'{"crc":"%08x","line":%s}\n' % (crc, body), crc


def _with_bytes(line: Mapping[str, Any]) -> str:
    """Arrays that came as bytes, under a key that is drawn anew, so that no message can look like one."""
    key = secrets.token_hex(8)

    def packed(value: object) -> dict[str, str]:
        if not isinstance(value, bytes):
            raise TypeError(f"a {type(value).__name__} cannot be written into a journal")
        return {key: b64encode(value).decode()}

    return json.dumps({**line, "bytes": key}, default=packed, separators=(",", ":"), allow_nan=False)


def _read_line(path: Path, number: int, raw: bytes, crc: int) -> tuple[dict[str, Any], int]:
    begins = BEGINNING.match(raw)
    body = raw[LENGTH:-2]
    crc = zlib.crc32(body, crc)
    if begins is None or not raw.endswith(b"}\n") or int(begins[1], 16) != crc:
        what = "does not have the checksum that it was written with"
        if begins is None:
            what = "is not a line of a journal"
        raise JournalError(f"line {number} of {path} {what}: the file is damaged, or not a server's. {REMEDY}")
    try:
        line = json.loads(body)
        if isinstance(line, dict) and "bytes" in line:
            line = _unpacked(line, line["bytes"])
    except (ValueError, RecursionError) as error:
        raise JournalError(f"line {number} of {path} cannot be read: {error}. {REMEDY}") from None
    if not isinstance(line, dict) or not isinstance(line.get("kind"), str):
        raise JournalError(f"line {number} of {path} says nothing that a server writes. {REMEDY}")
    return line, crc


def _unpacked(value: Any, key: str) -> Any:
    if isinstance(value, list):
        return [_unpacked(item, key) for item in value]
    if isinstance(value, dict):
        if value.keys() == {key}:
            return b64decode(value[key])
        return {name: _unpacked(item, key) for name, item in value.items()}
    return value


def _check_header(path: Path, line: Mapping[str, Any], segment: int) -> int:
    """Lines of the snapshot that follow."""
    if line["kind"] != "journal" or line.get("segment") != segment:
        raise JournalError(f"{path} is not segment {segment} of a server's journal. {REMEDY}")
    if line.get("format") != FORMAT:
        raise JournalError(
            f"{path} has the format {line.get('format')!r}; this version reads {FORMAT}. Use the version that wrote it."
        )
    return int(line["snapshot"])
