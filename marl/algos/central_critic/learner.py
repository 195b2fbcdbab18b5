"""Stochastic actors with value critics: PG, A2C, PPO, MAPPO and IMPALA differ in the objective and in what the critic sees.

    A      = GAE(r, V(view), gamma, lambda)                          (vtrace: corrected for older weights)
    actor  = -log pi(a|o) A             (pg, a2c, vtrace)     or the clipped ratio (ppo: clipped_loss in losses.py)
    critic = (V(view) - (A + V_old))^2

Details that matter for results: each fragment is bootstrapped with the critic's value of its last view; advantages are
normalised over a policy's training batch; the ratio is taken against the policy that acted; orthogonal initialisation
with a small last layer of the actor; one optimiser over actor and critic with the gradient clipped per policy. Recurrent
policies are trained on sequences of ``max_seq_len`` decisions that begin with the memory they were played with.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from marl.algos import together
from marl.algos.central_critic.action_critic import build_critic, loss_over_actions
from marl.algos.central_critic.actor_critic import ActorCritic, Outputs, Slopes, check_entropy
from marl.algos.central_critic.advantages import with_advantages
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import Critic, CriticView, in_network_units
from marl.algos.central_critic.losses import (
    adapted_kl_coeff,
    clipped_loss,
    explained_variance,
    means_of,
    normalized,
    policy_gradient_loss,
    value_loss,
    weighted,
)
from marl.algos.central_critic.magnet import Magnet
from marl.algos.central_critic.next_actions import with_next_actions
from marl.algos.central_critic.penalties import Penalty, penalties
from marl.algos.central_critic.sequential import SequentialJob, in_turn, job_of
from marl.algos.central_critic.stacked import TrainingJob
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch, prepare
from marl.algos.config import LearnerConfig, scheduled
from marl.algos.custom_loss import build_losses, with_custom
from marl.algos.learner import Learner, LearnerSpec, Metrics, Prepared, to_numpy, update_groups
from marl.algos.optimiser import FlatOptimiser, shared_optimisers
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, PolicyID, Task
from marl.errors import TrainingError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy
from marl.policies.stochastic import StochasticPolicy

Numbers: TypeAlias = dict[str, Tensor]  # a loss and its parts, one number each
STEPS = ("_train", "_minibatches", "_update", "_add_gradient", "_loss", "_check_finite")
"""What ``stacked.py`` does for several policies at once, or relies on: a user's class that has another one is not stacked."""


class CentralCriticLearner(Learner):
    """Each policy has its own critic, optimiser and config; joint critics read the other agents' observations."""

    shares_minibatches = stacks = True

    def __init__(
        self, policies: Mapping[PolicyID, Policy], task: Task, configs: Mapping[PolicyID, CentralCriticConfig],
        models: Mapping[PolicyID, ModelConfig], seed: int, everybody: Mapping[PolicyID, Policy] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.task, self.configs, self.models, self.seed = task, dict(configs), dict(models), seed
        self.everybody = policies if everybody is None else everybody  # who may play beside them
        self.actors: dict[PolicyID, StochasticPolicy] = {
            n: p for n, p in policies.items() if isinstance(p, StochasticPolicy)
        }
        self.critics: dict[PolicyID, Critic] = {}
        self.networks: dict[PolicyID, ActorCritic] = {}
        self.optimisers: dict[PolicyID, FlatOptimiser] = {}
        for i, (name, actor) in enumerate(self.actors.items()):
            self._add(name, actor, seed + i)
        self.shared = shared_optimisers(policies, configs)
        self.update_groups = in_turn(configs, update_groups(policies, self.sharing))
        self.custom = build_losses(policies, configs)
        self.own_steps = all(getattr(type(self), step) is getattr(CentralCriticLearner, step) for step in STEPS)
        self.magnets = {
            name: Magnet(actor, configs[name].magnet_coeff, configs[name].magnet_tau, configs[name].magnet_every)
            for name, actor in self.actors.items() if configs[name].magnet_coeff > 0
        }  # fmt: skip
        self.gathered: dict[PolicyID, list[SampleBatch]] = {name: [] for name in policies}
        self.steps_gathered = dict.fromkeys(policies, 0)
        self.kl_coeffs = {name: configs[name].kl_coeff for name in policies}
        self.lr: dict[PolicyID, float] = {}  # these three are set for each training batch: schedules move them
        self.entropy_coeffs: dict[PolicyID, float] = {}
        self.backward_kl_coeffs: dict[PolicyID, float] = {}

    def _add(self, name: PolicyID, actor: StochasticPolicy, seed: int) -> None:
        config = self.configs[name]
        check_entropy(name, config, actor)
        view = CriticView(self.task, config.critic_sees, actor, actions=config.critic_sees_actions)
        critic = build_critic(name, view, config, actor, self.models[name], seed)
        parameters = actor.own_parameters()
        self.networks[name] = ActorCritic(actor, None)
        if not actor.shares_value and config.objective != "pg":
            parameters += critic.parameters()
            self.networks[name].critic = critic
        self.critics[name] = critic
        self.optimisers[name] = FlatOptimiser(parameters, config.optimizer, config.lr, f"policy {name!r}")

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.central_critic.reading import reading  # knows this class itself

        assert isinstance(config, CentralCriticConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> CentralCriticLearner:
        configs = {name: c for name, c in spec.configs.items() if isinstance(c, CentralCriticConfig)}
        return cls(spec.policies, spec.task, configs, spec.models, spec.seed, spec.everybody)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        super().set_trained(policies)
        for name in set(self.policies) - self.trained:  # what a policy did while frozen is not its own experience
            self.gathered[name], self.steps_gathered[name] = [], 0

    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        return self._with_advantages(policy, batch)["values"]

    # -- learning --------------------------------------------------------------------------------------------------

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        ready = self._prepare(batch)
        return ready.finish(together.update(ready.jobs))

    def prepare(self, batch: MultiAgentBatch) -> Prepared:
        own = getattr(self.learn, "__func__", None) is CentralCriticLearner.learn
        # A user's class may learn in its own way.
        return self._prepare(batch) if own else super().prepare(batch)

    def _prepare(self, batch: MultiAgentBatch) -> Prepared:
        """Take the round in; a training batch that is complete is a job."""
        env_steps = batch.env_steps
        self.clock.start()
        batch = with_next_actions(self, batch)
        for name in sorted(self.trained):
            rows = self._with_advantages(name, batch)
            if len(rows):  # a round may close no decision of a policy
                self.gathered[name].append(rows)
            self.timesteps[name] += env_steps
            self.steps_gathered[name] += env_steps
        self.clock.lap("load")
        jobs: list[TrainingJob | SequentialJob] = []
        for update_group in self.update_groups:
            trained = [name for name in update_group if name in self.trained]
            # They agree on the size of a batch.
            if trained and self.steps_gathered[trained[0]] >= self.configs[trained[0]].train_batch_size:
                jobs.append(job_of(self, trained, self._take_gathered(trained)))
        return Prepared(jobs, lambda trained: self._trained(jobs, trained))

    def _trained(self, jobs: Sequence[TrainingJob | SequentialJob], trained: Sequence[Metrics]) -> Metrics:
        metrics: Metrics = {}
        for job, found in zip(jobs, trained, strict=True):
            metrics |= found
            for name in job.policies:
                if self.policies[name].anneals:  # not between rounds of one batch: exploration is part of the policy
                    self.policies[name].anneal(self.timesteps[name])
        return metrics

    def _with_advantages(self, name: PolicyID, batch: MultiAgentBatch) -> SampleBatch:
        batch = with_next_actions(self, batch)
        return with_advantages(name, batch, self.configs[name], self.actors[name], self.critics[name])

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

    def _train(self, batches: Mapping[PolicyID, SampleBatch]) -> Metrics:
        """All gradient steps on one training batch: of one policy, or of several that share layers."""
        train_batches: dict[PolicyID, TrainBatch] = {}
        streams: list[Iterator[Minibatch]] = []
        stats: dict[PolicyID, list[Numbers]] = {}
        for name, rows in batches.items():
            if self.on_batch is not None:
                self.on_batch(name, rows)
            train_batches[name], stats[name] = self._train_batch(name, rows), []
            streams.append(self._minibatches(name, train_batches[name]))
        for minibatches in zip_longest(*streams):  # a policy whose minibatches are used up sits out the others' rest
            left = {}
            for name, minibatch in zip(batches, minibatches, strict=True):
                if minibatch is not None:
                    left[name] = minibatch
            self._update(left, stats)
        metrics: Metrics = {}
        for name, rows in batches.items():
            metrics[name] = self._finish(name, rows, train_batches[name], stats[name])
        return metrics

    def _train_batch(self, name: PolicyID, rows: SampleBatch) -> TrainBatch:
        """The rows as tensors, and the rates that hold while the policy is trained on them."""
        config, actor, timesteps = self.configs[name], self.actors[name], self.timesteps[name]
        self.lr[name] = scheduled(config.lr_schedule, config.lr, timesteps)
        self.entropy_coeffs[name] = config.entropy_coeff_at(timesteps)
        self.backward_kl_coeffs[name] = config.backward_kl_coeff_at(timesteps)
        train_batch = prepare(rows, actor.carry_size, self.models[name].max_seq_len, self.critics[name].device)
        data = train_batch.data
        if config.normalize_advantages:  # over all rows: the mean and deviation of a small minibatch are noise
            data["advantages"] = normalized(data["advantages"])
        if "factors" in data:
            data["advantages"] = data["advantages"] * data.pop("factors")
        if config.normalize_values:  # the losses compare what networks give, so old values and targets take their units
            data |= in_network_units(actor, self.critics[name], data)
        over_actions = config.critic_values == "actions" and config.objective == "ppo"
        if self.kl_coeffs[name] > 0 or self.backward_kl_coeffs[name] > 0 or over_actions:
            # Both penalties, and ratios of all actions, compare with the policy as it is before the first step.
            with torch.no_grad():
                sequences = train_batch.whole().sequences
                data["old_params"], _ = actor(data["obs"], data["agent_index"], data["legal"], sequences)
        return train_batch

    def _minibatches(self, name: PolicyID, train_batch: TrainBatch) -> Iterator[Minibatch]:
        """ppo goes several times over shuffled minibatches; the other objectives take one step on everything."""
        config, unread = self.configs[name], self._unread_columns(name)
        if config.objective == "ppo":
            minibatches = train_batch.minibatches(self.rng, config.num_sgd_iter, config.sgd_minibatch_size, unread)
        else:
            minibatches = iter([train_batch.whole()])
        if self.learner_group.size > 1:
            return (minibatch.share(self.learner_group) for minibatch in minibatches)
        return minibatches

    def _unread_columns(self, name: PolicyID) -> set[str]:
        """What the loss of ours does not look at; a user's may look at everything."""
        if name in self.custom or not self.own_steps:
            return set()
        return {"rewards"} if self.configs[name].vf_clip_param is not None else {"rewards", "values"}

    @torch.no_grad()
    def _update(self, minibatches: Mapping[PolicyID, Minibatch], stats: Mapping[PolicyID, list[Numbers]]) -> None:
        """One gradient step: each policy on its own loss, the layers that they share on the sum of the losses."""
        first = next(iter(minibatches))  # policies that share layers agree on lr and grad_clip
        for name in minibatches:
            self.optimisers[name].zero()
        for layers in self.policies[first].shared:
            self.shared[layers].zero()
        numbers: dict[PolicyID, Numbers] = {}
        # All gradients before the first step: shared layers must be the same in each of them.
        for name, minibatch in minibatches.items():
            numbers[name] = self._add_gradient(name, minibatch)
        for name, minibatch in minibatches.items():
            grad_clip = self.configs[name].grad_clip
            numbers[name]["grad_norm"] = self.optimisers[name].step(grad_clip, self.lr[name], self.learner_group)
            stats[name].append(weighted(numbers[name], minibatch.weight))
        for layers in self.policies[first].shared:
            self.shared[layers].step(self.configs[first].grad_clip, self.lr[first], self.learner_group)
        self.counters["num_updates"] += 1

    def _add_gradient(self, name: PolicyID, minibatch: Minibatch) -> Numbers:
        """The gradient of the policy's loss goes to its parameters; returns the loss and its parts."""
        if name in self.custom:
            return self._add_custom_gradient(name, minibatch)
        networks = self.networks[name]
        outputs = networks.run(minibatch)
        numbers, slopes = self._loss(name, outputs, minibatch)
        self._check_finite(name, numbers["total_loss"])
        if minibatch.weight != 1.0:
            slopes = slopes.scaled(minibatch.weight)
        networks.pull(minibatch, outputs, slopes)
        return numbers

    def _loss(self, name: PolicyID, outputs: Outputs, minibatch: Minibatch) -> tuple[Numbers, Slopes]:
        """The loss with its parts, for the metrics, and its derivatives by what actor and critic gave.

        Also of policies that are trained together: then everything has one more axis in front.
        """
        config, distribution, data = self.configs[name], self.actors[name].distribution, minibatch.data
        entropy_coeff, rows = self.entropy_coeffs[name], minibatch.rows
        measured = distribution.measure(outputs.params, data["actions"])
        by_params: Tensor | float = 0.0
        if config.critic_values == "actions":
            losses, by_params = loss_over_actions(outputs.params, data.get("old_params"), outputs.values, config)
            by_logp = torch.zeros_like(losses)
        elif config.objective == "ppo":
            losses, by_logp = clipped_loss(measured.logp, data["action_logp"], data["advantages"], config.clip_param)
        else:
            losses, by_logp = policy_gradient_loss(measured.logp, data["advantages"])
        # The entropy bonus keeps a policy from settling early (Mnih et al., 2016).
        slopes = Slopes(measured.slopes(by_logp, -entropy_coeff).add_(by_params).div_(rows))
        # An estimate of the KL divergence from the sampled actions.
        parts = {"policy_loss": losses, "entropy": measured.entropy, "kl": data["action_logp"] - measured.logp}
        if config.objective != "pg":
            critic, actions = self.critics[name], data["actions"]
            learned = critic.of_taken(outputs.values, actions)
            targets, old_values = data["value_targets"], data.get("values", learned)
            limits = config.vf_clip_param, config.vf_huber_delta
            parts["vf_loss"], by_values = value_loss(learned, targets, old_values, *limits)
            slopes.by_values = critic.by_all(by_values.mul_(config.vf_loss_coeff / rows), outputs.values, actions)
        numbers = means_of(parts, rows)
        vf_loss = numbers.setdefault("vf_loss", torch.zeros_like(numbers["entropy"]))
        loss = (
            numbers["policy_loss"]
            .add(numbers["entropy"], alpha=-entropy_coeff)
            .add(vf_loss, alpha=config.vf_loss_coeff)
        )
        for penalty in self._penalties(name, minibatch):
            numbers[penalty.metric], by_params = penalty.with_slope(outputs.params, rows)
            loss = loss + penalty.coeff * numbers[penalty.metric]
            slopes.by_params += penalty.coeff * by_params
        return {"total_loss": loss, **numbers}, slopes

    def _penalties(self, name: PolicyID, minibatch: Minibatch) -> Iterator[Penalty]:
        """What draws the policy back to where it was."""
        coeffs = self.kl_coeffs[name], self.backward_kl_coeffs[name]
        return penalties(self.actors[name].distribution, minibatch, *coeffs, self.magnets.get(name))

    def _add_custom_gradient(self, name: PolicyID, minibatch: Minibatch) -> Numbers:
        """With the user's addition to the loss, by autograd: users may do with a loss what they want."""
        outputs, params, values = self.networks[name].run_traced(minibatch)
        numbers, slopes = self._loss(name, outputs, minibatch)
        with torch.enable_grad():
            # Adds nothing to the value of the loss, and gives it the derivatives that it has.
            loss = numbers["total_loss"] + ((params - outputs.params) * slopes.by_params).sum()
            if slopes.by_values is not None:
                loss = loss + ((values - outputs.values) * slopes.by_values).sum()
            loss = with_custom(self.custom[name], loss, minibatch.data)
            self._check_finite(name, loss)
            (loss * minibatch.weight).backward()  # type: ignore[no-untyped-call]
        return {**numbers, "total_loss": loss.detach()}

    def _finish(
        self, name: PolicyID, rows: SampleBatch, train_batch: TrainBatch, stats: list[Numbers]
    ) -> dict[str, float]:
        """What follows the last gradient step on a training batch; returns the metrics."""
        config = self.configs[name]
        # Filters move only now: within a training batch the ratio compares policies that are shown the same numbers.
        if self.actors[name].keeps_statistics:
            self.actors[name].observe(rows["obs"], rows["agent_index"])
            self.critics[name].observe(rows["obs"], rows["agent_index"])
        if name in self.magnets:
            self.magnets[name].follow()
        summed: Sequence[Mapping[str, Tensor | float]] = stats
        if self.learner_group.size > 1:
            summed = self.learner_group.sum_metrics(stats)
        metrics: dict[str, float] = {}
        for key in summed[0]:
            metrics[key] = float(np.mean([float(numbers[key]) for numbers in summed]))
        if self.kl_coeffs[name] > 0:
            metrics["cur_kl_coeff"] = self.kl_coeffs[name]
            self.kl_coeffs[name] = adapted_kl_coeff(self.kl_coeffs[name], metrics["kl"], config.kl_target)
        if name in self.custom:
            metrics |= self.custom[name].stats()
        metrics["cur_lr"], metrics["entropy_coeff"] = self.lr[name], self.entropy_coeffs[name]
        explained = explained_variance(train_batch.data["values"], train_batch.data["value_targets"])
        metrics["vf_explained_var"] = float(explained)
        return metrics

    def _check_finite(self, name: PolicyID, loss: Tensor) -> None:
        if not math.isfinite(loss.item()):
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
            self.critics[name].load_saved(state["critics"][name])
            self.optimisers[name].load_state_dict(state["optimisers"][name])
        for layers, saved in state["shared"].items():
            self.shared[layers].load_state_dict(saved)
        self.gathered = {name: [SampleBatch(rows) for rows in batches] for name, batches in state["gathered"].items()}
        self.steps_gathered = dict(state["steps_gathered"])
        self.kl_coeffs = dict(state["kl_coeffs"])
        for name, magnet in self.magnets.items():
            magnet.load_state_dict(state["magnets"][name])
