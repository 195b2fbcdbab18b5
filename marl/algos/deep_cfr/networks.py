"""What counterfactual regret minimisation keeps of one policy besides the policy: regrets, and memories of both."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.estimates import ESTIMATES, RegretEstimate
from marl.algos.deep_cfr.losses import matched
from marl.algos.deep_cfr.memory import MEMORIES, Memory
from marl.algos.learner import load_numpy, to_numpy
from marl.algos.optimiser import FlatOptimiser
from marl.data.task import AgentType
from marl.policies.config import ModelConfig
from marl.policies.networks import Body, seeded
from marl.policies.policy import Inputs


class RegretNetwork:
    """Regrets ``[N, actions]`` of what agents see, and the strategy that follows from them."""

    def __init__(self, kind: AgentType, model: ModelConfig, seed: int) -> None:
        self.kind, self.config = kind, model
        self.body = self._fresh(seed)

    def _fresh(self, seed: int) -> Body:
        # Zeros at first: whoever knows of no regret plays all actions alike.
        own = self.kind.size > 1  # one network for several agents has to tell them apart, whatever the policy does
        return Body(self.kind, self.config, self.kind.columns.options, seeded(seed, 1), agent_id=own, last_gain=0.0)

    def begin_anew(self, seed: int) -> None:
        """New weights in the old tensors, which the optimiser has views of; statistics of observations stay."""
        fresh = self._fresh(seed)
        with torch.no_grad():
            for mine, new in zip(self.body.parameters(), fresh.parameters(), strict=True):
                mine.copy_(new)

    def strategy(self, inputs: Inputs) -> NDArray[np.float64]:
        """What it plays now ``[N, actions]``: regret matching."""
        with torch.inference_mode():
            regrets = self.body(torch.from_numpy(inputs.obs), torch.from_numpy(inputs.agent_index)).numpy()
        return matched(regrets, all_legal(inputs.legal, regrets.shape[1]))


class RegretPart:
    """The networks, optimisers and memories of one policy."""

    def __init__(self, kind: AgentType, model: ModelConfig, width: int, config: DeepCfrConfig, seed: int) -> None:
        self.network = RegretNetwork(kind, model, seed)
        self.optimiser = FlatOptimiser(
            self.network.body.parameters(), config.optimizer, config.lr, f"regrets of agents {kind.name!r}"
        )
        self.estimate: RegretEstimate = ESTIMATES[config.regrets_from](kind, model, width, config, seed)
        memory = MEMORIES[config.memory_of]
        self.regrets: Memory = memory(config.memory_size)
        self.strategies: Memory = memory(config.memory_size)

    def begin_anew(self, seed: int) -> None:
        self.network.begin_anew(seed)
        self.optimiser.load_state_dict({})  # momentum of the old weights would move the new ones

    def state_dict(self) -> dict[str, Any]:
        return {
            "network": to_numpy(self.network.body.state_dict()), "optimiser": self.optimiser.state_dict(),
            "estimate": self.estimate.state_dict(),
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        load_numpy(self.network.body, state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        self.estimate.load_state_dict(state["estimate"])

    def replay_state(self) -> dict[str, Any]:
        return {"regrets": self.regrets.state_dict(), "strategies": self.strategies.state_dict()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        self.regrets.load_state_dict(state["regrets"])
        self.strategies.load_state_dict(state["strategies"])


def all_legal(legal: NDArray[np.bool_], actions: int) -> NDArray[np.bool_]:
    """Masks ``[N, actions]``, also where everything is legal and none are kept."""
    if legal.shape[1]:
        return legal
    return np.ones((len(legal), actions), bool)
