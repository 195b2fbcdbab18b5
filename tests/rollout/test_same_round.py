"""``fake_sampler``: the first round again and again, and ``remote_worker_envs``: a worker for every copy of the env."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.data.batch import ENV_COLUMNS, ROW_COLUMNS, SEAT_COLUMNS
from marl.errors import ConfigError
from marl.rollout.same_round import SameRound
from marl.scenario.load import compose
from marl.training.trainer import Trainer
from tests.rollout.test_async import APEX, gated, pool_of, ray_test, worker_of
from tests.training.test_exact_resume import CARTPOLE, TWO_STEP, assert_resume_is_exact, config
from tests.training.trees import differences

SMALL: dict[str, Any] = {
    "env": "CartPole-v1", "fake_sampler": True, "train_batch_size": 60, "fcnet_hiddens": [8], "seed": 3,
    "evaluation": {"interval": 0},
}  # fmt: skip


@pytest.mark.parametrize("algo", ["ppo", "pg", "dqn"])
def test_learners_get_the_first_round_again_and_leave_it_as_it_was(algo: str) -> None:
    keys = {**SMALL, "learning_starts": 20} if algo == "dqn" else SMALL
    with Trainer(algo, config=keys) as trainer:
        first = trainer.train()
        weights = [deepcopy(trainer.get_policy().get_weights())]
        kept = deepcopy(trainer.source.collect(1).batch)
        results = [trainer.train() for _ in range(20)]
        again = trainer.source.collect(1).batch
        weights.append(trainer.get_policy().get_weights())
    assert again.agent_steps
    for name in (*ENV_COLUMNS, *SEAT_COLUMNS, *ROW_COLUMNS):
        assert differences(getattr(kept, name), getattr(again, name)) == []
    assert any(not np.array_equal(weights[0][name], weights[1][name]) for name in weights[0])  # it has learned
    assert results[-1]["timesteps_total"] > first["timesteps_total"]
    # No further episode was played: the learned-from rows are old ones.
    assert results[-1]["episodes_total"] == results[0]["episodes_total"]


@pytest.mark.parametrize(("algo", "env"), [("ppo", CARTPOLE), ("qmix", TWO_STEP)])
def test_a_resumed_run_has_the_same_round(algo: str, env: dict[str, Any], tmp_path: Path) -> None:
    assert_resume_is_exact(algo, {**config(algo, env), "fake_sampler": True}, tmp_path)


def test_a_round_that_one_of_many_workers_played_is_still_that_workers_after_a_restart() -> None:
    """Which copies played it says whose life a decision continues, where workers do not wait for each other."""
    with Trainer("dqn", config=SMALL) as first, Trainer("dqn", config=SMALL) as second:
        assert isinstance(first.source, SameRound)
        assert isinstance(second.source, SameRound)
        first.source.collect(5).batch.first_lane = 3
        second.source.load_state_dict(first.source.state_dict())
        streams = [source.collect(5).batch.first_lane for source in (first.source, second.source)]
    assert streams == [3, 3]


@pytest.mark.parametrize(
    ("more", "text"),
    [({"output": "here"}, "output"), ({"input": "there"}, "input"), ({"algo": "es"}, "es")],
)
def test_a_round_that_comes_again_is_refused_where_it_means_nothing(more: dict[str, Any], text: str) -> None:
    keys = {"algo": "dqn", "env": "CartPole-v1", "fake_sampler": True, **more}
    with pytest.raises(ConfigError, match=f"fake_sampler.*{text}"), Trainer(config=keys):
        pass


@ray_test
def test_a_slow_copy_with_a_worker_of_its_own_does_not_hold_up_the_others(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    keys = {**APEX, "num_workers": 1, "num_envs_per_worker": 2, "remote_worker_envs": True}
    with Trainer("dqn", config={**keys, "env": gated, "env_config": {"file": str(gate)}}) as trainer:
        pool = pool_of(trainer)
        assert pool.num_healthy_workers == 2
        assert [worker_of(pool.collect(5).batch) for _ in range(6)] == [1] * 6
        gate.touch()
        assert 2 in {worker_of(pool.collect(5).batch) for _ in range(500)}


@pytest.mark.parametrize(
    ("given", "workers"),
    [
        ({"num_workers": 2, "num_envs_per_worker": 3}, 6),
        ({"num_workers": 2}, 2),
        ({"num_envs_per_worker": 4}, 4),
        ({}, 1),
    ],
)
def test_every_copy_gets_a_worker_and_stored_keys_say_it_in_our_words(given: dict[str, Any], workers: int) -> None:
    scenario = compose({"env": "CartPole-v1", "algo": "dqn", **given, "remote_worker_envs": True})
    assert (scenario.num_workers, scenario.num_envs_per_worker, scenario.collection) == (workers, 1, "async")
    again = compose(scenario.model_dump(exclude_unset=True))
    assert again.num_workers == workers  # read from a run's files it does not grow
    kept = compose({"env": "CartPole-v1", "algo": "dqn", **given, "remote_worker_envs": True, "collection": "sync"})
    assert kept.collection == "sync"


def test_without_it_nothing_changes() -> None:
    keys = {"env": "CartPole-v1", "algo": "dqn", "num_workers": 2, "num_envs_per_worker": 3}
    asked = compose({**keys, "remote_worker_envs": False, "remote_env_batch_wait_ms": 0, "monitor": False})
    assert asked.model_dump() == compose({**keys, "record_env": False}).model_dump()


def test_monitor_is_another_word_for_record_env() -> None:
    assert compose({"env": "CartPole-v1", "algo": "dqn", "monitor": True}).record_env is True


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"monitor": True, "record_env": 5}, "monitor and record_env say the same"),
        ({"remote_worker_envs": "yes"}, "remote_worker_envs is 'yes', expected true or false"),
        (
            {"remote_worker_envs": True, "remote_env_batch_wait_ms": 10},
            "Drop it; collection: sync waits for all copies",
        ),
        ({"remote_worker_envs": True, "num_workers": "two"}, "num_workers"),
        ({"remote_worker_envs": True, "num_envs_per_worker": -2}, "num_envs_per_worker = -2"),
        ({"remote_worker_envs": True, "num_workers": -1}, "num_workers = -1"),
    ],
)
def test_what_cannot_be_said_in_our_words_is_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        compose({"env": "CartPole-v1", "algo": "dqn", **keys})
