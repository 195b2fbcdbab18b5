"""What a copy of an env was told to play reaches every copy and is never lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl.envs.adapters.pettingzoo import from_pettingzoo
from marl.envs.registry import make_batched_env
from marl.rollout.ray_pool import RayPool
from marl.rollout.worker import RolloutWorker
from tests.envs.taught import LENGTH, Taught, TaughtGym, TaughtWithState
from tests.small_envs import worker_for

SMALL = {
    "train_batch_size": 16, "sgd_minibatch_size": 16, "num_sgd_iter": 1, "fcnet_hiddens": [4], "num_envs_per_worker": 2,
    "evaluation": {"interval": 0, "episodes": 2},
}  # fmt: skip
ENVS = [Taught, TaughtWithState]


def trainer_for(env: Any, **keys: Any) -> marl.Trainer:
    return marl.Trainer("ppo", env=env, config={**SMALL, **keys})


def restored(worker: RolloutWorker, env: Any, **config: Any) -> RolloutWorker:
    other = worker_for(env, copies=worker.env.num_envs, **config)
    other.load_state_dict(worker.state_dict())
    return other


# -- reaching ------------------------------------------------------------------------------------------------------


def test_the_copies_that_functions_see_are_the_users_own_objects() -> None:
    env = make_batched_env(Taught, 2, {})
    sub_env: Any = env.sub_env(1)
    assert isinstance(sub_env, Taught)
    assert sub_env.place == (0, 1)
    sub_env.pay = 7.0
    assert env.envs[1].pay == 7.0  # type: ignore[attr-defined]
    sub_env.set_phase(3)
    assert env.told == [{}, {"set_phase": 3}]


class Paying(gym.Env[int, int]):
    """Two steps; each pays ``speed``."""

    observation_space = action_space = spaces.Discrete(2)

    def __init__(self) -> None:
        self.speed, self.t = 1.0, 0

    def reset(self, *, seed: int | None = None, options: object = None) -> tuple[int, dict[str, Any]]:
        self.t = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.t += 1
        return 0, self.speed, self.t == 2, False, {}


def test_a_gymnasium_env_without_tasks_is_reached_behind_its_adapter() -> None:
    sub_env = make_batched_env("CartPole-v1", 1, {}).sub_env(0)
    assert type(sub_env).__name__ == "CartPoleEnv"
    assert not hasattr(sub_env, "set_task")
    with trainer_for(Paying) as trainer:
        trainer.workers.foreach_env(lambda env: setattr(env, "speed", 3.0))
        assert trainer.train()["episode_reward_max"] == 6.0


def test_a_pettingzoo_env_is_reached_behind_its_adapter_and_wrappers() -> None:
    sub_env = make_batched_env("pettingzoo:classic/tictactoe_v3", 1, {}).sub_env(0)
    assert type(sub_env).__name__ == "raw_env"
    wrappers = marl.envs.wrappers.read_wrappers([{"frame_stack_v1": {"stack_size": 2}}])
    sub_env = make_batched_env(Taught, 1, {}, wrappers=wrappers).sub_env(0)
    assert isinstance(sub_env, Taught)


@pytest.mark.parametrize("verb", ["set_task", "set_phase"])
def test_tasks_reach_gymnasium_envs_and_members_of_groups_through_their_wrappers(verb: str) -> None:
    groups = {"pair": ["a_0", "a_1"]}
    grouped = [{"with_agent_groups": {"groups": groups}}]
    inner = make_batched_env(Taught, 1, {}, wrappers=marl.envs.wrappers.read_wrappers(grouped)).sub_env(0)
    single = make_batched_env(TaughtGym, 1, {}).sub_env(0)
    for env_id, env in ((inner, inner.env), (single, single)):  # type: ignore[attr-defined]
        getattr(env_id, verb)(3)
        assert getattr(env, verb.removeprefix("set_")) == 3


def test_tasks_reach_an_env_of_ours_behind_wrappers_of_supersuit() -> None:
    wrappers = marl.envs.wrappers.read_wrappers([{"frame_stack_v1": {"stack_size": 2}}])
    env = make_batched_env(Taught, 1, {}, wrappers=wrappers)
    env.sub_env(0).set_task(4.0)  # type: ignore[attr-defined]
    env.reset(np.array([0]), np.array([0]))
    assert env.step([np.zeros((1, 2), np.int64)]).rewards.tolist() == [[4.0, 4.0]]


def test_a_native_stage_is_told_through_one_lane_of_a_wrapped_copy() -> None:
    inside = marl.make_env("fast:simple_tag", {"curriculum": True})
    inside.set_task(2)  # type: ignore[attr-defined]
    inside.reset(seed=0)
    assert inside.env.stage.tolist() == [2]  # type: ignore[attr-defined]
    assert not hasattr(marl.make_env("two_step_game"), "set_task")


# -- remembering ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("env", [*ENVS, TaughtGym])
def test_a_task_survives_save_and_restore(env: type, tmp_path: Path) -> None:
    with trainer_for(env) as trainer:
        trainer.train()
        trainer.workers.foreach_env(lambda copy: copy.set_task(3))
        trainer.save(tmp_path / "c")
    with trainer_for(env) as again:
        again.restore(tmp_path / "c")
        assert again.workers.foreach_env(lambda copy: getattr(copy, "env", copy).task) == [[3, 3]]
        again.train()
        paid = again.train()["hist_stats"]["episode_reward"][-1]
    assert paid == (9 if env is TaughtGym else 2 * LENGTH * 3)


def test_a_task_survives_an_env_that_is_built_anew_for_each_episode() -> None:
    with trainer_for(Taught, fresh_env_per_episode=True) as trainer:
        trainer.workers.foreach_env(lambda copy: copy.set_task(2))
        trainer.train()
        trainer.train()
        assert trainer.workers.foreach_env(lambda copy: (copy.task, copy.next_task)) == [[(2, 2), (2, 2)]]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("fresh", [False, True])
def test_an_episode_whose_task_changed_in_its_middle_goes_on_exactly(late: bool, fresh: bool) -> None:
    def env(config: Any) -> Taught:
        return Taught(type(config)({**config, "late": late}, config.worker_index, config.vector_index))

    worker = worker_for(env, copies=2, fresh_env_per_episode=fresh)
    worker.collect(1)
    worker.foreach_env(lambda copy: copy.set_task(1.0))
    worker.collect(LENGTH + 1)  # in the second episode, after two steps
    worker.foreach_env(lambda copy: copy.set_task(5.0) if copy.place[1] == 0 else copy.set_phase(2))
    once = restored(worker, env, fresh_env_per_episode=fresh)
    twice = restored(once, env, fresh_env_per_episode=fresh)  # nothing of the history is lost on the way
    for other in (once, twice):
        assert other.env.told == [{"set_task": 5.0}, {"set_task": 1.0, "set_phase": 2}]
    rewards = [one.collect(3).batch.rewards[:, :, 0].tolist() for one in (worker, once, twice)]
    first = 1.0 if late else 5.0  # a late env ends its episode, two more steps, as it began it
    assert rewards[0] == [[first, 21.0], [first, 21.0], [5.0, 21.0]]
    assert rewards[1:] == [rewards[0]] * 2


def test_restoring_a_time_before_the_task_takes_it_back(tmp_path: Path) -> None:
    with trainer_for(Taught) as trainer:
        trainer.train()
        trainer.save(tmp_path / "c")
        trainer.workers.foreach_env(lambda copy: copy.set_task(3))
        trainer.evaluate()
        trainer.restore(tmp_path / "c")
        assert trainer.workers.foreach_env(lambda copy: copy.task) == [[0, 0]]
        assert trainer.evaluate()["episode_reward_mean"] == 0


def test_stages_of_a_native_env_survive_and_reach_evaluation(tmp_path: Path) -> None:
    keys: dict[str, Any] = {
        "env_config": {"curriculum": True, "max_cycles": 5},
        "evaluation": {"interval": 0, "episodes": 2},
    }

    def stages(trainer: marl.Trainer) -> tuple[list[int], list[int]]:
        worker = trainer.workers.local_worker()
        trainer.evaluate()
        assert worker._evaluator is not None
        return worker.env.stage.tolist(), worker._evaluator.env.stage.tolist()  # type: ignore[attr-defined]

    with trainer_for("fast:simple_tag", **keys) as trainer:
        trainer.workers.foreach_env(lambda copy: copy.set_task(2))
        trainer.train()
        assert stages(trainer) == ([2, 2], [2, 2])
        trainer.save(tmp_path / "c")
    with trainer_for("fast:simple_tag", **keys) as again:
        again.restore(tmp_path / "c")
        assert stages(again) == ([2, 2], [2, 2])


# -- evaluation ----------------------------------------------------------------------------------------------------


def test_evaluation_plays_the_task_that_training_was_told() -> None:
    with trainer_for(Taught) as trainer:
        assert trainer.evaluate()["episode_reward_mean"] == 0
        trainer.workers.foreach_env(lambda copy: copy.set_phase(1))
        assert trainer.evaluate()["episode_reward_mean"] == 2 * LENGTH * 10


def test_an_evaluation_env_of_its_own_is_told_nothing() -> None:
    with trainer_for(Taught, evaluation={"interval": 0, "episodes": 2, "env": Taught}) as trainer:
        trainer.workers.foreach_env(lambda copy: copy.set_task(1))
        assert trainer.evaluate()["episode_reward_mean"] == 0


# -- Ray -----------------------------------------------------------------------------------------------------------


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
@pytest.mark.parametrize(("collected", "nested"), [(0, False), (1, True), (2, False)])
def test_a_replaced_ray_worker_plays_the_task_that_the_dead_one_was_told(collected: int, nested: bool) -> None:
    import ray

    with trainer_for(Taught, num_workers=2) as trainer:
        workers = trainer.workers
        assert isinstance(workers, RayPool)
        if collected > 0:
            trainer.train()
        if nested:
            workers.foreach_worker(lambda worker: worker.foreach_env(lambda e: e.set_task(3)) if worker.index else None)
        else:
            workers.foreach_env(lambda env: env.set_task(3))
        if collected > 1:
            trainer.train()
        ray.kill(workers.actors[2])
        assert workers.foreach_env(lambda env: (env.place[0], env.task)) == [[(1, 3)] * 2, [(2, 3)] * 2]
        assert trainer.evaluate()["episode_reward_mean"] == 2 * LENGTH * 3
        assert workers.replaced == 1


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_a_task_told_while_a_fragment_is_under_way_is_in_the_checkpoint(tmp_path: Path) -> None:
    keys = {"num_workers": 2, "collection": "async", "rollout_fragment_length": 8}
    with trainer_for(Taught, **keys) as trainer:
        trainer.train()
        trainer.workers.foreach_env(lambda env: env.set_task(3))
        trainer.save(tmp_path / "c")
    with trainer_for(Taught, **keys) as again:
        again.restore(tmp_path / "c")
        assert again.workers.foreach_env(lambda env: env.task) == [[3, 3], [3, 3]]


class Later(marl.Callbacks):
    """Gives every episode a task of its own: 7."""

    def on_episode_start(self, *, base_env: Any, env_index: int, **kwargs: Any) -> None:
        base_env.sub_env(env_index).set_task(7)


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_a_replaced_worker_is_not_told_what_was_told_before_its_newest_state() -> None:
    import ray

    with trainer_for(Taught, num_workers=1, callbacks=Later) as trainer:
        workers = trainer.workers
        assert isinstance(workers, RayPool)
        workers.foreach_env(lambda env: env.set_task(3))
        trainer.train()  # whose episodes begin with task 7
        ray.kill(workers.actors[1])
        assert workers.foreach_env(lambda env: env.task) == [[7, 7]]


@pytest.mark.parametrize("turns", [False, True])
def test_an_env_that_was_exported_to_pettingzoo_can_be_told(turns: bool) -> None:
    exported = marl.to_pettingzoo(Taught, turns)
    back = from_pettingzoo(exported)
    back.set_task(3.0)  # type: ignore[attr-defined]
    assert exported.exported.next_task == 3.0
