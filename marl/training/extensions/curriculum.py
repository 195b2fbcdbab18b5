"""A curriculum: the env changes as training goes on, by stages that the scenario declares or by a function of the user.

After each iteration its result decides whether the next stage begins. A stage begins with new episodes on all workers: those
that are running are broken off, count as not finished, and their open decisions are left out of training. Numbers of episodes,
the last evaluation and the best one belong to a stage: they begin anew with it, so no stage ends by the rewards of another.
What the whole run has to reach (``goal``, and rewards under ``stop``) counts in the last stage alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.registry import load_object
from marl.rollout.stages import ChooseTasks
from marl.runs.result import COUNT_FIELDS, Result, check_field, look_up, reached
from marl.scenario.config import Scenario, StageConfig
from marl.scenario.stages import describe_stage, stages_of
from marl.scenario.unused_keys import check_measured
from marl.training.extensions.extension import Extension
from marl.trust import Sort

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

TASKS = Sort("env_task_fn", creators=True)


class Curriculum(Extension):
    """The stages of a run and the present one. A run without a curriculum has no stages and is always in its last one."""

    name = "curriculum"

    def __init__(self, scenario: Scenario) -> None:
        self.stages: tuple[StageConfig, ...] = stages_of(scenario)
        self.choose_task = _task_function(scenario.env_task_fn)
        self.stage = 0
        self.since = 0  # env steps of the run at which the present stage began
        self.episodes_cut = 0

    def numbers(self, trainer: Trainer) -> Result:
        """The result's ``curriculum`` block."""
        if not self.stages:
            return {}
        return {
            "curriculum": {
                "stage": self.stage,
                "num_stages": len(self.stages),
                "timesteps_this_stage": trainer.timesteps_total - self.since,
                "num_episodes_cut": self.episodes_cut,
            }
        }

    def due(self, result: Mapping[str, Any]) -> bool:
        """Whether a result ends the present stage."""
        return self.stage + 1 < len(self.stages) and reached(result, self.stages[self.stage].until)

    def in_last_stage(self, result: Mapping[str, Any]) -> bool:
        """Whether a result comes from the last stage."""
        return not self.stages or look_up(result, "curriculum.stage") == len(self.stages) - 1

    def after_result(self, trainer: Trainer, result: Result) -> None:
        """Begin the next stage if it is due, and ask ``env_task_fn``."""
        if self.due(result) and not result["done"]:  # a run that is over does not begin a stage that nobody plays
            self._begin_next_stage(trainer)
        if self.choose_task is not None:
            # Asked where the envs are, because it is given each of them.
            trainer.workers.foreach_worker(ChooseTasks(self.choose_task, result))

    def _begin_next_stage(self, trainer: Trainer) -> None:
        self.stage += 1
        self.since = trainer.timesteps_total
        cut = trainer.workers.enter_stage(self.stage)
        self.episodes_cut += cut
        trainer.forget_episodes()  # or the rewards of this stage might end the next one at once
        trainer.notes.append(
            f"curriculum: stage {self.stage} (the last is {len(self.stages) - 1}) begins after {trainer.timesteps_total} "
            f"env steps: {describe_stage(self.stages[self.stage])}; {cut} running episodes were broken off"
        )

    def stops_that_count(self, result: Mapping[str, Any], stop: Mapping[str, float | bool]) -> dict[str, float | bool]:
        """The stop conditions that a result can meet: before the last stage of a curriculum, budgets alone."""
        if self.in_last_stage(result):
            return dict(stop)
        budgets = {*COUNT_FIELDS} - {"best_evaluation"}  # the best so far is that of a stage, not of the run
        counting = {}
        for field, value in stop.items():
            if field in budgets or field.startswith("curriculum."):
                counting[field] = value
        return counting

    def state_dict(self) -> dict[str, Any]:
        if not self.stages:
            return {}
        return {"stage": self.stage, "since": self.since, "episodes_cut": self.episodes_cut}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stage = state["stage"]
        self.since = state["since"]
        self.episodes_cut = state["episodes_cut"]


def check_stages(scenario: Scenario, policies: Sequence[PolicyID]) -> None:
    """Conditions of stages must name numbers that results will have."""
    for number, stage in enumerate(scenario.curriculum):
        for field in stage.until:
            check_field(field, policies, f"curriculum[{number}].until")
            if field.startswith(("exploitability.", "population.")):
                raise ConfigError(f"curriculum[{number}].until: {field} is not measured in runs with a curriculum.")
            check_measured(scenario, field, f"curriculum[{number}].until")


def _task_function(given: object) -> Callable[..., Any] | None:
    found = given
    if isinstance(given, str):
        found = load_object(given, TASKS)
    if found is None or callable(found):
        return found
    raise ConfigError(
        f"env_task_fn {given!r} is a {type(found).__name__}; expected a function (result, env, ctx) -> task."
    )
