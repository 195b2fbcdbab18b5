"""Columns of a ``progress.csv`` that grows: what was read stays, and only what was appended is read again.

With hundreds of runs the files have hundreds of megabytes, so columns are read when somebody asks for them. Lines are split
as bytes, which is ten times as fast as a CSV reader; a line with quotes in it goes through that reader.
"""

from __future__ import annotations

import csv
import io
import math
import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.inputs import check_fits, open_input

Column: TypeAlias = NDArray[np.float64]

SEAM = 64  # bytes before the end of what was read, by which a file that only grew is told from a new one
LARGE = 64 * 1024 * 1024  # bytes
LARGEST_HEADER = 1_000_000
TAIL = 24 * 1024
# Kept of one table beside those that are always needed: whoever looks at all fields in turn must not fill the memory.
MOST_COLUMNS = 8


class Signature(NamedTuple):
    """Of a file that has not changed all of it stays the same."""

    inode: int
    size: int
    written: int  # nanoseconds


def signature_of(file: Path | str) -> Signature | None:
    """None where there is no file."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return Signature(found.st_ino, found.st_size, found.st_mtime_ns)


class ProgressTable:
    """One table. ``refresh`` sees what is new; a row counts when its line has ended."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.needed: frozenset[str] = frozenset()  # columns that are kept whatever others are asked for
        self._signature: Signature | None = None
        self._forget()

    def _forget(self) -> None:
        self.names: tuple[str, ...] = ()  # of the columns, with dots
        self.last: tuple[str, ...] = ()  # cells of the newest row
        self.rows = 0
        self._columns: dict[str, array[float]] = {}
        self._read_to = 0  # bytes of whole lines that were read
        self._seam = b""

    def refresh(self) -> bool:
        """Read what is new, and the needed columns; whether anything is new."""
        before, self._signature = self._signature, signature_of(self.file)
        is_new = before != self._signature
        if is_new:
            self._read_on(before)
        self._read_again(self.needed)
        return is_new

    @property
    def was_read(self) -> bool:
        """Whether all of it is known, or that there is no file."""
        return self._signature is not None or signature_of(self.file) is None

    def peek(self) -> None:
        """Only the newest rows, for a first look at a long table; ``refresh`` reads all of it."""
        self._forget()
        try:
            with open_input(self.file) as stream:
                header = stream.readline(LARGEST_HEADER)
                size = os.fstat(stream.fileno()).st_size
                begin = max(len(header), size - TAIL)
                stream.seek(begin)
                content = stream.read()
        except OSError:
            return
        if begin > len(header):
            content = content.partition(b"\n")[2]  # the middle of a line
        self._name_columns(header.rstrip(b"\n"))
        self._take_rows(content[: content.rfind(b"\n") + 1])

    def column(self, name: str) -> Column:
        """The numbers of a column, one for each row; nan where there is none. Empty if the table has no such column."""
        self._read_again([name])
        found = self._columns.pop(name, None)
        if found is None:
            return np.empty(0)
        self._columns[name] = found  # at the end: used last
        spare = [one for one in self._columns if one not in self.needed]
        for one in spare[:-MOST_COLUMNS]:
            del self._columns[one]
        return np.array(found)

    def newest(self, name: str) -> float | None:
        """The last number of a column."""
        for value in reversed(self._columns.get(name, ())):
            if not math.isnan(value):
                return value
        return None

    def largest(self, name: str) -> float | None:
        """The largest number of a column."""
        column = self._columns.get(name)
        if not column:
            return None
        numbers = np.frombuffer(column)
        if np.isnan(numbers).all():
            return None
        return float(np.nanmax(numbers))

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read_on(self, before: Signature | None) -> None:
        """The lines behind those that were read; all of them where the file is another one now."""
        now = self._signature
        if now is None or before is None or now.inode != before.inode:
            self._forget()
        if now is None:
            return
        try:
            content = self._content_from(self._read_to - len(self._seam))
            if not content.startswith(self._seam):
                self._forget()
                content = self._content_from(0)
        except OSError:
            self._forget()
            return
        content = content[len(self._seam) :]
        if not self.names:
            content = self._take_header(content)
        self._take_rows(content)

    def _content_from(self, offset: int) -> bytes:
        """Whole lines from here on; a line that is being written stays for the next time."""
        with open_input(self.file) as stream:
            size = os.fstat(stream.fileno()).st_size
            if size - offset > LARGE:
                check_fits(self.file, 4 * (size - offset))
            stream.seek(offset)
            content = stream.read()
        return content[: content.rfind(b"\n") + 1]

    def _take_header(self, content: bytes) -> bytes:
        header, end, rest = content.partition(b"\n")
        if len(header) > LARGEST_HEADER:
            return b""
        self._name_columns(header)
        self._move(header + end)
        return rest

    def _name_columns(self, header: bytes) -> None:
        self.names = tuple(name.replace("/", ".") for name in _cells(header))
        for name in self.names:
            if name in self.needed:
                self._columns[name] = array("d")

    def _move(self, content: bytes) -> None:
        self._read_to += len(content)
        self._seam = (self._seam + content[-SEAM:])[-SEAM:]

    def _take_rows(self, content: bytes) -> None:
        lines = content.split(b"\n")
        last = self._parse(lines, list(self._columns))
        self._move(content)
        self.rows += len(lines) - 1
        if last:
            self.last = tuple(_cells(last))

    def _read_again(self, wanted: Iterable[str]) -> None:
        """Columns that nobody has asked for before: the lines that were read are read once more for them."""
        missing = [name for name in dict.fromkeys(wanted) if name in self.names and name not in self._columns]
        if not missing:
            return
        for name in missing:
            self._columns[name] = array("d")
        try:
            content = self._content_from(0)[: self._read_to]
        except OSError:
            content = b""
        self._parse(content.split(b"\n")[1:], missing)

    def _parse(self, lines: Sequence[bytes], names: Sequence[str]) -> bytes:
        """Append the numbers of these lines to the named columns; returns the last line."""
        places = [(self.names.index(name), self._columns[name].append) for name in names]
        line = last = b""
        nan = math.nan
        for line in lines:
            if not line:
                continue
            last = line
            cells: Sequence[bytes] | Sequence[str] = line.split(b",") if b'"' not in line else _cells(line)
            for place, append in places:
                try:
                    append(float(cells[place] or nan))  # most rows have no evaluation, and errors are slow
                except (ValueError, IndexError):  # no number; or a damaged line, which is shorter
                    append(nan)
        return last


def _cells(line: bytes) -> list[str]:
    text = line.decode("utf-8", "replace")
    try:
        return next(csv.reader(io.StringIO(text)), [])
    except csv.Error:
        return text.split(",")
