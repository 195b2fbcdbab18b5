"""Random network distillation (Burda et al., 2018): what a network has not learned to predict is new.

    bonus(o') = mean_k (p_k(o') - f_k(o'))^2        f: a random network that never changes,  p: learns to predict it
    loss(p)   = mean of the same over a round's decisions

Details that matter for results: observations are normalised by running statistics, which see a round before it is valued;
a round is valued before the predictor learns from it; bonuses are divided by the running deviation of their discounted sums
(``bonuses.py``). Other than in the paper there is one critic for both rewards: the bonus is discounted by the algorithm's
``gamma``, and it ends with the episode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from marl.algos.intrinsic.kind import INTRINSIC, IntrinsicReward, IntrinsicSpec
from marl.data.batch import SampleBatch
from marl.data.task import Array, Floats
from marl.policies.networks import Body, seeded

FIXED, LEARNED, SHUFFLE = 41, 42, 43  # streams of random numbers, next to those of policies and critics


class RandomNetworkDistillation(IntrinsicReward):
    """Two networks of one shape over the policy's own features; one of them learns to be like the other."""

    description = "outcomes that a network predicts badly, which learns from all that was seen (Burda et al., 2018)"
    keys: ClassVar = ("lr", "hiddens", "embedding", "update_share", "minibatch_size")
    rescaled = True

    def __init__(self, spec: IntrinsicSpec) -> None:
        from marl.algos.config import OptimizerConfig  # knows the keys of intrinsic rewards itself
        from marl.algos.optimiser import FlatOptimiser

        super().__init__(spec)
        self.fixed = self._network(FIXED)
        self.predictor = self._network(LEARNED)
        parameters = list(self.predictor.parameters())
        self.optimiser = FlatOptimiser(parameters, OptimizerConfig(), self.config.lr, "the predictor of rnd")
        self.rng = np.random.default_rng([spec.seed, SHUFFLE])

    def _network(self, stream: int) -> Body:
        """Features and vision net as the policy has them, layers of its own, nothing that remembers."""
        spec = self.spec
        layers = {
            "fcnet_hiddens": list(self.config.hiddens),
            "fcnet_activation": "relu",
            "post_fcnet_hiddens": [],
            "observation_filter": "MeanStdFilter",
        }
        model = spec.model.model_copy(update=layers)
        body = Body(spec.agents, model, self.config.embedding, seeded(spec.seed, stream), memory=False)
        return body.to(spec.device)

    def observe(self, rows: SampleBatch) -> None:
        for network in (self.fixed, self.predictor):
            network.observe(rows["new_obs"], rows["agent_index"])

    @torch.no_grad()
    def bonus(self, rows: SampleBatch) -> Floats:
        seen = self._seen(rows, slice(None))
        errors = (self.predictor(*seen) - self.fixed(*seen)).square().mean(dim=1)
        found: Floats = errors.cpu().numpy()
        return found

    def learn(self, rows: SampleBatch) -> dict[str, float]:
        losses = [self._update(rows, minibatch) for minibatch in self._minibatches(len(rows))]
        return {"intrinsic_loss": float(np.mean(losses))} if losses else {}

    @torch.no_grad()
    def _update(self, rows: SampleBatch, minibatch: Array) -> float:
        """One gradient step of the predictor."""
        seen = self._seen(rows, minibatch)
        wanted = self.fixed(*seen)
        self.optimiser.zero()
        predicted, tape = self.predictor.run(*seen)
        errors = predicted - wanted
        self.predictor.pull(tape, errors * (2 / errors.numel()))  # d mean(errors^2) / d predicted
        self.optimiser.step(None, self.config.lr)
        return float(errors.square().mean())

    def _minibatches(self, count: int) -> Iterator[Array]:
        """Shuffled parts of the share of rows that is learned from, at least one row."""
        learned = min(count, max(1, round(self.config.update_share * count)))
        order = self.rng.permutation(count)[:learned]
        for first in range(0, learned, self.config.minibatch_size):
            yield order[first : first + self.config.minibatch_size]

    def _seen(self, rows: SampleBatch, part: Array | slice) -> tuple[Tensor, Tensor]:
        """What the decisions led to, and whose they were."""
        found = []
        for column in ("new_obs", "agent_index"):
            found.append(torch.from_numpy(np.ascontiguousarray(rows[column][part])).to(self.spec.device))
        return found[0], found[1]

    def state_dict(self) -> dict[str, Any]:
        networks = {}
        for name, network in (("fixed", self.fixed), ("predictor", self.predictor)):
            weights = network.state_dict()
            networks[name] = {part: tensor.cpu().numpy().copy() for part, tensor in weights.items()}
        return {**networks, "optimiser": self.optimiser.state_dict(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, network in (("fixed", self.fixed), ("predictor", self.predictor)):
            network.load_state_dict({part: torch.from_numpy(np.array(array)) for part, array in state[name].items()})
        self.optimiser.load_state_dict(state["optimiser"])
        self.rng.bit_generator.state = state["rng"]


INTRINSIC.register("rnd", RandomNetworkDistillation)
