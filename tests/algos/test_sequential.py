"""HAPPO: policies of a team learn one after the other, each weighed by how those before it have changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.central_critic.sequential import SequentialJob, moments
from marl.algos.central_critic.stacked import TrainingJob
from marl.data.batch import SampleBatch
from marl.data.task import Floats
from marl.errors import ConfigError
from marl.training.trainer import Trainer

APART: dict[str, Any] = {
    "env": "tests.algos.witnessed:Witnessed", "env_config": {"agents": 3}, "policy_mapping_fn": "per_agent",
    "train_batch_size": 40, "sgd_minibatch_size": 64, "num_sgd_iter": 3, "num_envs_per_worker": 4, "fcnet_hiddens": [8],
    "evaluation": {"interval": 0}, "seed": 3, "lr": 0.05,
}  # fmt: skip
TEAM = {"multiagent": {"groups": {"team": ["agent_*"]}}}


def chances(learner: CentralCriticLearner, name: str, rows: SampleBatch) -> Floats:
    """Log probabilities by the policy's own account, without the learner."""
    policy = learner.actors[name]
    return policy.action_distribution(rows).logp(rows["actions"]).detach().numpy()


def run_job(trainer: Trainer) -> tuple[SequentialJob, dict[str, SampleBatch], dict[str, Floats], dict[str, Floats]]:
    """One update, with the factors that each policy was trained with, and its chances before and after."""
    learner = trainer.learners[0]
    assert isinstance(learner, CentralCriticLearner)
    batch = trainer.workers.collect(10).batch
    taken = {name: learner._with_advantages(name, batch) for name in learner.policies}
    before = {name: chances(learner, name, rows) for name, rows in taken.items()}
    job = SequentialJob(learner, list(taken), taken)
    learned: dict[str, SampleBatch] = {}
    learner.on_batch = lambda name, rows: learned.update({name: rows})
    (metrics,) = SequentialJob.run_together([job])
    assert not isinstance(metrics, Exception), metrics
    after = {name: chances(learner, name, rows) for name, rows in taken.items()}
    return job, learned, before, after


def test_a_factor_is_the_product_of_the_ratios_of_those_before_at_the_same_step() -> None:
    with Trainer("happo", config={**APART, **TEAM}) as trainer:
        job, learned, before, after = run_job(trainer)
    assert sorted(job.order) == ["agent_0", "agent_1", "agent_2"]
    places: dict[tuple[int, int, int], float] = {}  # copy, episode, step -> product of ratios so far, by a plain loop
    for name in job.order:
        rows = learned[name]
        for i in range(len(rows)):
            place = int(rows["stream"][i]) // 3, int(rows["eps_id"][i]), int(rows["t"][i])
            assert rows["factors"][i] == pytest.approx(places.get(place, 1.0), rel=1e-4), (name, i)
        for i in range(len(rows)):
            place = int(rows["stream"][i]) // 3, int(rows["eps_id"][i]), int(rows["t"][i])
            ratio = float(np.exp(after[name][i] - before[name][i]))
            places[place] = places.get(place, 1.0) * ratio
    assert np.ptp(learned[job.order[0]]["factors"]) == 0.0
    assert np.ptp(learned[job.order[2]]["factors"]) > 0.05  # so the comparison above says something
    told = job.metrics[job.order[2]]["mean_factor"]
    assert told == pytest.approx(float(learned[job.order[2]]["factors"].mean()), rel=1e-5)


def test_advantages_are_weighed_by_the_factor_after_they_were_normalised() -> None:
    with Trainer("happo", config={**APART, **TEAM}) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        rows = learner._with_advantages("agent_0", trainer.workers.collect(10).batch)
        factors = np.linspace(0.5, 2.0, len(rows), dtype=np.float32)
        plain = learner._train_batch("agent_0", rows).data
        weighed = learner._train_batch("agent_0", rows.with_columns(factors=factors)).data
    np.testing.assert_allclose(weighed["advantages"].numpy(), plain["advantages"].numpy() * factors, rtol=1e-6)
    assert "factors" not in weighed


def test_agents_of_other_groups_and_without_a_group_have_moments_of_their_own() -> None:
    groups = {"multiagent": {"groups": {"pair": ["agent_0", "agent_1"], "rest": ["agent_2"]}}}
    with Trainer("happo", config={**APART, "env_config": {"agents": 4, "together": True}, **groups}) as trainer:
        learner = trainer.learners[0]
        batch, task = trainer.workers.collect(4).batch, trainer.setup.task
        assert isinstance(learner, CentralCriticLearner)
        names = [f"agent_{i}" for i in range(4)]
        rows = {name: batch.for_policy(name) for name in names}
    found = moments(rows, task)
    assert set(found["agent_0"]) == set(found["agent_1"])
    assert len(set(found["agent_0"])) == len(rows["agent_0"])
    assert not set(found["agent_0"]) & set(found["agent_2"])
    assert not set(found["agent_3"]) & (set(found["agent_0"]) | set(found["agent_2"]))


def test_the_order_is_drawn_anew_for_each_training_batch() -> None:
    orders = []
    with Trainer("happo", config={**APART, **TEAM}) as trainer:
        learner = trainer.learners[0]
        assert isinstance(learner, CentralCriticLearner)
        batch = trainer.workers.collect(10).batch
        for _ in range(12):
            orders.append(tuple(SequentialJob(learner, list(learner.policies), _taken(learner, batch)).order))
    assert len(set(orders)) > 2


def _taken(learner: CentralCriticLearner, batch: Any) -> dict[str, SampleBatch]:
    return {name: learner._with_advantages(name, batch) for name in learner.policies}


def test_a_policy_that_fails_ends_the_turns_of_its_learner_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    with Trainer("happo", config={**APART, **TEAM}) as one, Trainer("happo", config={**APART, **TEAM}) as two:
        jobs = []
        for trainer in (one, two):
            learner = trainer.learners[0]
            assert isinstance(learner, CentralCriticLearner)
            taken = _taken(learner, trainer.workers.collect(10).batch)
            jobs.append(SequentialJob(learner, list(taken), taken))
        real, broken = TrainingJob.run_together.__func__, jobs[0].learner  # type: ignore[attr-defined]

        def fails(cls: type[TrainingJob], asked: Any) -> Any:
            done = real(cls, asked)
            return [ValueError("no") if job.learner is broken else d for job, d in zip(asked, done, strict=True)]

        monkeypatch.setattr(TrainingJob, "run_together", classmethod(fails))
        results = SequentialJob.run_together(jobs)
    assert isinstance(results[0], ValueError)
    assert sorted(results[1]) == ["agent_0", "agent_1", "agent_2"]
    assert jobs[0].metrics == {}


def test_policies_that_share_layers_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"share layers.*one after the other.*use mappo"):
        Trainer("happo", config={**APART, **TEAM, "shared": {"encoder": "common"}})


def test_policies_of_a_group_agree_on_whether_they_take_turns() -> None:
    policies = {"agent_0": {}, "agent_1": {"algo": "mappo"}, "agent_2": {}}
    multiagent = {**TEAM["multiagent"], "policies": policies, "policy_mapping_fn": "per_agent"}
    keys = {key: value for key, value in APART.items() if key != "policy_mapping_fn"}
    with pytest.raises(ConfigError, match="differ in sequential_update"):
        Trainer("happo", config={**keys, "multiagent": multiagent})


@pytest.mark.parametrize("algo", ["happo", "mappo"])
def test_a_frozen_policy_takes_no_turn(algo: str) -> None:
    with Trainer(algo, config={**APART, **TEAM, "policies_to_train": ["agent_0", "agent_2"]}) as trainer:
        before = trainer.get_weights()
        trainer.train()
        after = trainer.get_weights()
    moved = [name for name in after if any((after[name][key] != before[name][key]).any() for key in after[name])]
    assert sorted(moved) == ["agent_0", "agent_2"]


def test_two_players_learn_to_meet_in_the_matrix_game_in_turns() -> None:
    """Penalty without a penalty: the team earns 10 for meeting in a corner and 2 for meeting in the middle, in each of 5 rounds."""
    keys = {
        "env": "matrix_game", "env_config": {"game": "penalty", "penalty": 0, "repetitions": 5}, "policy_mapping_fn": "per_agent",
        "multiagent": {"groups": {"team": ["player_*"]}}, "lr": 0.01, "train_batch_size": 160, "sgd_minibatch_size": 160,
        "num_sgd_iter": 6, "num_envs_per_worker": 16, "fcnet_hiddens": [16], "gamma": 0.9, "seed": 0, "normalize_values": True,
        "evaluation": {"interval": 0, "episodes": 10},
    }  # fmt: skip
    with Trainer("happo", config=keys) as trainer:
        first = trainer.evaluate()["episode_reward_mean"]
        for _ in range(25):
            trainer.train()
        last = trainer.evaluate()["episode_reward_mean"]
    assert first < 40.0
    assert last == pytest.approx(50.0)


def test_the_header_says_where_a_shared_policy_cannot_take_turns() -> None:
    shared = {key: value for key, value in APART.items() if key != "policy_mapping_fn"}
    with Trainer("happo", config={**shared, **TEAM}) as trainer:
        told = [line for line in trainer.setup.header if line.startswith("happo:")]
        trainer.train()  # and learns as mappo would
    assert told == [
        "happo: policy default_policy plays several agents of group team, which learn at once as in mappo. One after the "
        "other: policy_mapping_fn: per_agent"
    ]
    with Trainer("happo", config={**APART, **TEAM}) as trainer:
        assert not [line for line in trainer.setup.header if line.startswith("happo:")]
