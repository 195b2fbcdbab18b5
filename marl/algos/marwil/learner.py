"""MARWIL (Wang et al., 2018): imitate what was done, decisions that turned out well more than others. BC is its case beta = 0.

    R    = sum_k gamma^k r_k  to the end of the episode (plus gamma^n V(o_n) where it was truncated)
    A    = R - V(o)
    c2   = moving average of A^2
    loss = -exp(beta * A / sqrt(c2)) * log pi(a|o) + vf_coeff * (R - V(o))^2

Details that matter for results: advantages use the critic as it is in each gradient step; their scale is removed by ``c2``,
so ``beta`` means the same in every env; a weight is bounded by ``max_advantage_weight``; no clipping of gradients, which
would shrink the actor's by the size of the critic's; whole episodes, so returns are never cut off by a fragment.
Nothing asks how likely the behaviour was, so anybody's recorded episodes will do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.config import LearnerConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.learner import Learner, LearnerSpec, Metrics, load_numpy, mean_metrics, to_numpy
from marl.algos.marwil.config import MarwilConfig
from marl.algos.marwil.losses import advantage_weights, imitation_loss, moved_average, value_loss
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import returns_to_go
from marl.data.task import Array, Floats, PolicyID, Task
from marl.errors import ConfigError, TrainingError
from marl.policies.config import ModelConfig
from marl.policies.memories import remembers_by
from marl.policies.networks import Body, seeded
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy

SLICE = 4_096  # observations that the critic judges at once outside of updates
Rows = dict[str, Tensor]
Numbers = dict[str, Tensor]


class MarwilLearner(Learner):
    """One policy, or several that share layers; these agree on all keys."""

    shares_minibatches = True

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, config: MarwilConfig,
        models: Mapping[PolicyID, ModelConfig], seed: int,
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.config = task, config
        self.actors: dict[PolicyID, StochasticPolicy] = {
            n: p for n, p in policies.items() if isinstance(p, StochasticPolicy)
        }
        self.critics: dict[PolicyID, Body] = {}
        self.optimisers = {}
        for i, (name, actor) in enumerate(self.actors.items()):
            _check(name, actor)
            parameters = actor.own_parameters()
            if config.vf_coeff and not actor.shares_value:
                shown = bool(actor.features.seats)
                critic = Body(actor.kind, models[name], 1, seeded(seed + i, 7), agent_id=shown, memory=False)
                self.critics[name] = critic.to(actor.device)
                parameters += list(critic.parameters())
            self.optimisers[name] = FlatOptimiser(parameters, config.optimizer, config.lr, f"policy {name!r}")
        self.shared = shared_optimisers(policies, dict.fromkeys(policies, config))
        self.custom = build_losses(policies, dict.fromkeys(policies, config))
        self.squared_norm = dict.fromkeys(policies, config.moving_average_sqd_adv_norm_start)
        self.gathered: dict[PolicyID, list[SampleBatch]] = {name: [] for name in policies}
        self.steps_gathered = 0

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.marwil.reading import reading  # knows this class itself

        assert isinstance(config, MarwilConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> MarwilLearner:
        config = next(iter(spec.configs.values()))  # those who learn together share layers and agree on all keys
        assert isinstance(config, MarwilConfig)
        return cls(spec.policies, spec.task, config, spec.models, spec.seed)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        if not self.trained:
            self.gathered, self.steps_gathered = {name: [] for name in self.policies}, 0

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        if not self.trained:
            return {}
        self._count_steps(batch.env_steps)
        self.clock.start()
        for name in self.gathered:
            rows = self._rows(name, batch)
            if len(rows):
                self.gathered[name].append(rows)
        self.clock.lap("load")
        self.steps_gathered += batch.env_steps
        if self.steps_gathered < self.config.train_batch_size:
            return {}
        metrics = self._train(self._take_gathered())
        self._anneal()
        return metrics

    def _rows(self, name: PolicyID, batch: MultiAgentBatch) -> SampleBatch:
        """The policy's decisions with their returns."""
        rows = batch.for_policy(name, kind=self.task.kinds.index(self.policies[name].kind))
        returns: Floats = np.zeros(len(rows), np.float32)
        if self.config.vf_coeff and len(rows):  # bc asks nobody how good a decision was
            returns = self._returns(name, batch, rows).astype(np.float32)
        kept = {column: rows[column] for column in ("obs", "actions", "legal", "agent_index")}
        return SampleBatch({**kept, "returns": returns})

    def _returns(self, name: PolicyID, batch: MultiAgentBatch, rows: SampleBatch) -> Floats:
        """Discounted rewards to the end; only what was truncated asks the critic."""
        t, e, a = rows["row"], rows["lane"], rows["seat"]
        rewards = batch.rewards.copy()
        cut = np.flatnonzero(rows["truncateds"] & ~rows["terminateds"])
        if cut.size:
            judged = self._judged(name, rows["new_obs"][cut], rows["agent_index"][cut], rows["new_legal"][cut])
            # The value of what comes after the cut is paid with the last reward before it.
            rewards[t[cut] + rows["elapsed"][cut] - 1, e[cut], a[cut]] += self.config.gamma * judged
        returns: Floats = returns_to_go(batch, rewards, self.config.gamma)[t, e, a]
        return returns

    @torch.inference_mode()
    def _judged(self, name: PolicyID, *columns: np.ndarray[Any, Any]) -> Floats:
        """Values of raw observations, seats and masks."""
        actor, parts = self.actors[name], []
        for at in range(0, len(columns[0]), SLICE):
            obs, index, legal = (actor.tensor(np.ascontiguousarray(c[at : at + SLICE])) for c in columns)
            _, shared = actor(obs, index, legal)
            parts.append(self._values(name, {"obs": obs, "agent_index": index}, shared))
        return torch.cat(parts).cpu().numpy()

    def _values(self, name: PolicyID, part: Rows, shared: Tensor) -> Tensor:
        if self.actors[name].shares_value:
            return shared
        values: Tensor = self.critics[name](part["obs"], part["agent_index"]).squeeze(1)
        return values

    def _take_gathered(self) -> dict[PolicyID, SampleBatch]:
        """The rounds since the last update, of those who decided anything."""
        taken = {name: SampleBatch.concat_samples(rows) for name, rows in self.gathered.items() if rows}
        self.counters["num_steps_trained"] += self.steps_gathered
        self.counters["num_agent_steps_trained"] += sum(len(rows) for rows in taken.values())
        self.gathered, self.steps_gathered = {name: [] for name in self.policies}, 0
        return taken

    def _train(self, batches: Mapping[PolicyID, SampleBatch]) -> Metrics:
        """All gradient steps on one training batch; policies that share layers take theirs together."""
        lr = scheduled(self.config.lr_schedule, self.config.lr, max(self.timesteps.values()))
        stats: dict[PolicyID, list[Numbers]] = {}
        streams: list[Iterator[Rows]] = []
        for name, rows in batches.items():
            self._show(name, rows)
            stats[name] = []
            streams.append(self._minibatches(name, rows))
        for parts in zip_longest(*streams):  # a policy with fewer rows has no part in the last steps
            present = {name: part for name, part in zip(batches, parts, strict=True) if part is not None}
            for name, row in self._step(present, lr).items():
                stats[name].append(row)
        for name, rows in batches.items():  # after the updates: all of them saw the same statistics
            self.policies[name].observe(rows["obs"], rows["agent_index"])
            if name in self.critics:
                self.critics[name].observe(rows["obs"], rows["agent_index"])
        return {name: self._summary(name, found, lr) for name, found in stats.items()}

    def _minibatches(self, name: PolicyID, rows: SampleBatch) -> Iterator[Rows]:
        data = {column: self.actors[name].tensor(np.ascontiguousarray(rows[column])) for column in rows}
        for _ in range(self.config.num_sgd_iter):
            order = torch.from_numpy(self.rng.permutation(len(rows))).to(self.actors[name].device)
            for start in range(0, len(rows), self.config.sgd_minibatch_size):
                chosen = order[start : start + self.config.sgd_minibatch_size]
                yield {column: tensor[chosen] for column, tensor in data.items()}

    def _step(self, parts: Mapping[PolicyID, Rows], lr: float) -> dict[PolicyID, Numbers]:
        """One gradient step: each policy on its own loss, shared layers on the sum of them."""
        optimisers = [*(self.optimisers[name] for name in parts), *self.shared.values()]
        for optimiser in optimisers:
            optimiser.zero()
        stats: dict[PolicyID, Numbers] = {}
        for name, part in parts.items():
            loss, stats[name] = self._loss(name, part)
            (loss * self.learner_group.weight(len(part["obs"]))).backward()  # type: ignore[no-untyped-call]
        norms = [optimiser.step(self.config.grad_clip, lr, self.learner_group) for optimiser in optimisers]
        for name, norm in zip(parts, norms, strict=False):  # those of the policies come first
            weight = self.learner_group.weight(len(parts[name]["obs"]))
            stats[name] = {n: value * weight for n, value in {**stats[name], "grad_norm": norm}.items()}
        self.counters["num_updates"] += 1
        return stats

    def _loss(self, name: PolicyID, whole: Rows) -> tuple[Tensor, Numbers]:
        """Of this member's share; weights are those of the whole minibatch."""
        actor, share = self.actors[name], self.learner_group.share(len(whole["obs"]))
        part = {column: tensor[share] for column, tensor in whole.items()}
        params, shared_values = actor(part["obs"], part["agent_index"], part["legal"])
        logp = actor.distribution.logp(params, part["actions"])
        stats = {"entropy": actor.distribution.entropy(params).mean().detach()}
        if self.config.vf_coeff:
            values = self._values(name, part, shared_values)
            advantages = self.learner_group.gather((part["returns"] - values).detach(), len(whole["obs"]))
            weights = self._weights(name, advantages)
            policy_loss, vf_loss = imitation_loss(logp, weights[share]), value_loss(values, part["returns"])
            loss = policy_loss + self.config.vf_coeff * vf_loss
            explained = 1 - advantages.var(unbiased=False) / whole["returns"].var(unbiased=False).clamp(min=1e-8)
            stats |= {
                "vf_loss": vf_loss.detach(), "vf_explained_var": explained, "mean_weight": weights.mean(),
                "max_weight": weights.max(), "sqd_adv_norm": torch.tensor(self.squared_norm[name]),
            }  # fmt: skip
        else:
            loss = policy_loss = imitation_loss(logp, torch.ones_like(logp))
        if name in self.custom:
            loss = with_custom(self.custom[name], loss, part)
        self._check_finite(name, loss)
        return loss, {"total_loss": loss.detach(), "policy_loss": policy_loss.detach(), **stats}

    def _weights(self, name: PolicyID, advantages: Tensor) -> Tensor:
        """``exp(beta * A / sqrt(c2))``; ``c2`` moves first: an unusually large batch is scaled by itself as well."""
        rate = self.config.moving_average_sqd_adv_norm_update_rate
        self.squared_norm[name] = moved_average(self.squared_norm[name], float(advantages.square().mean()), rate)
        return advantage_weights(
            advantages, self.squared_norm[name], self.config.beta, self.config.max_advantage_weight
        )

    def _summary(self, name: PolicyID, stats: list[Numbers], lr: float) -> dict[str, float]:
        summary = {**mean_metrics(self.learner_group.sum_metrics(stats)), "cur_lr": lr}
        if name in self.custom:
            summary |= self.custom[name].stats()
        return summary

    def _check_finite(self, name: PolicyID, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss of policy {name!r} became {float(loss.detach())} after {self.counters['num_updates']} updates. "
                "Usual remedies: a smaller lr, a smaller beta, and a look at the rewards and observations."
            )

    @torch.no_grad()
    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        if not self.config.vf_coeff:
            return super().value_function(policy, batch)
        rows, actor = self._rows(policy, batch), self.actors[policy]
        part = {column: torch.from_numpy(rows[column]).to(actor.device) for column in ("obs", "agent_index", "legal")}
        _, shared = actor(part["obs"], part["agent_index"], part["legal"])
        values: Array = self._values(policy, part, shared).cpu().numpy()
        return values

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "critics": {name: to_numpy(critic.state_dict()) for name, critic in self.critics.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "shared": {name: optimiser.state_dict() for name, optimiser in self.shared.items()},
            "squared_norm": dict(self.squared_norm),
            "gathered": {name: [rows.columns for rows in batches] for name, batches in self.gathered.items()},
            "steps_gathered": self.steps_gathered,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name, critic in self.critics.items():
            load_numpy(critic, state["critics"][name])
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])
        for layers, optimiser in self.shared.items():
            optimiser.load_state_dict(state["shared"][layers])
        self.squared_norm = dict(state["squared_norm"])
        self.gathered = {name: [SampleBatch(rows) for rows in batches] for name, batches in state["gathered"].items()}
        self.steps_gathered = state["steps_gathered"]


def _check(name: PolicyID, actor: StochasticPolicy) -> None:
    if actor.carry_size:
        raise ConfigError(
            f"policy {name!r} has a memory, but marwil and bc learn from single moments. Drop "
            f"{remembers_by(actor.model.config)}, or use ppo."
        )
