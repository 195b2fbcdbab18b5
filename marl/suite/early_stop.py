"""Runs that end before their budget because they have held their goal.

The rule looks at what ``result.json`` holds and at nothing else, so it says the same in a run that was stopped and goes on as
in one that never was, and whoever reads the files can tell that a run has ended by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from marl.runs.result import Result, look_up, reached
from marl.suite.load import Rule
from marl.training.extensions.extension import Extension

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


def held_since(results: Iterable[Mapping[str, Any]], metric: str, rule: Rule) -> int | None:
    """Env steps at which the goal had been held long enough; None: it has not."""
    in_a_row = 0
    for result in results:
        in_a_row = _count(in_a_row, result, metric, rule)
        if in_a_row >= rule.in_a_row:
            return int(result["timesteps_total"])
    return None


def _count(before: int, result: Mapping[str, Any], metric: str, rule: Rule) -> int:
    """Measurements in a row that were at the goal; a result without one changes nothing."""
    if look_up(result, metric) is None:
        return before
    if reached(result, {metric: rule.goal}):
        return before + 1
    return 0


class HeldGoal(Extension):
    """Ends the run of a trainer once the rule says so. ``earlier``: results of the run before this moment."""

    name = "held_goal"

    def __init__(self, metric: str, rule: Rule, earlier: Iterable[Mapping[str, Any]]) -> None:
        self._metric, self._rule = metric, rule
        self._in_a_row = 0
        for result in earlier:
            self._in_a_row = _count(self._in_a_row, result, metric, rule)

    def after_done(self, trainer: Trainer, result: Result) -> None:
        del trainer
        self._in_a_row = _count(self._in_a_row, result, self._metric, self._rule)
        if self._in_a_row >= self._rule.in_a_row:
            result["done"] = True
