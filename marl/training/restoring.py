"""A state from a file is put to use: a hash vouches for its bytes, not for their meaning.

Another version of marl or of the env may have written the file, or somebody who wishes no good. So what many read is looked
at as soon as it is read, and whatever fails later is said to come from that file.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from marl.errors import CheckpointError, UserError
from marl.failures import machine_failure

log = logging.getLogger(__name__)


@contextmanager
def put_to_use(folder: Path, part: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a part (None: the whole state) is put to use, the message says where it came from.

    A hash vouches for bytes, not for their meaning: another version, or somebody else, may have written the file.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if machine_failure(error) is not None:  # a full disk is not the file's fault
            raise
        log.debug("%s, part %s, does not fit", folder, part, exc_info=True)
        what = f"part {part!r}" if part else "what it holds"
        raise CheckpointError(
            f"{folder}: {what} does not fit this run ({type(error).__name__}: {error}). Another version of marl or of "
            "the env wrote it, or it was changed since. Use another checkpoint, or start a new run with `load: "
            f"{{POLICY: {folder}}}`."
        ) from error


def strange_part(part: str, tree: Any) -> str | None:
    """What is wrong with the outline of a part that many read, ``run`` or ``policies``: hashes say nothing of who wrote it."""
    if part == "run":
        missing = [key for key in ("scenario", "counters") if not isinstance(_entry(tree, key), dict)]
        return f"it has no {missing[0]}" if missing else None
    if part == "policies":
        if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
            return "it does not hold policies by their names"
        for name, weights in tree.items():
            if not isinstance(weights, dict) or not all(isinstance(array, np.ndarray) for array in weights.values()):
                return f"the weights of policy {name!r} are not arrays by their names"
    return None


def _entry(tree: Any, key: str) -> Any:
    return tree.get(key) if isinstance(tree, dict) else None
