"""Many long runs, as marl writes them, without training anything: for tests and for figures of ``marl watch``."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

from marl.runs.files import table_row

HISTOGRAM = 20  # episodes whose returns stand in each line of result.json
ALGOS = ("qmix", "vdn", "ppo", "dqn")


def make_many_runs(root: Path, runs: int, iterations: int) -> list[Path]:
    """Finished runs of four algorithms, five seeds each, in as many experiments as that takes. Returns their directories."""
    made = []
    for number in range(runs):
        algo, seed, experiment = ALGOS[number // 5 % len(ALGOS)], number % 5, number // 20
        name = f"{algo.upper()}_two_step_game_{number:05x}_00000_seed={seed}_2026-11-18_01-00-00"
        place = root / f"experiment_{experiment:03d}" / name
        write_run(place, params(algo, seed, place.parent.name, iterations), iterations)
        made.append(place)
    return made


def params(algo: str = "qmix", seed: int = 0, name: str = "many", iterations: int = 10) -> dict[str, Any]:
    """What ``params.json`` says of such a run."""
    return {
        "name": name,
        "env": "two_step_game",
        "algo": {"name": algo, "lr": 0.001},
        "multiagent": {"policies": {"team": {}}},
        "evaluation": {"metric": "episode_reward_mean", "interval": 10},
        "goal": {"evaluation.episode_reward_mean": 7.5},
        "stop": {"training_iteration": iterations},
        "seed": seed,
    }


def write_run(place: Path, keys: dict[str, Any], iterations: int, state: str = "finished") -> None:
    """A run directory with so many results."""
    place.mkdir(parents=True)
    (place / "params.json").write_text(json.dumps(keys))
    results = [result(i, keys["seed"], last=i == iterations) for i in range(1, iterations + 1)]
    (place / "result.json").write_text("".join(json.dumps(one) + "\n" for one in results))
    (place / "progress.csv").write_text(csv_text(results))
    (place / "state.json").write_text(json.dumps({"state": state, "error": ""}))
    (place / "checkpoints").mkdir()


def csv_text(results: list[dict[str, Any]], header: bool = True) -> str:
    """Rows of ``progress.csv``; the columns are those of an iteration with an evaluation."""
    columns = list(table_row(result(10, 0)))
    lines = [",".join(columns)] if header else []
    for one in results:
        row = table_row(one)
        lines.append(",".join("" if row.get(name) is None else str(row[name]) for name in columns))
    return "".join(f"{line}\n" for line in lines)


def result(iteration: int, seed: int, last: bool = False) -> dict[str, Any]:
    """One iteration's result with about 80 numbers."""
    rng = random.Random(1000 * seed + iteration)
    reward = 8.0 * (1 - math.exp(-iteration / 150)) + rng.gauss(0, 0.5)
    losses = {f"loss_{i}": rng.random() / iteration for i in range(40)}
    found: dict[str, Any] = {
        "episode_reward_mean": reward,
        "policy_reward_mean": {"team": reward},
        "agent_reward_mean": {"agent_0": reward / 2, "agent_1": reward / 2},
        "hist_stats": {"episode_reward": [reward] * HISTOGRAM},
        "training_iteration": iteration,
        "timesteps_total": 1024 * iteration,
        "episodes_total": 512 * iteration,
        "time_total_s": 0.5 * iteration,
        "time_this_iter_s": 0.5,
        "info": {"learner": {"team": {"learner_stats": losses}}},
        "timers": {f"part_{i}_time_ms": rng.random() for i in range(12)},
        "perf": {"cpu_util_percent": 50.0, "ram_util_percent": 25.0},
        "versions": {"python": "3.11", "marl": "0.1.0", "torch": "2.13"},
        "hostname": "here",
        "date": "2026-11-18_01-00-00",
        "seed": seed,
        "done": last,
    }
    if iteration % 10 == 0:
        found["evaluation"] = {"episode_reward_mean": reward + 0.1, "episodes": 10}
    return found
