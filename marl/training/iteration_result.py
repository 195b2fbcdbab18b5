"""What an iteration tells: the numbers of its result. Reads the trainer, changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.runs.custom_metrics import pictures
from marl.runs.files import to_plain
from marl.runs.result import Result, ShownResult, episode_numbers, without_wall_clock
from marl.runs.system_info import whereabouts
from marl.scenario.describe import describe

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

NOT_KEPT = ("config", "hist_stats", "episode_media")  # of the last result, in a checkpoint


@dataclass
class Learned:
    """What one iteration has brought, as far as it is counted nowhere else; with it the iteration's result is begun."""

    steps: int
    agent_steps: int
    episodes: int
    shown: EpisodeStats
    """The newest episodes, with their pictures, of which the result tells."""
    extra: dict[str, float]
    """Newest numbers of the source."""

    def state_dict(self) -> dict[str, Any]:
        return {**vars(self), "shown": vars(self.shown)}

    @staticmethod
    def from_state(state: Mapping[str, Any]) -> Learned:
        return Learned(**{**state, "shown": EpisodeStats(**state["shown"])})


def begin_result(trainer: Trainer, learned: Learned) -> Result:
    """Everything but what extensions measure and how long it took."""
    trained = trainer.policies_to_train
    result: Result = {
        **episode_numbers(learned.shown, list(trainer.policies)),
        "episode_media": pictures(learned.shown),
        "episodes_this_iter": learned.episodes,
        "episodes_total": trainer.episodes_total,
        "training_iteration": trainer.iteration,
        "timesteps_this_iter": learned.steps,
        "timesteps_total": trainer.timesteps_total,
        "agent_timesteps_total": trainer.agent_timesteps_total,
        "num_healthy_workers": trainer.workers.num_healthy_workers,
        "info": {
            "learner": {name: _learner_numbers(trainer, name) for name in trainer.last_metrics if name in trained},
            "num_steps_sampled": trainer.timesteps_total,
            "num_agent_steps_sampled": trainer.agent_timesteps_total,
            **trainer.learning.counters(),
            **learned.extra,
            "num_decisions_lost": trainer.decisions_lost,
        },
        "agent_timesteps_this_iter": learned.agent_steps,
        "policies_to_train": sorted(trained),
        "seed": trainer.scenario.seed,
        "trial_id": trainer.trial_id,
        "experiment_id": trainer.experiment_id,
        **whereabouts(),
        "config": describe(trainer.scenario),
    }
    for extension in trainer.extensions:
        result |= extension.numbers(trainer)
    return ShownResult(result)


def to_keep(result: Result) -> Result:
    """What a checkpoint holds of the last result: no clocks, and nothing that is large or stands elsewhere."""
    kept = without_wall_clock(result)  # a resumed run has to equal one that never stopped, to the last byte
    for name in NOT_KEPT:
        kept.pop(name, None)
    plain: Result = to_plain(kept)
    return plain


def _learner_numbers(trainer: Trainer, policy: PolicyID) -> Result:
    numbers: Result = {"learner_stats": trainer.last_metrics[policy]}
    for learner in trainer.learners:
        if policy in learner.td_errors:
            numbers["td_error"] = learner.td_errors[policy].tolist()
            break
    return numbers


def add_times(trainer: Trainer, result: Result, seconds: float) -> None:
    """How long the iteration took, and its parts."""
    result["time_this_iter_s"] = seconds
    result["time_total_s"] = trainer.time_total_s
    result["timers"] = trainer.timers.numbers(result["timesteps_this_iter"])
    result["sampler_perf"] = trainer.timers.sampler_numbers()
    if trainer.usage is not None:
        result["perf"] = trainer.usage.numbers()
