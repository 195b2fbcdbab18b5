"""A run that was stopped and resumed equals one that never stopped, to the last bit."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from marl.training.trainer import Trainer
from tests.processes import Process, start_code
from tests.training.trees import differences

TWO_STEP = {"env": "two_step_game", "num_envs_per_worker": 3}
CARTPOLE = {"env": "CartPole-v1", "num_envs_per_worker": 3}
TRAFFIC = {"env": "traffic", "num_envs_per_worker": 2, "env_config": {"max_cars": 4}}
ON_POLICY = {"train_batch_size": 90, "sgd_minibatch_size": 32, "num_sgd_iter": 2, "rollout_fragment_length": 7}
OFF_POLICY = {
    "learning_starts": 20,
    "train_batch_size": 16,
    "buffer_size": 150,
    "rollout_fragment_length": 5,
    "target_update_every": 7,
    "timesteps_per_iteration": 50,
}
SMALL = {"fcnet_hiddens": [16], "evaluation": {"interval": 2, "episodes": 3}, "seed": 3}
RUNS = {
    "ppo": {**ON_POLICY, "kl_coeff": 0.2},
    "mappo": {**ON_POLICY, "normalize_values": True},
    "happo": {**ON_POLICY, "normalize_values": True},
    "dqn": {**OFF_POLICY, "prioritized_replay": True, "n_step": 3},
    "qmix": OFF_POLICY,
}
REMEMBERS = {
    "env": "repeat_after_delay", "env_config": {"delay": 3, "agents": 2}, "num_envs_per_worker": 3, "use_attention": True,
    "attention_dim": 4, "attention_memory_inference": 5, "attention_use_n_prev_actions": 2, "attention_use_n_prev_rewards": 2,
    "max_seq_len": 3,
}  # fmt: skip


ENVS = {"two_step": TWO_STEP, "cartpole": CARTPOLE, "traffic": TRAFFIC, "attention": REMEMBERS}
ITERATIONS = 6  # with evaluations, a replay that is full, and copies of targets in each half


def also_long(kept: list[tuple[Any, ...]], long: list[tuple[Any, ...]]) -> list[Any]:
    """Cases of `make test`, and others that `make test-long` adds."""
    return [*kept, *(pytest.param(*case, marks=pytest.mark.long) for case in long)]


def config(algo: str, env: dict[str, Any], workers: int = 0) -> dict[str, Any]:
    return {**env, **RUNS[algo], **SMALL, "num_workers": workers, "pool": "auto" if workers else "in_process"}


def everything(trainer: Trainer) -> dict[str, Any]:
    parts: dict[str, Any] = trainer.store._parts()
    parts["run"]["counters"].pop("time_total_s")
    parts["run"]["counters"].pop("trial_id")
    parts["run"].pop("scenario")
    return parts


def train(trainer: Trainer, iterations: int) -> list[dict[str, Any]]:
    return [without_wall_clock(trainer.train()) for _ in range(iterations)]


def assert_resume_is_exact(algo: str, keys: dict[str, Any], tmp_path: Path) -> None:
    with Trainer(algo, config=keys) as straight:
        lines = train(straight, ITERATIONS)
        expected = everything(straight)
    with Trainer(algo, config=keys) as first:
        before = train(first, ITERATIONS // 2)
        first.save(tmp_path / "half")
    with Trainer(algo, config=keys) as second:
        second.restore(tmp_path / "half")
        after = train(second, ITERATIONS - ITERATIONS // 2)
        assert differences(everything(second), expected) == []
    assert differences([*before, *after], lines) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "env"),
    also_long(
        [("ppo", "cartpole"), ("mappo", "traffic"), ("dqn", "cartpole"), ("qmix", "two_step"), ("dqn", "traffic"),
         ("happo", "two_step")],
        [("ppo", "two_step"), ("ppo", "traffic"), ("mappo", "two_step"), ("mappo", "cartpole"), ("dqn", "two_step"),
         ("qmix", "cartpole"), ("qmix", "traffic"), ("happo", "cartpole"), ("happo", "traffic")],
    ),
)  # fmt: skip
def test_save_and_restore_in_the_middle_changes_nothing(algo: str, env: str, tmp_path: Path) -> None:
    played = ENVS[env]
    if env == "traffic" and algo in ("mappo", "happo", "qmix"):
        played = {**played, "groups": {"cars": ["car_*"], "lights": ["traffic_light_*"]}}
    if env == "two_step" and algo == "happo":  # which takes turns where there are several policies
        played = {**played, "policy_mapping_fn": "per_agent"}
    assert_resume_is_exact(algo, config(algo, played), tmp_path)


@pytest.mark.ray
@pytest.mark.parametrize(
    ("algo", "env"),
    also_long(
        [("ppo", "cartpole"), ("qmix", "two_step"), ("dqn", "cartpole")],
        [("ppo", "two_step"), ("mappo", "two_step"), ("mappo", "cartpole"), ("dqn", "two_step"), ("qmix", "cartpole")],
    ),
)
def test_the_same_with_two_ray_workers(algo: str, env: str, tmp_path: Path, ray_session: None) -> None:
    assert_resume_is_exact(algo, config(algo, ENVS[env], workers=2), tmp_path)


def test_complete_episodes_survive_a_restore_in_the_middle(tmp_path: Path) -> None:
    keys = {**CARTPOLE, **SMALL, "train_batch_size": 80, "rollout_fragment_length": 9}
    assert_resume_is_exact("pg", keys, tmp_path)


SCRIPT = """
import sys
from pathlib import Path
from marl.training.trainer import Trainer
from tests.training.test_exact_resume import ENVS, ITERATIONS, config
algo, env, directory, resume, workers = sys.argv[1:6]
trainer = Trainer(algo, config={**config(algo, ENVS[env], int(workers)), "checkpoint_freq": 3}, directory=directory)
if resume == "resume":
    trainer.restore(directory)
while trainer.iteration < ITERATIONS:
    trainer.train()
    print(trainer.iteration, flush=True)
trainer.stop()
"""


def start(algo: str, env: str, directory: Path, how: str, workers: int) -> Process:
    return start_code(SCRIPT, algo, env, directory, how, workers, warm_ray=workers > 0)


def read_everything(directory: Path) -> dict[str, Any]:
    folder = find_checkpoint(directory)
    parts = {part: read_part(folder, part) for part in ("run", "policies", "learners", "workers", "replay")}
    parts["run"]["counters"].pop("time_total_s")
    parts["run"]["counters"].pop("trial_id")
    parts["run"]["counters"].pop("experiment_id")
    return parts


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algo", "env", "workers"),
    also_long(
        [("ppo", "cartpole", 0), ("qmix", "two_step", 2), ("ppo", "attention", 0)],
        [("ppo", "cartpole", 2), ("qmix", "two_step", 0), ("qmix", "attention", 0)],
    ),
)  # fmt: skip
def test_a_run_killed_by_signal_9_and_resumed_in_a_new_process_equals_one_that_was_not(
    algo: str, env: str, workers: int, tmp_path: Path
) -> None:
    assert start(algo, env, tmp_path / "straight", "new", workers).wait(300) == 0
    victim = start(algo, env, tmp_path / "killed", "new", workers)
    while int(victim.stdout.readline()) < 4:  # a checkpoint has come, and an iteration behind it
        time.sleep(0.01)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert start(algo, env, tmp_path / "killed", "resume", workers).wait(300) == 0
    assert differences(read_everything(tmp_path / "killed"), read_everything(tmp_path / "straight")) == []
    lines = [[without_wall_clock(r) for r in RunFiles(tmp_path / d).results()] for d in ("killed", "straight")]
    assert [line["training_iteration"] for line in lines[0]] == list(range(1, ITERATIONS + 1))
    assert differences(lines[0], lines[1]) == []
