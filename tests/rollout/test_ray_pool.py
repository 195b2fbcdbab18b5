"""The Ray pool gives the same numbers as the same workers in one process, also when an actor dies."""

from __future__ import annotations

from typing import Any

import psutil
import pytest

from marl.errors import EnvError, ResourceError
from marl.rollout.ray_pool import RayPool
from marl.runs.result import without_wall_clock
from marl.training.trainer import Trainer
from tests.training.test_exact_resume import CARTPOLE, TRAFFIC, TWO_STEP, config
from tests.training.trees import differences

ATTENTION = {
    **TWO_STEP, "use_attention": True, "attention_dim": 4, "attention_memory_inference": 3, "attention_use_n_prev_rewards": 2,
}  # fmt: skip

pytestmark = [pytest.mark.ray, pytest.mark.usefixtures("ray_session")]


def run(algo: str, env: dict[str, Any], pool: str, kill_at: int = -1) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import ray

    lines = []
    with Trainer(algo, config={**config(algo, env, workers=2), "pool": pool}) as trainer:
        for i in range(5):
            if i == kill_at:
                assert isinstance(trainer.workers, RayPool)
                ray.kill(trainer.workers.actors[2])
            lines.append(without_wall_clock(trainer.train()))
        saved = trainer.store._parts()
        parts = {name: saved[name] for name in ("policies", "learners", "workers", "replay")}
    for line in lines:
        line.pop("config")
    return lines, parts


@pytest.mark.parametrize(("algo", "env"), [("ppo", CARTPOLE), ("ppo", ATTENTION), ("qmix", TWO_STEP), ("dqn", TRAFFIC)])
def test_two_ray_workers_equal_the_same_two_workers_in_process(algo: str, env: dict[str, Any]) -> None:
    assert differences(run(algo, env, "ray"), run(algo, env, "in_process")) == []


@pytest.mark.parametrize(("algo", "env"), [("ppo", CARTPOLE), ("qmix", TWO_STEP)])
@pytest.mark.parametrize("kill_at", [0, 2])
def test_a_killed_worker_is_replaced_and_goes_on_with_the_same_numbers(
    algo: str, env: dict[str, Any], kill_at: int
) -> None:
    assert differences(run(algo, env, "ray", kill_at), run(algo, env, "in_process")) == []


def test_workers_have_the_priority_of_the_run_that_started_their_ray() -> None:
    here = psutil.Process()
    with Trainer("ppo", config=config("ppo", TWO_STEP, workers=1)) as trainer:
        trainer.train()
        (raylet,) = [child for child in here.children(recursive=True) if child.name() == "raylet"]
        started = [child.nice() for child in raylet.children()]
    assert started
    assert set(started) == {here.nice()}


def test_every_worker_and_env_can_be_reached() -> None:
    with Trainer("ppo", config=config("ppo", CARTPOLE, workers=2)) as trainer:
        workers = trainer.workers
        assert workers.foreach_worker_with_index(lambda worker, index: (worker.index, index)) == [
            (0, 0),
            (1, 1),
            (2, 2),
        ]
        names = workers.foreach_env(lambda env: type(env).__name__)
        assert names == [["CartPoleEnv"] * 3] * 2  # the user's own env, without the adapter
        assert workers.local_worker().policy_map["default_policy"] is trainer.get_policy()
        assert workers.num_healthy_workers == 2


def test_changed_weights_are_in_the_workers_only_after_a_sync() -> None:
    with Trainer("ppo", config=config("ppo", TWO_STEP, workers=1)) as trainer:
        policy = trainer.get_policy()
        changed = {name: array * 0 + 1 for name, array in policy.get_weights().items()}
        policy.set_weights(changed)

        def bias(worker: Any) -> float:
            return float(worker.get_weights()["default_policy"]["model.network.biases.0"][0])

        assert trainer.workers.foreach_worker(bias) == [1.0, 0.0]
        trainer.workers.sync_weights()
        assert trainer.workers.foreach_worker(bias) == [1.0, 1.0]


def test_a_request_that_can_never_fit_is_refused_with_the_sums() -> None:
    keys = {**config("ppo", TWO_STEP, workers=2), "num_cpus_per_worker": 5}
    with pytest.raises(ResourceError, match=r"2 workers x 5 CPU = 10, but there is 2"):
        Trainer("ppo", config=keys)
    with pytest.raises(ResourceError, match="unobtainium"):
        Trainer("ppo", config={**config("ppo", TWO_STEP, workers=1), "custom_resources_per_worker": {"unobtainium": 1}})


def broken_env(_: object) -> Any:
    import gymnasium as gym

    class Breaks(gym.Wrapper):  # type: ignore[type-arg]
        steps = 0

        def step(self, action: Any) -> Any:
            self.steps += 1
            if self.steps == 5:
                raise RuntimeError("the rope broke")
            return super().step(action)

    return Breaks(gym.make("CartPole-v1"))


def test_an_error_in_the_env_names_env_worker_and_step() -> None:
    keys = {**config("ppo", CARTPOLE, workers=1), "env": broken_env}
    with (
        Trainer("ppo", config=keys) as trainer,
        pytest.raises(EnvError, match=r"worker 1, copy 0, step \d+: .*rope broke"),
    ):
        trainer.train()
