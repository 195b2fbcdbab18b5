"""What `marl show` prints of ddpg, td3, maddpg and apex_ddpg."""

from __future__ import annotations

from marl.algos.joint_view import JointActionView, JointView
from marl.algos.maddpg.actor_critic import Critics, DeterministicActorCritic
from marl.algos.maddpg.config import MaddpgConfig
from marl.algos.maddpg.learner import MaddpgLearner
from marl.algos.maddpg.losses import actor_loss, critic_loss, smoothed, td_target
from marl.algos.off_policy import TargetNetwork, UpdateRatio
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.reading import Function, Reading
from marl.data.replay import Priorities, Replay
from marl.data.returns import fold_rewards
from marl.policies.deterministic import DeterministicPolicy
from marl.policies.mlp import MLP, pull_layers, run_layers

LEFT_OUT: dict[Function, str] = {
    MaddpgLearner.summary: "metrics",
    DeterministicActorCritic.transitions: "names of columns",
}


def reading(learner: type[MaddpgLearner], config: MaddpgConfig) -> Reading:
    """From ``learn`` to the slow copies."""
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    noise: list[Function] = [smoothed] if config.target_noise else []
    shown: list[Function] = [
        learner.learn, learner.remember, DeterministicActorCritic.remember, fold_rewards,
        learner.train, UpdateRatio.due, learner._train,
        DeterministicActorCritic.sample, Replay.sample, Replay._outcomes, *priorities,
        learner._next_actions, JointActionView.decided, *noise,
        learner._target, td_target, JointActionView.forward, JointView.forward, critic_loss,
        Critics.run, MLP.run, run_layers,
        learner._improve_actor, learner.climb, learner._actor_loss, DeterministicPolicy.drawn,
        JointActionView.with_own_action, actor_loss, JointActionView.by_own_action, DeterministicPolicy.slopes,
        learner.descend_by, Critics.pull, MLP.pull, pull_layers, FlatOptimiser.step, STEPS[config.optimizer.type],
        DeterministicActorCritic.move_targets, TargetNetwork.move,
    ]  # fmt: skip
    return Reading(tuple(shown), LEFT_OUT)
