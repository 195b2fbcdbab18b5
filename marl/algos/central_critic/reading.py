"""What `marl show` prints of pg, a2c, a3c, ppo, mappo and impala."""

from __future__ import annotations

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView, current_logp
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.losses import (
    clipped_loss,
    explained_variance,
    normalized,
    policy_gradient_loss,
    value_loss,
)
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch, prepare, to_tensors
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.data.returns import discounted_until, fold_rewards, gae, returns_to_go, temporal_differences, vtrace

LEFT_OUT: dict[Function, str] = {
    CentralCriticLearner._take_gathered: "puts the rounds of a batch together",
    CentralCriticLearner._check_finite: "an error message",
    CentralCriticLearner._finish: "metrics",
    Critic.seen: "looks up rows",
    Critic.forward: "one network",
    Critic.observe: "running statistics of observations",
    TrainBatch._sequences: "recurrent policies",
    Minibatch.share: "several learners",
    prepare: "numpy to torch",
    to_tensors: "numpy to torch",
    explained_variance: "metrics",
}


def reading(learner: type[CentralCriticLearner], config: CentralCriticConfig) -> Reading:
    """From ``learn`` to the optimiser's step."""
    left_out = dict(LEFT_OUT)
    shown: list[Function] = [learner.learn, learner._with_advantages]
    if config.critic_sees == "own":
        left_out[CriticView.forward] = "critics that see more than one agent"
    else:
        shown += [CriticView.forward, CriticView._joint]
    if config.objective == "pg":
        left_out[fold_rewards] = "a column that is not learned from"
        shown += [returns_to_go, discounted_until]
    elif config.objective == "vtrace":
        shown += [Critic.estimate_values, current_logp, fold_rewards, vtrace, temporal_differences]
    else:
        shown += [Critic.estimate_values, fold_rewards, gae, temporal_differences]
    shown += [learner._train, learner._train_batch, normalized, learner._minibatches]
    if config.objective == "ppo":
        shown += [TrainBatch.minibatches, learner._update, learner._loss, clipped_loss]
    else:
        shown += [learner._update, learner._loss, policy_gradient_loss]
    if config.objective != "pg":
        shown.append(value_loss)
    shown += [FlatOptimiser.step, STEPS[config.optimizer.type]]
    return Reading(tuple(shown), left_out)
