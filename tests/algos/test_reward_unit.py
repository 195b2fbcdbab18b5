"""The unit in which networks of action values count: what it is, that no value changes with it, and that runs resume with it."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.presets import ALGOS
from marl.algos.qmix.learner import QmixLearner
from marl.algos.qmix.mixers import MonotonicMixer
from marl.algos.qmix.reward_unit import RewardUnit
from marl.errors import UserError
from marl.policies.networks import seeded
from marl.training.learners import build_learners
from tests.algos.updates import one_update


def observed(*rounds: list[float], centred: bool = False) -> RewardUnit:
    unit = RewardUnit(centred)
    for rewards in rounds:
        unit.observe(np.array(rewards, np.float32), np.ones(len(rewards), np.float32))
    return unit


def test_the_unit_is_the_mean_size_of_the_rewards_and_a_twentieth_of_the_largest_where_few_are_paid() -> None:
    assert observed([-2.0, 1.0], [3.0]).value == 2.0
    assert observed([0.0] * 999, [5.0]).value == 0.25
    assert observed([0.0, 0.0]).value == 1.0  # nothing was ever paid
    assert not observed([0.0], []).known


def test_centred_rewards_have_a_mean_per_env_step_and_the_size_of_their_distance_from_it() -> None:
    unit = observed([-2.0, 4.0], centred=True)
    assert (unit.mean, unit.value) == (1.0, 3.0)
    assert observed([-2.0, 4.0]).mean == 0.0
    # A decision of two steps that paid 3 with gamma 0.5: 2 in each of them.
    longer = RewardUnit(centred=True)
    longer.observe(np.array([3.0], np.float32), np.array([1.5]))
    assert longer.mean == 2.0


def test_centred_targets_lack_the_mean_in_every_step_that_they_look_ahead() -> None:
    found = []
    for centred in (False, True):
        with one_update("vdn", gamma=0.5, n_step=2, center_rewards=centred, normalize_rewards=False) as trainer:
            trainer.train()
            learner = learner_of(trainer)
            learner.rng = np.random.default_rng(0)
            ((minibatch,),) = learner.drawing.draw(learner.teams, 1, learner.rng, learner.learner_group)
            found.append((learner._centred(minibatch.t), minibatch.t, learner.reward_unit.mean))
    (plain, _, nothing), (less, t, mean) = found
    assert nothing == 0.0
    assert mean > 0.1
    assert set(t.elapsed.tolist()) == {1, 2}  # the last decision of an episode has one
    lost = torch.where(t.elapsed == 2, 1.5 * mean, mean)
    torch.testing.assert_close(less, plain - lost, rtol=1e-5, atol=1e-6)


def learner_of(trainer: Any) -> QmixLearner:
    (learner,) = trainer.learners
    assert isinstance(learner, QmixLearner)
    return learner


def told(learner: QmixLearner) -> list[torch.Tensor]:
    """Values of members and, over them, of the team: by the networks and by their slow copies."""
    obs = torch.linspace(-1, 1, 5 * 6).view(5, -1)
    found = []
    for policies, mixer in (
        (learner.values, learner.teams[0].mixer),
        (learner.targets, learner.teams[0].target_mixer),
    ):
        (policy,) = policies.values()
        width = policy.model.features.size - policy.model.features.seats
        with torch.no_grad():
            values = policy.values(obs[:, :1].expand(5, width).contiguous(), torch.zeros(5, dtype=torch.int64))
            found.append(values)
            if isinstance(mixer, MonotonicMixer):
                state = obs[:, :1].expand(5, mixer.b1.in_features)
                found.append(mixer(values[:, :2], state))
    return found


@pytest.mark.parametrize("algo", ["dqn", "noisy_dqn", "qmix"])
@pytest.mark.parametrize("memory", [{}, {"use_gru": True, "lstm_cell_size": 4, "max_seq_len": 4}], ids=["", "memory"])
def test_no_value_changes_when_the_unit_does(algo: str, memory: dict[str, Any]) -> None:
    if memory and algo != "qmix":
        pytest.skip("one recurrent learner is enough")
    with one_update(algo, **memory) as trainer:
        trainer.train()
        learner = learner_of(trainer)
        if memory:  # values of recurrent members need a carry; their last layer is what counts
            (policy,) = learner.values.values()
            assert [p.shape for p in policy.model.last_layer()] == [(policy.num_actions, 4), (policy.num_actions,)]
            return
        before, unit = told(learner), learner.reward_unit.value
        learner._set_unit(7.5 * unit)
        for mine, theirs in zip(told(learner), before, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        learner.learned.clear()
        learner._set_unit(15 * unit)
        values, *_ = told(learner)
        torch.testing.assert_close(values, 2 * before[0], rtol=1e-5, atol=1e-6)


def test_networks_count_in_the_unit_of_all_rewards_so_far_and_their_layers_in_none() -> None:
    with one_update("vdn") as trainer:
        learner = learner_of(trainer)
        for _ in range(3):
            trainer.train()
            (policy,), (slow,) = learner.values.values(), learner.targets.values()
            assert float(policy.unit) == float(slow.unit) == learner.reward_unit.value  # type: ignore[arg-type]
        rewards = learner.teams[0].replay.columns["rewards"][: len(learner.teams[0].replay)]
        assert learner.reward_unit.value == pytest.approx(float(np.abs(rewards).mean()), rel=1e-5)
        inputs = policy.inputs(torch.zeros(2, policy.kind.obs_width), torch.zeros(2, dtype=torch.int64))
        plain = policy.model.network(inputs[0])
        torch.testing.assert_close(policy.run(inputs, 0)[0], plain * policy.unit)


def test_values_that_were_loaded_stay_what_they_are_although_this_run_has_not_learned_yet() -> None:
    with one_update("dqn") as first:
        first.train()
        (weights,) = first.get_weights().values()
    with one_update("dqn", learning_starts=10_000) as trainer:
        trainer.policies["default_policy"].set_weights(weights)
        setup = trainer.setup
        (learner,) = build_learners(
            setup.plans, setup.roles, trainer.policies, setup.task, 5
        )  # as a run with `load` does
        assert isinstance(learner, QmixLearner)
        before = told(learner)
        batch = trainer.workers.collect(8).batch
        learner.learn(batch.with_rewards(batch.rewards * np.float32(4)))
        assert not learner.counters["num_updates"]
        (policy,) = learner.values.values()
        assert float(policy.unit) > 2 * float(weights["unit"])  # type: ignore[arg-type]
        for mine, theirs in zip(told(learner), before, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6)
        again = learner_of(trainer)
        again.load_state_dict(learner.state_dict())
        assert again.loaded == {"default_policy"}


def test_a_policy_that_begins_to_learn_later_has_nothing_to_keep() -> None:
    with one_update("dqn") as trainer:
        learner = learner_of(trainer)
        trainer.train()
        learner.learned.clear()  # as of a policy that was frozen while others learned
        before, unit = told(learner), learner.reward_unit.value
        learner._set_unit(2 * unit)
        for mine, theirs in zip(told(learner), before, strict=True):
            torch.testing.assert_close(mine, 2 * theirs, rtol=1e-5, atol=1e-6)
        trainer.train()
        assert learner.learned == {"default_policy"}


@pytest.mark.parametrize("algo", ["dqn", "vdn", "qmix"])
def test_what_is_learned_from_does_not_depend_on_the_size_of_the_rewards(algo: str) -> None:
    """Rewards times four give values times four and, in the networks, the same numbers: four is exact in floats."""
    found = []
    for scale in (1.0, 4.0):
        with one_update(algo, {}, normalize_rewards=None) as trainer:
            learner = learner_of(trainer)
            batch = trainer.workers.collect(8).batch
            learner.learn(batch.with_rewards(batch.rewards * np.float32(scale)))
            assert learner.counters["num_updates"]
            (policy,) = learner.values.values()
            found.append((float(policy.unit), [p.detach().clone() for p in policy.parameters()]))  # type: ignore[arg-type]
    (small, first), (large, second) = found
    assert large == 4 * small
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_a_learner_goes_on_from_its_state_with_the_same_unit_and_the_same_returns() -> None:
    with one_update("qmix") as trainer, one_update("qmix") as other:
        for _ in range(2):
            trainer.train()
        learner, again = learner_of(trainer), learner_of(other)
        again.load_state_dict(deepcopy(learner.state_dict()))
        again.load_replay_state(deepcopy(learner.replay_state()))
        again.values["default_policy"].set_weights(learner.values["default_policy"].get_weights())
        batch = trainer.workers.collect(8).batch
        assert again.learn(batch) == learner.learn(batch)
        assert again.reward_unit.state_dict() == learner.reward_unit.state_dict()
        assert again.returns_seen.state_dict() == learner.returns_seen.state_dict()
        mine, theirs = again.teams[0].mixer.state_dict(), learner.teams[0].mixer.state_dict()
        assert mine.keys() >= {"unit", "filter.mean", "filter.count"}
        assert all(torch.equal(mine[name], theirs[name]) for name in mine)


def test_states_of_older_releases_know_no_unit() -> None:
    with one_update("qmix") as trainer:
        trainer.train()
        learner = learner_of(trainer)
        old, policy = deepcopy(learner.state_dict()), learner.values["default_policy"]
        del old["reward_unit"]
        for part in ("mixer", "target"):
            mixer = old["mixers"][learner.teams[0].name][part]
            for name in [name for name in mixer if name == "unit" or name.startswith("filter")]:
                del mixer[name]
        learner.load_state_dict(old)
        weights = policy.get_weights()
        del weights["unit"]
        policy.set_weights(weights)
        assert float(policy.unit) == 1.0  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "normalizes"),
    [({}, True), ({"reward_scale": 0.1}, False), ({"num_atoms": 5}, False), ({"normalize_rewards": False}, False)],
)
def test_a_unit_is_used_unless_the_scale_is_set_by_hand(keys: dict[str, Any], normalizes: bool) -> None:
    config = ALGOS["dqn"].configure(**keys)
    assert config.acting.get("units", False) is normalizes


@pytest.mark.parametrize("keys", [{"reward_scale": 0.1}, {"num_atoms": 5}])
def test_a_unit_beside_a_scale_by_hand_is_refused(keys: dict[str, Any]) -> None:
    with pytest.raises((UserError, ValueError), match="normalize_rewards: true needs"):
        ALGOS["dqn"].configure(normalize_rewards=True, **keys)


@pytest.mark.parametrize("scale", [0.01, 1.0, 1000.0])
def test_a_fresh_mixer_says_about_0_whatever_the_state_is_like(scale: float) -> None:
    """Of states of any size: the filter divides by their deviation, and what adds to the values begins small."""
    generator = torch.Generator().manual_seed(1)
    mixer = MonotonicMixer(3, 40, 32, seeded(0), hyper=64, filtered=True)
    state = scale * (5 + torch.randn(500, 40, generator=generator))
    mixer.observe(state)
    with torch.no_grad():
        of_nothing = mixer(torch.zeros(500, 3), state)
        weights = mixer.weights(state)
    assert float(of_nothing.abs().max()) < 0.5
    assert float((weights[0] @ weights[2].unsqueeze(2)).mean()) > 0.1, "but members' values count from the start"
