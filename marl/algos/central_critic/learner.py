"""Stochastic actors with value critics: PG, A2C, PPO and MAPPO differ in the objective and in what the critic sees.

    A      = GAE(r, V(view), gamma, lambda)
    actor  = -log pi(a|o) A             (pg, a2c)     or the clipped ratio (ppo)
    critic = (V(view) - (A + V_old))^2

Details that matter for results: each fragment is bootstrapped with the critic's value of its last view; advantages are
normalised over a policy's training batch; the ratio is taken against the policy that acted; orthogonal initialisation
with a small last layer of the actor; one optimiser over actor and critic with the gradient clipped per policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import CriticView, build_critic, evaluate
from marl.algos.central_critic.losses import (
    adapted_kl_coeff,
    clipped_loss,
    explained_variance,
    normalized,
    policy_gradient_loss,
    value_loss,
)
from marl.algos.config import scheduled
from marl.algos.learner import Learner, Metrics, load_numpy, mean_metrics, to_numpy
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards, gae
from marl.data.task import Array, Floats, Ints, PolicyID, Task
from marl.errors import ConfigError, TrainingError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy

LARGEST_INPUT = 2**24  # numbers that a critic is shown at once while values are computed: 64 MB


class CentralCriticLearner(Learner):
    """Each policy has its own critic, optimiser and config; joint critics read the other agents' observations."""

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, configs: Mapping[PolicyID, CentralCriticConfig],
        models: Mapping[PolicyID, ModelConfig], seed: int,
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.configs = task, dict(configs)
        self.actors: dict[PolicyID, StochasticPolicy] = {
            n: p for n, p in policies.items() if isinstance(p, StochasticPolicy)
        }
        self.views = {n: CriticView(task, configs[n].critic_sees, policy) for n, policy in self.actors.items()}
        self.critics = {}
        self.optimisers = {}
        for i, (name, actor) in enumerate(self.actors.items()):
            _check(name, configs[name], actor)
            critic = build_critic(self.views[name], models[name], seed + i).to(actor.device)
            own_critic = not actor.shares_value and configs[name].objective != "pg"
            parameters = [*actor.own_parameters(), *(critic.parameters() if own_critic else ())]
            self.critics[name] = critic
            self.optimisers[name] = FlatOptimiser(
                parameters, configs[name].optimizer, configs[name].lr, f"policy {name!r}"
            )
        self.shared = shared_optimisers(policies, configs)
        self.companies = _companies(policies, self.sharing)
        self.gathered: dict[PolicyID, list[SampleBatch]] = {name: [] for name in policies}
        self.steps_gathered = dict.fromkeys(policies, 0)
        self.kl_coeffs = {name: configs[name].kl_coeff for name in policies}

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        for name in set(self.policies) - self.trained:  # what a policy did while frozen is not its own experience
            self.gathered[name], self.steps_gathered[name] = [], 0

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self._count_steps(batch.env_steps)
        metrics: Metrics = {}
        for name in sorted(self.trained):
            rows = self._rows(name, batch)
            if len(rows):  # a round may close no decision of a policy
                self.gathered[name].append(rows)
            self.steps_gathered[name] += batch.env_steps
        for company in self.companies:
            first = company[0]  # they are trained together or not at all, and agree on the size of a batch
            if first in self.trained and self.steps_gathered[first] >= self.configs[first].train_batch_size:
                metrics |= self._improve(self._take_gathered(company))
                for name in company:  # not between rounds of one batch: it is part of the policy
                    self.policies[name].anneal(self.timesteps[name])
        return metrics

    def _take_gathered(self, company: Sequence[PolicyID]) -> dict[PolicyID, SampleBatch]:
        """The rounds since the last update, of those who decided anything."""
        taken = {}
        for name in company:
            gathered, self.gathered[name] = self.gathered[name], []
            self.counters["num_steps_trained"] += self.steps_gathered[name]
            self.steps_gathered[name] = 0
            if gathered:
                taken[name] = SampleBatch.concat_samples(gathered)
                self.counters["num_agent_steps_trained"] += len(taken[name])
        return taken

    def _rows(self, name: PolicyID, batch: MultiAgentBatch) -> SampleBatch:
        """The policy's decisions with their advantages and value targets."""
        config = self.configs[name]
        rewards = self._team_rewards(batch) if config.share_reward else None
        rows = batch.for_policy(name, kind=self.views[name].k)
        t, e, a = rows["row"], rows["lane"], rows["seat"]
        values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
        features = torch.zeros(len(rows), 0)
        if config.objective != "pg" and len(rows):
            seen: Iterable[Tensor] = self._views(name, batch, t, e, a, after=False)
            if config.critic_sees != "own":  # an agent's own observation stays as it is until its minibatch
                features = torch.cat(list(seen))
                seen = [features]
            values[t, e, a] = self._values(name, seen)
            done = t + rows["elapsed"] - 1
            next_values[t, e, a] = self._values(name, self._views(name, batch, done, e, a, after=True))
        folded = fold_rewards(batch, config.gamma, rewards)
        trace = 1.0 if config.objective == "pg" else config.gae_lambda
        advantages = gae(batch, values, next_values, folded, config.gamma, trace)[t, e, a]
        return SampleBatch(
            {
                **{c: rows[c] for c in ("obs", "actions", "legal", "agent_index", "action_logp")},
                "advantages": advantages,
                "values": values[t, e, a],
                "value_targets": advantages + values[t, e, a],
                "critic_features": features.numpy(),
            }
        )

    def _team_rewards(self, batch: MultiAgentBatch) -> Floats:
        rewards = batch.rewards.copy()
        for seats in self.task.groups.values():
            rewards[:, :, list(seats)] = batch.rewards[:, :, list(seats)].sum(axis=2, keepdims=True)
        return rewards

    def _views(
        self, name: PolicyID, batch: MultiAgentBatch, t: Ints, e: Ints, a: Ints, after: bool
    ) -> Iterator[Tensor]:
        """The critic's inputs in slices: a batch of images never stands there as floats all at once."""
        step = max(1, LARGEST_INPUT // self.views[name].size)
        for i in range(0, len(t), step):
            yield self.views[name](batch, t[i : i + step], e[i : i + step], a[i : i + step], after)

    def _values(self, name: PolicyID, slices: Iterable[Tensor]) -> Array:
        actor = self.actors[name]
        if not actor.shares_value:
            return np.concatenate([evaluate(self.critics[name], part.to(actor.device)) for part in slices])
        with torch.inference_mode():
            return np.concatenate([actor.network(part.to(actor.device))[:, -1].cpu().numpy() for part in slices])

    def _improve(self, batches: Mapping[PolicyID, SampleBatch]) -> Metrics:
        """All updates on one training batch each; policies that share layers take their gradient steps together."""
        lessons = {name: self._lesson(name, rows) for name, rows in batches.items()}
        stats: dict[PolicyID, list[dict[str, Tensor]]] = {name: [] for name in lessons}
        streams = [self._minibatches(self.configs[name], lesson.data) for name, lesson in lessons.items()]
        for parts in zip_longest(*streams):
            present = {n: part for n, part in zip(lessons, parts, strict=True) if part is not None}
            for name, row in self._update(present, lessons).items():
                stats[name].append(row)
        return {name: self._summary(name, lesson, stats[name]) for name, lesson in lessons.items()}

    def _lesson(self, name: PolicyID, rows: SampleBatch) -> _Lesson:
        config, actor = self.configs[name], self.actors[name]
        data = {column: torch.from_numpy(np.ascontiguousarray(rows[column])).to(actor.device) for column in rows}
        if config.normalize_advantages:
            data["advantages"] = normalized(data["advantages"])
        if self.kl_coeffs[name] > 0:
            with torch.no_grad():
                data["old_params"], _ = actor(actor.features(data["obs"], data["agent_index"]), data["legal"])
        lr = scheduled(config.lr_schedule, config.lr, self.timesteps[name])
        entropy_coeff = scheduled(config.entropy_coeff_schedule, config.entropy_coeff, self.timesteps[name])
        return _Lesson(data, lr, entropy_coeff)

    def _summary(self, name: PolicyID, lesson: _Lesson, stats: list[dict[str, Tensor]]) -> dict[str, float]:
        summary = mean_metrics(stats)
        if self.kl_coeffs[name] > 0:
            summary["cur_kl_coeff"] = self.kl_coeffs[name]
            target = self.configs[name].kl_target
            self.kl_coeffs[name] = adapted_kl_coeff(self.kl_coeffs[name], summary["kl"], target)
        explained = float(explained_variance(lesson.data["values"], lesson.data["value_targets"]))
        return {**summary, "cur_lr": lesson.lr, "entropy_coeff": lesson.entropy_coeff, "vf_explained_var": explained}

    def _minibatches(self, config: CentralCriticConfig, data: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        if config.objective != "ppo":
            yield data
            return
        rows = len(data["advantages"])
        for _ in range(config.num_sgd_iter):
            order = torch.from_numpy(self.rng.permutation(rows)).to(data["advantages"].device)
            for start in range(0, rows, config.sgd_minibatch_size):
                chosen = order[start : start + config.sgd_minibatch_size]
                yield {name: column[chosen] for name, column in data.items()}

    def _update(
        self, parts: Mapping[PolicyID, dict[str, Tensor]], lessons: Mapping[PolicyID, _Lesson]
    ) -> dict[PolicyID, dict[str, Tensor]]:
        """One gradient step: each policy on its own loss, shared layers on the sum of them."""
        shared = [self.shared[layers] for layers in dict.fromkeys(x for n in parts for x in self.policies[n].shared)]
        for block in [*(self.optimisers[name] for name in parts), *shared]:
            block.zero()
        stats = {}
        for name, part in parts.items():
            loss, stats[name] = self._loss(name, part, lessons[name].entropy_coeff)
            loss.backward()  # type: ignore[no-untyped-call]
        for name in parts:
            stats[name]["grad_norm"] = self.optimisers[name].step(self.configs[name].grad_clip, lessons[name].lr)
        for block in shared:
            first = next(iter(parts))
            block.step(self.configs[first].grad_clip, lessons[first].lr)
        self.counters["num_updates"] += 1
        return stats

    def _loss(self, name: PolicyID, part: dict[str, Tensor], entropy_coeff: float) -> tuple[Tensor, dict[str, Tensor]]:
        config, actor = self.configs[name], self.actors[name]
        features = actor.features(part["obs"], part["agent_index"])
        params, shared_values = actor(features, part["legal"])
        logp = actor.distribution.logp(params, part["actions"])
        if config.objective == "ppo":
            actor_loss = clipped_loss(logp, part["action_logp"], part["advantages"], config.clip_param)
        else:
            actor_loss = policy_gradient_loss(logp, part["advantages"])
        entropy = actor.distribution.entropy(params).mean()
        loss = actor_loss - entropy_coeff * entropy
        vf_loss = torch.zeros(())
        if config.objective != "pg":
            seen = features if config.critic_sees == "own" else part["critic_features"]
            values = shared_values if actor.shares_value else self.critics[name](seen).squeeze(1)
            vf_loss = value_loss(values, part["value_targets"], part["values"], config.vf_clip_param)
            loss = loss + config.vf_loss_coeff * vf_loss
        if self.kl_coeffs[name] > 0:
            kl = actor.distribution.kl(part["old_params"], params).mean()
            loss = loss + self.kl_coeffs[name] * kl
        else:
            kl = (part["action_logp"] - logp).mean()  # an estimate from the sampled actions
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss of policy {name!r} became {float(loss.detach())} after {self.counters['num_updates']} "
                "updates. Usual remedies: a smaller lr, a smaller grad_clip, and a look at the world's rewards and "
                "observations."
            )
        return loss, {
            "total_loss": loss.detach(), "policy_loss": actor_loss.detach(), "vf_loss": vf_loss.detach(),
            "entropy": entropy.detach(), "kl": kl.detach(),
        }  # fmt: skip

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "critics": {name: to_numpy(critic.state_dict()) for name, critic in self.critics.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "shared": {name: optimiser.state_dict() for name, optimiser in self.shared.items()},
            "gathered": {name: [rows.columns for rows in batches] for name, batches in self.gathered.items()},
            "steps_gathered": dict(self.steps_gathered),
            "kl_coeffs": dict(self.kl_coeffs),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name in self.actors:
            load_numpy(self.critics[name], state["critics"][name])
            self.optimisers[name].load_state_dict(state["optimisers"][name])
        for layers, saved in state["shared"].items():
            self.shared[layers].load_state_dict(saved)
        self.gathered = {name: [SampleBatch(rows) for rows in batches] for name, batches in state["gathered"].items()}
        self.steps_gathered = dict(state["steps_gathered"])
        self.kl_coeffs = dict(state["kl_coeffs"])


@dataclass
class _Lesson:
    """A policy's training batch and the rates that hold while it is trained on."""

    data: dict[str, Tensor]
    lr: float
    entropy_coeff: float


def _companies(
    policies: Mapping[PolicyID, Policy], sharing: Mapping[str, list[PolicyID]]
) -> list[tuple[PolicyID, ...]]:
    """Policies that share layers, and each of the others by itself."""
    together = [tuple(sorted(users)) for users in sharing.values()]
    sharers = {name for company in together for name in company}
    return sorted([*together, *((name,) for name in policies if name not in sharers)])


def _check(name: PolicyID, config: CentralCriticConfig, actor: StochasticPolicy) -> None:
    if actor.shares_value and config.critic_sees != "own":
        raise ConfigError(
            f"policy {name!r}: vf_share_layers puts the value on the policy's own observation, but critic_sees is "
            f"{config.critic_sees!r}. Drop vf_share_layers, or set critic_sees: own."
        )
    if actor.noise_sets_std and config.entropy_coeff > 0:
        raise ConfigError(f"policy {name!r}: GaussianNoise fixes the entropy, so entropy_coeff must be 0.")
