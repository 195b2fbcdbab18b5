"""The five messages of ``marl/1``: what each may hold, read into plain objects or refused by agent, t and key."""

from __future__ import annotations

import marshal
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from marl.data.task import AgentID, Array
from marl.envs.external.steps import AgentReport, OwnAction
from marl.errors import did_you_mean
from marl.serve.refused import bad_message, shortly

PROTOCOL = "marl/1"
KINDS = ("hello", "start", "act", "log", "end")
PLAIN = frozenset((str, int, float, bool, type(None)))
LONGEST_NAME = 200  # letters of the ids that clients choose
DETAILS = frozenset(("probabilities", "value", "state"))
MASK = "action_mask"

# `type` and `id` belong to the frame, `token` to the door.
FRAME = frozenset(("type", "id", "token"))
HELLO_KEYS = FRAME | {"protocol", "session", "name", "agents", "state_size", "mode"}
START_KEYS = FRAME | {"session", "episode", "training", "parties"}
REPORT_KEYS = frozenset(("obs", MASK, "reward", "terminated", "truncated", "info"))
STEP_KEYS = FRAME | {"session", "episode", "t", "agents", "state"}
KEYS_OF = {
    "act": STEP_KEYS | {"want"},
    "log": STEP_KEYS | {"want", "actions", "logp", "version"},
    "end": STEP_KEYS,
}
CONTENT = ("agents", "state", "want", "actions", "logp", "version")  # what must be equal when a step is sent again


@dataclass(frozen=True, slots=True)
class Report:
    """A step as one party reports it, checked against the spaces."""

    kind: str
    t: int
    agents: dict[AgentID, AgentReport]
    asked: tuple[AgentID, ...]  # who is shown something and goes on
    seen: frozenset[AgentID]  # who is shown something
    ended: frozenset[AgentID]
    state: Array | None
    own: dict[AgentID, OwnAction] | None
    own_version: int | None
    wanted: frozenset[str]


def fingerprint(kind: str, message: Mapping[str, Any]) -> bytes:
    """Equal for equal content, whichever frame it came in."""
    content = [kind, *[message.get(key) for key in CONTENT]]
    try:
        # Only written, never read: the fastest form of plain values that is the same in every process (version 2 is).
        plain = marshal.dumps(content, 2)
    except ValueError:
        raise bad_message("the message holds what neither JSON nor msgpack has.") from None
    return blake2b(plain, digest_size=16).digest()


def check_keys(kind: str, message: Mapping[str, Any], known: Iterable[str]) -> None:
    for key in message.keys() - known:
        raise bad_message(
            f"{kind} has the key {shortly(key)}. Known: {', '.join(sorted(known))}.{did_you_mean(key, known)}",
            key=shortly(key),
        )


def text(kind: str, message: Mapping[str, Any], key: str) -> str:
    """An id or a name that a client gave."""
    value = message.get(key)
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise bad_message(
            f"{key} of {kind} is {shortly(value)}; expected a text of 1 to {LONGEST_NAME} letters.", key=key
        )
    return value


def whole(kind: str, message: Mapping[str, Any], key: str, lowest: int, highest: int = 2**53) -> int:
    value = message.get(key)
    if type(value) is not int or not lowest <= value <= highest:
        raise bad_message(f"{key} of {kind} is {shortly(value)}; expected a whole number from {lowest}.", key=key)
    return value


def flag(value: Any, default: bool, **where: Any) -> bool:
    if value is None:
        return default
    if not isinstance(value, bool):
        raise bad_message(f"{where['key']} is {shortly(value)}; expected true or false.", **where)
    return value


def check_depth(value: Any, left: int, **where: Any) -> None:
    """Plain values, nested no deeper than allowed; neither NaN nor infinite."""
    kind, key = type(value), where["key"]
    if kind is float and not math.isfinite(value):
        raise bad_message(f"{key} holds {value}; expected finite numbers.", **where)
    if kind in PLAIN:
        return
    if kind not in (list, dict):
        raise bad_message(f"{key} holds a {kind.__name__}; expected what JSON has.", **where)
    if left <= 0:
        raise bad_message(f"{key} is nested too deeply.", **where)
    inner = value
    if kind is dict:
        inner = value.values()
        _check_texts(value, **where)
    for item in inner:
        check_depth(item, left - 1, **where)


def _check_texts(keys: Iterable[Any], **where: Any) -> None:
    for key in keys:
        if not isinstance(key, str):
            raise bad_message(f"{where['key']} has the key {shortly(key)}; expected texts as keys.", **where)
