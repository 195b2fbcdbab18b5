"""The examples about curricula and about envs that differ between workers do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import marl
from examples import curriculum_by_callback, env_per_worker, named_actors
from examples.corridor import LEARNING, LENGTHS, Corridor
from marl.scenario.load import load_scenario

on_ray = pytest.mark.ray
SCENARIO = Path(__file__).parents[2] / "examples" / "curriculum.yaml"


@pytest.fixture(params=[0, pytest.param(2, marks=on_ray)])
def workers(request: pytest.FixtureRequest) -> int:
    """In this process, and on Ray."""
    if request.param:
        request.getfixturevalue("ray_session")
    return int(request.param)


def test_on_train_result_lengthens_the_corridor_of_every_copy_in_every_worker(workers: int) -> None:
    phases, lengths = curriculum_by_callback.main(8, workers)
    assert phases == sorted(phases)
    assert set(phases) == {0, 1, 2}
    assert lengths == [[LENGTHS[2]] * 4] * max(1, workers)


def test_a_phase_set_between_iterations_is_that_of_every_copy_in_every_worker(workers: int) -> None:
    with marl.Trainer("ppo", env=Corridor, config={**LEARNING, "num_workers": workers}) as trainer:
        for phase in (0, 1):
            trainer.workers.foreach_env(lambda env, phase=phase: env.set_phase(phase))
            trainer.train()
            assert trainer.workers.foreach_env(lambda env: env.length) == [[LENGTHS[phase]] * 4] * max(1, workers)


def test_a_phase_and_the_callback_that_chose_it_survive_a_restart(tmp_path: Path) -> None:
    config: dict[str, Any] = {**LEARNING, "env_config": {"length": 1}, "callbacks": curriculum_by_callback.Lengthen}
    with marl.Trainer("ppo", env=Corridor, config=config) as trainer:  # one step long: both arrive at once
        while trainer.train()["phase"] == 0:
            pass
        trainer.save(tmp_path / "c")
        expected = trainer.workers.foreach_env(lambda env: env.next_length)
    with marl.Trainer("ppo", env=Corridor, config=config) as again:
        again.restore(tmp_path / "c")
        assert again.workers.foreach_env(lambda env: env.next_length) == expected
        assert again.train()["phase"] >= 1


@pytest.mark.slow  # two whole runs
def test_the_declared_curriculum_reaches_the_goal_that_plain_training_misses() -> None:
    scenario = load_scenario(SCENARIO)
    with marl.Trainer(scenario=scenario) as trainer:
        stages = []
        while not (result := trainer.train())["done"]:
            stages.append(result["curriculum"]["stage"])
        assert trainer.goal_met
        assert set(stages) | {2} == {0, 1, 2}
        steps = result["timesteps_total"]
    with marl.Trainer(scenario=load_scenario(SCENARIO, ["curriculum=[]"])) as plain:
        while plain.train()["timesteps_total"] < steps:
            pass
        assert not plain.goal_met


@on_ray
@pytest.mark.usefixtures("ray_session")
def test_an_actor_with_a_name_counts_the_episodes_of_the_envs_of_two_workers() -> None:
    in_result, by_actor = named_actors.main(2)
    assert in_result == by_actor > 50


@on_ray
@pytest.mark.usefixtures("ray_session")
def test_each_worker_has_the_env_of_its_index() -> None:
    assert env_per_worker.main() == [[4, 4], [8, 8]]


def test_without_ray_there_is_the_first_env_alone() -> None:
    assert env_per_worker.main(0) == [[4, 4]]
