"""Calls the hooks of the trainer's side: on results, evaluations, checkpoints and training batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marl.algos.learner import Metrics
from marl.callbacks.callbacks import Hooks, make_hooks
from marl.data.batch import SampleBatch
from marl.data.task import PolicyID
from marl.errors import CallbackError, ConfigError
from marl.policies.policy import Policy
from marl.runs.result import Result
from marl.training.extensions.extension import Extension

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
            numbers = dict(metrics.get(policy, {}))
            for name, value in noted.items():
                numbers[str(name)] = self._number(name, value)
            metrics[policy] = numbers
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
    """To look at: members of a learner group must learn from the same rows."""
    columns = {name: column.view() for name, column in rows.items()}
    for column in columns.values():
        column.flags.writeable = False
    return SampleBatch(columns)


class UserCallbacks(Extension):
    """The trainer's side of the user's callbacks. The driver's own worker, index 0, shares its object."""

    name = "callbacks"

    def __init__(self, trainer: Trainer) -> None:
        local = trainer.workers.local_worker()
        self.hooks: Hooks = local.hooks
        if local.index != 0:  # a worker that collects, with an object of its own
            self.hooks = make_hooks(trainer.scenario.callbacks, own=False)
        if "on_learn_on_batch" in self.hooks:
            trainer.learning.listen(BatchListener(self.hooks, trainer.policies))

    def after_result(self, trainer: Trainer, result: Result) -> None:
        """``on_train_result``, after which a stop condition may be met by what it noted."""
        if "on_train_result" in self.hooks:  # a hook that nobody has is not worth asking `should_stop` again
            self.hooks("on_train_result", trainer=trainer, result=result)
            result["done"] = bool(result.get("done")) or trainer.should_stop(result)


def refuse_idle(hooks: Hooks, unplayed: str, recorded: str | None) -> None:
    """A hook that can never be called is a misunderstanding. ``unplayed``: why learners get no batches, if they do not."""
    if unplayed:
        idle = ["on_postprocess_trajectory", "on_sample_end", "on_learn_on_batch"]
        why = unplayed
    elif recorded is not None:
        idle = ["on_postprocess_trajectory", "on_sample_end"]
        why = f"input: {recorded} is not played"
    else:
        return
    for hook in idle:
        if hook in hooks:
            raise ConfigError(f"callback {hooks.name}.{hook} would never be called, because {why}. Leave it out.")
