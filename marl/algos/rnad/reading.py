"""What `marl show` prints of rnad."""

from __future__ import annotations

from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.algos.rnad.config import RnadConfig
from marl.algos.rnad.learner import RnadLearner
from marl.algos.rnad.losses import action_advantages, legal_of, mixed_logs, neurd_loss
from marl.algos.rnad.regularisation import Regularisation, move_towards, still
from marl.algos.rnad.rows import _log_ratio, changed_rewards, payments, with_targets
from marl.data.returns import fold_rewards, temporal_differences, vtrace

LEFT_OUT: dict[Function, str] = {
    RnadLearner._take_gathered: "puts the rounds of a batch together",
    RnadLearner._summary: "metrics",
    RnadLearner._check_finite: "an error message",
    RnadLearner._lr: "a schedule",
    Regularisation.share.fget: "half of its time",  # type: ignore[attr-defined]
    legal_of: "masks",
    still: "a copy",
}


def reading(learner: type[RnadLearner], config: RnadConfig) -> Reading:
    """From ``learn`` to the optimiser's step."""
    shown: tuple[Function, ...] = (
        learner.learn, learner._rows, payments, _log_ratio, Regularisation.logs, mixed_logs, with_targets, changed_rewards,
        fold_rewards, vtrace, temporal_differences, learner._train, learner._minibatches, learner._update, learner._loss,
        action_advantages, neurd_loss, FlatOptimiser.step, STEPS[config.optimizer.type], Regularisation.follow, move_towards,
    )  # fmt: skip
    return Reading(shown, LEFT_OUT)
