"""What `marl show` prints of dqn, vdn, qmix and apex."""

from __future__ import annotations

from marl.algos.off_policy import UpdateRatio
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.distributional import compare_distributions
from marl.algos.qmix.learner import QmixLearner, _per_draw
from marl.algos.qmix.losses import best_legal, distribution_loss, moved_atoms, projected, td_loss, td_target
from marl.algos.qmix.mixers import MIXERS
from marl.algos.qmix.teams import Team, _as_learned
from marl.algos.qmix.values import MemberValues
from marl.algos.reading import Function, Reading
from marl.data.replay import Priorities, Replay
from marl.data.returns import discounted_until, fold_rewards

LEFT_OUT: dict[Function, str] = {
    QmixLearner._show_team: "callbacks",
    QmixLearner._share: "several learners",
    QmixLearner._with_custom: "custom losses",
    QmixLearner._taught: "looks up policies",
    QmixLearner._optimisers_to_step: "gathers optimisers",
    _per_draw: "priorities of recurrent members",
    Team._mixed_rows: "teams whose seats others play",
    _as_learned: "reward_shift and reward_scale",
    MemberValues._able: "looks up networks",
    MemberValues._by_player: "members that different policies play",
    MemberValues._players: "the same",
}


def reading(learner: type[QmixLearner], config: QmixConfig) -> Reading:
    """From ``learn`` to the slow copies."""
    left_out = dict(LEFT_OUT)
    mixing = MIXERS[config.mixer].forward
    values: list[Function] = [
        learner._compare, MemberValues.at_once, learner._next_values, learner._chosen, learner._target, learner._mix, mixing,
        best_legal, td_target, td_loss,
    ]  # fmt: skip
    if config.num_atoms > 1:
        values = [learner._compare, compare_distributions, best_legal, moved_atoms, projected, distribution_loss]
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    shown: list[Function] = [
        learner.learn, learner.remember, Team.remember, discounted_until if config.looks_at_groups else fold_rewards,
        learner.train, UpdateRatio.due, learner._train, learner._loss, learner._team_loss, learner._draw, Replay.sample,
        Replay._outcomes, *priorities, *values, FlatOptimiser.step, STEPS[config.optimizer.type], learner.copy_to_targets,
    ]  # fmt: skip
    return Reading(tuple(shown), left_out)
