"""From what walks brought to regrets: as traversals computed them, or by a learned value of histories.

ESCHER (McAleer et al., 2023) learns, for the agent whose regrets are looked for,

    q(h, u) <- r + gamma ** elapsed * sum_u' sigma(u' | o') q(h', u')

from games in which this agent plays a fixed policy (all legal actions alike) and the others what they play now. ``h`` is what
all agents see together, not the agent's own view alone. The regret of an action is then

    r(o, u) = q(h, u) - sum_u' sigma(u' | o) q(h, u')

No probability of having come so far divides anything, so that regrets have no more variance in a long game than in a short
one. A different detail from the paper: one set of games serves values and regrets, because the target above looks one decision
ahead with ``sigma`` itself and therefore does not mind that the agent played something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.losses import value_loss
from marl.algos.learner import load_numpy, to_numpy
from marl.algos.optimiser import FlatOptimiser
from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Floats
from marl.policies.config import ModelConfig
from marl.policies.networks import build_mlp, one_hot, seeded


class RegretEstimate(Protocol):
    """How the regrets of an iteration become known."""

    def regrets(self, rows: SampleBatch, lr: float, rng: np.random.Generator) -> tuple[Floats, dict[str, float]]:
        """Regrets ``[N, actions]`` of these decisions, and numbers to report."""

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...


class GivenRegrets:
    """Traversals have played every action: their rows hold the regrets."""

    def __init__(self, kind: AgentType, model: ModelConfig, width: int, config: DeepCfrConfig, seed: int) -> None:
        del kind, model, width, config, seed

    def regrets(self, rows: SampleBatch, lr: float, rng: np.random.Generator) -> tuple[Floats, dict[str, float]]:
        del lr, rng
        return rows["target"], {}

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state


class HistoryValues:
    """``q(h, u)`` of the agents of one policy. ``width``: numbers that tell what everybody sees."""

    def __init__(self, kind: AgentType, model: ModelConfig, width: int, config: DeepCfrConfig, seed: int) -> None:
        self.config, self.seats = config, kind.size
        self.network = build_mlp(width + kind.size, kind.columns.options, model, seeded(seed, 2))
        self.optimiser = FlatOptimiser(
            self.network.parameters(), config.optimizer, config.lr, f"history values of agents {kind.name!r}"
        )

    def regrets(self, rows: SampleBatch, lr: float, rng: np.random.Generator) -> tuple[Floats, dict[str, float]]:
        """Learn the values of what is played now, and compare the actions by them."""
        losses = [self._step(rows, lr, rng) for _ in range(self.config.value_updates)]
        chances = torch.from_numpy(rows["chances"])
        with torch.no_grad():
            values = self.network(self._inputs(rows["history"], rows["agent_index"]))
        regrets = values - (chances * values).sum(1, keepdim=True)
        return regrets.numpy(), {"vf_loss": float(np.mean(losses)), "mean_q": float(values.mean())}

    def _step(self, rows: SampleBatch, lr: float, rng: np.random.Generator) -> float:
        """One gradient step of the values towards one decision ahead."""
        drawn = rows.rows(rng.integers(0, len(rows), self.config.train_batch_size))
        with torch.no_grad():
            ahead = self.network(self._inputs(drawn["new_history"], drawn["agent_index"]))
            expected = (torch.from_numpy(drawn["new_chances"]) * ahead).sum(1)
            target = torch.from_numpy(drawn["rewards"]) + torch.from_numpy(drawn["discount"]) * expected
        found, tape = self.network.run(self._inputs(drawn["history"], drawn["agent_index"]))
        loss, slope = value_loss(found, torch.from_numpy(drawn["actions"]), target)
        self.optimiser.zero()
        self.network.pull(tape, slope)
        self.optimiser.step(self.config.grad_clip, lr)
        return float(loss)

    def _inputs(self, history: Floats, agent_index: Any) -> Tensor:
        """What everybody sees, and whose value it is."""
        seat = one_hot(torch.from_numpy(agent_index), self.seats)
        return torch.cat([torch.from_numpy(history), seat], dim=1)

    def state_dict(self) -> dict[str, Any]:
        return {"network": to_numpy(self.network.state_dict()), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        load_numpy(self.network, state["network"])
        self.optimiser.load_state_dict(state["optimiser"])


ESTIMATES: dict[str, type[GivenRegrets] | type[HistoryValues]] = {"traversals": GivenRegrets, "values": HistoryValues}
"""By the key ``regrets_from``."""
