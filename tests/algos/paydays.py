"""Runs of sac that last a moment, and an env of one decision whose best play is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from marl import Trainer
from marl.algos.sac.actor_critic import SoftActorCritic
from marl.algos.sac.learner import SacLearner
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult

SMALL = {
    "fcnet_hiddens": [16], "train_batch_size": 32, "learning_starts": 40, "buffer_size": 400, "rollout_fragment_length": 5,
    "timesteps_per_iteration": 80, "updates_per_step": 0.25, "num_envs_per_worker": 2, "evaluation": {"interval": 0},
}  # fmt: skip
LEARN = {
    "learning_starts": 40, "updates_per_step": 0.5, "timesteps_per_iteration": 1000, "lr": 0.01, "tau": 0.1,
    "train_batch_size": 64, "num_envs_per_worker": 8,
}  # fmt: skip


def trainer(env: Any, **keys: Any) -> Trainer:
    return Trainer("sac", env=env, config={**SMALL, **keys})


def learner_of(run: Trainer) -> SacLearner:
    found = run.learners[0]
    assert isinstance(found, SacLearner)
    return found


def pupil_of(run: Trainer, name: str = "default_policy") -> SoftActorCritic:
    return learner_of(run).actor_critics[name]


class Payday(MultiAgentEnv):
    """One decision, then the end. Discrete agents are paid by a table, Box agents ``-(a - 0.5)^2``."""

    def __init__(self, tables: Mapping[AgentID, list[float] | None], legal: list[int] | None = None) -> None:
        self.tables, self.legal = tables, legal
        self.possible_agents = tuple(tables)

    def observation_space(self, agent: AgentID) -> AnySpace:
        width = 2 if self.tables[agent] is None else 3
        box = spaces.Box(-1, 1, (width,), np.float32)
        return spaces.Dict({"observation": box, "action_mask": spaces.MultiBinary(3)}) if self.legal else box

    def action_space(self, agent: AgentID) -> AnySpace:
        table = self.tables[agent]
        return spaces.Box(-2, 2, (1,), np.float32) if table is None else spaces.Discrete(len(table))

    def _obs(self) -> dict[AgentID, Any]:
        found = {a: np.full(2 if table is None else 3, 0.5, np.float32) for a, table in self.tables.items()}
        if not self.legal:
            return found
        return {a: {"observation": o, "action_mask": np.array(self.legal, np.int8)} for a, o in found.items()}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._obs(), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        rewards = {}
        for agent, action in actions.items():
            table = self.tables[agent]
            rewards[agent] = -float((action[0] - 0.5) ** 2) if table is None else table[int(action)]
        ended = dict.fromkeys(self.tables, True)
        return StepResult(self._obs(), rewards, ended, {}, {})
