"""Learners on Ray actors: equal to one learner, through saving, freezing and changed weights; and nothing is left behind."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from torch import Tensor

from marl.algos.custom_loss import Loss, register_loss
from marl.errors import ConfigError, ResourceError, TrainingError
from marl.runs.result import without_wall_clock
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.training.ray_learners import RayLearners, digest
from marl.training.trainer import Trainer
from tests.algos.test_shared_minibatches import distance
from tests.processes import start_code
from tests.training.test_exact_resume import CARTPOLE, TWO_STEP, config
from tests.training.trees import differences

with_ray = pytest.mark.usefixtures("ray_session")
pytestmark = pytest.mark.ray


def keys(algo: str, learners: int, **more: Any) -> dict[str, Any]:
    env = CARTPOLE if algo in ("ppo", "dqn") else TWO_STEP
    return {**config(algo, env), "num_learners": learners, **more}


def helpers(trainer: Trainer) -> list[Any]:
    assert isinstance(trainer.learning, RayLearners)
    return trainer.learning.actors


def theirs(trainer: Trainer) -> Any:
    """What tells the weights of the first helper from others."""
    import ray

    return ray.get(helpers(trainer)[0].digest.remote())


def numbers(trainer: Trainer, iterations: int) -> list[dict[str, Any]]:
    lines = [without_wall_clock(trainer.train()) for _ in range(iterations)]
    for line in lines:
        line.pop("config")
    return lines


@with_ray
@pytest.mark.parametrize("algo", ["ppo", "dqn", "qmix"])
def test_two_learners_end_where_one_ends_and_stay_equal_to_each_other(algo: str) -> None:
    with Trainer(algo, config=keys(algo, 1)) as alone:
        expected = numbers(alone, 4)
        weights, states = alone.get_weights(), [learner.state_dict() for learner in alone.learners]
    with Trainer(algo, config=keys(algo, 2)) as trainer:
        found = numbers(trainer, 4)
        assert distance(trainer.get_weights(), weights) < 1e-5
        assert distance([learner.state_dict() for learner in trainer.learners], states) < 1e-5
        assert theirs(trainer) == digest(trainer.policies)
    assert distance([line["info"] for line in found], [line["info"] for line in expected]) < 1e-4
    assert [line["episode_reward_mean"] for line in found] == [line["episode_reward_mean"] for line in expected]


@with_ray
def test_a_run_with_two_learners_goes_on_exactly_with_two_and_nearly_so_with_one(tmp_path: Path) -> None:
    with Trainer("dqn", config=keys("dqn", 2)) as straight:
        numbers(straight, 3)
        straight.save(tmp_path / "half")
        expected = numbers(straight, 3)
        weights = straight.get_weights()
    with Trainer("dqn", config=keys("dqn", 2)) as second:
        second.restore(tmp_path / "half")
        assert differences(numbers(second, 3), expected) == []
        assert theirs(second) == digest(second.policies)
    with Trainer("dqn", config=keys("dqn", 1)) as alone:
        alone.restore(tmp_path / "half")
        numbers(alone, 3)
        assert distance(alone.get_weights(), weights) < 1e-5


@with_ray
def test_frozen_policies_and_changed_weights_reach_the_helpers() -> None:
    apart = {"policy_mapping_fn": "per_agent", "policies": ["agent_0", "agent_1"]}
    with Trainer("ppo", config={**keys("ppo", 2), **TWO_STEP, **apart, "policies_to_train": ["agent_1"]}) as trainer:
        before = trainer.get_weights()
        trainer.train()
        assert differences(trainer.get_weights(["agent_0"]), {"agent_0": before["agent_0"]}) == []
        assert differences(trainer.get_weights(["agent_1"]), {"agent_1": before["agent_1"]}) != []
        trainer.set_policies_to_train(["agent_0"])
        moved = {name: array + np.float32(0.5) for name, array in before["agent_0"].items()}
        trainer.get_policy("agent_0").set_weights(moved)  # behind the trainer's back
        trainer.train()
        assert theirs(trainer) == digest(trainer.policies)
        assert differences(trainer.get_weights(["agent_0"]), {"agent_0": moved}) != []


@with_ray
def test_losses_that_were_registered_here_are_known_to_the_helpers() -> None:
    class Steeper(Loss):
        def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
            return 2 * loss

    register_loss("steeper", Steeper)
    found = []
    for learners in (1, 2):
        with Trainer("ppo", config={**keys("ppo", learners), "custom_loss": "steeper"}) as trainer:
            trainer.train()
            found.append(trainer.get_weights())
    assert distance(found[0], found[1]) < 1e-5


@with_ray
def test_the_death_of_a_helper_ends_the_run_with_its_name() -> None:
    import ray

    with Trainer("ppo", config=keys("ppo", 2)) as trainer:
        trainer.train()
        ray.kill(helpers(trainer)[0])
        with pytest.raises(TrainingError, match=r"learner 1 died .* last checkpoint"):
            trainer.train()


@with_ray
def test_an_error_of_a_helper_is_the_error_of_the_run() -> None:
    """Its loss alone is no number; the others, who wait for its gradient, are told why."""
    import ray

    with Trainer("ppo", config=keys("ppo", 2)) as trainer:
        broken = {
            name: {n: a + np.nan if a.dtype == np.float32 else a for n, a in w.items()}
            for name, w in trainer.get_weights().items()
        }
        ray.get(helpers(trainer)[0].set_weights.remote(broken))
        with pytest.raises(TrainingError, match="the loss of policy 'default_policy' became nan"):
            trainer.train()


@with_ray
def test_stopping_leaves_neither_helpers_nor_open_ports() -> None:
    import ray

    def ports() -> set[int]:
        return {c.laddr.port for c in psutil.Process().net_connections("tcp") if c.status == psutil.CONN_LISTEN}

    before = ports()
    trainer = Trainer("ppo", config=keys("ppo", 2))
    (helper,) = helpers(trainer)
    assert ports() > before
    assert {c.laddr.ip for c in psutil.Process().net_connections("tcp") if c.laddr.port in ports() - before} == {
        "127.0.0.1"
    }
    trainer.stop()
    assert ports() == before
    with pytest.raises(ray.exceptions.RayActorError):
        while True:  # Ray ends actors a moment after it was asked to
            ray.get(helper.digest.remote(), timeout=30)


@with_ray
def test_more_learners_than_ray_has_cpus_are_refused_with_the_sum() -> None:
    with pytest.raises(ResourceError, match=r"num_learners: 4 takes 3 CPU .* workers take 0, but Ray has 2"):
        Trainer("ppo", config=keys("ppo", 4))
    with pytest.raises(ResourceError, match=r"num_learners: 2 takes 1 CPU .* workers take 2, but Ray has 2"):
        Trainer("ppo", config={**keys("ppo", 2), "num_workers": 2, "pool": "ray"})


def test_evolution_strategies_refuse_to_share_minibatches_before_ray_is_started() -> None:
    with pytest.raises(ConfigError, match=r"num_learners is 2, but the algorithm of .* does not share its work"):
        Trainer("es", env="CartPole-v1", config={"num_learners": 2})


def test_the_header_says_how_many_processes_learn() -> None:
    header = resolve(compose(keys("ppo", 3))).header
    assert any(line.startswith("learners: ") and "3 processes share every minibatch" in line for line in header)


SCRIPT = """
import sys
from marl.training.trainer import Trainer
from tests.training.test_learners import keys
from marl.training.loop import run_until_stopped
trainer = Trainer("ppo", config={**keys("ppo", 2), "checkpoint_freq": 0}, directory=sys.argv[1])
with trainer:
    print(*[p.pid for p in __import__("psutil").Process().children(recursive=True)], flush=True)
    print(run_until_stopped(trainer).interrupted)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_run_with_its_own_ray_in_the_regular_way_and_leaves_no_process(tmp_path: Path) -> None:
    run = start_code(SCRIPT, tmp_path)
    children = [int(pid) for pid in run.stdout.readline().split()]
    assert children
    while not (tmp_path / "result.json").exists():
        time.sleep(0.1)
    run.send_signal(signal.SIGINT)
    assert run.stdout.readline().strip() == "True"
    assert run.wait(60) == 0
    assert psutil.wait_procs([psutil.Process(pid) for pid in children if psutil.pid_exists(pid)], timeout=30)[1] == []
