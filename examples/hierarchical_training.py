"""Flat and hierarchical PPO in the windy maze, where only the exit, five rooms away, pays.

python examples/hierarchical_training.py                 # two levels: solved after some 200,000 env steps
python examples/hierarchical_training.py --levels 3
python examples/hierarchical_training.py --flat          # does not find the exit
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import marl
from marl.envs.hierarchy.env import HierarchicalEnv

SCENARIOS = Path(__file__).parents[1] / "scenarios"


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Trains until the exit is found in nine of ten greedy episodes, or the steps are used up; gives the last result."""
    parser = argparse.ArgumentParser(description="Train in the windy maze.")
    parser.add_argument("--flat", action="store_true", help="One level only: plain PPO.")
    parser.add_argument("--levels", type=int, choices=[2, 3], default=2)
    parser.add_argument("--steps", type=int, default=491_520, help="Env steps, commanders' own steps included.")
    given = parser.parse_args(arguments)
    name = "flat" if given.flat else {2: "two_levels", 3: "three_levels"}[given.levels]
    scenario = marl.load_scenario(SCENARIOS / f"windy_maze_{name}.yaml")
    policy = "default_policy" if given.flat else "top_level"
    with marl.Trainer(scenario=scenario) as trainer:
        env = marl.make_env(scenario.env, scenario.env_config, scenario.wrappers)
        if isinstance(env, HierarchicalEnv):
            print("command:", ", ".join(f"{boss} -> {name}" for boss, name in env.command_graph().edges))
        result = trainer.train()
        while result["timesteps_total"] < given.steps:
            result = trainer.train()
            if "evaluation" in result:
                found = result["evaluation"]["policy_reward_mean"][policy]
                print(f"{result['timesteps_total']:7d} env steps: the exit was found in {found:.0%} of 20 episodes")
                if found >= 0.9:
                    break
    return result


if __name__ == "__main__":
    main()
