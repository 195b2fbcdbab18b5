"""Counterfactual regret minimisation with networks: Deep CFR (Brown et al., 2019) and ESCHER (McAleer et al., 2023).

    for t = 1, 2, ...:
        for every agent i:  play games in which i looks for regrets and all others play sigma      (``training/walks.py``)
            regrets r_t(o, u) of i's decisions          into the memory of regrets, with the weight t
            sigma_t(. | o) of the others' decisions     into the memory of strategies, with the weight t
        R  <- argmin sum t (R(o, u) - r_t(o, u))^2      a new network, on the memory of regrets
        pi <- argmin -sum t sigma_t(u | o) log pi(u | o)
        sigma(u | o) = max(R(o, u), 0) / sum_u' max(R(o, u'), 0)

The policy of the run is ``pi``, the average of all ``sigma_t``, each weighted by how likely it led where it was asked: in
two-player zero-sum games it approaches an equilibrium. ``sigma`` itself does not; it plays in walks alone.

Details that matter for results: memories are even samples of the whole past; rows are weighted by their iteration (linear
CFR); the regret network begins anew each time, with a last layer of zeros; strategies are kept where *another* agent looks for
regrets, because only there does their owner play ``sigma``. A different detail from the paper: the average policy is learned
by cross-entropy and goes on from iteration to iteration, so that it can be measured at any time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from marl.algos.config import LearnerConfig, scheduled
from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.losses import average_loss, regret_loss
from marl.algos.deep_cfr.networks import RegretPart, all_legal
from marl.algos.learner import Learner, LearnerSpec, Metrics, mean_metrics
from marl.algos.optimiser import FlatOptimiser
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import PolicyID, Task
from marl.errors import ConfigError
from marl.policies.distributions import Categorical
from marl.policies.networks import one_hot_sizes
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy

COLUMNS = ("obs", "agent_index", "legal")


@dataclass(frozen=True)
class Walked:
    """What an iteration's games brought one policy."""

    regrets: SampleBatch  # decisions of its agents while they looked for regrets
    strategies: SampleBatch  # their decisions while others did, with the chances that they played as ``target``
    env_steps: int
    agent_steps: int


class DeepCfrLearner(Learner):
    """Is told what walks brought, and learns regrets and average policies. Each policy has networks of its own."""

    def __init__(self, spec: LearnerSpec) -> None:
        super().__init__(spec.policies, spec.seed)
        self.rounds = 0  # iterations of the algorithm: weights of rows, and seeds of games
        self.told: dict[PolicyID, Walked] = {}
        self.configs: dict[PolicyID, DeepCfrConfig] = {}
        self.parts: dict[PolicyID, RegretPart] = {}
        self.optimisers: dict[PolicyID, FlatOptimiser] = {}
        for name, policy in spec.policies.items():
            config = spec.configs[name]
            assert isinstance(config, DeepCfrConfig)
            _check(name, policy)
            self.configs[name] = config
            self.parts[name] = RegretPart(
                policy.kind, spec.models[name], history_width(spec.task), config, int(self.rng.integers(2**31))
            )
            self.optimisers[name] = FlatOptimiser(
                policy.parameters(), config.optimizer, config.average_lr, f"average policy {name!r}"
            )

    @classmethod
    def build(cls, spec: LearnerSpec) -> DeepCfrLearner:
        return cls(spec)

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.deep_cfr.reading import reading  # knows this class itself

        assert isinstance(config, DeepCfrConfig)
        return reading(cls, config)

    def tell(self, walked: Mapping[PolicyID, Walked]) -> None:
        """What came of the games of an iteration; ``learn`` acts on it."""
        self.told = dict(walked)

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        del batch  # empty: what was played has come by ``tell``
        told, self.told = self.told, {}
        self.rounds += 1
        metrics: Metrics = {}
        for name in sorted(self.trained & told.keys()):
            walked = told[name]
            self.timesteps[name] += walked.env_steps
            self.counters["num_steps_trained"] += walked.env_steps
            self.counters["num_agent_steps_trained"] += walked.agent_steps
            metrics[name] = self._train(name, walked)
        self._anneal()
        return {name: row for name, row in metrics.items() if row}

    def _train(self, name: PolicyID, walked: Walked) -> dict[str, float]:
        """One iteration of one policy; an agent that was never asked has nothing to learn from."""
        config, part = self.configs[name], self.parts[name]
        metrics: dict[str, float] = {}
        if len(walked.regrets):
            lr = scheduled(config.lr_schedule, config.lr, self.timesteps[name])
            found, metrics = part.estimate.regrets(walked.regrets, lr, self.rng)
            part.regrets.add(self._remembered(walked.regrets, found), self.rng)
            if config.restart_regrets:
                part.begin_anew(int(self.rng.integers(2**31)))
            updates = [self._update_regrets(name, lr) for _ in range(config.regret_updates)]
            metrics |= mean_metrics(updates)
        if len(walked.strategies):
            part.strategies.add(self._remembered(walked.strategies, walked.strategies["target"]), self.rng)
            metrics |= mean_metrics([self._update_average(name) for _ in range(config.average_updates)])
            self._observe_rows(name, walked.strategies)
        if metrics:
            metrics |= {"regret_rows": float(len(part.regrets)), "reservoir_rows": float(len(part.strategies))}
        return metrics

    def _remembered(self, rows: SampleBatch, target: Any) -> SampleBatch:
        """Rows as memories keep them."""
        kept = {column: rows[column] for column in COLUMNS}
        weight = np.full(len(rows), self.rounds, np.float32)
        return SampleBatch({**kept, "target": np.asarray(target, np.float32), "weight": weight})

    def _update_regrets(self, name: PolicyID, lr: float) -> dict[str, float]:
        """One gradient step of the regret network."""
        config, part = self.configs[name], self.parts[name]
        rows = part.regrets.sample(config.train_batch_size, self.rng)
        legal = torch.from_numpy(all_legal(rows["legal"], rows["target"].shape[1]))
        body = part.network.body
        found, tape = body.run(torch.from_numpy(rows["obs"]), torch.from_numpy(rows["agent_index"]))
        loss, slope = regret_loss(found, torch.from_numpy(rows["target"]), legal, torch.from_numpy(rows["weight"]))
        part.optimiser.zero()
        body.pull(tape, slope)
        part.optimiser.step(config.grad_clip, lr)
        self.counters["num_updates"] += 1
        return {"regret_loss": float(loss), "cur_lr": lr}

    def _update_average(self, name: PolicyID) -> dict[str, float]:
        """One gradient step of the policy towards the mean of all strategies so far."""
        config, optimiser = self.configs[name], self.optimisers[name]
        policy = self.policies[name]
        assert isinstance(policy, StochasticPolicy)
        rows = self.parts[name].strategies.sample(config.train_batch_size, self.rng)
        obs, index, legal, target, weight = (policy.tensor(rows[c]) for c in (*COLUMNS, "target", "weight"))
        logits, _, tape = policy.run(obs, index, legal)
        loss, slope = average_loss(logits, target, weight)
        optimiser.zero()
        policy.pull(tape, legal, slope, None)
        norm = optimiser.step(config.grad_clip, config.average_lr)
        entropy = policy.distribution.entropy(logits).mean()
        return {"average_loss": float(loss), "average_entropy": float(entropy), "average_grad_norm": float(norm)}

    def _observe_rows(self, name: PolicyID, rows: SampleBatch) -> None:
        """Filters of observations learn after the updates: all of these saw the same statistics."""
        if self.policies[name].keeps_statistics:
            self.policies[name].observe(rows["obs"], rows["agent_index"])
            self.parts[name].network.body.observe(rows["obs"], rows["agent_index"])

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        optimisers = {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()}
        parts = {name: part.state_dict() for name, part in self.parts.items()}
        return {**self._common_state(), "rounds": self.rounds, "optimisers": optimisers, "parts": parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.rounds = state["rounds"]
        for name, part in self.parts.items():
            self.optimisers[name].load_state_dict(state["optimisers"][name])
            part.load_state_dict(state["parts"][name])

    def replay_state(self) -> dict[str, Any]:
        return {name: part.replay_state() for name, part in self.parts.items()}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_replay_state(state[name])


def history_width(task: Task) -> int:
    """Numbers that tell what all agents see at a moment."""
    total = 0
    for kind in task.kinds:
        total += kind.size * (sum(one_hot_sizes(kind.observation_space)) or kind.obs_width)
    return total


def _check(name: PolicyID, policy: Policy) -> None:
    choices = isinstance(policy, StochasticPolicy) and isinstance(policy.distribution, Categorical)
    if not choices:
        raise ConfigError(
            f"policy {name!r} learns by regrets, which compare single choices, but its agents have "
            f"{policy.kind.action_space}. Use ppo, mappo or a2c for them, or sac, td3 or ddpg for a Box."
        )
    if policy.carry_size:
        raise ConfigError(
            f"policy {name!r} has a memory, but regrets are learned from single decisions. Drop use_lstm, use_attention or "
            "the custom model with a carry_size, or use ppo."
        )
    if policy.shared:
        raise ConfigError(
            f"policy {name!r} learns by regrets and shares the layers {', '.join(policy.shared)}. Regrets and average "
            "policies have networks of their own: drop `shared`, or let one policy play all these agents."
        )
