"""Questions about an episode, as people and pages ask them: which step of whom, and what it does instead."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.action_units import from_env
from marl.data.actions import action_encoder
from marl.data.task import AgentID, AgentType, Array
from marl.errors import ConfigError, did_you_mean
from marl.inputs import parse_json
from marl.play.episode import Tape
from marl.play.playable import Playable
from marl.play.takeover import Instead
from marl.play.trace import plain

MOST_STEPS_NAMED = 8


def question_of(
    playable: Playable, tape: Tape, agent: AgentID, step: int, instead: str | None, policy: str | None
) -> Instead | None:
    """What is asked about, checked; None: only the situation. ``instead`` is an action as one types it."""
    # Before anything long begins: whatever can be refused is refused here.
    kind = check_question(tape, agent, step)
    action = None
    if instead is not None:
        action = action_from_text(instead, kind, tape, agent, step, playable)
    if instead is None and policy is None:
        return None
    return Instead(step, agent, action, policy)


def check_question(tape: Tape, agent: AgentID, step: int) -> AgentType:
    """The agent's kind; refuses a step that the episode does not have and an agent that is not asked in it."""
    length = len(tape)
    if not 0 <= step < length:
        raise ConfigError(
            f"episode {tape.which.number} has no step {step}: it has {length}, from 0 to {length - 1}. Take one of these, or "
            "another --episode."
        )
    if agent not in tape.agents:
        raise ConfigError(
            f"there is no agent {agent!r} in episode {tape.which.number}. Agents: {', '.join(tape.agents)}."
            f"{did_you_mean(agent, tape.agents)}"
        )
    seat = tape.seat_of(agent, step)
    if seat is None:
        raise ConfigError(
            f"agent {agent!r} is not asked in step {step} of episode {tape.which.number}, so it could not do anything else "
            f"there. It is asked in {_nearest(tape.steps_of(agent), step)}. Take one of these steps."
        )
    task = tape.batch.task
    return task.kinds[task.kind_of(seat)]


def _nearest(steps: Sequence[int], step: int) -> str:
    """The steps next to one, in order."""
    if not steps:
        return "no step at all"
    near = sorted(sorted(steps, key=lambda other: abs(other - step))[:MOST_STEPS_NAMED])
    told = ", ".join(map(str, near))
    if len(steps) == 1:
        return f"step {told}"
    if len(near) < len(steps):
        return f"{len(steps)} steps, among them {told}"
    return f"the steps {told}"


def action_from_text(text: str, kind: AgentType, tape: Tape, agent: AgentID, step: int, playable: Playable) -> Array:
    """An action as stored: a number, a name that the env has for it, or numbers such as ``0.5,-1`` or JSON."""
    names = tape.action_names.get(agent, ())
    space = kind.action_space
    # A name goes first: an env may call its actions by other numbers than we do.
    if isinstance(space, spaces.Discrete) and text in names:
        stored = np.asarray(names.index(text))
    else:
        stored = _encoded(text, kind, names)
    seat = tape.seat_of(agent, step)
    assert seat is not None
    column = seat - kind.first_seat
    k = tape.batch.task.kinds.index(kind)
    _check_legal(stored, kind, tape.batch.legal[k][step, 0, column], text, names)
    return np.asarray(from_env(stored, kind.columns, playable.setup.rollout.config))


def _encoded(text: str, kind: AgentType, names: Sequence[str]) -> Array:
    space = kind.action_space
    try:
        value = _value_of(text, space)
        stored = np.asarray(action_encoder(space)(_tupled(value)))
        if kind.columns.contains(stored) and _whole_where_needed(value, kind):
            return stored
    except (ValueError, TypeError, KeyError, IndexError):
        pass  # not of the space's form at all: the message below says so
    called = ""
    if names:
        called = f" Its names: {', '.join(names)}.{did_you_mean(text, names)}"
    raise ConfigError(
        f"--instead {text}: that is no action of {space}.{called} Give one of this space: {_example(space)}."
    )


def _value_of(text: str, space: Any) -> Any:
    """What was typed: JSON, or numbers with commas between them."""
    if text.lstrip().startswith(("[", "{")):
        return parse_json(text)
    numbers = parse_json(f"[{text}]")
    # One number alone is a list for a Box of one coordinate, but not for a Discrete.
    if isinstance(space, spaces.Discrete):
        (only,) = numbers
        return only
    return numbers


def _tupled(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(value) if isinstance(value, list) else value


def _whole_where_needed(value: Any, kind: AgentType) -> bool:
    """Whether choices are whole numbers; storing them would cut fractions off."""
    if kind.columns.numbers:
        return True
    numbers = np.asarray(value, np.float64)
    return bool((numbers == np.floor(numbers)).all())


def _example(space: Any) -> str:
    if isinstance(space, spaces.Discrete):
        return f"a number from {int(space.start)} to {int(space.start + space.n - 1)}"
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return f"{int(np.prod(space.shape))} number(s) such as {','.join(['0'] * min(3, int(np.prod(space.shape))))}"
    return f"JSON such as {json.dumps(plain(space.sample()))}"


def _check_legal(stored: Array, kind: AgentType, mask: Array, text: str, names: Sequence[str]) -> None:
    if not mask.size:
        return
    row = np.atleast_1d(stored)
    for column, legal in kind.columns.options_of(mask[None]):
        if not legal[0, int(row[column])]:
            allowed = [names[a] if names else str(a) for a in np.flatnonzero(legal[0]).tolist()]
            raise ConfigError(
                f"--instead {text}: the action mask forbids it in this step. Legal: {', '.join(allowed)}. Take one of these."
            )
