"""Deep CFR and ESCHER by hand: the updates of one iteration in plain torch, for comparison with the learner."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.learner import Walked
from marl.data.task import AgentType


def layers(inputs: int, hiddens: Sequence[int], outputs: int) -> nn.Sequential:
    sizes, parts = [inputs, *hiddens], []
    for wide, narrow in pairwise(sizes):
        parts += [nn.Linear(wide, narrow), nn.Tanh()]
    return nn.Sequential(*parts, nn.Linear(sizes[-1], outputs))


class Regrets:
    """One iteration over the same rows again and again; memories are these rows."""

    def __init__(self, kind: AgentType, config: DeepCfrConfig, walked: Walked, hiddens: Sequence[int]) -> None:
        self.config, self.updates, self.rng = config, 0, np.random.default_rng(0)
        self.regrets = {name: torch.from_numpy(np.asarray(column)) for name, column in walked.regrets.items()}
        self.strategies = {name: torch.from_numpy(np.asarray(column)) for name, column in walked.strategies.items()}
        actions = kind.columns.options
        self.networks = [layers(kind.obs_width, hiddens, actions) for _ in range(2)]
        if "history" in self.regrets:
            self.networks.append(layers(self.regrets["history"].shape[1], hiddens, actions))
        self.optimisers = [torch.optim.Adam(network.parameters(), config.lr, eps=1e-5) for network in self.networks]

    def learn(self) -> None:
        if "history" in self.regrets:
            for _ in range(self.config.value_updates):
                self._step(2, self._value_loss())
        for _ in range(self.config.regret_updates):
            rows = self._drawn(self.regrets)
            target = rows.get("target", torch.zeros(1))
            self._step(0, (self.networks[0](rows["obs"].float()) - target).square().mean())
            self.updates += 1
        for _ in range(self.config.average_updates):
            rows = self._drawn(self.strategies)
            logs = self.networks[1](rows["obs"].float()).log_softmax(1)
            self._step(1, -(rows["target"] * logs).sum(1).mean())

    def _value_loss(self) -> Tensor:
        rows = self._drawn(self.regrets)
        with torch.no_grad():
            ahead = (rows["new_chances"] * self.networks[2](rows["new_history"])).sum(1)
            target = rows["rewards"] + rows["discount"] * ahead
        found = self.networks[2](rows["history"]).gather(1, rows["actions"].unsqueeze(1)).squeeze(1)
        return (found - target).square().mean()

    def _drawn(self, rows: dict[str, Tensor]) -> dict[str, Tensor]:
        places = torch.from_numpy(self.rng.integers(0, len(rows["obs"]), self.config.train_batch_size))
        return {name: column[places] for name, column in rows.items()}

    def _step(self, which: int, loss: Tensor) -> None:
        self.optimisers[which].zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.networks[which].parameters(), self.config.grad_clip or 1e9)
        self.optimisers[which].step()
