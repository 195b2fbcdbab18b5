"""Bytes of the network as plain messages, and answers as bytes: JSON, or msgpack where the client speaks it.

What comes out is plain data (dicts, lists, texts, numbers): there is nothing in either format that could run code. How large
a frame may be is checked while it is read; how deeply it is nested here, before anybody walks through it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgpack  # type: ignore[import-untyped]
import numpy as np

from marl.serve.refused import Refused, bad_message

JSON_TYPE = "application/json"
MSGPACK_TYPE = "application/msgpack"
PLAIN = frozenset((dict, list, str, int, float, bool, type(None)))

# Possessive, so that a text that never ends is passed over once and not once for each quote in it.
_TEXTS = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(code for code in range(256) if chr(code) not in "[]{}")


@dataclass(frozen=True)
class Format:
    """One of the two ways in which messages are written."""

    media_type: str
    decode: Callable[[bytes | str, int], dict[str, Any]]  # the frame, and how deep it may be
    encode: Callable[[dict[str, Any]], bytes]


def malformed(why: str) -> Refused:
    return bad_message(f"this is no message: {why}. Expected one object (a map with text keys).")


# -- JSON ----------------------------------------------------------------------------------------------------------


def decode_json(frame: bytes | str, max_depth: int) -> dict[str, Any]:
    # The parser calls itself for each level, so the levels are counted before.
    if is_too_deep(frame, max_depth):
        raise malformed(f"it is nested more than {max_depth} levels deep")
    try:
        message = json.loads(frame)
    except (ValueError, RecursionError) as error:  # bad UTF-8 and numbers with thousands of digits are ValueErrors
        raise malformed(f"JSON says {error}") from error
    return _as_message(message)


def is_too_deep(frame: bytes | str, max_depth: int) -> bool:
    """Whether brackets are nested deeper than this. Exact for JSON; where it is none, the parser finds out."""
    if isinstance(frame, str):
        if frame.count("[") + frame.count("{") <= max_depth:  # nearly all messages; the rest costs more
            return False
        frame = frame.encode("utf-8", "surrogatepass")
    elif frame.count(b"[") + frame.count(b"{") <= max_depth:
        return False
    brackets = _TEXTS.sub(b"", frame).translate(_BRACKETS, _NO_BRACKETS)
    # A pair without anything inside is a leaf; each round takes the leaves away, and with them one level.
    for _ in range(max_depth):
        brackets = brackets.replace(b"[]", b"")
    return b"[" in brackets


def _plain(value: object) -> object:
    """Actions and details may hold numbers and arrays of numpy."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent")


# NaN is not JSON: a client that trusts its parser would fail far from the reason.
_encoder = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)


def encode_json(answer: dict[str, Any]) -> bytes:
    return _encoder.encode(answer).encode("ascii")


# -- msgpack -------------------------------------------------------------------------------------------------------


def decode_msgpack(frame: bytes | str, max_depth: int) -> dict[str, Any]:
    try:
        # The parser holds the lengths that a frame claims against its real size, so ten bytes cannot ask for gigabytes.
        message = msgpack.unpackb(frame, raw=False)
    # It has a stack of its own, and refuses what is nested too deeply for it.
    except (ValueError, TypeError, OverflowError, msgpack.UnpackException) as error:
        raise malformed(f"msgpack says {error!r}") from error
    _check_plain(message, max_depth)
    return _as_message(message)


def encode_msgpack(answer: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(answer, default=_plain, unicode_errors="surrogatepass")
    return packed


def _check_plain(message: object, max_depth: int) -> None:
    """Level by level: not too many of them, and nothing in it that JSON does not have (bytes, times, extensions)."""
    level = [message]
    for _ in range(max_depth + 1):
        strange = set(map(type, level)) - PLAIN
        if strange:
            raise malformed(f"it holds {strange.pop().__name__}, which JSON does not have")
        level = _children(level)
        if not level:
            return
    raise malformed(f"it is nested more than {max_depth} levels deep")


def _children(level: list[Any]) -> list[Any]:
    """All that is in the dicts and lists of one level."""
    below: list[Any] = []
    for one in level:
        if isinstance(one, list):
            below.extend(one)
        elif isinstance(one, dict):
            below.extend(_values(one))
            if any(type(key) is not str for key in one):
                raise malformed("a key of a map is no text")
    return below


def _values(found: dict[Any, Any]) -> list[Any]:
    """What is in a map; the bytes of a packed array are the one place where bytes may stand."""
    inside = dict(found)
    if "__nd__" in found:
        inside.pop("data", None)
    return list(inside.values())


def _as_message(message: object) -> dict[str, Any]:
    if not isinstance(message, dict):
        raise malformed(f"it is a {type(message).__name__}")
    return message


JSON = Format(JSON_TYPE, decode_json, encode_json)
MSGPACK = Format(MSGPACK_TYPE, decode_msgpack, encode_msgpack)
FORMATS = {JSON_TYPE: JSON, MSGPACK_TYPE: MSGPACK, "application/x-msgpack": MSGPACK}
