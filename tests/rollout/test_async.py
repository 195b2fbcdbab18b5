"""Asynchronous collection: nobody waits, nothing is lost, and every fragment says how old its weights were."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from marl.data.batch import MultiAgentBatch
from marl.envs.base import EnvContext
from marl.errors import ConfigError, EnvError, TrainingError
from marl.policies.exploration import PerWorkerEpsilon
from marl.policies.policy import Inputs
from marl.rollout.async_pool import AsyncRayPool
from marl.rollout.pool import InProcessPool
from marl.rollout.ray_pool import RayPool
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.trainer import Trainer
from tests.rollout.test_ray_pool import broken_env
from tests.training.trees import differences

COPIES = 2
APEX = {
    "env": "CartPole-v1", "num_workers": 2, "num_envs_per_worker": COPIES, "rollout_fragment_length": 5,
    "learning_starts": 20, "train_batch_size": 16, "buffer_size": 2_000, "timesteps_per_iteration": 60,
    "fcnet_hiddens": [8], "evaluation": {"interval": 0, "episodes": 3}, "seed": 3,
}  # fmt: skip
A3C = {
    "env": "CartPole-v1", "num_workers": 2, "num_envs_per_worker": COPIES, "rollout_fragment_length": 5,
    "train_batch_size": 20, "fcnet_hiddens": [8], "evaluation": {"interval": 2, "episodes": 3}, "seed": 3,
}  # fmt: skip


def ray_test(test: Any) -> Any:
    return pytest.mark.ray(pytest.mark.usefixtures("ray_session")(test))


def pool_of(trainer: Trainer) -> AsyncRayPool:
    assert isinstance(trainer.workers, AsyncRayPool)
    return trainer.workers


def worker_of(batch: MultiAgentBatch) -> int:
    """Which worker played it: the number of an episode begins with it."""
    workers = set((batch.eps_id // 2**40).ravel().tolist())
    assert len(workers) == 1
    return int(workers.pop())


def content(batch: MultiAgentBatch) -> list[Any]:
    return [batch.obs, batch.actions, batch.rewards, batch.t, batch.eps_id, batch.active]


class Gate(gym.Wrapper):  # type: ignore[type-arg]
    """Steps of worker 2 wait until a file is there (or for half a minute, so that a test can fail)."""

    def __init__(self, file: Path | None) -> None:
        super().__init__(gym.make("CartPole-v1"))
        self.file = file

    def step(self, action: Any) -> Any:
        for _ in range(3_000):
            if self.file is None or self.file.exists():
                break
            time.sleep(0.01)
        return super().step(action)


def gated(config: EnvContext) -> Gate:
    return Gate(Path(config["file"]) if config.worker_index == 2 else None)


@ray_test
def test_rounds_come_from_the_fast_worker_while_the_slow_one_is_still_playing(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    with Trainer("apex", config={**APEX, "env": gated, "env_config": {"file": str(gate)}}) as trainer:
        pool = pool_of(trainer)
        assert [worker_of(pool.collect(5).batch) for _ in range(6)] == [1] * 6
        assert pool.num_healthy_workers == 2  # busy is not dead
        gate.touch()
        assert 2 in {worker_of(pool.collect(5).batch) for _ in range(500)}


@ray_test
def test_workers_of_equal_speed_are_served_in_turn_however_slow_the_learner_is() -> None:
    import ray

    with Trainer("apex", config=APEX) as trainer:
        pool = pool_of(trainer)
        served = []
        for _ in range(8):
            served.append(worker_of(pool.collect(5).batch))
            ray.wait(list(pool.under_way.values()), num_returns=2)  # both have finished before anybody asks again
        assert sorted(served[:2]) == [1, 2]
        assert served[2:] == served[:2] * 3


@ray_test
def test_the_lag_of_a_single_worker_is_one_update_from_its_second_fragment_on() -> None:
    with Trainer("apex", config={**APEX, "num_workers": 1}) as trainer:
        pool, policy = pool_of(trainer), trainer.get_policy()
        means = []
        for _ in range(4):
            means.append(pool.collect(5).extra["policy_lag_mean"])
            policy.set_weights({name: array + 1 for name, array in policy.get_weights().items()})
            pool.sync_weights()
        # The worker is sent off before the learner has learned, so lags are 0, 1, 1, 1.
        assert means == pytest.approx([0, 1 / 2, 2 / 3, 3 / 4])
        assert pool.collect(5).extra["policy_lag_max"] == 1


@ray_test
def test_weights_that_did_not_change_are_no_new_version() -> None:
    with Trainer("apex", config=APEX) as trainer:
        pool = pool_of(trainer)
        for _ in range(3):
            pool.sync_weights()
        assert pool.version == 0
        assert pool.collect(5).extra == {"policy_lag_mean": 0.0, "policy_lag_max": 0.0}


@ray_test
def test_results_of_a_run_report_the_lag() -> None:
    with Trainer("a3c", config=A3C) as trainer:
        results = [trainer.train() for _ in range(4)]
        info = results[-1]["info"]
        assert info["num_updates"] > 0
        assert 0 < info["policy_lag_mean"] <= info["policy_lag_max"]


@ray_test
def test_changed_weights_are_in_the_workers_after_a_sync() -> None:
    with Trainer("apex", config=APEX) as trainer:
        pool, policy = pool_of(trainer), trainer.get_policy()
        pool.collect(5)
        trainer.set_weights({"default_policy": {n: a * 0 + 2 for n, a in policy.get_weights().items()}})
        name = next(iter(policy.get_weights()))
        seen = pool.foreach_worker(lambda worker: float(worker.get_weights()["default_policy"][name].flat[0]))
        assert seen == [2.0, 2.0, 2.0]


def reference(rounds: int) -> dict[int, list[Any]]:
    """What each worker plays one round after the other with the first weights."""
    with Trainer("apex", config={**APEX, "pool": "in_process"}) as trainer:
        assert isinstance(trainer.workers, InProcessPool)
        return {w.index: [content(w.collect(5).batch) for _ in range(rounds)] for w in trainer.workers.workers}


def assert_same_play(played: dict[int, list[Any]]) -> None:
    expected = reference(max(map(len, played.values())))
    assert all(len(fragments) > 1 for fragments in played.values())
    for index, fragments in played.items():
        assert differences(fragments, expected[index][: len(fragments)]) == []


def collect_into(played: dict[int, list[Any]], pool: AsyncRayPool, rounds: int) -> None:
    """So many rounds, and more until each worker was heard of twice: a busy machine may favour one of them for long."""
    done = 0
    while done < rounds or any(len(fragments) < 2 for fragments in played.values()):
        batch = pool.collect(5).batch
        played[worker_of(batch)].append(content(batch))
        done += 1


@ray_test
def test_every_worker_plays_what_it_would_play_alone_whatever_is_asked_of_it_in_between() -> None:
    played: dict[int, list[Any]] = {1: [], 2: []}
    with Trainer("apex", config=APEX) as trainer:
        pool = pool_of(trainer)
        collect_into(played, pool, 4)
        assert len(pool.evaluate([5, 6, 7])) == 3
        collect_into(played, pool, 4)
        assert pool.foreach_env(lambda env: type(env).__name__) == [["CartPoleEnv"] * COPIES] * 2
        pool.state_dict()
        collect_into(played, pool, 8)
    assert_same_play(played)


@ray_test
def test_a_killed_worker_is_replaced_and_goes_on_where_its_last_fragment_ended() -> None:
    import ray

    played: dict[int, list[Any]] = {1: [], 2: []}
    with Trainer("apex", config=APEX) as trainer:
        pool = pool_of(trainer)
        ray.kill(pool.actors[1])
        collect_into(played, pool, 6)
        ray.kill(pool.actors[2])
        collect_into(played, pool, 10)
        assert pool.replaced == 2
    assert_same_play(played)


@ray_test
def test_without_replacement_a_killed_worker_ends_the_run_with_its_number() -> None:
    import ray

    with Trainer("apex", config={**APEX, "recreate_failed_workers": False}) as trainer:
        pool = pool_of(trainer)
        pool.collect(5)
        ray.kill(pool.actors[2])
        with pytest.raises(TrainingError, match="worker 2 died"):
            for _ in range(100):
                pool.collect(5)


@ray_test
def test_a_restored_pool_goes_on_where_the_saved_one_was_without_losing_what_was_under_way() -> None:
    played: dict[int, list[Any]] = {1: [], 2: []}
    with Trainer("apex", config=APEX) as trainer:
        beginning = pool_of(trainer).state_dict()
        collect_into(played, pool_of(trainer), 7)
        saved = pool_of(trainer).state_dict()
        again: dict[int, list[Any]] = {1: [], 2: []}
        pool_of(trainer).load_state_dict(beginning)
        collect_into(again, pool_of(trainer), 7)
        assert_same_play(again)
    with Trainer("apex", config=APEX) as other:
        pool_of(other).load_state_dict(saved)
        collect_into(played, pool_of(other), 7)
    assert_same_play(played)


@ray_test
@pytest.mark.parametrize(("algo", "keys"), [("apex", APEX), ("a3c", A3C)])
def test_a_checkpoint_brings_the_learners_back_to_the_last_bit(algo: str, keys: dict[str, Any], tmp_path: Path) -> None:
    parts = ("policies", "learners", "workers", "replay")
    with Trainer(algo, config=keys) as trainer:
        for _ in range(3):
            trainer.train()
        trainer.save(tmp_path / "half")
        expected = {name: part for name, part in trainer.store._parts().items() if name in parts}
    with Trainer(algo, config=keys) as other:
        other.train()
        other.restore(tmp_path / "half")
        found = {name: part for name, part in other.store._parts().items() if name in parts}
        assert differences(found, expected) == []
        assert other.train()["training_iteration"] == 4


@ray_test
def test_rows_of_different_workers_follow_each_other_in_no_replay() -> None:
    with Trainer("apex", config=APEX) as trainer:
        for _ in range(4):
            trainer.train()
        (team,) = trainer.learners[0].teams  # type: ignore[attr-defined]
        replay = team.replay
        last = {int(serial) for serial in replay.newest if serial >= 0}
        assert len(last) == 2 * COPIES
        loose = [i for i in range(len(replay)) if replay.following[i] < 0 and not replay.columns["ended"][i]]
        # Only the newest row of a stream may wait for its successor.
        assert set(loose) <= last


@ray_test
def test_an_error_in_the_env_names_env_worker_and_step() -> None:
    keys = {**APEX, "env": broken_env}
    with Trainer("apex", config=keys) as trainer, pytest.raises(EnvError, match=r"worker \d, copy 0.*rope broke"):
        trainer.train()


@ray_test
def test_stop_leaves_no_worker_behind() -> None:
    import ray

    trainer = Trainer("apex", config=APEX)
    pool = pool_of(trainer)
    pool.collect(5)
    trainer.stop()
    for actor in pool.actors.values():
        with pytest.raises(ray.exceptions.RayActorError):
            while True:  # Ray ends actors a moment after it was asked to; one that stays runs into the timeout
                ray.get(actor.ping.remote())


# -- which way of collecting a run has --------------------------------------------------------------------------------


@ray_test
def test_the_key_decides_for_any_algorithm() -> None:
    with Trainer("apex", config={**APEX, "collection": "sync"}) as trainer:
        assert type(trainer.workers) is RayPool
        assert "policy_lag_mean" not in trainer.train()["info"]
    with Trainer("ppo", config={**A3C, "collection": "async"}) as trainer:
        assert type(trainer.workers) is AsyncRayPool


def collection(**keys: Any) -> tuple[bool, str]:
    setup = resolve(compose({"env": "two_step_game", "fcnet_hiddens": [8], **keys}))
    lines = [line for line in setup.header if line.startswith("collection: ")]
    return setup.asynchronous, lines[0] if lines else ""


def test_a_run_collects_asynchronously_if_any_of_its_learners_would_and_says_so() -> None:
    mixed = {"policy_mapping_fn": "per_agent", "policies": {"agent_0": {}, "agent_1": {"algo": "a3c"}}, "algo": "ppo"}
    asynchronous, line = collection(**mixed, num_workers=2)
    assert asynchronous
    assert "asynchronous, 2 worker(s)" in line
    assert collection(algo="ppo", num_workers=2) == (False, "")


@pytest.mark.parametrize("where", [{"num_workers": 0}, {"num_workers": 2, "pool": "in_process"}])
def test_in_this_process_workers_take_turns(where: dict[str, Any]) -> None:
    asynchronous, line = collection(algo="a3c", **where)
    assert not asynchronous
    assert "synchronous although a3c can do without waiting: workers in this process" in line
    with pytest.raises(
        ConfigError,
        match=r"collection: async needs (num_workers above 0|pool other than in_process), but .*only Ray workers",
    ):
        collection(algo="ppo", collection="async", **where)


# -- one epsilon per worker -------------------------------------------------------------------------------------------


def test_epsilons_form_a_ladder_from_the_base_to_its_eighth_power() -> None:
    exploration = PerWorkerEpsilon(0.4, 7.0)
    found = []
    for index in range(8):
        exploration.place(index, 8)
        exploration.anneal(1_000_000)
        found.append(exploration.now())
    assert found == pytest.approx([0.4**power for power in range(1, 9)])


@ray_test
def test_ray_workers_of_apex_have_epsilons_of_their_own_that_weights_do_not_change() -> None:
    with Trainer("apex", config=APEX) as trainer:
        for _ in range(2):
            trainer.train()
        pool = pool_of(trainer)
        epsilons = pool.foreach_worker(lambda worker: worker.policy_map["default_policy"].exploration.now())
        assert epsilons[1:] == pytest.approx([0.4, 0.4**8])


def test_workers_that_share_a_policy_in_one_process_still_explore_differently() -> None:
    explore = {"type": "PerWorkerEpsilonGreedy", "epsilon_base": 0.9, "epsilon_alpha": 1_000}
    keys = {**APEX, "pool": "in_process", "exploration_config": explore}
    with Trainer("apex", config=keys) as trainer:
        batch = trainer.workers.collect(50).batch
        policy = trainer.get_policy()
        flat = batch.obs[0].reshape(-1, 4)
        nobody = np.zeros((len(flat), 0), np.float32)
        inputs = Inputs(flat, np.zeros((len(flat), 0), bool), np.zeros(len(flat), np.int64))
        greedy = policy.act(inputs, nobody, np.random.default_rng(0), explore=False).actions
        agrees = (greedy == batch.actions[0].ravel()).reshape(50, 2 * COPIES)
        assert agrees[:, COPIES:].all()
        assert 0.3 < agrees[:, :COPIES].mean() < 0.8  # 0.1 + 0.9 / 2 are expected
