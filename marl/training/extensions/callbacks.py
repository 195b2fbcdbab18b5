"""Calls the hooks of the trainer's side: on results, evaluations, checkpoints and training batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marl.algos.learner import Metrics
from marl.callbacks.callbacks import Hooks, make_hooks
from marl.data.batch import SampleBatch
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.errors import CallbackError, ConfigError
from marl.policies.policy import Policy
from marl.runs.custom_metrics import pictures

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


class BatchListener:
    """Calls ``on_learn_on_batch`` and adds what it notes to the learners' metrics.

    It listens in this process: with ``num_learners`` above 1 the hook sees every batch once.
    """

    def __init__(self, hooks: Hooks, policies: Mapping[PolicyID, Policy]) -> None:
        self.hooks, self.policies = hooks, policies
        self.results: dict[PolicyID, dict[str, Any]] = {}

    def __call__(self, policy: PolicyID, rows: SampleBatch) -> None:
        self.hooks(
            "on_learn_on_batch", policy=self.policies[policy], policy_id=policy, train_batch=_read_only(rows),
            result=self.results.setdefault(policy, {}),
        )  # fmt: skip

    def completed(self, metrics: Metrics) -> Metrics:
        """Metrics of one round with the hook's numbers among them; of several updates the last ones."""
        results, self.results = self.results, {}
        for policy, noted in results.items():
            metrics[policy] = {**metrics.get(policy, {}), **{str(k): self._number(k, v) for k, v in noted.items()}}
        return metrics

    def _number(self, name: object, value: Any) -> float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise CallbackError(
                f"callback {self.hooks.name}.on_learn_on_batch put {value!r} ({type(value).__name__}) into result[{name!r}]; "
                "expected a number."
            ) from None


def _read_only(rows: SampleBatch) -> SampleBatch:
    """To look at: members of a crew must learn from the same rows."""
    columns = {name: column.view() for name, column in rows.items()}
    for column in columns.values():
        column.flags.writeable = False
    return SampleBatch(columns)


def connect(trainer: Trainer) -> Hooks:
    """The trainer's hooks; learners tell them of their batches. The driver's own worker, index 0, shares its object."""
    local = trainer.workers.local_worker()
    hooks = local.hooks if local.index == 0 else make_hooks(trainer.scenario.callbacks, own=False)
    if "on_learn_on_batch" in hooks:
        trainer.learning.listen(BatchListener(hooks, trainer.policies))
    return hooks


def finish_result(trainer: Trainer, result: dict[str, Any]) -> None:
    """``on_train_result``, after which a stop condition may be met by what it noted."""
    if "on_train_result" in trainer.hooks:
        trainer.hooks("on_train_result", trainer=trainer, result=result)
        result["done"] = bool(result.get("done")) or trainer.should_stop(result)


def finish_evaluation(trainer: Trainer, stats: EpisodeStats, block: dict[str, Any]) -> dict[str, Any]:
    """The block of an evaluation with its pictures and what ``on_evaluate_end`` noted."""
    shown = pictures(stats)
    if shown:
        block["episode_media"] = shown
    trainer.hooks("on_evaluate_end", trainer=trainer, evaluation_metrics=block)
    return block


def take_pictures(result: dict[str, Any]) -> None:
    """Pictures of an evaluation stand beside those of training, so that the run's files keep them."""
    shown = result["evaluation"].pop("episode_media", {})
    result["episode_media"] |= {f"evaluation/{name}": given for name, given in shown.items()}


def refuse_idle(hooks: Hooks, evolution: bool, recorded: str | None) -> None:
    """A hook that can never be called is a misunderstanding."""
    idle = ["on_postprocess_trajectory", "on_sample_end"] if evolution or recorded is not None else []
    idle += ["on_learn_on_batch"] if evolution else []
    for hook in idle:
        if hook in hooks:
            why = "es learns from returns alone, without batches" if evolution else f"input: {recorded} is not played"
            raise ConfigError(f"callback {hooks.name}.{hook} would never be called, because {why}. Leave it out.")
