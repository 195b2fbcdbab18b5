"""What is learned on the fast env is worth the same on mpe2's own, and the benchmark of both runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from marl.data.task import Array
from marl.training.trainer import Trainer

ROOT = Path(__file__).parents[3]
FAST, ORIGINAL = "fast:simple_spread", "pettingzoo:mpe2/simple_spread_v3"
PPO = {
    "lr": 1e-3,
    "gamma": 0.95,
    "train_batch_size": 6400,
    "sgd_minibatch_size": 3200,
    "num_sgd_iter": 8,
    "fcnet_hiddens": [64, 64],
    "evaluation": {"interval": 0},
}
# Blocks of 500 episodes are too few to tell: of six on mpe2, seeds 0-499 are 2.9 standard errors off, the others within 0.8.
EPISODES = {FAST: 20_000, ORIGINAL: 3_000}


def returns(trainer: Trainer) -> Array:
    """Sums over the three agents, of many greedy episodes."""
    seeds = range(EPISODES[str(trainer.scenario.env)])
    return np.asarray(trainer.workers.evaluate(seeds, False).rewards)


def error(*samples: Array) -> float:
    """Standard error of the difference of the means."""
    return float(np.sqrt(sum(sample.var(ddof=1) / len(sample) for sample in samples)))


@pytest.mark.slow
def test_a_policy_trained_on_the_fast_env_earns_the_same_on_mpe2(tmp_path: Path) -> None:
    with Trainer("ppo", env=FAST, config={**PPO, "num_envs_per_worker": 256}) as trainer:
        for _ in range(10):
            trainer.train()
        trained_on = returns(trainer)
        checkpoint = trainer.save(tmp_path / "trained")
    loaded = {**PPO, "num_envs_per_worker": 8, "load": {"default_policy": str(checkpoint)}}
    with Trainer("ppo", env=ORIGINAL, config=loaded) as other:
        played_on = returns(other)
    scripted = {"random": {"scripted": {"name": "random"}}}
    keys = {**PPO, "num_envs_per_worker": 256, "policies": scripted, "policy_mapping_fn": "shared"}
    with Trainer("ppo", env=FAST, config=keys) as at_random:
        randomly = returns(at_random)

    assert abs(trained_on.mean() - played_on.mean()) < 3 * error(trained_on, played_on)
    assert played_on.mean() - randomly.mean() > 6 * error(played_on, randomly)


@pytest.mark.slow
def test_the_benchmark_of_fast_envs_reports_rates_and_ratios(tmp_path: Path) -> None:
    target = tmp_path / "fast_envs.json"
    command = [sys.executable, "benchmarks/fast_envs.py", "--quick", "--json", str(target)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(target.read_text())
    assert numbers["quick"] is True
    particles = {"fast:simple_tag", "fast:simple_speaker_listener", "fast:simple_adversary", "fast:simple_push"}
    particles |= {FAST, "fast:simple_crypto", "fast:simple_reference", "fast:simple_world_comm"}
    assert particles | {"Foraging-8x8-2p-2f-coop-v3"} <= set(numbers["envs"])
    for name, rows in numbers["envs"].items():
        original, *copies = rows
        assert original == ("mpe2" if name in particles else name.partition("-")[0].replace("Foraging", "lbforaging"))
        assert copies == ["256 copies", "1024 copies"]
        for row in rows.values():
            assert row["ratio"] == pytest.approx(row["rate"] / rows[original]["rate"])
    assert numbers["bars"][FAST]["value"] == numbers["envs"][FAST]["256 copies"]["ratio"]
    foraging = [rows["256 copies"]["ratio"] for name, rows in numbers["envs"].items() if name.startswith("Foraging")]
    assert numbers["bars"]["fast:lbf"]["value"] == min(foraging)
