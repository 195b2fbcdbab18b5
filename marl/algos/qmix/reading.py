"""What `marl show` prints of dqn, iql, hysteretic, noisy_dqn, rainbow, softq, vdn, qmix and apex."""

from __future__ import annotations

from marl.algos.off_policy import UpdateRatio
from marl.algos.optimiser import STEPS, FlatOptimiser
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.distributional import compare_distributions
from marl.algos.qmix.learner import QmixLearner, _per_draw
from marl.algos.qmix.losses import (
    backed_up,
    best_legal,
    discounts,
    distribution_loss,
    divergence,
    moved_atoms,
    projected,
    soft_value,
    td_loss,
)
from marl.algos.qmix.minibatch import Drawing, Minibatch, _share
from marl.algos.qmix.mixers import MIXERS, Mixer, MonotonicMixer, _HyperNet
from marl.algos.qmix.report import summary
from marl.algos.qmix.returns_seen import Extremes, ReturnsSeen, _starts
from marl.algos.qmix.reward_unit import RewardUnit
from marl.algos.qmix.teams import Team, _as_learned, discounted_steps
from marl.algos.qmix.values import (
    MemberTape,
    MemberValues,
    Shown,
    _interleaved,
    best_values,
    slopes_of_chosen,
    soft_values,
    values_of,
)
from marl.algos.reading import Function, Reading
from marl.data.replay import Priorities, Replay
from marl.data.returns import discounted_until, fold_rewards
from marl.policies.mlp import MLP
from marl.policies.networks import Body
from marl.policies.noisy import NoisyMLP, noise_for_all
from marl.policies.value import ValuePolicy

LEFT_OUT: dict[Function, str] = {
    Minibatch.rows: "callbacks",
    _share: "several learners",
    QmixLearner._loss_of_users: "custom losses",
    QmixLearner._taught: "looks up policies",
    QmixLearner._optimisers_to_step: "gathers optimisers",
    QmixLearner._explained_returns: "metrics",
    QmixLearner._checked: "the error where a loss is not a number",
    QmixLearner._list_errors: "priorities and full_td_error",
    _per_draw: "priorities of recurrent members",
    summary: "the numbers that are reported",
    Minibatch.share.fget: "several learners",  # type: ignore[attr-defined]
    Team._mixed_rows: "teams whose seats others play",
    Team.as_mixed: "the state of the mixer",
    Team._as_mixed: "the same",
    _as_learned: "reward_shift and reward_scale",
    ReturnsSeen.observe: "returns that can be explained, which are reported",
    ReturnsSeen._close: "the same",
    ReturnsSeen.bounds: "the same",
    Extremes.include: "the same",
    _starts: "the same",
    Team._observe: "the filter of the mixer's state",
    MonotonicMixer.observe: "the same",
    MonotonicMixer.set_unit: "the mixer's unit",
    Mixer.set_unit: "mixers without one",
    RewardUnit.observe: "sizes of rewards",
    RewardUnit.mean.fget: "center_rewards",  # type: ignore[attr-defined]
    QmixLearner._centred: "the same",
    discounted_steps: "the same",
    QmixLearner.unit.fget: "looks up the unit",  # type: ignore[attr-defined]
    RewardUnit.known.fget: "the same",  # type: ignore[attr-defined]
    QmixConfig.normalizes.fget: "looks up a key",  # type: ignore[attr-defined]
    ValuePolicy._in_rewards: "a product with the unit",
    Body.last_layer: "looks up a layer",
    MLP.last: "the same",
    NoisyMLP.last: "the same",
    Minibatch.split: "several updates that are drawn at once",
    MonotonicMixer._run_nets: "one network after the other",
    _HyperNet.run: "linear layers",
    _HyperNet.pull: "the way back through them",
    Drawing.at_once: "for how many updates to draw in one go",
    MemberValues._able: "looks up networks",
    MemberValues._parts: "members that different policies play",
    MemberValues._by_player: "the same",
    MemberValues._players: "the same",
    Mixer.forward: "the mixer without a tape",
    MemberValues.show: "rows as networks take them",
    _interleaved: "the same",
}


def reading(learner: type[QmixLearner], config: QmixConfig) -> Reading:
    """From ``learn`` to the slow copies."""
    left_out = dict(LEFT_OUT)
    mixer = MIXERS[config.mixer]
    outcomes: list[Function] = [soft_values, soft_value] if config.temperature else [best_values, best_legal]
    values: list[Function] = [
        learner._chosen, values_of, mixer.run, learner._target, *outcomes, mixer.weights, mixer.mix, backed_up, td_loss,
        mixer.pull, slopes_of_chosen,
    ]  # fmt: skip
    if config.num_atoms > 1:
        left_out[mixer.weights] = "distributions are not mixed"
        values = [compare_distributions, best_legal, moved_atoms, projected, distribution_loss]
        values += [divergence] if config.priorities == "divergence" else []
    noise: list[Function] = []
    if config.noisy:
        noise = [noise_for_all, NoisyMLP.draw, ValuePolicy.run, NoisyMLP.run, NoisyMLP.drawn, NoisyMLP.pull]
    units: list[Function] = []
    if config.normalizes:
        units = [RewardUnit.value.fget, learner._set_unit, ValuePolicy.set_unit]  # type: ignore[attr-defined]
    priorities: list[Function] = [Priorities.sample, Priorities.raise_to] if config.prioritized_replay else []
    shown: list[Function] = [
        learner.learn, learner.remember, *units, Team.remember, discounted_until if config.looks_at_groups else fold_rewards,
        learner.train, UpdateRatio.due, learner._train, Drawing.draw, Drawing._lot, Replay.draw, *priorities, Replay.rows,
        Replay._outcomes, Drawing._minibatches, discounts, MemberValues.at_once, learner._learn_from, learner._loss,
        learner._online, MemberValues.run, Shown.run, *noise, learner._compare, *values, MemberTape.pull,
        FlatOptimiser.step,
        STEPS[config.optimizer.type], learner.copy_to_targets,
    ]  # fmt: skip
    return Reading(tuple(shown), left_out)
