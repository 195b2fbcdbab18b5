"""What `marl show` prints of sac."""

from __future__ import annotations

from marl.algos.joint_view import JointActionView, TargetNetwork
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.qmix.losses import td_target
from marl.algos.reading import Function, Reading
from marl.algos.sac.actor_critic import ActorCritic
from marl.algos.sac.config import SacConfig
from marl.algos.sac.learner import SacLearner
from marl.algos.sac.losses import critic_loss, expected_soft_value, soft_value, temperature_loss
from marl.algos.sac.values import DrawnValues, Moment, SoftValues, SummedValues, nothing
from marl.algos.update_ratio import UpdateRatio
from marl.data.replay import Priorities, Replay
from marl.data.returns import fold_rewards

LEFT_OUT: dict[Function, str] = {
    SacLearner._summary: "metrics",
    SacLearner._check_finite: "an error message",
    ActorCritic.step_sizes: "schedules of step sizes",
    vars(ActorCritic)["alpha"].fget: "the exponential of log_alpha",
    Moment.part: "several learners",
    SoftValues._params: "asks the policy's network",
    nothing: "zeros where a critic sees its own agent alone",
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
        learner.learn, ActorCritic.remember, fold_rewards, UpdateRatio.due, learner._update,
        ActorCritic.sample, Replay.sample, Replay._outcomes, *priorities,
        learner._moment, *others, learner._improve_critics, td_target, critic_loss, learner._improve_actor,
        learner._improve_temperature, temperature_loss, *drawn, *summed,
        FlatOptimiser.step, STEPS[config.optimizer.type], TargetNetwork.move,
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
