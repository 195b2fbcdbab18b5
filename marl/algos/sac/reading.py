"""What `marl show` prints of sac."""

from __future__ import annotations

from marl.algos.joint_view import JointActionView, JointView
from marl.algos.off_policy import TargetNetwork, UpdateRatio
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Function, Reading
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.learner import SacLearner
from marl.algos.sac.losses import critic_loss, expected_soft_value, soft_value, temperature_loss
from marl.algos.sac.values import DrawnValues, Moment, SummedValues
from marl.data.replay import Priorities, Replay
from marl.data.returns import fold_rewards

LEFT_OUT: dict[Function, str] = {
    SacLearner._finite: "an error message",
    vars(SoftActorCritic)["alpha"].fget: "the exponential of log_alpha",
    Moment.part: "several learners",
}


def reading(learner: type[SacLearner], config: SacConfig) -> Reading:
    """From ``learn`` to the slow copies; first the values of Box actions, then those of Discrete ones."""
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    others: list[Function] = [JointActionView.decided] if config.critic_sees != "own" else []
    drawn: list[Function] = [DrawnValues.chosen, DrawnValues.__call__, soft_value, DrawnValues.target_entropy]
    summed: list[Function] = [
        SummedValues.chosen, SummedValues.__call__, SummedValues._all_values, expected_soft_value,
        SummedValues.target_entropy,
    ]  # fmt: skip
    shown: list[Function] = [
        learner.learn, learner.remember, SoftActorCritic.remember, fold_rewards,
        learner.train, UpdateRatio.due, learner._train,
        SoftActorCritic.sample, Replay.sample, Replay.draw, Replay._outcomes, *priorities,
        learner._moment, *others, learner._target, td_target, critic_loss, learner._improve_temperature, temperature_loss,
        *drawn, *summed, JointActionView.forward, JointView.forward, JointActionView.with_own,
        learner.descend, FlatOptimiser.step, STEPS[config.optimizer.type], SoftActorCritic.move_targets,
        TargetNetwork.move,
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
