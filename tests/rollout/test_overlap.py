"""Rounds that are played while learners learn: always with the weights of one round before, whatever the time says."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.algos.central_critic.critic import current_logp
from marl.errors import ConfigError
from marl.rollout.overlap import OverlapPool
from marl.rollout.pool import InProcessPool, WorkerPool
from marl.rollout.ray_overlap import OverlapRayPool
from marl.runs.result import without_wall_clock
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.memory_estimate import needs_of
from marl.training.trainer import Trainer
from tests.processes import Process, start_code
from tests.rollout.test_async import Gate, ray_test
from tests.training.test_exact_resume import (
    CARTPOLE,
    SCRIPT,
    TRAFFIC,
    TWO_STEP,
    assert_resume_is_exact,
    config,
    read_everything,
)
from tests.training.trees import differences

OVERLAP = {"collection": "overlap"}
KILLED = SCRIPT.replace('"checkpoint_freq": 5', '"checkpoint_freq": 5, "collection": "overlap"')
SWAPPED = {"player_0": "main", "player_1": "old_1"}


def keys(algo: str, env: dict[str, Any], workers: int = 0, **more: Any) -> dict[str, Any]:
    return {**config(algo, env, workers), **OVERLAP, **more}


def content(collected: Any) -> list[Any]:
    batch = collected.batch
    return [batch.obs, batch.actions, batch.action_logp, batch.rewards, batch.t, batch.eps_id, batch.active]


def moved(trainer: Trainer) -> None:
    """As if something had been learned."""
    policy = trainer.get_policy()
    policy.set_weights({name: array + 0.1 for name, array in policy.get_weights().items()})
    trainer.workers.sync_weights()


def pool_of(trainer: Trainer) -> WorkerPool:
    assert isinstance(trainer.workers, OverlapPool | OverlapRayPool)
    return trainer.workers


# -- which weights act ------------------------------------------------------------------------------------------------


def test_a_round_is_played_by_the_weights_after_the_last_round_but_one() -> None:
    with Trainer("ppo", config=config("ppo", CARTPOLE)) as trainer:
        expected = [content(trainer.workers.collect(7)) for _ in range(2)]  # both with the first weights
        for _ in range(3):
            moved(trainer)
            expected.append(content(trainer.workers.collect(7)))
    with Trainer("ppo", config=keys("ppo", CARTPOLE)) as trainer:
        found = []
        for _ in range(5):
            found.append(content(pool_of(trainer).collect(7)))
            moved(trainer)
    assert differences(found, expected) == []


def test_the_lag_is_one_change_of_the_weights_and_none_where_learners_only_gather() -> None:
    with Trainer("ppo", config=keys("ppo", CARTPOLE)) as trainer:
        pool, means = pool_of(trainer), []
        for _ in range(3):
            means.append(pool.collect(5).extra["policy_lag_mean"])
            moved(trainer)
        assert means == pytest.approx([0, 1 / 2, 2 / 3])
        pool.collect(5)
        for _ in range(2):
            pool.sync_weights()
            told = pool.collect(5).extra
        assert told == {"policy_lag_mean": pytest.approx(3 / 6), "policy_lag_max": 1.0}


def test_the_result_tells_the_lag() -> None:
    whole = {"train_batch_size": 60, "rollout_fragment_length": "auto"}  # a batch per round
    with Trainer("ppo", config=keys("ppo", CARTPOLE, **whole)) as trainer:
        infos = [trainer.train()["info"] for _ in range(4)]
        assert [info["policy_lag_mean"] for info in infos] == pytest.approx([0, 1 / 2, 2 / 3, 3 / 4])
        assert infos[-1]["policy_lag_max"] == 1


# -- Ray against the reference ----------------------------------------------------------------------------------------


def run(algo: str, env: dict[str, Any], pool: str, kill_at: int = -1) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    import ray

    lines = []
    with Trainer(algo, config=keys(algo, env, workers=2, pool=pool)) as trainer:
        for i in range(5):
            if i == kill_at:
                assert isinstance(trainer.workers, OverlapRayPool)
                ray.kill(trainer.workers.actors[2])
            lines.append(without_wall_clock(trainer.train()))
        saved = trainer.store._parts()
        parts = {name: saved[name] for name in ("policies", "learners", "workers", "replay")}
    for line in lines:
        line.pop("config")
    return lines, parts


@ray_test
@pytest.mark.parametrize(("algo", "env"), [("ppo", CARTPOLE), ("qmix", TWO_STEP), ("dqn", TRAFFIC)])
def test_two_ray_workers_equal_the_same_two_workers_in_process(algo: str, env: dict[str, Any]) -> None:
    assert differences(run(algo, env, "ray"), run(algo, env, "in_process")) == []


@ray_test
@pytest.mark.parametrize("kill_at", [0, 2])
def test_a_killed_worker_is_replaced_and_goes_on_with_the_same_numbers(kill_at: int) -> None:
    assert differences(run("ppo", CARTPOLE, "ray", kill_at), run("ppo", CARTPOLE, "in_process")) == []


class Gates:
    """Envs of worker 2 whose steps wait for a file."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def __call__(self, env_config: Any) -> Gate:
        return Gate(self.file if env_config.worker_index == 2 else None)


@ray_test
def test_a_fragment_whose_worker_dies_is_played_again_by_the_weights_of_back_then(tmp_path: Path) -> None:
    import ray

    gate = tmp_path / "open"
    gate.touch()
    found = {}
    for pool in ("ray", "in_process"):
        env = {**CARTPOLE, "env": Gates(gate)}
        with Trainer("ppo", config=keys("ppo", env, workers=2, pool=pool)) as trainer:
            workers = pool_of(trainer)
            workers.collect(5)
            if pool == "ray":
                assert isinstance(workers, OverlapRayPool)
                workers.foreach_worker(lambda worker: worker.index)  # what was ahead is there
                gate.unlink()
            rounds = [content(workers.collect(5))]
            moved(trainer)  # while worker 2 stands before the gate
            if isinstance(workers, OverlapRayPool):
                ray.kill(workers.actors[2])
                gate.touch()
            rounds += [content(workers.collect(5)) for _ in range(2)]
            found[pool] = rounds
            if isinstance(workers, OverlapRayPool):
                assert workers.replaced == 1
    assert differences(found["ray"], found["in_process"]) == []


def with_interruptions(pool: str) -> list[Any]:
    """Rounds with everything between them that a run may ask of its workers."""
    with Trainer("ppo", config=keys("ppo", CARTPOLE, workers=2, pool=pool)) as trainer:
        workers, rounds = pool_of(trainer), []
        for ask in (
            lambda: workers.evaluate([5, 6, 7]).lengths.tolist(),
            lambda: workers.foreach_env(lambda env: type(env).__name__),
            lambda: workers.state_dict(),
            lambda: workers.abandon_evaluation(),
            lambda: workers.num_healthy_workers,
            lambda: workers.drop_ahead(),
        ):
            rounds.append(content(workers.collect(5)))
            moved(trainer)
            rounds.append(ask())
        rounds.append(content(workers.collect(5)))
        return rounds


@ray_test
def test_what_is_asked_between_rounds_is_answered_after_the_round_under_way_and_disturbs_nothing() -> None:
    found, expected = with_interruptions("ray"), with_interruptions("in_process")
    assert differences(found, expected) == []


# -- checkpoints ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("algo", "env"), [("ppo", CARTPOLE), ("qmix", TWO_STEP)])
def test_a_run_that_was_saved_and_restored_equals_one_that_was_not(
    algo: str, env: dict[str, Any], tmp_path: Path
) -> None:
    assert_resume_is_exact(algo, keys(algo, env), tmp_path)


@ray_test
def test_the_same_with_ray_workers(tmp_path: Path) -> None:
    assert_resume_is_exact("ppo", keys("ppo", CARTPOLE, workers=2), tmp_path)


@pytest.mark.slow
def test_a_run_that_is_killed_with_a_round_ahead_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    def start(directory: str, how: str) -> Process:
        return start_code(KILLED, "ppo", "cartpole", tmp_path / directory, how, 0)

    assert start("straight", "new").wait(300) == 0
    victim = start("killed", "new")
    while int(victim.stdout.readline()) < 4:
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert start("killed", "resume").wait(300) == 0
    assert differences(read_everything(tmp_path / "killed"), read_everything(tmp_path / "straight")) == []


@pytest.mark.parametrize("more", [{"keep_infos": True}, {"batch_mode": "complete_episodes"}])
def test_what_was_played_ahead_is_in_the_checkpoint_with_all_that_belongs_to_it(
    more: dict[str, Any], tmp_path: Path
) -> None:
    with Trainer("ppo", config=keys("ppo", CARTPOLE, **more)) as trainer:
        trainer.train()
        trainer.save(tmp_path / "half")
        expected = trainer.workers.collect(7)
    with Trainer("ppo", config=keys("ppo", CARTPOLE, **more)) as trainer:
        trainer.restore(tmp_path / "half")
        found = trainer.workers.collect(7)
        assert differences(content(found), content(expected)) == []
        assert (found.batch.infos is None) == (expected.batch.infos is None)
        assert differences(vars(found.episodes), vars(expected.episodes)) == []
        assert found.extra == expected.extra
        assert (found.env_steps, found.agent_steps) == (expected.env_steps, expected.agent_steps)


def test_a_run_that_overlaps_no_more_learns_first_from_what_was_played_ahead(tmp_path: Path) -> None:
    with Trainer("ppo", config=keys("ppo", CARTPOLE)) as trainer:
        trainer.train()
        trainer.save(tmp_path / "half")
        expected = [content(trainer.workers.collect(7)) for _ in range(2)]
    with Trainer("ppo", config={**keys("ppo", CARTPOLE), "collection": "sync"}) as trainer:
        trainer.restore(tmp_path / "half")
        assert type(trainer.workers) is InProcessPool
        found = [content(trainer.workers.collect(7)) for _ in range(2)]
        trainer.save(tmp_path / "later")
    assert differences(found, expected) == []
    with Trainer("ppo", config=keys("ppo", CARTPOLE)) as trainer:  # and back: nothing is ahead there
        trainer.restore(tmp_path / "later")
        assert trainer.train()["training_iteration"] == 2


# -- what is played ahead and nobody learns from ------------------------------------------------------------------------


def test_what_was_played_ahead_of_another_stage_is_dropped() -> None:
    stages = [{"until": {"training_iteration": 2}}, {"env_config": {"game": "chicken"}}]
    game = {"env": "matrix_game", "env_config": {"game": "prisoners_dilemma"}, "num_envs_per_worker": 3}
    with Trainer("ppo", config=keys("ppo", game, curriculum=stages)) as trainer:
        for _ in range(2):
            trainer.train()
        assert trainer.curriculum.stage == 1
        assert trainer.workers.ahead == []
        assert trainer.train()["info"]["policy_lag_max"] <= 1


def test_what_was_played_ahead_by_other_policies_is_dropped() -> None:
    pennies = {"env": "matrix_game", "env_config": {"game": "matching_pennies"}, "num_envs_per_worker": 2}
    roles = {"policies": {"main": {}}, "policy_mapping_fn": {"*": "main"}}
    with Trainer("ppo", config=keys("ppo", pennies, **roles)) as trainer:
        trainer.train()
        assert trainer.workers.ahead != []
        trainer.add_policy("old_1", like="main", policy_mapping_fn=SWAPPED, policies_to_train=["main"])
        assert trainer.workers.ahead == []
        batch = trainer.workers.collect(5).batch
        assert batch.policy_ids == ("main", "old_1")
        assert set(batch.policy_index[batch.context :, :, 1].ravel().tolist()) == {1}
        assert "old_1" in trainer.train()["policy_reward_mean"]


def test_the_first_round_of_a_population_s_round_is_played_by_the_new_learners() -> None:
    game = {"env": "matrix_game", "env_config": {"game": "matching_pennies"}, "num_envs_per_worker": 2}
    members = {"population": {"kind": "psro", "round_timesteps": 100, "matches": 4}}
    with Trainer("ppo", config=keys("ppo", game, **members)) as trainer:
        assert trainer.population is not None
        while not trainer.population.round:
            trainer.train()
        assert trainer.workers.ahead == []
        assert trainer.train()["info"]["num_updates"] > 0


# -- who may ------------------------------------------------------------------------------------------------------------


def resolved(algo: str, **more: Any) -> marl.scenario.resolve.Setup:
    return resolve(compose({"env": "two_step_game", "algo": algo, "fcnet_hiddens": [8], **OVERLAP, **more}))


@pytest.mark.parametrize("algo", ["pg", "a2c", "a3c"])
def test_learners_without_a_ratio_that_corrects_are_refused(algo: str) -> None:
    with pytest.raises(ConfigError, match=rf"overlap, but policy .* learns by {algo}, .*Use ppo, mappo or impala"):
        resolved(algo)


@pytest.mark.parametrize("algo", ["ppo", "mappo", "impala", "dqn", "qmix", "apex"])
def test_learners_with_such_a_ratio_or_a_replay_may_and_the_header_says_so(algo: str) -> None:
    here, on_ray = resolved(algo), resolved(algo, num_workers=2)
    assert not on_ray.asynchronous
    assert any(line.startswith("collection: overlap, in this process") for line in here.header)
    assert any("play the next round while learners learn" in line for line in on_ray.header)


@pytest.mark.parametrize(
    ("algo", "more", "text"),
    [
        ("es", {}, "es waits for a whole population"),
        ("marwil", {"input": "there"}, "recordings are read, not collected"),
        ("ppo", {"output": "there", "population": {"kind": "psro"}}, "would have gaps"),
    ],
)
def test_runs_that_do_not_collect_round_by_round_are_refused(algo: str, more: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        resolved(algo, **more)


def test_clients_are_not_waited_for_by_overlapping_them() -> None:
    agents = {
        "agent_0": {
            "observation_space": {"type": "Discrete", "n": 2, "start": 0},
            "action_space": {"type": "Discrete", "n": 2, "start": 0},
        }
    }
    with pytest.raises(ConfigError, match="clients play, in their own time"):
        resolved("ppo", env="external", env_config={"agents": agents}, evaluation={"interval": 0})


def test_the_estimate_of_memory_knows_of_the_round_ahead() -> None:
    def rounds(collection: str) -> int:
        needs = needs_of(resolved("ppo", collection=collection, num_workers=2))
        return next(need.size for need in needs if need.what.startswith("rounds of"))

    assert rounds("overlap") == rounds("sync") * 3 / 2


def test_data_that_older_weights_played_keeps_the_probabilities_of_those_weights() -> None:
    """The ratio of ppo is against the policy that acted, so it is not 1 before the first step on an overlapped round."""
    with Trainer("ppo", config=keys("ppo", CARTPOLE)) as trainer:
        pool_of(trainer).collect(20)
        moved(trainer)
        rows = pool_of(trainer).collect(20).batch.for_policy("default_policy")
        policy: Any = trainer.get_policy()
        ratios = np.exp(current_logp(policy, rows) - rows["action_logp"])
        assert np.abs(ratios - 1).max() > 1e-3
