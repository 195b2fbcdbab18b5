"""For tests of one's own: whether a run has learned what it should."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from marl.errors import DataError, GoalMissedError
from marl.inputs import parse_json, read_text
from marl.runs.result import look_up


class Trial(Protocol):
    """One run of a search."""

    @property
    def results(self) -> Sequence[Mapping[str, Any]]: ...


class Search(Protocol):
    """What ``marl.tune.run`` gives."""

    @property
    def best_trial(self) -> Trial: ...


Results: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Path | str | Search
"""One result, several in their order, a run directory, or a search, of which the best trial counts."""


def check_learning_achieved(
    results: Results, reward: float, policy: str | None = None, *, evaluation: bool = False
) -> float:
    """Raise ``GoalMissedError`` unless the last result reached ``reward``; returns what it reached.

    Looked at is ``episode_reward_mean``, or with a ``policy`` that policy's ``policy_reward_mean``; with ``evaluation`` those
    of the last result that has an evaluation.
    """
    field, remedy = "episode_reward_mean", "Train until an episode has ended"
    if evaluation:
        remedy += ", with evaluations"
    if policy is not None:
        field = f"policy_reward_mean.{policy}"
        remedy += ", and check the name of the policy"
    if evaluation:
        field = f"evaluation.{field}"
    found = []
    for result in _listed(results):
        value = look_up(result, field)
        if value is not None:
            found.append(value)
    if not found:
        raise GoalMissedError(f"no result has a number {field}; expected at least {reward:g}. {remedy}.")
    last = found[-1]
    # Not `last < reward`, which a NaN would pass.
    if not last >= reward:
        raise GoalMissedError(
            f"{field} is {last:g} at the end (best: {max(found):g}), expected at least {reward:g}. Train longer, or look "
            "at the curve of the run."
        )
    return last


def _listed(results: Results) -> Sequence[Mapping[str, Any]]:
    if isinstance(results, Mapping):
        return [results]
    if isinstance(results, Sequence) and not isinstance(results, str):
        return list(results)
    if not isinstance(results, str | Path):
        return list(results.best_trial.results)
    file = Path(results)
    if file.is_dir():
        file = file / "result.json"
    try:
        return [parse_json(line) for line in read_text(file).splitlines()]
    except (OSError, ValueError) as error:
        raise DataError(f"{file} cannot be read as results ({error}). Give a run directory, or results.") from error
