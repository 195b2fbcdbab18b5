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
from pathlib import Path
from typing import Any, BinaryIO

from marl.errors import JournalError
from marl.storage import make_folder, storing, write_atomically

FORMAT = 1
# No link is followed; and what is written stays as it is, where a system would make two characters of the end of a line.
FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
NAME = re.compile(r"segment_(\d+)\.jsonl")
BEGINNING = re.compile(rb'\{"crc":"([0-9a-f]{8})","line":')
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
        """The numbers of those that are there, the oldest first."""
        found = []
        for path in self.folder.glob("segment_*.jsonl"):
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
            if segment == self.segment or segment >= before:
                break
            path = self.path(segment)
            with storing(path):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self.segment = -1, None

    def _open(self, segment: int, size: int, crc: int) -> None:
        self.close()
        path = self.path(segment)
        with storing(path):
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | FLAGS)
            os.ftruncate(self._file, size)  # what a half-written line left behind
        self.segment, self._size, self._crc = segment, size, crc

    # -- reading ---------------------------------------------------------------------------------------------------

    def read(self, first: int | None = None) -> Iterator[dict[str, Any]]:
        """The snapshot of a segment (default: the oldest) and all lines since; then the journal is open for more.

        Nothing at all where there is no segment yet and none was asked for.
        """
        there = self.segments()
        if first is None and not there:
            return
        if first is None:
            first = there[0]
        last = max([first, *there])
        for segment in range(first, last + 1):
            if segment not in there:
                raise JournalError(f"{self.path(segment)} is missing, and what came after it builds on it. {REMEDY}")
            yield from self._read_segment(segment, with_snapshot=segment == first, is_last=segment == last)

    def _read_segment(self, segment: int, with_snapshot: bool, is_last: bool) -> Iterator[dict[str, Any]]:
        path = self.path(segment)
        size, crc, skipped = 0, 0, 0
        with _opened(path) as file:
            for number, raw in enumerate(file, 1):
                is_whole = raw.endswith(b"\n")
                if is_last and size and not is_whole:
                    break  # the process ended while it wrote this line; nothing of it went out
                line, crc = _read_line(path, number, raw, crc)
                size += len(raw)
                if number == 1:
                    in_snapshot = _check_header(path, line, segment)
                    skipped = 1 if with_snapshot else 1 + in_snapshot
                if number > skipped:
                    yield line
        if not size:
            raise JournalError(f"{path} is empty. {REMEDY}")
        if is_last:
            self._open(segment, size, crc)


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise JournalError(f"{path} cannot be read: {error.strerror}. {REMEDY}") from error


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
    where = f"line {number} of {path}"
    begins = BEGINNING.match(raw)
    if begins is None or not raw.endswith(b"}\n"):
        raise JournalError(f"{where} is not a line of a journal: the file is damaged, or not a server's. {REMEDY}")
    body = raw[begins.end() : -2]
    crc = zlib.crc32(body, crc)
    if int(begins[1], 16) != crc:
        raise JournalError(
            f"{where} does not have the checksum that it was written with: the file is damaged, or lines of it are gone. "
            f"{REMEDY}"
        )
    try:
        line = json.loads(body)
        line = _unpacked(line, line.get("bytes"))
    except (ValueError, RecursionError, AttributeError) as error:
        raise JournalError(f"{where} cannot be read: {error}. {REMEDY}") from None
    if not isinstance(line.get("kind"), str):
        raise JournalError(f"{where} says nothing that a server writes. {REMEDY}")
    return line, crc


def _unpacked(value: Any, key: str | None) -> Any:
    """What ``_with_bytes`` packed, as it was."""
    if key is None:
        return value
    if isinstance(value, list):
        return [_unpacked(item, key) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {key}:
        return b64decode(value[key])
    found = {}
    for name, item in value.items():
        found[name] = _unpacked(item, key)
    return found


def _check_header(path: Path, line: Mapping[str, Any], segment: int) -> int:
    """Lines of the snapshot that follow."""
    if line["kind"] != "journal" or line.get("segment") != segment:
        raise JournalError(f"{path} is not segment {segment} of a server's journal. {REMEDY}")
    if line.get("format") != FORMAT:
        raise JournalError(
            f"{path} has the format {line.get('format')!r}; this version reads {FORMAT}. Use the version that wrote it."
        )
    return int(line["snapshot"])
