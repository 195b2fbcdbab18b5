"""What an env showed in an episode, step by step, so that two episodes can be compared; and random actions for it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from marl.data.task import AgentID, AgentType, Array

REPEATED = 60  # steps of an episode that are played again to compare

View: TypeAlias = dict[str, str | Array]
"""What was shown in one step, as digests or as numbers: one entry per agent, one per thing that concerns everybody."""


@dataclass
class Trace:
    """One episode, or its beginning."""

    seed: int
    views: list[View] = field(default_factory=list)
    returns: dict[AgentID, float] = field(default_factory=dict)
    decisions: int = 0
    over: bool = False

    @property
    def length(self) -> int:
        return len(self.views) - 1

    def difference(self, other: Trace, tolerance: float = 0.0) -> str:
        """Where two episodes part, as far as both were played; empty: they do not."""
        for step, (mine, theirs) in enumerate(zip(self.views, other.views, strict=False)):
            parted = differs(mine, theirs, tolerance)
            if parted:
                return f"{parted} in step {step}"
        return ""


def differs(mine: View, theirs: View, tolerance: float = 0.0) -> str:
    """The first thing that two views show differently; empty: there is none."""
    for what in dict.fromkeys([*mine, *theirs]):
        if what not in mine or what not in theirs:
            return what
        if not _alike(mine[what], theirs[what], tolerance):
            return what
    return ""


def _alike(one: str | Array, other: str | Array, tolerance: float) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.shape != other.shape:
            return False
        # Arrays of native envs are compared within rounding: a sum over other copies may be added up in another order.
        return np.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)
    return bool(one == other)


def digest(value: Any) -> str:
    """A short hash of nested dicts, lists, arrays and numbers."""
    found = hashlib.sha256()
    _feed(found, value)
    return found.hexdigest()[:16]


def _feed(found: Any, value: Any) -> None:
    if isinstance(value, Mapping):
        for key, part in value.items():
            found.update(repr(key).encode())
            _feed(found, part)
    elif isinstance(value, list | tuple):
        found.update(b"[")
        for part in value:
            _feed(found, part)
    elif isinstance(value, np.ndarray) and value.dtype != object:
        found.update(str(value.shape).encode() + np.ascontiguousarray(value).tobytes())
    elif isinstance(value, np.generic):
        found.update(repr(value.item()).encode())
    else:
        found.update(repr(value).encode())


def arrays_in(value: Any) -> Iterator[Array]:
    """The arrays of a nested observation. A global state is shared by nature and left out."""
    if isinstance(value, np.ndarray):
        yield value
    elif isinstance(value, Mapping):
        for key, part in value.items():
            if key == "state":
                continue
            yield from arrays_in(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from arrays_in(part)


def draw(kind: AgentType, legal: Array | None, rng: np.random.Generator) -> Array:
    """A random stored action: a legal option of each choice; coordinates anywhere in their bounds, now and then at a bound."""
    columns = kind.columns
    row = np.zeros(len(columns), kind.action_dtype)
    masks: dict[int, Array] = {}
    if legal is not None and legal.size:
        one_row = legal.reshape(1, -1)
        masks = dict(columns.options_of(one_row))
    for column in columns.choices:
        allowed = np.arange(0)
        if column in masks:
            allowed = np.flatnonzero(masks[column][0])
        if allowed.size:
            row[column] = rng.choice(allowed)
        else:  # no mask, or one that allows nothing, which is reported elsewhere
            row[column] = rng.integers(columns.sizes[column])
    if columns.numbers:
        low, high = columns.bounds
        is_choice = np.array(columns.sizes) > 0
        row = np.where(is_choice, row, _numbers(low, high, rng)).astype(kind.action_dtype)
    return row.reshape(kind.action_shape)


def _numbers(low: Array, high: Array, rng: np.random.Generator) -> Array:
    bounded = np.isfinite(low) & np.isfinite(high)
    at_bound = rng.random() < 0.1  # envs often fail just there, and plain draws never get to a bound
    if at_bound:
        share = rng.integers(0, 2, low.shape).astype(np.float64)
    else:
        share = rng.random(low.shape)
    with np.errstate(invalid="ignore", over="ignore"):  # inf - inf of coordinates without bounds, not taken below
        inside = low + share * (high - low)
    anywhere = rng.normal(size=low.shape)
    return np.clip(np.where(bounded, inside, anywhere), low, high)
