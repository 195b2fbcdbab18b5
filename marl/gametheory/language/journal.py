"""All that a language model was asked and answered, one JSON object per line.

A question is found again by the digest of the whole request, so a run can be repeated without the model, and one that was
stopped goes on where it was. Files may come from strangers: they are read as data, and a file that holds anything else than a
journal is not written to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from marl.errors import JournalError


class Journal:
    """Answers by question; in memory alone where there is no file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.answers: dict[str, dict[str, Any]] = {}
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        try:
            lines = path.read_bytes().split(b"\n")
        except OSError as error:
            raise JournalError(f"{path} cannot be read as a journal of a language model: {error.strerror}.") from None
        last = lines.pop()
        # Whole where only its end is missing, which an editor may have taken away; refused below where it is something else.
        if _entry(last) is not None or not _is_torn(last):
            lines.append(last)
        for number, line in enumerate(lines, start=1):
            entry = _entry(line)
            if entry is None:
                raise JournalError(
                    f"{path}, line {number}, is no entry of a journal of a language model: {line[:60]!r}. Expected "
                    '{"key": ..., "request": ..., "answer": ...} in every line. Give another file, or remove the line.'
                )
            self.answers[entry["key"]] = entry["answer"]
        # What was torn is taken away, or the next line would be glued to it.
        if last:
            whole = b"".join(line + b"\n" for line in lines)
            path.write_bytes(whole)

    def find(self, request: Mapping[str, Any]) -> dict[str, Any] | None:
        return self.answers.get(digest(request))

    def add(self, request: Mapping[str, Any], answer: dict[str, Any]) -> None:
        key = digest(request)
        self.answers[key] = answer
        if self.path is None:
            return
        line = json.dumps({"key": key, "request": request, "answer": answer}, sort_keys=True)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(f"{line}\n")
        except OSError as error:
            raise JournalError(
                f"answers cannot be kept in {self.path}: {error.strerror}. Give another journal."
            ) from None


def digest(request: Mapping[str, Any]) -> str:
    """What equal requests have in common."""
    return sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()


BEGIN = b'{"answer": '
"""How every line begins that was written here: keys are sorted."""


def _is_torn(line: bytes) -> bool:
    """Whether it is the beginning of an entry, as a run leaves it that was killed while it wrote; also nothing at all."""
    return line.startswith(BEGIN) or BEGIN.startswith(line)


def _entry(line: bytes) -> dict[str, Any] | None:
    """What a line holds; None where it is no entry."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(found, dict) and isinstance(found.get("key"), str) and isinstance(found.get("answer"), dict)
    # The request is for people to read; only its digest and the answer are needed.
    return found if fits else None
