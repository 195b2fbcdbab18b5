"""What `marl show` prints of pg, a2c, a3c, ppo, mappo and impala."""

from __future__ import annotations

from marl.algos.central_critic.advantages import AdvantageEstimator
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.losses import (
    clipped_loss,
    explained_variance,
    normalized,
    policy_gradient_loss,
    value_loss,
)
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch, prepare
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.data.returns import discounted_until, fold_rewards, gae, returns_to_go, vtrace

LEFT_OUT: dict[Function, str] = {
    CentralCriticLearner._take_gathered: "puts the rounds of a batch together",
    CentralCriticLearner._check_finite: "an error message",
    CentralCriticLearner._summary: "metrics",
    AdvantageEstimator._seen: "looks up rows",
    AdvantageEstimator._slices: "cuts batches that are too large for memory",
    AdvantageEstimator._value: "asks the critic, or the policy where they share layers",
    Critic.forward: "one network",
    Critic.observe: "running statistics of observations",
    TrainBatch._sequences: "recurrent policies",
    Minibatch.share: "several learners",
    prepare: "numpy to torch",
    explained_variance: "metrics",
}


def reading(learner: type[CentralCriticLearner], config: CentralCriticConfig) -> Reading:
    """From ``learn`` to the optimiser's step."""
    ppo, critic, joint = config.objective == "ppo", config.objective != "pg", config.critic_sees != "own"
    returns: dict[str, list[Function]] = {
        "pg": [returns_to_go, discounted_until],
        "vtrace": [AdvantageEstimator._appraise, AdvantageEstimator._logp, fold_rewards, vtrace],
    }
    left_out = dict(LEFT_OUT)
    views: list[Function] = [CriticView.forward, CriticView._joint]
    if not critic:
        left_out[fold_rewards] = "a column that is not learned from"
    if not joint:
        left_out[CriticView.forward] = "critics that see more than one agent"
        views = []
    shown: list[Function] = [
        learner.learn, AdvantageEstimator.rows, *views,
        *returns.get(config.objective, [AdvantageEstimator._appraise, fold_rewards, gae]),
        learner._improve, learner._lesson, normalized,
        *([learner._parts, TrainBatch.minibatches, TrainBatch._in_rows] if ppo else [learner._parts]),
        learner._update, learner._loss, clipped_loss if ppo else policy_gradient_loss, *([value_loss] if critic else []),
        FlatOptimiser.step, STEPS[config.optimizer.type],
    ]  # fmt: skip
    return Reading(tuple(shown), left_out)
