"""What a user's env answers, checked before anybody relies on it. Every error names env, worker, copy and step."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

from marl.data.task import AgentID
from marl.envs.base import Info, Obs, StepResult
from marl.errors import ConfigError, EnvError, EnvTimeoutError, let_through
from marl.failures import line_of_code

log = logging.getLogger(__name__)
Where: TypeAlias = Callable[[], str]
"""Tells env, worker, copy and step; asked only when something is wrong."""

PARTS = ("observations", "rewards", "terminated", "truncated", "infos")


def guarded(call: Callable[..., Any], verb: str, where: Where, *arguments: Any, **options: Any) -> Any:
    """Run the user's code; what goes wrong there names env, worker, copy, step and the line of code."""
    try:
        return call(*arguments, **options)
    except EnvError:
        raise
    except BaseException as error:
        raise env_failure(error, verb, where) from error


def env_failure(error: BaseException, verb: str, where: Where) -> EnvError:
    """What the user's code raised, as an error that says where; Ctrl-C goes its own way."""
    let_through(error)
    return EnvError(f"{where()}: {verb} raised {type(error).__name__}: {error}{line_of_code(error)}")


@contextmanager
def time_limit(seconds: float | None, what: str) -> Iterator[None]:
    """Whatever runs in this block has so many seconds; ``what`` tells env, worker and verb."""
    # Signals reach the main thread alone.
    if seconds is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    if not hasattr(signal, "setitimer"):
        raise ConfigError(
            f"env_timeout_s is {seconds}, but this system has no signal that could interrupt an env. Drop env_timeout_s."
        )

    def ring(*_: object) -> None:
        raise EnvTimeoutError(
            f"{what} took longer than env_timeout_s = {seconds} s. Raise env_timeout_s, or find out where the env hangs."
        )

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def close_all(envs: Iterable[Any], name: str) -> None:
    """Close envs. What goes wrong is a warning: all results are in, and they must not be lost for it."""
    failed: list[BaseException] = []
    for env in envs:
        try:
            env.close()
        except BaseException as error:
            let_through(error)
            failed.append(error)
    if failed:
        first = failed[0]
        copies = ""
        if len(failed) > 1:  # one line is enough: copies of an env fail for the same reason
            copies = f" (and {len(failed) - 1} more copies)"
        log.warning("env %r: close() raised %s: %s%s%s", name, type(first).__name__, first, line_of_code(first), copies)


def reset_pair(answer: object, where: Where) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
    """Observations and infos by agent."""
    if isinstance(answer, tuple) and len(answer) == 2:
        obs, infos = answer
        if isinstance(obs, Mapping) and isinstance(infos, Mapping):
            return answer
    raise EnvError(f"{where()}: {wrong_reset(answer)}")


def wrong_reset(answer: object) -> str:
    """What is wrong with an answer of ``reset`` that is not a pair of dicts."""
    got = type(answer).__name__
    if isinstance(answer, tuple):
        got = f"{len(answer)} values ({', '.join(type(part).__name__ for part in answer)})"
    return f"reset returned {got}; expected the pair (observations by agent, infos by agent)."


def step_result(answer: object, where: Where) -> StepResult:
    """Five dicts."""
    if not isinstance(answer, tuple) or len(answer) != 5:
        raise EnvError(f"{where()}: {wrong_step(answer)}")
    for part in answer:
        if type(part) is dict:  # the usual case, and much faster to ask than for a Mapping
            continue
        if not isinstance(part, Mapping):
            raise EnvError(f"{where()}: {wrong_step(answer)}")
    if isinstance(answer, StepResult):
        return answer
    return StepResult(*answer)


def wrong_step(answer: object) -> str:
    """What is wrong with an answer of ``step`` that is not five dicts."""
    expected = "expected five dicts: observations, rewards, terminated, truncated, infos."
    if not isinstance(answer, tuple) or len(answer) != 5:
        size = f"a {type(answer).__name__}"
        if isinstance(answer, tuple):
            size = f"{len(answer)} values"
        return (
            f"step returned {size}; {expected} An env with one `done` dict: return it as terminated, and {{}} as "
            "truncated."
        )
    wrong = [i for i, part in enumerate(answer) if not isinstance(part, Mapping)]
    first = wrong[0]
    return f"step returned a {type(answer[first]).__name__} as {PARTS[first]}; {expected} Return {{agent: ...}}."
