"""Neural fictitious self-play (Heinrich & Silver, 2016): fictitious play with two networks and no table.

    Q:       loss = (Q(o, u) - r - gamma ** elapsed * max_u' Q'(o', u'))^2     over a replay of all decisions  (dqn)
    average: loss = -log pi(u | o)                                            over a reservoir of best responses

Everybody plays its best response in a share ``anticipatory`` of the episodes and its average policy in the others, so the
best response answers nearly to what the others are on average. In two-player zero-sum games the averages approach an
equilibrium.

Details that matter for results: the best response learns from all episodes, the average policy from those alone that the
best response played; the reservoir is an even sample of the whole past, not of the recent one; who played is told by the
recorded log probability (0: the best response); the average policy makes as many updates as the best response.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.config import LearnerConfig
from marl.algos.learner import Learner, LearnerSpec, Metrics, mean_metrics
from marl.algos.marwil.losses import imitation_loss
from marl.algos.nfsp.config import NfspConfig
from marl.algos.nfsp.reservoir import Reservoir
from marl.algos.optimiser import FlatOptimiser
from marl.algos.qmix.learner import QmixLearner
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import PolicyID
from marl.policies.nfsp import NfspPolicy


class NfspLearner(Learner):
    """One policy: nothing joins several of them. ``best`` is a dqn learner of its best response."""

    shares_minibatches = True

    def __init__(self, name: PolicyID, policy: NfspPolicy, config: NfspConfig, best: QmixLearner, seed: int) -> None:
        super().__init__({name: policy}, seed)
        self.name, self.policy, self.config, self.best = name, policy, config, best
        self.kind = best.task.kinds.index(policy.kind)
        self.reservoir = Reservoir(config.reservoir_size)
        self.optimiser = FlatOptimiser(
            policy.average.parameters(), config.optimizer, config.average_lr, f"average of policy {name!r}"
        )
        self.timesteps, self.counters = best.timesteps, best.counters  # it counts for both
        self.clock, self.td_errors = best.clock, best.td_errors

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.nfsp.reading import reading  # knows this class itself

        assert isinstance(config, NfspConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> NfspLearner:
        ((name, policy),) = spec.policies.items()
        config = spec.configs[name]
        assert isinstance(policy, NfspPolicy)
        assert isinstance(config, NfspConfig)
        response = replace(spec, policies={name: policy.best}, configs={name: config.best_response()})
        return cls(name, policy, config, QmixLearner.build(response), spec.seed)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        self.best.set_trained(policies)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            return {}
        # Set anew each time: a restored run, a learner group and callbacks exchange them on this learner alone.
        self.best.rng, self.best.learner_group, self.best.on_batch = self.rng, self.learner_group, self.on_batch
        self.clock.start()
        rows = batch.for_policy(self.name, kind=self.kind)
        self.reservoir.add(_responses(rows), self.rng)
        self.clock.lap("load")
        before = self.counters["num_updates"]
        metrics = self.best.learn(batch)
        due = self.counters["num_updates"] - before  # as many as the best response has just made
        updates = [self._train() for _ in range(due if len(self.reservoir) else 0)]
        if self.policy.keeps_statistics:  # after the updates: all of them saw the same statistics
            self.policy.average.observe(rows["obs"], rows["agent_index"])
        if updates:
            metrics[self.name] |= mean_metrics(self.learner_group.sum_metrics(updates))
            metrics[self.name]["reservoir_rows"] = float(len(self.reservoir))
        return metrics

    def _train(self) -> dict[str, Tensor]:
        """One gradient step of the average policy towards the best responses of the past."""
        drawn = self.reservoir.sample(self.config.train_batch_size, self.rng)
        share, weight = self.learner_group.share(len(drawn)), self.learner_group.weight(len(drawn))
        rows = {n: self.policy.tensor(np.ascontiguousarray(c)) for n, c in drawn.rows(share).items()}
        loss, entropy = self._loss(rows)
        loss = loss * weight
        self.optimiser.zero()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = self.optimiser.step(self.config.grad_clip, self.config.average_lr, self.learner_group)
        return {"average_loss": loss.detach(), "average_entropy": entropy * weight, "average_grad_norm": norm * weight}

    def _loss(self, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
        """``-mean log pi(u | o)`` of best responses, and the average policy's entropy."""
        policy = self.policy
        logits = policy.logits(rows["obs"], rows["agent_index"], rows["legal"])
        logp = policy.distribution.logp(logits, rows["actions"])
        entropy = policy.distribution.entropy(logits).mean().detach()
        return imitation_loss(logp, torch.ones_like(logp)), entropy

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {**self._common_state(), "best": self.best.state_dict(), "average": self.optimiser.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.best.load_state_dict(state["best"])
        self.timesteps, self.counters = self.best.timesteps, self.best.counters
        self.rng.bit_generator.state = state["rng"]
        self.optimiser.load_state_dict(state["average"])
        self._load_bonuses(state)

    def replay_state(self) -> dict[str, Any]:
        return {"best": self.best.replay_state(), "reservoir": self.reservoir.state_dict()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        self.best.load_replay_state(state["best"])
        self.reservoir.load_state_dict(state["reservoir"])


def _responses(rows: SampleBatch) -> SampleBatch:
    """What the best response did: see ``marl.policies.nfsp``."""
    # Exactly 0 is the mark of the best response; the policy keeps the average's below that, even where it is certain.
    mine = rows["action_logp"] == 0.0
    return SampleBatch({column: rows[column][mine] for column in ("obs", "agent_index", "legal", "actions")})
