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

    __slots__ = ("_env", "_note", "_world")

    def __init__(self, env: object, note: Callable[[str, Any], None]) -> None:
        object.__setattr__(self, "_world", env)
        object.__setattr__(self, "_env", users_env(env))
        object.__setattr__(self, "_note", note)

    def __getattr__(self, name: str) -> Any:
        if name in VERBS:
            return partial(self._tell, name, getattr(object.__getattribute__(self, "_world"), name))
        return getattr(object.__getattribute__(self, "_env"), name)

    def _tell(self, verb: str, method: Callable[[Any], Any], task: Any) -> Any:
        answer = method(task)
        object.__getattribute__(self, "_note")(verb, deepcopy(task))
        return answer

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(object.__getattribute__(self, "_env"), name, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:  # isinstance asks it
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
    ours = type(env).__module__.partition(".")[0] == "marl"
    return getattr(env, "users_env", env) if ours else env


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
    if callable(look := getattr(env, "get_wrapper_attr", None)):
        try:
            return look(verb)  # type: ignore[no-any-return]
        except AttributeError:
            return None
    inside = getattr(env, "unwrapped", None)
    for place in (env, inside, getattr(inside, "exported", None)):  # the last: an env of ours as PettingZoo's
        found = getattr(place, verb, None)
        if callable(found):
            return found  # type: ignore[no-any-return]
    return None


def tell(env_id: Any, tasks: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Tell a copy everything that it was not told ``before``."""
    for verb, task in dict(tasks).items():
        if verb not in before or not same_task(before[verb], task):
            getattr(env_id, verb)(deepcopy(task))


def same_task(a: Any, b: Any) -> bool:
    """Whether two tasks are equal, arrays included."""
    match a, b:
        case (np.ndarray(), _) | (_, np.ndarray()):
            return np.array_equal(a, b)
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
