"""Pictures are extras: they show what other files hold as numbers, so none of them is worth a run."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import TypeVar

log = logging.getLogger(__name__)

Drawn = TypeVar("Drawn")
LONGEST_REASON = 300  # characters; matplotlib lists all of its backends


def draw_or_warn(picture: object, draw: Callable[[], Drawn]) -> Drawn | None:
    """What ``draw`` gives; where it fails, a warning names the picture that is missing, and None is given."""
    try:
        return draw()
    except Exception as error:  # a backend that does not exist, a broken font, a full disk: all the same to the run
        warn_of_missing(picture, reason_of(error))
        return None


def warn_of_missing(picture: object, reason: str) -> None:
    log.warning("the picture %s is missing: %s. Everything else is there.", picture, reason)


def reason_of(error: Exception) -> str:
    """One short sentence, with the setting that most often is to blame."""
    said = " ".join(f"{type(error).__name__}: {error}".split())[:LONGEST_REASON].rstrip(".")
    backend = os.environ.get("MPLBACKEND")
    if backend is not None and backend in said:
        return f"{said} (MPLBACKEND is set to {backend!r}; unset it)"
    return said
