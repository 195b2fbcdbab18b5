"""What `marl show` prints of ddpg, td3, maddpg and apex_ddpg."""

from __future__ import annotations

from marl.algos.joint_view import JointActionView, TargetNetwork
from marl.algos.maddpg.actor_critic import ActorCritic, Critics
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.algos.update_ratio import UpdateRatio
from marl.data.replay import Priorities, Replay
from marl.data.returns import fold_rewards

LEFT_OUT: dict[Function, str] = {
    MaddpgLearner._summary: "metrics",
    ActorCritic.lrs: "schedules of step sizes",
}


def reading(learner: type[MaddpgLearner], config: MaddpgConfig) -> Reading:
    """From ``learn`` to the slow copies."""
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    shown: list[Function] = [
        learner.learn, ActorCritic.remember, fold_rewards, UpdateRatio.due, learner._update,
        ActorCritic.sample, Replay.sample, Replay._outcomes, *priorities,
        learner._improve_critic, learner._next_actions, JointActionView.decided, *([smoothed] if config.target_noise else []),
        learner._target, JointActionView.forward, td_target, critic_loss,
        learner._improve_actor, learner._actor_loss, JointActionView.with_own, Critics.first, actor_loss,
        FlatOptimiser.step, STEPS[config.optimizer.type], ActorCritic.move_targets, TargetNetwork.move,
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
