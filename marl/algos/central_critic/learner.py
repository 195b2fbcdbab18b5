"""Stochastic actors with value critics: PG, A2C, PPO and MAPPO differ in the objective and in what the critic sees.

    A      = GAE(r, V(view), gamma, lambda)
    actor  = -log pi(a|o) A             (pg, a2c)     or the clipped ratio (ppo)
    critic = (V(view) - (A + V_old))^2

Details that matter for results: each fragment is bootstrapped with the critic's value of its last view; advantages are
normalised over a policy's training batch; the ratio is taken against the policy that acted; orthogonal initialisation
with a small last layer of the actor; one optimiser over actor and critic with the gradient clipped per policy.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
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
from marl.algos.optimiser import FlatOptimiser
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards, gae
from marl.data.task import Array, Floats, PolicyID, Task
from marl.errors import ConfigError, TrainingError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy


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
            parameters = [*actor.parameters(), *(critic.parameters() if own_critic else ())]
            self.critics[name] = critic
            self.optimisers[name] = FlatOptimiser(
                parameters, configs[name].optimizer, configs[name].lr, f"policy {name!r}"
            )
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
            if self.steps_gathered[name] >= self.configs[name].train_batch_size:
                metrics |= self._improve_on_gathered(name)
                self.policies[name].anneal(
                    self.timesteps[name]
                )  # not between rounds of one batch: it is part of the policy
        return metrics

    def _improve_on_gathered(self, name: PolicyID) -> Metrics:
        """Train on the rounds since the last update; nothing happens where the policy decided nothing."""
        gathered, self.gathered[name] = self.gathered[name], []
        self.counters["num_steps_trained"] += self.steps_gathered[name]
        self.steps_gathered[name] = 0
        if not gathered:
            return {}
        rows = SampleBatch.concat_samples(gathered)
        self.counters["num_agent_steps_trained"] += len(rows)
        return {name: self._improve(name, rows)}

    def _rows(self, name: PolicyID, batch: MultiAgentBatch) -> SampleBatch:
        """The policy's decisions with their advantages and value targets."""
        config = self.configs[name]
        rewards = self._team_rewards(batch) if config.share_reward else None
        rows = batch.for_policy(name, kind=self.views[name].k)
        t, e, a = rows["row"], rows["lane"], rows["seat"]
        values, next_values = np.zeros_like(batch.rewards), np.zeros_like(batch.rewards)
        features = torch.zeros(len(rows), 0)
        if config.objective != "pg" and len(rows):
            features = self.views[name](batch, t, e, a, after=False)
            values[t, e, a] = self._values(name, features)
            done = t + rows["elapsed"] - 1
            next_values[t, e, a] = self._values(name, self.views[name](batch, done, e, a, after=True))
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

    def _values(self, name: PolicyID, features: Tensor) -> Array:
        actor = self.actors[name]
        if not actor.shares_value:
            return evaluate(self.critics[name], features.to(actor.device))
        with torch.inference_mode():
            out: Array = actor.network(features.to(actor.device))[:, -1].cpu().numpy()
        return out

    def _improve(self, name: PolicyID, rows: SampleBatch) -> dict[str, float]:
        """All updates on one training batch."""
        config, actor = self.configs[name], self.actors[name]
        data = {column: torch.from_numpy(np.ascontiguousarray(rows[column])).to(actor.device) for column in rows}
        if config.normalize_advantages:
            data["advantages"] = normalized(data["advantages"])
        data["features"] = actor.features(data["obs"], data["agent_index"])
        if self.kl_coeffs[name] > 0:
            with torch.no_grad():
                data["old_params"], _ = actor(data["features"], data["legal"])
        lr = scheduled(config.lr_schedule, config.lr, self.timesteps[name])
        entropy_coeff = scheduled(config.entropy_coeff_schedule, config.entropy_coeff, self.timesteps[name])
        stats = []
        for part in self._minibatches(config, data):
            stats.append(self._update(name, part, lr, entropy_coeff))
        summary = mean_metrics(stats)
        if self.kl_coeffs[name] > 0:
            summary["cur_kl_coeff"] = self.kl_coeffs[name]
            self.kl_coeffs[name] = adapted_kl_coeff(self.kl_coeffs[name], summary["kl"], config.kl_target)
        explained = float(explained_variance(data["values"], data["value_targets"]))
        return {**summary, "cur_lr": lr, "entropy_coeff": entropy_coeff, "vf_explained_var": explained}

    def _minibatches(self, config: CentralCriticConfig, data: dict[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        if config.objective != "ppo":
            yield data
            return
        rows = len(data["advantages"])
        for _ in range(config.num_sgd_iter):
            order = torch.from_numpy(self.rng.permutation(rows)).to(data["advantages"].device)
            shuffled = {name: column[order] for name, column in data.items()}
            for start in range(0, rows, config.sgd_minibatch_size):
                yield {name: column[start : start + config.sgd_minibatch_size] for name, column in shuffled.items()}

    def _update(self, name: PolicyID, part: dict[str, Tensor], lr: float, entropy_coeff: float) -> dict[str, Tensor]:
        """One gradient step."""
        config, actor, optimiser = self.configs[name], self.actors[name], self.optimisers[name]
        params, shared_values = actor(part["features"], part["legal"])
        logp = actor.distribution.logp(params, part["actions"])
        if config.objective == "ppo":
            actor_loss = clipped_loss(logp, part["action_logp"], part["advantages"], config.clip_param)
        else:
            actor_loss = policy_gradient_loss(logp, part["advantages"])
        entropy = actor.distribution.entropy(params).mean()
        loss = actor_loss - entropy_coeff * entropy
        vf_loss = torch.zeros(())
        if config.objective != "pg":
            values = shared_values if actor.shares_value else self.critics[name](part["critic_features"]).squeeze(1)
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
        optimiser.zero()
        loss.backward()  # type: ignore[no-untyped-call]
        norm = optimiser.step(config.grad_clip, lr)
        self.counters["num_updates"] += 1
        return {
            "total_loss": loss.detach(), "policy_loss": actor_loss.detach(), "vf_loss": vf_loss.detach(),
            "entropy": entropy.detach(), "kl": kl.detach(), "grad_norm": norm,
        }  # fmt: skip

    # -- state -----------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return {
            **self._common_state(),
            "critics": {name: to_numpy(critic.state_dict()) for name, critic in self.critics.items()},
            "optimisers": {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()},
            "gathered": {name: [rows.columns for rows in batches] for name, batches in self.gathered.items()},
            "steps_gathered": dict(self.steps_gathered),
            "kl_coeffs": dict(self.kl_coeffs),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        for name in self.actors:
            load_numpy(self.critics[name], state["critics"][name])
            self.optimisers[name].load_state_dict(state["optimisers"][name])
        self.gathered = {name: [SampleBatch(rows) for rows in batches] for name, batches in state["gathered"].items()}
        self.steps_gathered = dict(state["steps_gathered"])
        self.kl_coeffs = dict(state["kl_coeffs"])


def _check(name: PolicyID, config: CentralCriticConfig, actor: StochasticPolicy) -> None:
    if actor.shares_value and config.critic_sees != "own":
        raise ConfigError(
            f"policy {name!r}: vf_share_layers puts the value on the policy's own observation, but critic_sees is "
            f"{config.critic_sees!r}. Drop vf_share_layers, or set critic_sees: own."
        )
    if actor.noise_sets_std and config.entropy_coeff > 0:
        raise ConfigError(f"policy {name!r}: GaussianNoise fixes the entropy, so entropy_coeff must be 0.")
