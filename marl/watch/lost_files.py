"""Files that could not be read or written: a results folder is moved, removed and filled up while somebody looks at it."""

from __future__ import annotations

from pathlib import Path

from marl.serve.refused import Refused


def refusal_of(error: OSError) -> Refused:
    """In a sentence, with the name of the file and not its place: guests of a game may read it, too."""
    why = error.strerror or type(error).__name__
    if isinstance(error.filename, str):
        name = Path(error.filename).name
        why = f"{why}: {name!r}"
    return Refused("files", f"a file could not be read or written ({why}); it may have been removed meanwhile.", 409)
