"""A critic that sees everybody, by a callback: others' observations are filled in before anybody learns.

Each agent's observation has room for those of all agents, which stays empty while it plays. A callback fills it in. The
model of the policy looks at the agent's own part alone, that of the critic at the room. ``critic_sees: all`` does the
same without a line of code; this is the way to let a critic see something else.

    python examples/critic_by_callback.py
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor, nn

import marl

WIDTH = 4  # numbers that an agent of the two-step game sees


class Roomy(marl.MultiAgentEnv):
    """The two-step game; observations end with room for those of all agents."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.game: Any = marl.make_env("two_step_game", config)
        self.possible_agents = self.game.possible_agents
        self.space = spaces.Box(0.0, 3.0, (WIDTH * (1 + len(self.possible_agents)),), np.float32)

    def observation_space(self, agent: str) -> Any:
        return self.space

    def action_space(self, agent: str) -> Any:
        return self.game.action_space(agent)

    def _roomy(self, obs: Mapping[str, Any]) -> dict[str, Any]:
        room = np.zeros(self.space.shape[0] - WIDTH, np.float32)
        return {agent: np.concatenate([seen, room]).astype(np.float32) for agent, seen in obs.items()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, infos = self.game.reset(seed=seed)
        return self._roomy(obs), infos

    def step(self, actions: dict[str, Any]) -> Any:
        obs, *rest = self.game.step(actions)
        return self._roomy(obs), *rest


class SeeEverybody(marl.Callbacks):
    """Everybody decides in every step, so the rows of all agents belong to the same steps."""

    def on_postprocess_trajectory(
        self, *, postprocessed_batch: Any, original_batches: Mapping[str, Any], **_: Any
    ) -> None:
        for column in ("obs", "new_obs"):
            seen = [original_batches[agent][column][:, :WIDTH] for agent in sorted(original_batches)]
            postprocessed_batch[column][:, WIDTH:] = np.concatenate(seen, axis=1)


class OwnOrAll(marl.Model):
    """The policy (two outputs, one per action) sees its own part; the critic (one output) the room."""

    def __init__(self, inputs: int, outputs: int, config: Mapping[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.critic = outputs == 1
        seen = 3 * WIDTH - WIDTH if self.critic else WIDTH
        self.layers = nn.Sequential(nn.Linear(seen, 32), nn.Tanh(), nn.Linear(32, outputs))

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        seen = features[:, WIDTH : 3 * WIDTH] if self.critic else features[:, :WIDTH]
        out: Tensor = self.layers(seen)
        return out, carry


def main(iterations: int = 25) -> float:
    marl.register_model("own_or_all", OwnOrAll)
    config = {
        "callbacks": SeeEverybody,
        "custom_model": "own_or_all",
        "num_envs_per_worker": 8,
        "train_batch_size": 256,
        "sgd_minibatch_size": 64,
        "lr": 0.005,
        "entropy_coeff": 0.02,
        "evaluation": {"interval": iterations, "episodes": 5},
        "seed": 1,
    }
    with marl.Trainer("ppo", env=Roomy, config=config) as trainer:
        for _ in range(iterations):
            result = trainer.train()
    reward: float = result["evaluation"]["episode_reward_mean"]
    print(f"reward {reward:.1f} (7 is the safe choice, 8 the best)")
    return reward


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*map(int, sys.argv[1:]))
