"""Stochastic actors with value critics: PG, A2C, PPO, MAPPO and IMPALA differ in the objective and in what the critic sees.

    A      = GAE(r, V(view), gamma, lambda)                          (vtrace: corrected for older weights)
    actor  = -log pi(a|o) A             (pg, a2c, vtrace)     or the clipped ratio (ppo)
    critic = (V(view) - (A + V_old))^2

Details that matter for results: each fragment is bootstrapped with the critic's value of its last view; advantages are
normalised over a policy's training batch; the ratio is taken against the policy that acted; orthogonal initialisation
with a small last layer of the actor; one optimiser over actor and critic with the gradient clipped per policy. Recurrent
policies are trained on sequences of ``max_seq_len`` decisions that begin with the memory they were played with.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import torch
from torch import Tensor

from marl.algos.central_critic.advantages import AdvantageEstimator
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView
from marl.algos.central_critic.losses import (
    adapted_kl_coeff,
    clipped_loss,
    explained_variance,
    normalized,
    policy_gradient_loss,
    value_loss,
)
from marl.algos.central_critic.magnet import Magnet
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch, prepare
from marl.algos.config import LearnerConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.learner import Learner, LearnerSpec, Metrics, load_numpy, mean_metrics, to_numpy
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, PolicyID, Task
from marl.errors import ConfigError, TrainingError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy


class CentralCriticLearner(Learner):
    """Each policy has its own critic, optimiser and config; joint critics read the other agents' observations."""

    shares_minibatches = True

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, configs: Mapping[PolicyID, CentralCriticConfig],
        models: Mapping[PolicyID, ModelConfig], seed: int,
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.configs, self.models = task, dict(configs), dict(models)
        self.actors: dict[PolicyID, StochasticPolicy] = {
            n: p for n, p in policies.items() if isinstance(p, StochasticPolicy)
        }
        self.critics: dict[PolicyID, Critic] = {}
        self.appraisers: dict[PolicyID, AdvantageEstimator] = {}
        self.optimisers: dict[PolicyID, FlatOptimiser] = {}
        for i, (name, actor) in enumerate(self.actors.items()):
            self._add(name, actor, seed + i)
        self.shared = shared_optimisers(policies, configs)
        self.companies = _companies(policies, self.sharing)
        self.custom = build_losses(policies, configs)
        self.magnets = {
            name: Magnet(actor, configs[name].magnet_coeff, configs[name].magnet_tau)
            for name, actor in self.actors.items() if configs[name].magnet_coeff > 0
        }  # fmt: skip
        self.gathered: dict[PolicyID, list[SampleBatch]] = {name: [] for name in policies}
        self.steps_gathered = dict.fromkeys(policies, 0)
        self.kl_coeffs = {name: configs[name].kl_coeff for name in policies}

    def _add(self, name: PolicyID, actor: StochasticPolicy, seed: int) -> None:
        config = self.configs[name]
        _check(name, config, actor)
        view = CriticView(self.task, config.critic_sees, actor)
        critic = Critic(view, actor, self.models[name], seed).to(actor.device)
        own_critic = not actor.shares_value and config.objective != "pg"
        parameters = [*actor.own_parameters(), *(critic.parameters() if own_critic else ())]
        self.critics[name] = critic
        self.appraisers[name] = AdvantageEstimator(name, actor, critic, view, config)
        self.optimisers[name] = FlatOptimiser(parameters, config.optimizer, config.lr, f"policy {name!r}")

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.central_critic.reading import reading  # knows this class itself

        assert isinstance(config, CentralCriticConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, brief: LearnerSpec) -> CentralCriticLearner:
        configs = {name: c for name, c in brief.configs.items() if isinstance(c, CentralCriticConfig)}
        return cls(brief.policies, brief.task, configs, brief.models, brief.seed)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        for name in set(self.policies) - self.trained:  # what a policy did while frozen is not its own experience
            self.gathered[name], self.steps_gathered[name] = [], 0

    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        return self.appraisers[policy].rows(batch)["values"]

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        self._count_steps(batch.env_steps)
        metrics: Metrics = {}
        self.clock.start()
        for name in sorted(self.trained):
            rows = self.appraisers[name].rows(batch)
            if len(rows):  # a round may close no decision of a policy
                self.gathered[name].append(rows)
            self.steps_gathered[name] += batch.env_steps
        self.clock.lap("load")
        for update_group in self.companies:
            first = update_group[0]  # they are trained together or not at all, and agree on the size of a batch
            if first in self.trained and self.steps_gathered[first] >= self.configs[first].train_batch_size:
                metrics |= self._improve(self._take_gathered(update_group))
                for name in update_group:  # not between rounds of one batch: it is part of the policy
                    self.policies[name].anneal(self.timesteps[name])
        return metrics

    def _take_gathered(self, update_group: Sequence[PolicyID]) -> dict[PolicyID, SampleBatch]:
        """The rounds since the last update, of those who decided anything."""
        taken = {}
        for name in update_group:
            gathered, self.gathered[name] = self.gathered[name], []
            self.counters["num_steps_trained"] += self.steps_gathered[name]
            self.steps_gathered[name] = 0
            if gathered:
                taken[name] = SampleBatch.concat_samples(gathered)
                self.counters["num_agent_steps_trained"] += len(taken[name])
        return taken

    def _improve(self, batches: Mapping[PolicyID, SampleBatch]) -> Metrics:
        """All gradient steps on one training batch of a company. Shared layers take one step for all of it at a time."""
        for name, rows in batches.items():
            self._show(name, rows)
        lessons: dict[PolicyID, TrainBatch] = {}
        stats: dict[PolicyID, list[dict[str, Tensor]]] = {}
        streams: list[Iterator[Minibatch]] = []
        for name, rows in batches.items():
            lessons[name] = self._lesson(name, rows)
            stats[name] = []
            streams.append(self._parts(self.configs[name], lessons[name]))
        for parts in zip_longest(*streams):
            present = {n: part for n, part in zip(lessons, parts, strict=True) if part is not None}
            for name, row in self._update(present, lessons).items():
                stats[name].append(row)
        for name, rows in batches.items():
            self.policies[name].observe(rows["obs"], rows["agent_index"])
            self.critics[name].observe(rows["obs"], rows["agent_index"])
            if name in self.magnets:
                self.magnets[name].follow()
        return {name: self._summary(name, lesson, stats[name]) for name, lesson in lessons.items()}

    def _lesson(self, name: PolicyID, rows: SampleBatch) -> TrainBatch:
        config, actor = self.configs[name], self.actors[name]
        lr = scheduled(config.lr_schedule, config.lr, self.timesteps[name])
        entropy_coeff = scheduled(config.entropy_coeff_schedule, config.entropy_coeff, self.timesteps[name])
        longest = self.models[name].max_seq_len
        lesson = prepare(rows, actor.carry_size, longest, actor.device, lr, entropy_coeff)
        data = lesson.data
        if config.normalize_advantages:
            data["advantages"] = normalized(data["advantages"])
        if self.kl_coeffs[name] > 0:
            with torch.no_grad():
                sequences = lesson.whole().sequences
                data["old_params"], _ = actor(data["obs"], data["agent_index"], data["legal"], sequences)
        return lesson

    def _parts(self, config: CentralCriticConfig, lesson: TrainBatch) -> Iterator[Minibatch]:
        if config.objective != "ppo":
            yield lesson.whole()
        else:
            yield from lesson.minibatches(self.rng, config.num_sgd_iter, config.sgd_minibatch_size)

    def _summary(self, name: PolicyID, lesson: TrainBatch, stats: list[dict[str, Tensor]]) -> dict[str, float]:
        summary = mean_metrics(self.crew.sum_metrics(stats))
        if self.kl_coeffs[name] > 0:
            summary["cur_kl_coeff"] = self.kl_coeffs[name]
            target = self.configs[name].kl_target
            self.kl_coeffs[name] = adapted_kl_coeff(self.kl_coeffs[name], summary["kl"], target)
        if name in self.custom:
            summary |= self.custom[name].stats()
        explained = float(explained_variance(lesson.data["values"], lesson.data["value_targets"]))
        return {**summary, "cur_lr": lesson.lr, "entropy_coeff": lesson.entropy_coeff, "vf_explained_var": explained}

    def _update(
        self, parts: Mapping[PolicyID, Minibatch], lessons: Mapping[PolicyID, TrainBatch]
    ) -> dict[PolicyID, dict[str, Tensor]]:
        """One gradient step: each policy on its own loss, shared layers on the sum of them."""
        shared: dict[str, FlatOptimiser] = {}
        for name in parts:
            self.optimisers[name].zero()
            for layers in self.policies[name].shared:
                shared[layers] = self.shared[layers]
        for block in shared.values():
            block.zero()
        stats, weights = {}, {}
        for name, part in parts.items():
            mine, weights[name] = part.share(self.crew)
            loss, stats[name] = self._loss(name, mine, lessons[name].entropy_coeff)
            (loss * weights[name]).backward()  # type: ignore[no-untyped-call]
        for name in parts:
            clip, lr = self.configs[name].grad_clip, lessons[name].lr
            stats[name]["grad_norm"] = self.optimisers[name].step(clip, lr, self.crew)
        for block in shared.values():
            first = next(iter(parts))
            block.step(self.configs[first].grad_clip, lessons[first].lr, self.crew)
        self.counters["num_updates"] += 1
        return {name: {n: value * weights[name] for n, value in row.items()} for name, row in stats.items()}

    def _loss(self, name: PolicyID, part: Minibatch, entropy_coeff: float) -> tuple[Tensor, dict[str, Tensor]]:
        config, actor, data = self.configs[name], self.actors[name], part.data
        params, own_values = actor(data["obs"], data["agent_index"], data["legal"], part.sequences)
        logp = actor.distribution.logp(params, data["actions"])
        if config.objective == "ppo":
            actor_loss = clipped_loss(logp, data["action_logp"], data["advantages"], config.clip_param)
        else:
            actor_loss = policy_gradient_loss(logp, data["advantages"])
        entropy = actor.distribution.entropy(params).mean()
        loss = actor_loss - entropy_coeff * entropy
        vf_loss = torch.zeros(())
        if config.objective != "pg":
            values = own_values if actor.shares_value else self._critic_values(name, data)
            vf_loss = value_loss(values, data["value_targets"], data["values"], config.vf_clip_param)
            loss = loss + config.vf_loss_coeff * vf_loss
        if self.kl_coeffs[name] > 0:
            kl = actor.distribution.kl(data["old_params"], params).mean()
            loss = loss + self.kl_coeffs[name] * kl
        else:
            kl = (data["action_logp"] - logp).mean()  # an estimate from the sampled actions
        stats = {"policy_loss": actor_loss, "vf_loss": vf_loss, "entropy": entropy, "kl": kl}
        if name in self.magnets:
            stats["magnet_kl"] = self.magnets[name].pull(params, part)
            loss = loss + self.magnets[name].coeff * stats["magnet_kl"]
        if name in self.custom:
            loss = with_custom(self.custom[name], loss, data)
        self._check_finite(name, loss)
        return loss, {n: value.detach() for n, value in {"total_loss": loss, **stats}.items()}

    def _critic_values(self, name: PolicyID, data: Mapping[str, Tensor]) -> Tensor:
        values: Tensor = self.critics[name](data["obs"], data["agent_index"], data["critic_features"])
        return values

    def _check_finite(self, name: PolicyID, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise TrainingError(
                f"the loss of policy {name!r} became {float(loss.detach())} after {self.counters['num_updates']} "
                "updates. Usual remedies: a smaller lr, a smaller grad_clip, and a look at the env's rewards and "
                "observations."
            )

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
            "magnets": {name: magnet.state_dict() for name, magnet in self.magnets.items()},
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
        for name, magnet in self.magnets.items():
            magnet.load_state_dict(state["magnets"][name])


def _companies(
    policies: Mapping[PolicyID, Policy], sharing: Mapping[str, list[PolicyID]]
) -> list[tuple[PolicyID, ...]]:
    """Policies that share layers, and each of the others by itself."""
    together = [tuple(sorted(users)) for users in sharing.values()]
    sharers = {name for update_group in together for name in update_group}
    return sorted([*together, *((name,) for name in policies if name not in sharers)])


def _check(name: PolicyID, config: CentralCriticConfig, actor: StochasticPolicy) -> None:
    wants_entropy = config.entropy_coeff > 0 or config.entropy_coeff_schedule
    if actor.noise_sets_std and wants_entropy:
        raise ConfigError(f"policy {name!r}: GaussianNoise fixes the entropy, so entropy_coeff must be 0.")
