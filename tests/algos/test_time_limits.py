"""Episodes that are cut off: with ``bootstrap_at_time_limit`` they would go on, without it they are over."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.algos.qmix.learner import QmixLearner
from marl.data.batch import MultiAgentBatch
from marl.training.trainer import Trainer
from tests.algos.updates import one_update

CUT = {"horizon": 3}  # of four moves
GAMMA = 0.5


def rows_of(algo: str, bootstrap: bool, **keys: Any) -> tuple[QmixLearner, Any]:
    """What the replay holds after one round, drawn once each."""
    with one_update(algo, gamma=GAMMA, bootstrap_at_time_limit=bootstrap, **CUT, **keys) as trainer:
        trainer.train()
        (learner,) = trainer.learners
        assert isinstance(learner, QmixLearner)
        replay = learner.teams[0].replay
        places = np.arange(len(replay))
        rows = replay.rows(places, np.ones(len(places), np.float32), learner.config.n_step, GAMMA)
        return learner, rows


@pytest.mark.parametrize("algo", ["dqn", "vdn", "qmix"])
@pytest.mark.parametrize("bootstrap", [True, False])
def test_what_is_cut_off_is_over_only_where_time_limits_do_not_bootstrap(algo: str, bootstrap: bool) -> None:
    _, rows = rows_of(algo, bootstrap)
    last = rows["t"] == 2
    assert last.any()
    assert (rows["ended"] == last).all()
    assert (rows["terminateds"] == (last & (not bootstrap))).all()
    assert (rows["new_present"].any(axis=1) == ~rows["terminateds"]).all()


@pytest.mark.parametrize("bootstrap", [True, False])
def test_several_steps_stop_at_a_limit_and_are_bootstrapped_there_or_not(bootstrap: bool) -> None:
    _, rows = rows_of("dqn", bootstrap, n_step=2)
    single = rows_of("dqn", bootstrap)[1]
    # Two decisions fit in before the cut from the first move; the second one's outcome is the cut itself.
    assert rows["elapsed"][rows["t"] == 2].tolist() == [1] * int((rows["t"] == 2).sum())
    reach_the_cut = rows["t"] >= 1
    follows = rows["elapsed"] == 2
    assert (rows["terminateds"] == (((rows["t"] == 1) & follows | (rows["t"] == 2)) & (not bootstrap))).all()
    assert (reach_the_cut | ~rows["ended"]).all()
    first = np.flatnonzero((rows["t"] == 1) & follows)[0]
    same = single["eps_id"] == rows["eps_id"][first]
    if "seat" in single:
        same &= single["seat"] == rows["seat"][first]
    paid = {int(t): float(r) for t, r in zip(single["t"][same], single["rewards"][same], strict=True)}
    assert rows["rewards"][first] == pytest.approx(paid[1] + GAMMA * paid[2])


def test_targets_at_a_limit_are_the_reward_alone_where_it_is_an_end() -> None:
    for bootstrap in (True, False):
        learner, _ = rows_of("vdn", bootstrap)
        ((minibatch,),) = learner.drawing.draw(learner.teams, 1, learner.rng, learner.learner_group)
        choosing = minibatch.valuing
        target = learner._target(minibatch, choosing)
        t = minibatch.t
        best = sum(values.max(dim=2).values.sum(dim=1) for values in minibatch.valuing.values())
        goes_on = t.rewards + GAMMA * best
        at_limit = ~t.now.present.bool().any(dim=1) | t.terminated
        assert bool(at_limit.any()) is (not bootstrap)
        expected = goes_on.where(~at_limit, t.rewards)
        np.testing.assert_allclose(target, expected, rtol=1e-5)


@pytest.mark.parametrize("memory", [{"use_gru": True, "lstm_cell_size": 4, "max_seq_len": 4}])
def test_sequences_end_at_a_limit_too(memory: dict[str, Any]) -> None:
    for bootstrap in (True, False):
        learner, rows = rows_of("qmix", bootstrap, **memory)
        assert learner.teams[0].chunks is not None
        last = (rows["t"] == 2) & rows["mask"].astype(bool)
        assert last.any()
        assert (rows["terminateds"].astype(bool) & rows["mask"].astype(bool) == (last & (not bootstrap))).all()


@pytest.mark.parametrize("algo", ["ppo", "sac", "q_learning"])
def test_every_learner_is_told_by_the_batch(algo: str) -> None:
    with one_update(algo, bootstrap_at_time_limit=False, **CUT) as trainer:
        (learner,) = trainer.learners
        batch = trainer.workers.collect(8).batch
        assert batch.truncateds.any()
        seen = learner.as_learned(batch)
        assert not seen.truncateds.any()
        assert (seen.terminateds == (batch.terminateds | batch.truncateds)).all()
        assert learner.trained == learner.ends_at_limits


def test_only_those_policies_end_there_that_say_so() -> None:
    keys = {"policies": {"first": {"algo": {"bootstrap_at_time_limit": False}}, "second": {}}}
    with Trainer(
        "dqn",
        env="marl.testing.sign_env:Signs",
        config={**CUT, "fcnet_hiddens": [4], "evaluation": {"interval": 0}, "multiagent": {
            **keys, "policy_mapping_fn": {"agent_0": "first", "agent_1": "second"}}},
    ) as trainer:  # fmt: skip
        batch: MultiAgentBatch = trainer.workers.collect(8).batch
        ends = [learner.as_learned(batch) for learner in trainer.learners]
    assert (ends[0].terminateds[:, :, 0] == (batch.terminateds | batch.truncateds)[:, :, 0]).all()
    assert (ends[0].truncateds[:, :, 1] == batch.truncateds[:, :, 1]).all()
    assert ends[1] is batch
