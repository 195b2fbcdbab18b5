"""What a server does not take, in words that its client can act on."""

from __future__ import annotations

import logging
from typing import Any

from marl.errors import UserError

_log = logging.getLogger(__name__)

SHORT = 80  # letters of a value in a message: it may be a picture


class Refused(UserError):
    """A message that is not taken: nothing has been counted, and the server goes on.

    ``code`` is for programs, the text for people. ``where`` says whose value it was (agent, t, key).
    """

    def __init__(
        self,
        code: str,
        message: str,
        status: int = 400,
        *,
        retry_after: float | None = None,
        where: dict[str, Any] | None = None,
        expected: Any = None,
    ) -> None:
        super().__init__(message)
        self.code, self.status, self.retry_after = code, status, retry_after
        self.where = where or {}
        self.expected = expected

    def again(self) -> Refused:
        """A copy for the next one who is told: an exception that is raised twice keeps what the first one held."""
        return Refused(
            self.code, str(self), self.status, retry_after=self.retry_after, where=self.where, expected=self.expected
        )

    def to_json(self) -> dict[str, Any]:
        told: dict[str, Any] = {"code": self.code, "message": str(self), **self.where}
        if self.retry_after is not None:
            told["retry_after"] = round(self.retry_after, 3)
        if self.expected is not None:
            told["expected"] = self.expected
        return {"error": told}


def shortly(value: object) -> str:
    """A value as it was got, cut where it is long."""
    if isinstance(value, list | tuple | dict | bytes):
        return f"a {type(value).__name__} of {len(value)}"
    if isinstance(value, str):
        value = value[: SHORT + 1]
    if isinstance(value, int) and value.bit_length() > 256:  # Python refuses to print the longest ones
        return "a whole number of more than 256 bits"
    text = repr(value)
    if len(text) > SHORT:
        text = f"{text[:SHORT]}..."
    return text


def bad_message(message: str, **where: Any) -> Refused:
    return Refused("bad_message", message, 400, where=where)


def out_of_order(message: str, expected: int, **where: Any) -> Refused:
    return Refused("out_of_order", message, 409, where=where, expected=expected)


def too_many(message: str, retry_after: float) -> Refused:
    return Refused("too_many", message, 429, retry_after=retry_after)


def internal(error: BaseException) -> Refused:
    """A mistake of our own with one message: the log has all of it, the client learns that it is not its fault."""
    _log.error("the server made a mistake with a message", exc_info=error)
    return Refused("internal", "the server made a mistake with this message; its log has the reason.", 500)
