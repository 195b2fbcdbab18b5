"""What a user's world answers, checked before anybody relies on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from marl.data.task import AgentID
from marl.envs.base import Info, Obs, StepResult
from marl.errors import EnvError


def guarded(call: Callable[[], Any], verb: str, where: str) -> Any:
    """Run the user's code; what goes wrong there names env, worker, copy and step."""
    try:
        return call()
    except EnvError:
        raise
    except Exception as error:
        raise EnvError(f"{where}: {verb} raised {type(error).__name__}: {error}") from error


def reset_pair(answer: object, where: str) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
    """Observations and infos by agent."""
    if isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], dict):
        return answer
    raise EnvError(
        f"{where}: reset returned {type(answer).__name__}; expected the pair (observations by agent, infos by agent)."
    )


def step_result(answer: object, where: str) -> StepResult:
    """Five dicts."""
    if isinstance(answer, StepResult):
        return answer
    if isinstance(answer, tuple) and len(answer) == 5:
        return StepResult(*answer)
    size = len(answer) if isinstance(answer, tuple) else type(answer).__name__
    raise EnvError(
        f"{where}: step returned {size} values; expected five dicts: observations, rewards, terminated, truncated, infos. A "
        "world with one `done` dict: return it as terminated, and {} as truncated."
    )
