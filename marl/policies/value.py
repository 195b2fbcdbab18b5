"""Greedy over learned action values, with an epsilon of random play."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from marl.data.task import Bools, Floats, Kind
from marl.errors import SpaceMismatchError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import ILLEGAL, race
from marl.policies.exploration import epsilon_greedy
from marl.policies.networks import Features, build_mlp, seeded
from marl.policies.policy import Decision, Inputs, Policy


class ValuePolicy(Policy):
    """Plays the action of the highest value. ``dueling``: value of the state plus centred advantages."""

    def __init__(self, kind: Kind, spec: PolicySpec) -> None:
        super().__init__(kind)
        if not isinstance(kind.action_space, spaces.Discrete):
            raise SpaceMismatchError(
                f"action values need Discrete actions, but agents {kind.agents[0]!r}, ... have {kind.action_space}. "
                "Use ppo, a2c, pg or mappo for them."
            )
        self.num_actions = int(kind.action_space.n)
        self.features = Features(kind, spec.agent_id)
        self.dueling = spec.dueling
        outputs = self.num_actions + int(self.dueling)
        self.network = build_mlp(self.features.size, outputs, spec.model, seeded(spec.seed))
        self.exploration = epsilon_greedy(spec.exploration or ExplorationConfig(type="EpsilonGreedy"))

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        with torch.inference_mode():
            values = self.values(self.features.of(inputs, self.network.device)).cpu().numpy()
        if inputs.legal.shape[1]:
            values = np.where(inputs.legal, values, np.float32(ILLEGAL))
        actions = values.argmax(axis=1)
        epsilon = float(self.exploration.value) if explore else 0.0
        if epsilon > 0.0:
            random = rng.random(len(actions), np.float32) < epsilon
            actions = np.where(random, race(self._choices(inputs.legal, len(actions)), rng), actions)
        return Decision(actions, np.zeros(len(actions), np.float32), carry)

    def values(self, features: Tensor) -> Tensor:
        """``[N, num_actions]``."""
        out: Tensor = self.network(features)
        if not self.dueling:
            return out
        state, advantage = out[..., :1], out[..., 1:]
        return state + advantage - advantage.mean(-1, keepdim=True)

    def anneal(self, timesteps: int) -> None:
        self.exploration.anneal(timesteps)

    def _choices(self, legal: Bools, rows: int) -> Floats:
        return legal.astype(np.float32) if legal.shape[1] else np.ones((rows, self.num_actions), np.float32)
