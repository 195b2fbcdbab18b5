"""Everything that a run draws follows from its seed: the same seed draws the same, another one something else."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.algos.optimiser import FlatOptimiser
from marl.algos.presets import ALGOS
from marl.envs.base import MultiAgentEnv, StepResult
from marl.training.trainer import Trainer
from tests.algos.updates import found_in, small_run

Log = list[tuple[int, str, Any]]


class Diary(MultiAgentEnv):
    """Episodes of two moves that do not depend on their seed. All copies write into one book who was told what."""

    book: ClassVar[Log] = []
    possible_agents: tuple[str, ...] = ("a", "b")

    def __init__(self, config: Any) -> None:
        self.worker = config.worker_index

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 1, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(5)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        self.book.append((self.worker, "seed", seed))
        return self._obs(), {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        self.t += 1
        self.book.append((self.worker, "actions", tuple(int(actions[name]) for name in self.possible_agents)))
        return StepResult(self._obs(), dict.fromkeys(actions, 1.0), {"__all__": self.t == 2}, {}, {})

    def _obs(self) -> dict[str, Any]:
        return {name: np.zeros(1, np.float32) for name in self.possible_agents}


def drawn(seed: int, algo: str = "ppo", workers: int = 0, evaluate: bool = False) -> Log:
    """What the envs of a run were told in two iterations, or in an evaluation."""
    Diary.book.clear()
    keys: dict[str, Any] = {
        "seed": seed, "num_workers": workers, "pool": "in_process", "num_envs_per_worker": 2, "evaluation": {"interval": 0},
        "timesteps_per_iteration": 40, "fcnet_hiddens": [4],
    }  # fmt: skip
    keys |= (
        {"num_perturbations": 4}
        if algo == "es"
        else {"train_batch_size": 40, "sgd_minibatch_size": 40, "num_sgd_iter": 1}
    )
    with Trainer(algo, env=Diary, config=keys) as trainer:
        with torch.no_grad():  # equal policies, so that runs differ by what is drawn while playing
            for parameter in trainer.policies["default_policy"].parameters():
                parameter.zero_()
        if evaluate:
            trainer.evaluate()
        else:
            trainer.train()
            trainer.train()
    return list(Diary.book)


def told(log: Log, what: str, worker: int | None = None) -> list[Any]:
    return [value for by, kind, value in log if kind == what and worker in (None, by)]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_episodes_of_training_follow_from_the_seed_of_the_run(workers: int) -> None:
    one, again, other = drawn(1, workers=workers), drawn(1, workers=workers), drawn(2, workers=workers)
    assert one == again
    seeds = told(one, "seed")
    assert len(seeds) > 8
    assert len(set(seeds)) == len(seeds)
    assert not set(seeds) & set(told(other, "seed"))


@pytest.mark.parametrize("workers", [0, 2])
def test_the_actions_of_exploring_policies_follow_from_the_seed_of_the_run(workers: int) -> None:
    one, other = (told(drawn(seed, workers=workers), "actions") for seed in (1, 2))
    assert len(one) == len(other) >= 32
    # Five even options for each of two agents: two independent runs agree in about one step of 25.
    assert np.mean([a == b for a, b in zip(one, other, strict=True)]) < 0.5


@pytest.mark.parametrize("what", ["seed", "actions"])
def test_two_workers_of_a_run_draw_different_episodes_and_actions(what: str) -> None:
    log = drawn(1, workers=2)
    first, second = (told(log, what, worker) for worker in (1, 2))
    assert len(first) == len(second) > 8
    assert np.mean([a == b for a, b in zip(first, second, strict=True)]) < 0.5


def test_the_episodes_of_evolution_follow_from_the_seed_of_the_run() -> None:
    one, again, other = (told(drawn(seed, "es"), "seed") for seed in (1, 1, 2))
    assert one == again
    assert len(set(one)) >= 8
    assert not set(one) & set(other)


def test_the_episodes_of_an_evaluation_follow_from_the_seed_of_the_run() -> None:
    one, again, other = (told(drawn(seed, evaluate=True), "seed") for seed in (1, 1, 2))
    assert one == again
    assert not set(one) & set(other)


@pytest.mark.parametrize("algo", list(ALGOS))
def test_first_weights_and_the_learners_own_draws_follow_from_the_seed_of_the_run(algo: str) -> None:
    found = []
    for seed in (1, 1, 2):
        with small_run(algo, seed=seed) as trainer:
            blocks = found_in(trainer.learners, FlatOptimiser)
            weights = {b.name: b.flat.numpy().copy() for b in blocks if "temperature" not in b.name}
            found.append((weights, [learner.rng.random() for learner in trainer.learners]))
    (one, draws), (again, same_draws), (other, other_draws) = found
    assert draws == same_draws
    assert not set(draws) & set(other_draws)
    assert all(np.array_equal(one[name], again[name]) for name in one)
    assert not any(np.array_equal(one[name], other[name]) for name in one)


@pytest.mark.parametrize("algo", list(ALGOS))
def test_one_seed_makes_one_run_and_another_one_another(algo: str) -> None:
    runs = []
    for seed in (1, 1, 2):
        with small_run(algo, seed=seed) as trainer:
            trainer.train()
            runs.append(np.concatenate([w.reshape(-1) for w in trainer.get_weights()["default_policy"].values()]))
    assert np.array_equal(runs[0], runs[1])
    assert not np.array_equal(runs[0], runs[2])
