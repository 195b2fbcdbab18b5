"""What `marl show` prints of marwil and bc."""

from __future__ import annotations

from marl.algos.marwil.config import MarwilConfig
from marl.algos.marwil.learner import MarwilLearner
from marl.algos.marwil.losses import advantage_weights, imitation_loss, moved_average, value_loss
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.data.returns import discounted_until, fold_rewards, returns_to_go

LEFT_OUT: dict[Function, str] = {
    MarwilLearner._take_gathered: "puts the rounds of a batch together",
    MarwilLearner._summary: "metrics",
    MarwilLearner._check_finite: "an error message",
    fold_rewards: "a column that is not learned from",
    MarwilLearner._values: "asks the critic, or the policy where they share layers",
}


def reading(learner: type[MarwilLearner], config: MarwilConfig) -> Reading:
    """From ``learn`` to the optimiser's step; bc has no critic."""
    returns: list[Function] = [learner._returns, learner._judged, returns_to_go, discounted_until]
    weights: list[Function] = [learner._weights, moved_average, advantage_weights]
    critic = config.vf_coeff > 0
    shown: list[Function] = [
        learner.learn, learner._rows, *(returns if critic else []), learner._train, learner._minibatches, learner._step,
        learner._loss, *(weights if critic else []), imitation_loss, *([value_loss] if critic else []),
        FlatOptimiser.step, STEPS[config.optimizer.type],
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
