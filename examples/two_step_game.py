"""The two-step game by four algorithms: 7 is safe, 8 takes both agents to trust each other in the second step.

python examples/two_step_game.py --run QMIX       # or PG, MADDPG, MAPPO
"""

from __future__ import annotations

import argparse
from pathlib import Path

import marl

SCENARIOS = {"PG": "two_step_pg", "MADDPG": "two_step_maddpg", "QMIX": "two_step_game", "MAPPO": "two_step_mappo"}
FOLDER = Path(__file__).parents[1] / "scenarios"


def main(algo: str = "QMIX", seed: int = 0) -> float:
    """Gives the team's reward of the last greedy evaluation."""
    scenario = marl.load_scenario(FOLDER / f"{SCENARIOS[algo]}.yaml").model_copy(update={"seed": seed})
    with marl.Trainer(scenario=scenario) as trainer:
        while trainer.timesteps_total < scenario.stop["timesteps_total"]:
            result = trainer.train()
            print(f"{result['timesteps_total']:6d} steps, team reward {result['episode_reward_mean']:.2f}")
        reward: float = trainer.evaluate()["episode_reward_mean"]
    print(f"{algo}: {reward}")
    return reward


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", choices=SCENARIOS, default="QMIX")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    main(given.run, given.seed)
