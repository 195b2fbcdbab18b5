"""Tasks: what a copy of an env is told to play, by its method ``set_task`` or ``set_phase``, and remembers over restarts.

An env offers one of the two methods, or both; what they take means what the env says it means: a number, a text, a list, a
dict or an array, so that a checkpoint can hold it. What a copy was last told survives a restart, the death of a worker and
``fresh_env_per_episode``, and evaluation's copies are told the same. Other things that are done to a copy are not remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any, TypeAlias

import numpy as np

TaskMemory: TypeAlias = dict[str, Any]
"""What one copy was last told: method to argument, in the order in which they were last called."""

VERBS = ("set_task", "set_phase")


class TaskLane:
    """One copy of a dict env that takes tasks, as ``foreach_env`` and callbacks see it.

    It behaves as the user's own env object, whose attributes are read and written through it, and notes what is told. The task
    methods are those of ``env``, the env with its adapter and wrappers.
    """

    __slots__ = ("_env", "_note", "_wrapped")

    # Everything below goes past this class's own __setattr__ and __class__, which speak for the user's object.
    def __init__(self, env: object, note: Callable[[str, Any], None]) -> None:
        object.__setattr__(self, "_wrapped", env)
        object.__setattr__(self, "_env", users_env(env))
        object.__setattr__(self, "_note", note)

    def __getattr__(self, name: str) -> Any:
        if name in VERBS:
            wrapped = object.__getattribute__(self, "_wrapped")
            return partial(self._tell, name, getattr(wrapped, name))
        return getattr(object.__getattribute__(self, "_env"), name)

    def _tell(self, verb: str, method: Callable[[Any], Any], task: Any) -> Any:
        answer = method(task)
        note = object.__getattribute__(self, "_note")
        # A copy, and only after the call: the caller may go on writing into its task, and one that the env refused
        # must not be told again after a restart.
        note(verb, deepcopy(task))
        return answer

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_env"), name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance asks it: a callback may look for the class of its own env
        return type(object.__getattribute__(self, "_env"))

    def __repr__(self) -> str:
        return repr(object.__getattribute__(self, "_env"))

    def __reduce__(self) -> tuple[Callable[[Any], Any], tuple[Any]]:
        """In another process it is the env itself."""
        return _as_it_is, (object.__getattribute__(self, "_env"),)


def _as_it_is(env: Any) -> Any:
    return env


def users_env(env: object) -> Any:
    """The env object that the user wrote: an adapter of a Gymnasium or PettingZoo env tells what it holds, unless it is a
    class of the user's that was made from one."""
    package, _, _ = type(env).__module__.partition(".")
    if package != "marl":
        return env
    return getattr(env, "users_env", env)


def verbs_of(env: object) -> list[str]:
    """The task methods that an env has."""
    return [verb for verb in VERBS if callable(getattr(env, verb, None))]


def hand_on_tasks(outer: object, attribute: str) -> None:
    """Give a wrapper the task methods of the env that it holds under ``attribute``, and no others."""
    for verb in VERBS:
        if method_behind(getattr(outer, attribute), verb) is not None:
            setattr(outer, verb, partial(_hand_on, outer, attribute, verb))


def _hand_on(outer: object, attribute: str, verb: str, task: Any) -> Any:
    method = method_behind(getattr(outer, attribute), verb)
    assert method is not None
    return method(task)


def method_behind(env: Any, verb: str) -> Callable[..., Any] | None:
    """An env's own method, or that of the env behind its Gymnasium or PettingZoo wrappers."""
    look = getattr(env, "get_wrapper_attr", None)
    if callable(look):
        try:
            return look(verb)  # type: ignore[no-any-return]
        except AttributeError:
            return None
    inside = getattr(env, "unwrapped", None)
    exported = getattr(inside, "exported", None)  # an env of ours that was made PettingZoo's
    for place in (env, inside, exported):
        found = getattr(place, verb, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def tell(env: Any, tasks: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Tell a copy everything that it was not told ``before``."""
    for verb, task in dict(tasks).items():  # a copy: telling may note the task in this very mapping
        known = verb in before and same_task(before[verb], task)
        if not known:
            method = getattr(env, verb)
            method(deepcopy(task))


def same_task(a: Any, b: Any) -> bool:
    """Whether two tasks are equal, arrays included."""
    match a, b:
        case (np.ndarray(), _) | (_, np.ndarray()):
            return np.array_equal(a, b)  # == of arrays has no truth value, also deep inside of a dict
        case Mapping(), Mapping():
            if a.keys() != b.keys():
                return False
            return all(same_task(a[key], b[key]) for key in a)
        case (list() | tuple(), list() | tuple()):
            if type(a) is not type(b) or len(a) != len(b):
                return False
            return all(map(same_task, a, b))
        case _:
            return bool(a == b)


def same_tasks(a: Sequence[TaskMemory], b: Sequence[TaskMemory]) -> bool:
    """Whether all copies were told the same."""
    return same_task(list(a), list(b))
