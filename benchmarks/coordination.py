"""Who finds the best joint action: learners for teams in repeated matrix games, by the greedy return at the end of a run.

Climbing and penalty (k = 0, -25, -50, -75, -100; Claus & Boutilier, 1998), 25 rounds per episode, rewards of both players
added up: 275 and 250 at best. Settings are those of scenarios/matrix_values.yaml (values) and
scenarios/matrix_mappo.yaml (ppo, mappo).

    python benchmarks/coordination.py [--seeds 3] [--steps 16000] [--algos NAME,...] [--games climbing,-100] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from marl.scenario.load import load_scenario
from marl.training.trainer import Trainer

SCENARIOS = Path(__file__).parents[1] / "scenarios"
VALUES = ("dqn", "vdn", "qmix", "hysteretic")
# With a critic of its own there is no group that is shown to it or paid together, and who plays has to be asked for.
GRADIENTS: dict[str, dict[str, Any]] = {
    "ppo": {"algo.name": "ppo", "algo.critic_sees": "own", "algo.share_reward": False, "model.agent_id": True},
    "mappo": {"algo.name": "mappo"},
}
GAMES = ("climbing", "0", "-25", "-50", "-75", "-100")


def env_config(game: str) -> dict[str, Any]:
    if game == "climbing":
        return {"game": "climbing", "repetitions": 25}
    return {"game": "penalty", "penalty": float(game), "repetitions": 25}


def final_return(algo: str, game: str, seed: int, steps: int) -> float:
    """Of a greedy episode, at the end of a run."""
    scenario = "matrix_mappo" if algo in GRADIENTS else "matrix_values"
    changes = {
        **GRADIENTS.get(algo, {"algo.name": algo}),
        "env_config": env_config(game), "seed": seed, "evaluation": {"interval": 0, "episodes": 1}, "goal": {},
    }  # fmt: skip
    loaded = load_scenario(SCENARIOS / f"{scenario}.yaml", changes=changes)
    with Trainer(scenario=loaded) as trainer:
        while trainer.train()["timesteps_total"] < steps:
            pass
        return float(trainer.evaluate()["episode_reward_mean"])


def measure(algos: Sequence[str], games: Sequence[str], seeds: int, steps: int) -> dict[str, dict[str, list[float]]]:
    console = Console()
    found: dict[str, dict[str, list[float]]] = {}
    for algo in algos:
        found[algo] = {}
        for game in games:
            found[algo][game] = [final_return(algo, game, seed, steps) for seed in range(seeds)]
            console.print(algo, game, found[algo][game])
    return found


def table(found: dict[str, dict[str, list[float]]]) -> Table:
    games = list(next(iter(found.values())))
    shown = Table("algorithm", *games, title="Greedy return at the end of each seed's run")
    for algo, row in found.items():
        shown.add_row(algo, *(" ".join(f"{value:g}" for value in row[game]) for game in games))
    return shown


def main() -> None:
    parser = argparse.ArgumentParser(description="Repeated matrix games for teams.")
    parser.add_argument("--seeds", type=int, default=3, help="seeds 0 to N - 1")
    parser.add_argument("--steps", type=int, default=16_000, help="env steps per seed")
    parser.add_argument("--algos", default=",".join((*VALUES, *GRADIENTS)), help="names, with commas")
    parser.add_argument("--games", default=",".join(GAMES), help="climbing, or k of the penalty game, with commas")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    given = parser.parse_args()
    found = measure(given.algos.split(","), given.games.split(","), given.seeds, given.steps)
    Console().print(table(found))
    if given.json is not None:
        given.json.write_text(json.dumps({"steps": given.steps, "last": found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
