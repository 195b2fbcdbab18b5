"""What `marl show` prints of sac and masac."""

from __future__ import annotations

from marl.algos.critics import ActionCritics
from marl.algos.joint_view import JointActionView, JointView
from marl.algos.off_policy import TargetNetwork, UpdateRatio
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Function, Reading
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.learner import SacLearner
from marl.algos.sac.losses import critic_loss, expected_soft_value, smallest, soft_value, temperature_loss
from marl.algos.sac.values import DrawnValues, Moment, SoftValues, SummedValues, Twins
from marl.data.replay import Priorities, Replay
from marl.data.returns import fold_rewards
from marl.policies.mlp import MLP, pull_layers, run_layers
from marl.policies.squashed import SquashedGaussian, SquashedPolicy

LEFT_OUT: dict[Function, str] = {
    vars(SoftActorCritic)["alpha"].fget: "the exponential of log_alpha",
    Moment.part: "several learners",
    Twins.forward: "both networks",
    SummedValues._done: "the own actions, twice",
}


def reading(learner: type[SacLearner], config: SacConfig) -> Reading:
    """From ``learn`` to the slow copies; first the values of Box actions, then those of Discrete ones."""
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    others: list[Function] = [JointActionView.decided] if config.critic_sees != "own" else []
    drawn: list[Function] = [
        SoftValues.seen, DrawnValues.__call__, soft_value, DrawnValues.loss, smallest, JointActionView.by_own_action,
        SquashedGaussian.slopes, DrawnValues.target_entropy,
    ]  # fmt: skip
    summed: list[Function] = [
        SummedValues.seen, SummedValues.pick, SummedValues.spread, SummedValues.__call__, SummedValues._blank,
        SummedValues.loss, expected_soft_value, SummedValues.target_entropy,
    ]  # fmt: skip
    shown: list[Function] = [
        learner.learn, learner.remember, SoftActorCritic.remember, fold_rewards,
        learner.train, UpdateRatio.due, learner._train,
        SoftActorCritic.sample, Replay.sample, Replay.draw, Replay._outcomes, *priorities,
        learner._moment, *others, learner._target, td_target, learner._improve_critics, critic_loss,
        learner._improve_actor, learner.climb, learner._improve_temperature, temperature_loss,
        *drawn, *summed, JointActionView.forward, JointView.forward, JointActionView.with_own_action,
        ActionCritics.run, SquashedPolicy.run, MLP.run, run_layers,
        learner.descend_by, ActionCritics.pull, SquashedPolicy.pull, MLP.pull, pull_layers,
        FlatOptimiser.step, STEPS[config.optimizer.type], SoftActorCritic.move_targets, TargetNetwork.move,
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
