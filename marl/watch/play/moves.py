"""What a person may do, in words that a page can show, and what was chosen, checked and as it is stored."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from marl.data.action_units import from_env
from marl.data.task import AgentID, AgentType, Array, Bools
from marl.rollout.config import RolloutConfig
from marl.serve.refused import Refused, shortly

MOST_OPTIONS = 2_000  # of one choice; more would not be a list any more


def described(kind: AgentType, names: Sequence[str]) -> list[dict[str, Any]]:
    """The columns of an action: choices with their options, and coordinates with their bounds."""
    columns = kind.columns
    low, high = columns.bounds
    found: list[dict[str, Any]] = []
    for column, size in enumerate(columns.sizes):
        if size:
            # Only actions of a single choice have names.
            called: list[str] = []
            if len(columns) == 1 and len(names) == size:
                called = list(names)
            found.append({"type": "choice", "options": size, "names": called, "start": columns.starts[column]})
        else:
            whole = columns.whole[column]
            found.append({"type": "number", "low": float(low[column]), "high": float(high[column]), "whole": whole})
    return found


def legal_options(kind: AgentType, mask: Bools) -> list[list[bool]] | None:
    """By choice which options are legal; None: all of them are."""
    if not mask.size:
        return None
    found = []
    for _, part in kind.columns.options_of(mask[None]):
        found.append(part[0].tolist())
    return found


def read_move(agent: AgentID, given: Any, kind: AgentType, mask: Bools, config: RolloutConfig) -> Array:
    """What the page sent (a number, or one per column: options from 0 on, coordinates as the env counts) as it is stored."""
    columns = kind.columns
    numbers = [given]
    if isinstance(given, list):
        numbers = given
    if len(numbers) != len(columns) or not all(map(_is_number, numbers)):
        raise _illegal(agent, f"got {shortly(given)}, expected {len(columns)} number(s) of {kind.action_space}")
    row = np.array(numbers, np.float64)
    if not columns.contains(row.astype(np.float32)):
        raise _illegal(agent, f"{shortly(given)} is none of {kind.action_space}")
    if mask.size:
        _check_legal(agent, kind, row, mask)
    stored = np.asarray(from_env(row.astype(columns.dtype), columns, config)).astype(kind.action_dtype)
    return stored.reshape(kind.action_shape)


def _check_legal(agent: AgentID, kind: AgentType, row: Array, mask: Bools) -> None:
    for column, part in kind.columns.options_of(mask[None]):
        option, legal = int(row[column]), part[0]
        if legal[option]:
            continue
        free = np.flatnonzero(legal).tolist()
        raise _illegal(agent, f"{option} is not allowed here; legal are {shortly(str(free))}")


def _is_number(value: Any) -> bool:
    # By the type itself: true and false are whole numbers to Python.
    return type(value) in (int, float)


def _illegal(agent: AgentID, how: str) -> Refused:
    return Refused("illegal_move", f"{agent!r} cannot do that: {how}.", 400)
