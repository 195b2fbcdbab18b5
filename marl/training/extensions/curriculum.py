"""A curriculum: the env changes as training goes on, by stages that the scenario declares or by a function of the user.

After each iteration its result decides whether the next stage begins. A stage begins with new episodes on all workers: those
that are running are broken off, count as not finished, and their open decisions are left out of training. Numbers of episodes,
the last evaluation and the best one belong to a stage: they begin anew with it, so no stage ends by the rewards of another.
What the whole run has to reach (``goal``, and rewards under ``stop``) counts in the last stage alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.registry import load_object
from marl.rollout.stages import ChooseTasks
from marl.runs.result import COUNT_FIELDS, Result, check_field, look_up, reached
from marl.scenario.config import Scenario, StageConfig
from marl.scenario.stages import describe_stage, stages_of
from marl.trust import Sort

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

TASKS = Sort("env_task_fn", creators=True)


class Curriculum:
    """The stages of a run and the present one. A run without a curriculum has no stages and is always in its last one."""

    def __init__(self, scenario: Scenario) -> None:
        self.stages: tuple[StageConfig, ...] = stages_of(scenario)
        self.choose_task = _task_function(scenario.env_task_fn)
        self.stage = 0
        self.since = 0  # env steps of the run at which the present stage began
        self.episodes_cut = 0

    def numbers(self, timesteps_total: int) -> Result:
        """The result's ``curriculum`` block."""
        if not self.stages:
            return {}
        return {
            "curriculum": {
                "stage": self.stage,
                "num_stages": len(self.stages),
                "timesteps_this_stage": timesteps_total - self.since,
                "num_episodes_cut": self.episodes_cut,
            }
        }

    def due(self, result: Mapping[str, Any]) -> bool:
        """Whether a result ends the present stage."""
        return self.stage + 1 < len(self.stages) and reached(result, self.stages[self.stage].until)

    def in_last_stage(self, result: Mapping[str, Any]) -> bool:
        """Whether a result comes from the last stage."""
        return not self.stages or look_up(result, "curriculum.stage") == len(self.stages) - 1

    def state_dict(self) -> dict[str, Any]:
        return {"stage": self.stage, "since": self.since, "episodes_cut": self.episodes_cut}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        self.stage, self.since, self.episodes_cut = state["stage"], state["since"], state["episodes_cut"]


def change_envs_if_due(trainer: Trainer, result: Result) -> None:
    """Called after each iteration: begin the next stage, and ask ``env_task_fn``."""
    curriculum = trainer.curriculum
    if curriculum.due(result) and not result["done"]:
        _begin_next_stage(trainer)
    if curriculum.choose_task is not None:
        trainer.workers.foreach_worker(ChooseTasks(curriculum.choose_task, result))


def _begin_next_stage(trainer: Trainer) -> None:
    curriculum = trainer.curriculum
    curriculum.stage += 1
    curriculum.since = trainer.timesteps_total
    cut = trainer.workers.enter_stage(curriculum.stage)
    curriculum.episodes_cut += cut
    trainer.recent = EpisodeStats.empty()
    trainer.last_evaluation = trainer.best_evaluation = None
    trainer.notes.append(
        f"curriculum: stage {curriculum.stage} (the last is {len(curriculum.stages) - 1}) begins after "
        f"{trainer.timesteps_total} env steps: {describe_stage(curriculum.stages[curriculum.stage])}; {cut} running episodes "
        "were broken off"
    )


def stops_that_count(trainer: Trainer, result: Mapping[str, Any]) -> dict[str, float | bool]:
    """The stop conditions that a result can meet: before the last stage of a curriculum, budgets alone."""
    stop = trainer.scenario.stop
    if trainer.curriculum.in_last_stage(result):
        return dict(stop)
    budgets = {*COUNT_FIELDS} - {"best_evaluation"}
    return {field: value for field, value in stop.items() if field in budgets or field.startswith("curriculum.")}


def check_stages(scenario: Scenario, policies: Sequence[PolicyID]) -> None:
    """Conditions of stages must name numbers that results will have."""
    for number, stage in enumerate(scenario.curriculum):
        for field in stage.until:
            check_field(field, policies, f"curriculum[{number}].until")
            if field.startswith("evaluation.") and not scenario.evaluation.interval:
                raise ConfigError(
                    f"curriculum[{number}].until: {field} needs evaluations, but evaluation.interval is 0. Set it to 1 or "
                    "more."
                )
            if field.startswith(("exploitability.", "population.")):
                raise ConfigError(f"curriculum[{number}].until: {field} is not measured in runs with a curriculum.")
    fields = [field for field in (*scenario.goal, *scenario.stop) if field.startswith("curriculum.")]
    if fields and not scenario.curriculum:
        raise ConfigError(f"{fields[0]} needs a curriculum, but the scenario has none. Add `curriculum:`.")


def _task_function(given: object) -> Callable[..., Any] | None:
    found = load_object(given, TASKS) if isinstance(given, str) else given
    if found is not None and not callable(found):
        raise ConfigError(
            f"env_task_fn {given!r} is a {type(found).__name__}; expected a function (result, env, ctx) -> task."
        )
    return found
