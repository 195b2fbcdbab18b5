"""Regularised Nash dynamics (Perolat et al., 2022): R-NaD, the learner of DeepNash.

    r'     = r - eta log(pi(a) / reg(a)) + eta log(pi_other(a') / reg_other(a'))          (rows.py)
    A      = v-trace of r' against the slow critic                                        (rows.py)
    actor  = -sum_a z(a) A(a), A(a) = q(a) - sum_b pi(b) q(b)                              NeuRD (losses.py)
    critic = (V(o) - v)^2
    reg    = the slow copy of pi, renewed every N training batches                        (regularisation.py)

With a fixed ``reg`` the changed game has one resting point, to which self-play converges instead of circling; then ``reg`` is
moved there. In two-player zero-sum games the resting points approach an equilibrium, by the last policy and without averages.

Details that matter for results: what an action costs by itself is known for all actions and is not sampled; logits move by
advantages, not times the chance of the action; a logit that is far from the others is pushed no further; values of the
future come from slow copies; the regularisation policy moves over half of its time instead of jumping.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.critic import Critic, CriticView
from marl.algos.config import LearnerConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.learner import Learner, LearnerSpec, Metrics, load_numpy, mean_metrics, to_numpy
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.reading import Reading
from marl.algos.rnad.config import RnadConfig
from marl.algos.rnad.losses import action_advantages, legal_of, neurd_loss
from marl.algos.rnad.regularisation import Regularisation, move_towards, still
from marl.algos.rnad.rows import payments, with_targets
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, PolicyID, Task
from marl.errors import ConfigError, TrainingError
from marl.policies.config import ModelConfig
from marl.policies.distributions import Categorical, log_softmax
from marl.policies.memories import remembers_by
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy

Rows = dict[str, Tensor]
Numbers = dict[str, Tensor]


class RnadLearner(Learner):
    """All policies of a run that learn by rnad: what one pays in the changed game, the other one gets."""

    shares_minibatches = True

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, configs: Mapping[PolicyID, RnadConfig],
        models: Mapping[PolicyID, ModelConfig], seed: int,
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.configs = task, dict(configs)
        self.actors: dict[PolicyID, StochasticPolicy] = {}
        self.critics: dict[PolicyID, Critic] = {}
        self.slow_critics: dict[PolicyID, Critic] = {}
        self.regularised: dict[PolicyID, Regularisation] = {}
        self.optimisers: dict[PolicyID, FlatOptimiser] = {}
        for i, (name, policy) in enumerate(policies.items()):
            assert isinstance(policy, StochasticPolicy)
            self._add(name, policy, models[name], seed + i)
        self.shared = shared_optimisers(policies, configs)
        self.custom = build_losses(policies, configs)
        self.gathered: dict[PolicyID, list[SampleBatch]] = {name: [] for name in policies}
        self.steps_gathered = dict.fromkeys(policies, 0)

    def _add(self, name: PolicyID, actor: StochasticPolicy, model: ModelConfig, seed: int) -> None:
        config = self.configs[name]
        _check(name, actor)
        critic = Critic(CriticView(self.task, config.critic_sees, actor), actor, model, seed)
        parameters = actor.own_parameters()
        if not actor.shares_value:
            parameters += critic.parameters()
        self.actors[name], self.critics[name], self.slow_critics[name] = actor, critic, still(critic)
        self.regularised[name] = Regularisation(actor, config.regularisation_every, config.target_tau)
        self.optimisers[name] = FlatOptimiser(parameters, config.optimizer, config.lr, f"policy {name!r}")

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.rnad.reading import reading  # knows this class itself

        assert isinstance(config, RnadConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> RnadLearner:
        configs = {name: c for name, c in spec.configs.items() if isinstance(c, RnadConfig)}
        return cls(spec.policies, spec.task, configs, spec.models, spec.seed)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        for name in set(self.policies) - self.trained:  # what a policy did while frozen is not its own experience
            self.gathered[name], self.steps_gathered[name] = [], 0

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            return {}
        self._count_steps(batch.env_steps)
        self.clock.start()
        for name in sorted(self.trained):
            rows = self._rows(name, batch)
            if len(rows):  # a round may close no decision of a policy
                self.gathered[name].append(rows)
            self.steps_gathered[name] += batch.env_steps
        self.clock.lap("load")
        due = [n for n in sorted(self.trained) if self.steps_gathered[n] >= self.configs[n].train_batch_size]
        metrics = self._train(self._take_gathered(due))
        for name in metrics:
            self.policies[name].anneal(self.timesteps[name])
        return metrics

    def _rows(self, name: PolicyID, batch: MultiAgentBatch) -> SampleBatch:
        config = self.configs[name]
        paid = payments(batch, self.regularised, config.regularisation_coeff)
        return with_targets(name, batch, paid, config, self.regularised[name], self.slow_critics[name])

    def _take_gathered(self, names: Collection[PolicyID]) -> dict[PolicyID, SampleBatch]:
        """The rounds since the last update, of those who decided anything."""
        taken = {}
        for name in names:
            gathered, self.gathered[name] = self.gathered[name], []
            self.counters["num_steps_trained"] += self.steps_gathered[name]
            self.steps_gathered[name] = 0
            if gathered:
                taken[name] = SampleBatch.concat_samples(gathered)
                self.counters["num_agent_steps_trained"] += len(taken[name])
        return taken

    def _train(self, batches: Mapping[PolicyID, SampleBatch]) -> Metrics:
        """All gradient steps on one training batch of every policy; then the slow copies follow."""
        streams: list[Iterator[Rows]] = []
        stats: dict[PolicyID, list[Numbers]] = {name: [] for name in batches}
        for name, rows in batches.items():
            self._show(name, rows)
            streams.append(self._minibatches(name, rows))
        for parts in zip_longest(*streams):  # a policy with fewer rows has no part in the last steps
            present = {name: part for name, part in zip(batches, parts, strict=True) if part is not None}
            for name, numbers in self._update(present).items():
                stats[name].append(numbers)
        metrics: Metrics = {}
        for name, rows in batches.items():
            # Filters move only now: within a training batch all policies that are compared are shown the same numbers.
            self.actors[name].observe(rows["obs"], rows["agent_index"])
            self.critics[name].observe(rows["obs"], rows["agent_index"])
            self.regularised[name].follow()
            move_towards(self.slow_critics[name], self.critics[name], self.configs[name].target_tau)
            metrics[name] = self._summary(name, stats[name])
        return metrics

    def _minibatches(self, name: PolicyID, rows: SampleBatch) -> Iterator[Rows]:
        config = self.configs[name]
        data = {column: self.actors[name].tensor(np.ascontiguousarray(rows[column])) for column in rows}
        for _ in range(config.num_sgd_iter):
            order = torch.from_numpy(self.rng.permutation(len(rows))).to(self.actors[name].device)
            for start in range(0, len(rows), config.sgd_minibatch_size):
                chosen = order[start : start + config.sgd_minibatch_size]
                yield {column: tensor[chosen] for column, tensor in data.items()}

    def _update(self, parts: Mapping[PolicyID, Rows]) -> dict[PolicyID, Numbers]:
        """One gradient step: each policy on its own loss, shared layers on the sum of them."""
        first = self.configs[next(iter(parts))]  # policies that share layers agree on all keys
        for optimiser in (*(self.optimisers[name] for name in parts), *self.shared.values()):
            optimiser.zero()
        stats: dict[PolicyID, Numbers] = {}
        for name, whole in parts.items():
            share, weight = self.learner_group.share(len(whole["obs"])), self.learner_group.weight(len(whole["obs"]))
            loss, numbers = self._loss(name, {column: tensor[share] for column, tensor in whole.items()})
            (loss * weight).backward()  # type: ignore[no-untyped-call]
            stats[name] = {key: number * weight for key, number in numbers.items()}
        for name, whole in parts.items():
            norm = self.optimisers[name].step(self.configs[name].grad_clip, self._lr(name), self.learner_group)
            stats[name]["grad_norm"] = norm * self.learner_group.weight(len(whole["obs"]))
        for optimiser in self.shared.values():
            optimiser.step(first.grad_clip, self._lr(next(iter(parts))), self.learner_group)
        self.counters["num_updates"] += 1
        return stats

    def _loss(self, name: PolicyID, part: Rows) -> tuple[Tensor, Numbers]:
        config, actor = self.configs[name], self.actors[name]
        logits, values = actor(part["obs"], part["agent_index"], part["legal"])
        if not actor.shares_value:
            values = self.critics[name](part["obs"], part["agent_index"], part["critic_features"])
        logs, taken = log_softmax(logits), part["actions"].long()
        # As often as an action is tried, so little does each try count.
        weight = (-part["action_logp"]).exp().clamp(max=config.neurd_clip)
        advantages = action_advantages(
            logs.detach(), part["regular_logs"], taken, part["advantages"], weight, config.regularisation_coeff
        )
        policy_loss = neurd_loss(logits, advantages, legal_of(logits), config.neurd_threshold, config.neurd_clip).mean()
        vf_loss = (values - part["value_targets"]).square().mean()
        loss = policy_loss + config.vf_loss_coeff * vf_loss
        if name in self.custom:
            loss = with_custom(self.custom[name], loss, part)
        self._check_finite(name, loss)
        entropy = actor.distribution.entropy(logits).mean()
        numbers = {"total_loss": loss, "policy_loss": policy_loss, "vf_loss": vf_loss, "entropy": entropy}
        return loss, {key: number.detach() for key, number in numbers.items()}

    def _lr(self, name: PolicyID) -> float:
        return scheduled(self.configs[name].lr_schedule, self.configs[name].lr, self.timesteps[name])

    def _summary(self, name: PolicyID, stats: list[Numbers]) -> dict[str, float]:
        summary = {**mean_metrics(self.learner_group.sum_metrics(stats)), "cur_lr": self._lr(name)}
        if name in self.custom:
            summary |= self.custom[name].stats()
        return summary

    def _check_finite(self, name: PolicyID, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss of policy {name!r} became {float(loss.detach())} after {self.counters['num_updates']} updates. "
                "Usual remedies: a smaller lr, a smaller neurd_clip, and a look at the rewards and observations."
            )

    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """By the critic as it learns, of the game with changed rewards."""
        critic = self.critics[policy]
        rows = batch.for_policy(policy, kind=critic.view.k)
        values, _ = critic.estimate_values(self.actors[policy], batch, rows, critic.seen(batch, rows))
        return values

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        state = self._common_state()
        kinds = ("critics", "slow_critics", "regularised", "optimisers", "gathered")
        state |= {kind: {} for kind in kinds}
        for name in self.actors:
            state["critics"][name] = to_numpy(self.critics[name].state_dict())
            state["slow_critics"][name] = to_numpy(self.slow_critics[name].state_dict())
            state["regularised"][name] = self.regularised[name].state_dict()
            state["optimisers"][name] = self.optimisers[name].state_dict()
            state["gathered"][name] = [rows.columns for rows in self.gathered[name]]
        state["shared"] = {layers: optimiser.state_dict() for layers, optimiser in self.shared.items()}
        state["steps_gathered"] = dict(self.steps_gathered)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name in self.actors:
            load_numpy(self.critics[name], state["critics"][name])
            load_numpy(self.slow_critics[name], state["slow_critics"][name])
            self.regularised[name].load_state_dict(state["regularised"][name])
            self.optimisers[name].load_state_dict(state["optimisers"][name])
        for layers, saved in state["shared"].items():
            self.shared[layers].load_state_dict(saved)
        self.gathered = {name: [SampleBatch(rows) for rows in batches] for name, batches in state["gathered"].items()}
        self.steps_gathered = dict(state["steps_gathered"])


def _check(name: PolicyID, actor: StochasticPolicy) -> None:
    """What it cannot learn."""
    if not isinstance(actor.distribution, Categorical):
        raise ConfigError(
            f"policy {name!r}: rnad learns one choice among a few actions, but its agents have {actor.kind.action_space}. Use "
            "ppo or mmd."
        )
    if actor.carry_size:
        raise ConfigError(
            f"policy {name!r} has a memory, but rnad learns from single moments. Drop "
            f"{remembers_by(actor.model.config)}, or use ppo or mmd."
        )
