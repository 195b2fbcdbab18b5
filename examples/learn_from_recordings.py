"""Learn from recorded episodes of mixed quality: behaviour cloning copies the average, MARWIL the better decisions.

python examples/learn_from_recordings.py

Half of the 30,000 env steps of CartPole are random play (about 23 steps per episode), a third looks at the pole's angle alone
(about 42), and only a sixth balances it (500).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import gymnasium
import numpy as np

import marl

Player: TypeAlias = Callable[[Any, np.random.Generator], int]


def at_random(obs: Sequence[float], rng: np.random.Generator) -> int:
    del obs
    return int(rng.integers(2))


def by_angle(obs: Sequence[float], rng: np.random.Generator) -> int:
    del rng
    return int(obs[2] > 0)


def balanced(obs: Sequence[float], rng: np.random.Generator) -> int:
    """Angle and its speed, with a pull to the middle."""
    del rng
    return int(obs[2] + 0.5 * obs[3] + 0.01 * obs[0] + 0.05 * obs[1] > 0)


MIXTURE: tuple[tuple[Player, int], ...] = ((at_random, 15_000), (by_angle, 10_000), (balanced, 5_000))
"""Who plays, and for how many env steps at least."""


def record(directory: Path | str) -> int:
    """Write the mixture; always the same episodes. Gives their number."""
    env, rng = gymnasium.make("CartPole-v1"), np.random.default_rng(0)
    episodes = []
    for player, steps in MIXTURE:
        played = 0
        while played < steps:
            episodes.append(play(env, player, rng))
            played += len(episodes[-1]["actions"])
    env.close()
    return marl.write_trajectories(directory, "CartPole-v1", episodes)


def play(env: gymnasium.Env[Any, Any], player: Player, rng: np.random.Generator) -> dict[str, Any]:
    """One episode in the form that ``write_trajectories`` takes."""
    obs, _ = env.reset(seed=int(rng.integers(2**31)))
    seen, actions, rewards, over, terminated = [obs], [], [], False, False
    while not over:
        actions.append(player(obs, rng))
        obs, reward, terminated, truncated, _ = env.step(actions[-1])
        seen.append(obs)
        rewards.append(float(reward))
        over = terminated or truncated
    return {"obs": seen, "actions": actions, "rewards": rewards, "terminated": terminated}


def main(steps: int = 60_000) -> dict[str, float]:
    """Gives what each algorithm earns after reading so many env steps: the mean of 20 greedy episodes."""
    rewards = {}
    with tempfile.TemporaryDirectory() as folder:
        print(f"recorded {record(folder)} episodes")
        for algo, keys in (("bc", {}), ("marwil", {"beta": 2.0})):
            config = {"input": folder, "fcnet_hiddens": [64, 64], "evaluation": {"interval": 0, "episodes": 20}, **keys}
            with marl.Trainer(algo, env="CartPole-v1", config=config) as trainer:
                while trainer.timesteps_total < steps:
                    trainer.train()
                rewards[algo] = float(trainer.evaluate()["episode_reward_mean"])
            print(f"{algo}: {rewards[algo]:.1f}")
    return rewards


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
