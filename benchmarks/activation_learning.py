"""How well policies learn with each activation: three small tasks, three seeds each, in one process.

Each run counts by the mean of its greedy evaluations (how fast it learned) and by the last one (how far it came). A run
that is in FILE already is not made again, so the comparison may be stopped and gone on with.

    python benchmarks/activation_learning.py FILE.jsonl [--only relu silu] [--tasks cartpole_ppo] [--seeds 700 701 702]
                                             [--gain 1.4142] [--quick]

``--gain`` overrides the scale of the first weights, to compare it with the one that is built in. No seed is one of proofs/.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import marl
from marl.policies.mlp import ACTIVATIONS
from marl.scenario.load import load_scenario

SCENARIOS = Path(__file__).parents[1] / "scenarios"
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "cartpole_ppo": (
        "cartpole_ppo", {"evaluation": {"interval": 5, "episodes": 10}, "stop": {"timesteps_total": 80_000}}
    ),
    "two_step_qmix": (
        "two_step_game",
        {
            "num_workers": 0, "timesteps_per_iteration": 200, "evaluation": {"interval": 1, "episodes": 1},
            "stop": {"timesteps_total": 8_000},
        },
    ),
    "spread_ppo": (
        "fast_spread",
        {
            "algo.name": "ppo", "algo.critic_sees": "own", "model.agent_id": True, "stop": {"timesteps_total": 320_000},
            "evaluation": {"interval": 5, "episodes": 100},
        },
    ),
}  # fmt: skip
SEEDS = (700, 701, 702)


def learn(task: str, activation: str, seed: int, quick: bool) -> dict[str, Any]:
    """One run from the first to the last step of the task's scenario."""
    name, changes = TASKS[task]
    keys = {**changes, "model.fcnet_activation": activation, "seed": seed, "log_sys_usage": False, "checkpoint_freq": 0}
    if quick:
        keys["stop"] = {"training_iteration": 6}
    scenario = load_scenario(SCENARIOS / f"{name}.yaml", changes=keys)
    rewards: list[float] = []
    began = time.process_time()
    with marl.Trainer(scenario=scenario) as trainer:
        done = False
        while not done:
            result = trainer.train()
            if "evaluation" in result:
                rewards.append(result["evaluation"]["episode_reward_mean"])
            done = result["done"]
        rewards.append(trainer.evaluate()["episode_reward_mean"])
    return {"mean": statistics.fmean(rewards), "last": rewards[-1], "cpu_s": round(time.process_time() - began, 1)}


def read(file: Path) -> list[dict[str, Any]]:
    if not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["activation"], row["gain"], row["seed"]


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table("task", "activation", "gain", "seeds", title="Greedy return: mean over the run, and at its end")
    for heading in ("mean over the run", "worst to best", "at the end", "worst to best"):
        shown.add_column(heading, justify="right")
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(key(row)[:3], []).append(row)
    for (task, activation, gain), runs in sorted(groups.items()):
        cells = [task, activation, f"{gain:.3f}", str(len(runs))]
        for measure in ("mean", "last"):
            values = sorted(run[measure] for run in runs)
            cells += [f"{statistics.fmean(values):.2f}", f"{values[0]:.2f} to {values[-1]:.2f}"]
        shown.add_row(*cells)
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, help="one JSON line per run; runs that stand there are not made again")
    parser.add_argument("--only", nargs="+", choices=list(ACTIVATIONS), default=list(ACTIVATIONS))
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--gain", type=float, help="scale of the first weights instead of the activation's own")
    parser.add_argument("--quick", action="store_true", help="a smoke run whose numbers mean nothing")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.gain is not None:
        for name in given.only:
            ACTIVATIONS[name] = ACTIVATIONS[name]._replace(gain=given.gain)
    done = {key(row) for row in read(given.file)}
    for seed in given.seeds:  # seeds outermost: a comparison that is stopped has all activations
        for task in given.tasks:
            for name in given.only:
                row = {"task": task, "activation": name, "gain": round(ACTIVATIONS[name].gain, 4), "seed": seed}
                if key(row) in done:
                    continue
                row |= learn(task, name, seed, given.quick)
                assert math.isfinite(row["mean"])
                with given.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
    Console().print(table(read(given.file)))


if __name__ == "__main__":
    main()
