"""Opening files that somebody named: regular files alone, of a size that fits into memory.

Opening a FIFO waits for a writer for ever, and a device has no end, so anything but a regular file is refused, with an
``OSError`` as a missing file is: whoever reads says what was wanted instead. Links are followed.
"""

from __future__ import annotations

import io
import json
import os
import stat
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError, printable
from marl.memory import free_memory, in_words
from marl.trust import words_of

JSON_GROWTH = 16  # bytes of Python objects per byte of JSON: lists of small numbers take 8 to 20
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO (named pipe)",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


class NotAFileError(OSError):
    """Something is there, but no regular file."""


class TooLargeError(OSError):
    """A file would not fit into memory."""


def open_input(path: Path | str) -> io.BufferedReader:
    """The file, opened for reading bytes; anything but a regular file is a ``NotAFileError``."""
    # Opened first and looked at afterwards, by its descriptor: between two looks at a path somebody may change what is there.
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            what = KINDS.get(stat.S_IFMT(mode), "no regular file")
            raise NotAFileError(f"{path} is {what}; expected a file")
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def real_path(path: Path | str) -> Path:
    """Where a path leads; of links that lead in a circle the path itself (``Path.resolve`` raises a ``RuntimeError``)."""
    return Path(os.path.realpath(path))


def read_bytes(path: Path | str, growth: float = 1.0, largest: int | None = None) -> bytes:
    """The whole file; ``growth`` is how many bytes of memory each of its bytes will take, ``largest`` a limit of its size."""
    with open_input(path) as file:
        size = os.fstat(file.fileno()).st_size
        if largest is not None and size > largest:
            raise TooLargeError(f"{path} has {size:,} bytes; at most {largest:,} are read")
        check_fits(path, int(size * growth))
        return file.read()


def check_fits(path: Path | str, needed: int) -> None:
    """Refuse to read what would take more memory than there is."""
    free = free_memory()
    if needed > free:
        raise TooLargeError(f"{path} would take {in_words(needed)} of memory, and {in_words(free)} are free")


def read_text(path: Path | str, errors: str = "strict", largest: int | None = None) -> str:
    """The whole file as UTF-8 text, every end of line as ``\\n``."""
    text = read_bytes(path, growth=2.0, largest=largest).decode("utf-8", errors)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_json(path: Path | str) -> Any:
    """The JSON in a file (Python's dialect); what is not JSON, or nested beyond all reason, is a ``ValueError``."""
    return parse_json(read_bytes(path, growth=JSON_GROWTH))


def parse_json(text: str | bytes) -> Any:
    """``json.loads`` whose only error is a ``ValueError``."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_texts(value: object, where: str) -> None:
    """Refuse texts with characters that a terminal obeys: they name nothing, and would be printed."""
    for text in words_of(value, with_keys=True):
        if printable(text) != text:
            raise CheckpointError(f"{printable(where)} holds {text!a}, which has control characters. It is not used.")
