"""Envs, callbacks and small keys of the scripts; at module level, so that Ray's processes find them."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import marl

PPO: dict[str, Any] = {
    "train_batch_size": 64,
    "sgd_minibatch_size": 64,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}
PG: dict[str, Any] = {"train_batch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
DQN: dict[str, Any] = {
    "timesteps_per_iteration": 64,
    "buffer_size": 1000,
    "learning_starts": 32,
    "train_batch_size": 16,
    "fcnet_hiddens": [8],
    "evaluation": {"interval": 0},
}
FLAGS = ("--set", "fcnet_hiddens=[8]", "--set", "evaluation.interval=0", "--stop-iters", 1)


class MyEnv(gym.Env[Any, Any]):
    """A number from 0 to 3 that has to be named; with ``set_phase`` it is paid more."""

    def __init__(self, env_config: Any = None) -> None:
        self.env_config = env_config
        self.observation_space = spaces.Box(0.0, 3.0, (1,), np.float32)
        self.action_space = spaces.Discrete(4)
        self.phase = 0

    def set_phase(self, phase: int) -> None:
        self.phase = phase

    def _see(self) -> Any:
        self.number = int(self.np_random.integers(4))
        return np.array([self.number], np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.left = 4
        return self._see(), {}

    def step(self, action: Any) -> Any:
        self.left -= 1
        reward = float(action == self.number) + self.phase
        return self._see(), reward, self.left == 0, False, {"left": self.left}


SEEN: dict[str, Any] = {"car": spaces.Discrete(5), "light": spaces.Box(0.0, 1.0, (2,), np.float32)}
DONE: dict[str, Any] = {"car": spaces.Discrete(3), "light": spaces.Discrete(2)}


class Traffic(marl.MultiAgentEnv):
    """Two cars and a light that decides every other step only; the second car leaves early."""

    possible_agents = ("car_1", "car_2", "traffic_light_1")

    def __init__(self, config: Any = None) -> None:
        self.t = 0

    def observation_space(self, agent: str) -> Any:
        return SEEN["car" if agent.startswith("car") else "light"]

    def action_space(self, agent: str) -> Any:
        return DONE["car" if agent.startswith("car") else "light"]

    def _see(self) -> dict[str, Any]:
        seen: dict[str, Any] = {"car_1": self.t % 5}
        if self.t < 3:
            seen["car_2"] = self.t % 5
        if self.t % 2 == 0:
            seen["traffic_light_1"] = np.zeros(2, np.float32)
        return seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self._see(), {}

    def step(self, actions: dict[str, Any]) -> Any:
        self.t += 1
        rewards = {agent: float(action) for agent, action in actions.items()}
        gone = {"car_2": self.t == 2, "__all__": self.t == 6}
        seen = self._see()
        return seen, rewards, gone, {"__all__": False}, {agent: {"t": self.t} for agent in seen}


def phase_of(reward: float) -> int:
    """Harder as soon as the present task is played well."""
    return 2 if reward > 20 else 1 if reward > -1 else 0


def train(config: dict[str, Any], reporter: marl.tune.Reporter) -> None:
    """A training function that raises the phase in all copies of the env."""
    with marl.Trainer("ppo", env=MyEnv, config={**PPO, **config}) as trainer:
        while True:
            result = trainer.train()
            phase = phase_of(result["episode_reward_mean"])
            trainer.workers.foreach_worker(lambda ev: ev.foreach_env(lambda env: env.set_phase(phase)))  # noqa: B023
            phases = trainer.workers.foreach_env(lambda env: env.unwrapped.phase)
            reporter(**result, phases=phases[0])


def raise_phase(info: dict[str, Any]) -> None:
    """The same as a callback."""
    phase = phase_of(info["result"]["episode_reward_mean"])
    info["trainer"].workers.foreach_worker(lambda ev: ev.foreach_env(lambda env: env.set_phase(phase)))
    info["result"]["phase"] = phase


def on_episode_start(info: dict[str, Any]) -> None:
    info["episode"].user_data["pole_angles"] = []


def on_episode_step(info: dict[str, Any]) -> None:
    episode = info["episode"]
    episode.user_data["pole_angles"].append(abs(episode.last_observation_for()[2]))


def on_episode_end(info: dict[str, Any]) -> None:
    episode = info["episode"]
    episode.custom_metrics["pole_angle"] = np.mean(episode.user_data["pole_angles"])


def on_train_result(info: dict[str, Any]) -> None:
    info["result"]["told"] = (type(info["trainer"]).__name__, info["result"]["episodes_this_iter"])


def on_postprocess_trajectory(info: dict[str, Any]) -> None:
    batch = info["postprocessed_batch"]
    batch["rewards"][:] = 0.5
    info["episode"].user_data["steps"] = batch.count


EPISODE_HOOKS = {
    "on_episode_start": on_episode_start,
    "on_episode_step": on_episode_step,
    "on_episode_end": on_episode_end,
    "on_train_result": on_train_result,
}


class MyCallbacks(marl.Callbacks):
    """Every hook of the class in the third document."""

    def on_episode_start(
        self, *, worker: Any, base_env: Any, policies: Any, episode: Any, env_index: Any, **_: Any
    ) -> None:
        episode.user_data["pole_angles"], episode.hist_data["pole_angles"] = [], []

    def on_episode_step(self, *, worker: Any, base_env: Any, episode: Any, env_index: Any, **_: Any) -> None:
        angle = abs(episode.last_observation_for()[2])
        assert angle == abs(episode.last_raw_obs_for()[2])
        episode.user_data["pole_angles"].append(angle)

    def on_episode_end(
        self, *, worker: Any, base_env: Any, policies: Any, episode: Any, env_index: Any, **_: Any
    ) -> None:
        episode.custom_metrics["pole_angle"] = np.mean(episode.user_data["pole_angles"])
        episode.hist_data["pole_angles"] = episode.user_data["pole_angles"]

    def on_sample_end(self, *, worker: Any, samples: Any, **_: Any) -> None:
        self.collected = samples.count

    def on_learn_on_batch(self, *, policy: Any, policy_id: Any, train_batch: Any, result: Any, **_: Any) -> None:
        result["sum_actions_in_train_batch"] = float(np.sum(train_batch["actions"]))

    def on_postprocess_trajectory(
        self, *, worker: Any, episode: Any, agent_id: Any, policy_id: Any, policies: Any, postprocessed_batch: Any,
        original_batches: Any, **_: Any,
    ) -> None:  # fmt: skip
        assert postprocessed_batch.count > 0
        episode.custom_metrics["num_batches"] = episode.custom_metrics.get("num_batches", 0) + 1

    def on_train_result(self, *, trainer: Any, result: Any, **_: Any) -> None:
        result["callback_ok"] = True
