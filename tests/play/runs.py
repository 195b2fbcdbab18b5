"""Small runs whose policies are known, and envs whose every number is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from marl import Trainer
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult
from marl.play.playable import Playable
from marl.policies.policy import Policy

QUIET = {"fcnet_hiddens": [4], "evaluation": {"interval": 0}}
PPO = {**QUIET, "train_batch_size": 64, "sgd_minibatch_size": 64}
LSTM = {"use_lstm": True, "lstm_cell_size": 6, "lstm_use_prev_action": True, "lstm_use_prev_reward": True}


def trained(folder: Path, env: str, algo: str = "ppo", seed: int = 0, loud: bool = False, **keys: Any) -> Path:
    """A checkpoint of an untrained run; ``loud``: with large random weights, so that its policies have opinions."""
    basis = PPO if algo in ("ppo", "mappo") else QUIET
    with Trainer(algo, env=env, config={**basis, "seed": seed, **keys}) as trainer:
        if loud:
            for policy in trainer.policies.values():
                _shout(policy, seed)
            trainer.set_weights(trainer.get_weights())
        return Path(trainer.save(folder))


def _shout(policy: Policy, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))


def constant(folder: Path, env: str, outputs: Mapping[str, list[float]], algo: str = "ppo", **keys: Any) -> Path:
    """A checkpoint whose policies' last layers give these numbers whatever is seen: logits, or action values."""
    basis = PPO if algo == "ppo" else {**QUIET, "dueling": False}
    keys = {"multiagent": {"policy_mapping_fn": "per_agent"}, **keys}
    with Trainer(algo, env=env, config={**basis, **keys}) as trainer:
        weights = trainer.get_weights()
        for name, numbers in outputs.items():
            for key, array in weights[name].items():
                if key.startswith("model.network"):
                    array[...] = 0
                    if array.shape == (len(numbers),):
                        array[...] = numbers
        trainer.set_weights(weights)
        return Path(trainer.save(folder))


def opened(path: Path) -> Playable:
    return Playable.open(path, frozenset({"tests"}))


ACTIONS = spaces.Discrete(3)


class Digits(MultiAgentEnv):
    """Six steps; the action of step t pays action * 4^t, so that a return tells every action of the episode.

    Agents see numbers that follow from the seed. It has no get_state: it comes back by its actions.
    """

    possible_agents = ("one", "two")
    length = 6

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        del env_config
        self.t = 0
        self.numbers = np.zeros((7, 2, 3), np.float32)
        self.space = spaces.Box(-4, 4, (3,), np.float32)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.space

    def action_space(self, agent: AgentID) -> AnySpace:
        return ACTIONS

    def _obs(self) -> dict[AgentID, Any]:
        return {agent: self.numbers[self.t, i] for i, agent in enumerate(self.possible_agents)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        self.numbers = np.random.default_rng(seed).uniform(-2, 2, (7, 2, 3)).astype(np.float32)
        return self._obs(), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        rewards = {agent: float(action * 4**self.t) for agent, action in actions.items()}
        self.t += 1
        return StepResult(self._obs(), rewards, {"__all__": self.t == self.length}, {}, {})


class StoredDigits(Digits):
    """The same with a state of its own."""

    def get_state(self) -> Any:
        return {"t": self.t, "numbers": self.numbers.copy()}

    def set_state(self, state: Any) -> None:
        self.t, self.numbers = state["t"], np.array(state["numbers"])


class Dice(MultiAgentEnv):
    """One decision, then two steps. Action 0 pays one normal number, action 1 the second one of two plus 0.3: so the means
    differ by 0.3, and the two ways share no luck in this step. The last step pays another normal number in both."""

    possible_agents = ("gambler",)

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        del env_config
        self.rng = np.random.default_rng(0)
        self.t = 0
        self.space = spaces.Box(0, 3, (1,), np.float32)
        self.steps_played = 0

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.space

    def action_space(self, agent: AgentID) -> AnySpace:
        return spaces.Discrete(2)

    def _obs(self) -> dict[AgentID, Any]:
        return {"gambler": np.array([self.t], np.float32)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng = np.random.default_rng(seed)
        self.t = 0
        return self._obs(), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        paid = self.rng.normal()
        if self.t == 0 and actions["gambler"] == 1:
            paid = self.rng.normal() + 0.3
        self.t += 1
        return StepResult(self._obs(), {"gambler": paid}, {"gambler": self.t == 2}, {}, {})


class Forgetful(Dice):
    """Looks different each time, whatever the seed."""

    made = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        Forgetful.made += 1
        return super().reset(seed=seed)

    def _obs(self) -> dict[AgentID, Any]:
        return {"gambler": np.array([Forgetful.made % 3], np.float32)}


class Fair(Dice):
    """Whatever is done, the same is drawn and paid."""

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        return super().step({"gambler": 0})


class Endless(Dice):
    """Pays 1 in every step and does not end after action 1."""

    on = False

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        self.on = self.t > 0 and (self.on or actions["gambler"] == 1)
        self.t = min(self.t + 1, 3)
        return StepResult(self._obs(), {"gambler": 1.0}, {"gambler": self.t >= 2 and not self.on}, {}, {})

    def get_state(self) -> Any:
        return {"t": self.t, "on": self.on}

    def set_state(self, state: Any) -> None:
        self.t, self.on = state["t"], state["on"]
