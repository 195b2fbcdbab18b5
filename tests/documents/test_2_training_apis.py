"""The scripts of the second document, RLlib's page on its training APIs; what it repeats of the first one is tested there.

It shows these of the first document again: training by a command, TensorBoard, help, rollouts, keys as JSON, tuned files, a
trainer in Python, a search, films, traces and log levels. Its seventh script of its own, a policy server and its client, is open: nothing here
serves policies yet.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import marl
from tests.command import marl as command
from tests.documents.parts import EPISODE_HOOKS, FLAGS, PG, PPO, MyEnv, on_postprocess_trajectory, raise_phase


def test_01_the_table_of_a_search_tells_status_step_size_and_reward(tmp_path: Path) -> None:
    from marl.tune.config import TuneConfig
    from marl.tune.plan import plan_scenarios
    from marl.tune.table import Board

    keys = {**PPO, "env": "CartPole-v1", "algo": "PPO", "lr": marl.tune.grid_search([0.01, 0.001])}
    keys["stop"] = {"training_iteration": 1}
    plan = plan_scenarios(keys, TuneConfig(), "config")
    board = Board(plan, tmp_path, {"CPU": 4.0}, ["RUNNING", "PENDING"])
    text = "\n".join(board.header())
    assert "trials: 2 (1 RUNNING, 1 PENDING)" in text
    assert "resources: 1/4 CPUs, 0/0 GPUs" in text
    assert {"trial", "status", "lr"} <= {str(column.header) for column in board.table(120).columns}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_02_weights_come_from_remote_workers_too() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config={**PPO, "num_workers": 1}) as trainer:
        own = trainer.get_policy().get_weights()
        everywhere = trainer.workers.foreach_worker(lambda ev: ev.get_policy().get_weights())
        assert len(everywhere) == 2  # here, and one on Ray
        indices = trainer.workers.foreach_worker_with_index(lambda ev, i: i)
        assert indices == [0, 1]
        for weights in everywhere:
            assert all(np.array_equal(own[name], weights[name]) for name in own)


class Counter:
    """How often anybody asked."""

    def __init__(self) -> None:
        self.count = 0

    def inc(self, n: int) -> None:
        self.count += n

    def get(self) -> int:
        return self.count


class CountingEnv(MyEnv):
    """Tells the actor of every step."""

    def step(self, action: object) -> object:
        import ray

        ray.get(ray.get_actor("documented_counter").inc.remote(1))
        return super().step(action)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_03_envs_of_all_workers_speak_to_one_named_actor() -> None:
    import ray

    counter = ray.remote(Counter).options(name="documented_counter", num_cpus=0).remote()
    with marl.Trainer("pg", env=lambda config: CountingEnv(config), config={**PG, "num_workers": 1}) as trainer:
        result = trainer.train()
        assert ray.get(counter.get.remote()) >= result["timesteps_total"] > 0
    ray.kill(counter)


def test_04_five_callbacks_of_functions_the_last_one_rewrites_trajectories() -> None:
    hooks = {**EPISODE_HOOKS, "on_postprocess_trajectory": on_postprocess_trajectory}
    with marl.Trainer("PG", env="CartPole-v1", config={**PG, "callbacks": hooks}) as trainer:
        seen = []
        learn = trainer.learning.learn
        trainer.learning.learn = lambda batch: seen.append(batch) or learn(batch)  # type: ignore[method-assign, func-returns-value]
        result = trainer.train()
    assert result["custom_metrics"]["pole_angle_mean"] > 0
    assert set(seen[0].for_policy("default_policy")["rewards"]) == {np.float32(0.5)}
    assert result["episode_reward_mean"] == result["episode_len_mean"]  # what the env paid is told as it was


def test_05_the_callback_of_the_curriculum_reaches_every_copy() -> None:
    config = {**PPO, "num_envs_per_worker": 2, "callbacks": {"on_train_result": raise_phase}}
    with marl.Trainer("PPO", env=lambda config: MyEnv(config), config=config) as trainer:
        trainer.train()
        assert trainer.workers.foreach_env(lambda env: env.unwrapped.phase) == [[1, 1]]


def test_06_eager_is_always_and_the_key_says_so(tmp_path: Path) -> None:
    done = command(
        "train", "--run=PG", "--env=CartPole-v1", "--config", '{"eager": true}', *FLAGS, "--local-dir", tmp_path
    )
    assert done.code == 2
    assert "networks are torch's, always; drop it" in done.err
