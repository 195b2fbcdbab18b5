"""Do off-policy estimators know what they do not know? How often the truth lies in their 95 % intervals, where it is known.

    python -m benchmarks.estimators [--repetitions 100] [--episodes 10000] [--json FILE]

In every repetition one policy plays and is recorded as by ``output:``, another one is judged by the files. In a bandit with
three arms that pay around their means, and in the two-step game (Rashid et al., 2018) with two agents, the other one's value
is a small sum.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from marl.offline.estimators import Estimate
from marl.offline.judging import Judge
from marl.offline.source import find_files, who_plays_all
from marl.offline.trajectories import read_trajectories
from marl.policies.policy import Inputs
from marl.policies.stochastic import StochasticPolicy
from marl.training.sources import close_source
from marl.training.trainer import Trainer

ESTIMATORS = ("is", "wis", "dr")
ARMS = np.array([1.0, 2.0, 4.0])
SECOND = np.array([[0.0, 1.0], [1.0, 8.0]])  # what the team is paid in the second state of the risky way
SAFE = 7.0
Truth = Callable[[Trainer], float]


class Bandit(gym.Env[int, int]):
    """One pull of one of three arms, paid by a normal draw around its mean."""

    observation_space = gym.spaces.Discrete(1)
    action_space = gym.spaces.Discrete(3)

    def __init__(self, env_config: Any = None) -> None:
        del env_config

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed, options=options)
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 0, float(ARMS[action] + self.np_random.standard_normal()), True, False, {}


def trainer(env: Any, seed: int, **keys: Any) -> Trainer:
    small = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, "seed": seed}
    return Trainer("ppo", env=env, config={**small, **keys})


def make_decided(judged: Trainer, seed: int) -> None:
    """Policies begin nearly even; this one is to prefer some actions."""
    generator = torch.Generator().manual_seed(seed)
    for policy in judged.policies.values():
        assert isinstance(policy, StochasticPolicy)
        with torch.no_grad():
            *_, bias = policy.model.network.parameters()
            bias += 0.7 * torch.randn(bias.shape, generator=generator)


def chances(judged: Trainer, obs: Any, agent_index: int = 0) -> Any:
    """Of the actions of one agent that sees this."""
    policy = judged.policies["default_policy"]
    shown = np.asarray(obs, policy.kind.obs_dtype).reshape(1, -1)
    inputs = Inputs(shown, np.zeros((1, policy.kind.legal_width), bool), np.array([agent_index]))
    return policy.insight(inputs, np.zeros((1, 0), np.float32), explore=False).probabilities[0]


def bandit_value(judged: Trainer) -> float:
    return float(chances(judged, [0]) @ ARMS)


def two_step_value(judged: Trainer) -> float:
    """The first agent chooses the way; what both do then is paid by a table."""
    env = judged.setup.rollout.env
    from marl.envs.registry import make_batched_env

    world = make_batched_env(env, 1, {})
    start = world.reset(np.array([0]), np.array([0]))
    first = [chances(judged, start.obs[0][0, agent], agent) for agent in (0, 1)]
    second = []
    for way in (0, 1):
        world.reset(np.array([0]), np.array([0]))
        after = world.step([np.array([[way, 0]])])
        second.append([chances(judged, after.obs[0][0, agent], agent) for agent in (0, 1)])
    paid = float(second[1][0] @ SECOND @ second[1][1])
    return float(first[0][0]) * SAFE + float(first[0][1]) * paid


GAMES: dict[str, tuple[Any, int, Truth]] = {
    "bandit": (Bandit, 1, bandit_value),
    "two_step_game": ("two_step_game", 2, two_step_value),
}
"""Env, env steps of an episode, and the true value of a policy."""


def repetition(game: str, seed: int, episodes: int, folder: Path) -> tuple[float, dict[str, Estimate]]:
    """One recording, one policy judged by it: its true value, and the estimates."""
    env, steps, truth = GAMES[game]
    copies = min(1_000, episodes)
    with trainer(env, seed, output=str(folder), num_envs_per_worker=copies) as playing:
        playing.source.collect(steps * -(-episodes // copies))
        close_source(playing.source)
    with trainer(env, seed + 1) as judged:
        make_decided(judged, seed)
        data = read_trajectories(find_files(str(folder)), judged.setup.task, normalize_actions=True)
        judge = Judge(data, judged.policies, list(judged.policies), who_plays_all(judged.setup, data))
        (block,) = judge.measure(ESTIMATORS, gamma=1.0).values()
        return truth(judged), {name: Estimate(**block[name]) for name in ESTIMATORS}


def coverage(game: str, repetitions: int, episodes: int) -> dict[str, dict[str, float]]:
    """By estimator: in how many repetitions the truth was inside, mean width of intervals and mean error."""
    found: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ESTIMATORS}
    for number in range(repetitions):
        with tempfile.TemporaryDirectory() as folder:
            true, estimates = repetition(game, 1_000 * number, episodes, Path(folder))
        for name, (value, low, high) in estimates.items():
            assert value is not None
            assert low is not None
            assert high is not None
            found[name].append((float(low <= true <= high), high - low, value - true))
    summary = {}
    for name, rows in found.items():
        inside, width, error = np.array(rows).T
        summary[name] = {"inside": inside.sum(), "mean_width": width.mean(), "mean_error": error.mean()}
    return summary


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    options = parser.parse_args()
    found = {}
    for game in GAMES:
        found[game] = coverage(game, options.repetitions, options.episodes)
        for name, row in found[game].items():
            print(
                f"{game:14} {name:4} truth inside of its 95 % interval in {row['inside']:.0f} of {options.repetitions}, width "
                f"{row['mean_width']:.4f}, mean error {row['mean_error']:+.4f}"
            )
    if options.json:
        options.json.write_text(json.dumps({**vars(options), "json": None, "found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
