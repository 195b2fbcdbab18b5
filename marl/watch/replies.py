"""Requests and answers as JSON that browsers can read: numbers that JSON has no words for become null."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from fastapi import Request, Response

from marl.serve.refused import Refused

MOST_BODY = 1024 * 1024


class Answer(Response):
    """Any value of ours as JSON."""

    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(content, status_code, {"cache-control": "no-store", **(headers or {})})

    def render(self, content: Any) -> bytes:
        if isinstance(content, bytes):  # JSON already
            return content
        return as_json(content)


def as_json(content: Any) -> bytes:
    if isinstance(content, dict) and isinstance(content.get("result"), bytes):
        # What a process has made JSON of already: an episode may have millions of numbers.
        about = as_json({**content, "result": None})
        return about.replace(b'"result":null', b'"result":' + content["result"], 1)
    try:
        return json.dumps(content, allow_nan=False, default=_plain, separators=(",", ":")).encode()
    except ValueError:  # some number is not finite, which is rare: only then everything is looked at
        return json.dumps(finite(content), default=_plain, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return finite(value.tolist())
    if isinstance(value, np.generic):
        return finite(value.item())
    if isinstance(value, set | frozenset | tuple):
        return list(value)
    return str(value)


def finite(value: Any) -> Any:
    """The same with null in the place of nan and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value


async def body_of(request: Request, most: int = MOST_BODY) -> dict[str, Any]:
    """The JSON object of a request, no more of it than is allowed."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise Refused("too_large", f"the request has more than {most} bytes.", 413)
    # A page of another origin cannot send this type without being asked for its origin first.
    if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        raise Refused("bad_message", "expected content-type application/json.", 415)
    try:
        content = json.loads(body)
    except (ValueError, RecursionError):
        raise Refused("bad_message", "the request is no JSON.", 400) from None
    if not isinstance(content, dict):
        raise Refused("bad_message", "expected a JSON object.", 400)
    return content
