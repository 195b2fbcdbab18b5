"""What policies that are one network have in common: ``Body`` from observations to outputs, and a way to explore."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.task import Array, Floats, Ints
from marl.policies.exploration import Exploration, ParameterNoise
from marl.policies.networks import Body, Features, encode_actions
from marl.policies.policy import Inputs, Policy

MEASURED = 256  # rows of a round by which noise on weights is measured


class NetworkPolicy(Policy):
    """A derived class builds ``exploration`` and ``model`` and says what the outputs mean; ``set_model`` tells players and
    learners what the model remembers and keeps count of."""

    model: Body
    exploration: Exploration

    def set_model(self, model: Body) -> None:
        self.model = model
        self.carry_size, self.remembers_reward = model.carry_size, bool(model.prev_reward)
        self.keeps_statistics = model.filter is not None

    def use_noisy_weights(self) -> None:
        """The exploration is noise on weights: it needs lots of episodes, and learns from what a round saw."""
        self.draws_lots = self.keeps_statistics = True

    def recarried(self, inputs: Inputs, before: Floats, after: Floats, actions: Array) -> Floats:
        del inputs, before
        width = self.model.prev_action
        if not width:
            return after
        # The memory has not seen the action yet: it stands beside it, until the next decision reads both.
        first = self.model.memory_size
        encoded = encode_actions(self.kind.columns, torch.from_numpy(np.ascontiguousarray(actions)))
        changed = after.copy()
        changed[:, first : first + width] = encoded.numpy()
        return changed

    def outputs(self, inputs: Inputs, carry: Floats) -> Tensor:
        """What the network gives for these decisions."""
        obs, index, _ = self.tensors(inputs, self.model.device)
        if not self.model.carry_size:
            out: Tensor = self.model(obs, index)
            return out
        return self.model.step(obs, index, torch.from_numpy(carry).to(self.model.device))[0]

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
        if isinstance(self.exploration, ParameterNoise) and len(obs):
            self._adapt(self.exploration, obs[-MEASURED:], agent_index[-MEASURED:])

    def _adapt(self, noise: ParameterNoise, obs: Array, agent_index: Ints) -> None:
        with torch.no_grad():
            seen, index = (
                torch.from_numpy(obs).to(self.model.device),
                torch.from_numpy(agent_index).to(self.model.device),
            )
            carry = torch.zeros(len(seen), self.model.carry_size, device=self.model.device)
            plain = self.model.step(seen, index, carry)[0] if self.model.carry_size else self.model(seen, index)

            def measure(lot: float) -> float:
                with noise.perturbed(self.model, lot):
                    out = self.model.step(seen, index, carry)[0] if self.model.carry_size else self.model(seen, index)
                return self.distance(plain, out)

            noise.adapt(measure, self.furthest(noise.distance))

    def distance(self, plain: Tensor, noisy: Tensor) -> float:
        """How differently two networks play, by their outputs for the same rows."""
        raise NotImplementedError

    def furthest(self, distance: float) -> float:
        """The most that ``distance`` may give, by the key ``noise_distance``."""
        return distance
