"""What policies that are one network have in common: ``Body`` from observations to outputs, and a way to explore."""

from __future__ import annotations

from torch import nn

from marl.data.task import Array, Ints
from marl.policies.exploration import Exploration
from marl.policies.networks import Body, Features
from marl.policies.policy import Policy


class NetworkPolicy(Policy):
    """A derived class builds ``exploration`` and ``model`` and says what the outputs mean; ``set_model`` tells players and
    learners what the model remembers and keeps count of."""

    model: Body
    exploration: Exploration

    def set_model(self, model: Body) -> None:
        self.model = model
        self.carry_size, self.remembers_reward = model.carry_size, bool(model.prev_reward)
        self.keeps_statistics = model.filter is not None

    @property
    def network(self) -> nn.Module:
        """The fully connected layers, or the custom model."""
        return self.model.network

    @property
    def features(self) -> Features:
        """From stored observations to what the first layer sees."""
        return self.model.features

    def anneal(self, timesteps: int) -> None:
        self.exploration.anneal(timesteps)

    def place(self, index: int, total: int) -> None:
        self.exploration.place(index, total)

    def observe(self, obs: Array, agent_index: Ints) -> None:
        self.model.observe(obs, agent_index)
