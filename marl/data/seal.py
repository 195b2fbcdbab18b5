"""Seals: a hash of a small JSON file, kept in the file itself, so that a flipped bit is noticed and not believed.

A seal tells damage, not forgery: whoever changes a file on purpose can seal it anew.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

SEAL = "seal"
_END_OF_LINE = re.compile(rf',\s?"{SEAL}":\s?"([0-9a-f]{{64}})"}}$', re.ASCII)


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """The content of a JSON file with the hash of all the rest as its last key."""
    return {**content, SEAL: _hash(content)}


def check_seal(content: Mapping[str, Any], required: bool) -> None:
    """A ``ValueError`` if the content is not what was sealed. Files of before seals (not ``required``) may have none."""
    if SEAL not in content and not required:
        return
    rest = dict(content)
    expected = rest.pop(SEAL, None)
    found = _hash(rest)
    if found != expected:
        raise ValueError(f"the SHA-256 of its content begins with {found[:12]}, its {SEAL} says {str(expected)[:12]}")


def _hash(content: Mapping[str, Any]) -> str:
    """Of the values, whatever the spaces and the order of the keys in the file."""
    try:
        as_read = json.loads(json.dumps(content))  # as reading gives it: keys are texts, tuples are lists
        return hashlib.sha256(json.dumps(as_read, sort_keys=True).encode()).hexdigest()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def sealed_line(text: str) -> str:
    """One JSON object on a line of its own, sealed; long lines are hashed as they are instead of being parsed again."""
    return f'{text[:-1]}, "{SEAL}": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'


def check_line(line: str, required: bool) -> None:
    """The same as ``check_seal`` for a line."""
    end = _END_OF_LINE.search(line.rstrip("\n"))
    if end is None:
        if required:
            raise ValueError(f"it has no {SEAL}")
        return
    found = hashlib.sha256(f"{line[: end.start()]}}}".encode()).hexdigest()
    if found != end[1]:
        raise ValueError(f"the SHA-256 of its content begins with {found[:12]}, its {SEAL} says {end[1][:12]}")
