"""Policies of one shape that are trained together: their minibatches as one ``[K, N, ...]``, their networks as one stack.

The loss is the one of the learner. What differs from training one after the other is the order of the computations alone: each
policy has its own rows, its own shuffling, its own gradient norm and its own optimiser.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from marl.algos import together
from marl.algos.central_critic.actor_critic import ActorCritic, Outputs, Slopes
from marl.algos.central_critic.critic import Critic
from marl.algos.central_critic.train_batch import Minibatch, TrainBatch
from marl.algos.stack import FlatStack
from marl.data.batch import SampleBatch
from marl.data.task import PolicyID
from marl.errors import TrainingError
from marl.policies.distributions import Distribution
from marl.policies.mlp import MLP, Layer, pull_layers, run_layers
from marl.policies.networks import Body

if TYPE_CHECKING:
    from marl.algos.central_critic.learner import CentralCriticLearner, Numbers


@dataclass
class TrainingJob:
    """All gradient steps on one training batch: of one policy, or of several that share layers."""

    learner: CentralCriticLearner
    policies: Sequence[PolicyID]  # those without a row in ``batches`` have not decided anything
    batches: Mapping[PolicyID, SampleBatch]

    @property
    def key(self) -> Hashable:
        """Jobs with equal keys are done together: all but the weights, the rows and the step size is the same."""
        if len(self.batches) != 1:
            return id(self)
        (name,), (rows,) = self.batches, self.batches.values()
        learner = self.learner
        if not can_be_stacked(learner, name):
            return id(self)
        config = learner.configs[name].model_copy(update={"lr": 0.0, "lr_schedule": None})
        shapes = tuple(tuple(p.shape) for p in learner.optimisers[name].params)
        columns = tuple(
            (column, str(rows[column].dtype), rows[column].shape[1:]) for column in ("obs", "actions", "legal")
        )
        actor, critic = learner.actors[name], learner.critics[name]
        # A policy that was frozen for a while is behind the others on its schedules.
        timesteps = learner.timesteps[name]
        coeffs = config.entropy_coeff_at(timesteps), config.backward_kl_coeff_at(timesteps)
        return (
            type(learner), repr(config), coeffs, repr(learner.models[name]),
            repr(actor.kind.action_space), actor.features.meaning, shapes, columns, len(rows), critic.view.sees,
            str(critic.device),
        )  # fmt: skip

    @classmethod
    def run_together(cls, jobs: Sequence[TrainingJob]) -> Sequence[Any]:
        """Metrics of each, or its error."""
        alone = len(jobs) == 1 and not (together.stacked() and not isinstance(jobs[0].key, int))
        if alone:
            return [jobs[0].learner._train(jobs[0].batches)]
        return Stack(jobs).train()


def can_be_stacked(learner: CentralCriticLearner, name: PolicyID) -> bool:
    """Whether everything that this policy's loss is made of is written for several policies at once."""
    penalties = name in learner.magnets or learner.kl_coeffs[name] > 0
    users_loss = name in learner.custom or not learner.own_steps
    if penalties or users_loss or learner.learner_group.size > 1:
        return False
    return _plain(learner.networks[name])


def _plain(networks: ActorCritic) -> bool:
    """Fully connected layers of its own behind every output; a user's distribution may know single rows alone."""
    actor, critic = networks.actor, networks.critic
    if actor.shared or actor.noise_sets_std or type(actor.distribution).measure is Distribution.measure:
        return False
    bodies = [actor.model]
    if critic is not None and isinstance(critic.network, Body):
        bodies.append(critic.network)
    return all(body.plain for body in bodies)


class StackedActorCritic:
    """``ActorCritic`` of several policies: the same verbs, with one more axis."""

    def __init__(self, networks: Sequence[ActorCritic], stack: FlatStack) -> None:
        self.networks = list(networks)
        first = self.networks[0]
        self.size = len(stack.flat)
        self.actor_layers = stack.layers(_layers_of(first.actor.model))
        self.critic_layers: list[Layer] | None = None
        if first.critic is not None:
            self.critic_layers = stack.layers(_layers_of(first.critic.network))
        self.log_std: Tensor | None = None
        if first.actor.log_std is not None:
            self.log_std = stack.stacked(first.actor.log_std.data)

    def run(self, minibatch: Minibatch) -> Outputs:
        data, actor = minibatch.data, self.networks[0].actor
        out, tape = run_layers(self.actor_layers, self._features([n.actor.model for n in self.networks], data))
        log_std = None if self.log_std is None else self.log_std.unsqueeze(1)
        values = out[..., -1] if actor.shares_value else out.new_zeros(out.shape[:-1])
        outputs = Outputs(actor._params(out, data["legal"], log_std), values, tape)
        if self.critic_layers is not None:
            out, outputs.critic_tape = run_layers(self.critic_layers, self._critic_features(data))
            outputs.values = self._critic.values_of(out)
        return outputs

    def pull(self, minibatch: Minibatch, outputs: Outputs, slopes: Slopes) -> None:
        by_params, by_values = slopes.by_params, slopes.by_values
        # Rows that only fill up teach nothing.
        by_params[:, minibatch.rows :] = 0.0
        if by_values is not None:
            by_values[:, minibatch.rows :] = 0.0
        actor = self.networks[0].actor
        if self.log_std is not None:
            assert self.log_std.grad is not None
            self.log_std.grad.add_(by_params[..., -actor.distribution.numbers :].sum(1))
        by_own_values = by_values if self.critic_layers is None else None
        by_outputs = actor.by_outputs(by_params, by_own_values, minibatch.data["legal"])
        assert isinstance(outputs.actor_tape, list)
        pull_layers(self.actor_layers, outputs.actor_tape, by_outputs)
        if self.critic_layers is not None and by_values is not None:
            assert isinstance(outputs.critic_tape, list)
            pull_layers(self.critic_layers, outputs.critic_tape, self._critic.by_output(by_values))

    @property
    def _critic(self) -> Critic:
        critic = self.networks[0].critic
        assert critic is not None
        return critic

    def _critic_features(self, data: Mapping[str, Tensor]) -> Tensor:
        if self._critic.joint:
            return data["critic_features"]
        bodies = [
            n.critic.network for n in self.networks if n.critic is not None and isinstance(n.critic.network, Body)
        ]
        return self._features(bodies, data)

    def _features(self, bodies: Sequence[Body], data: Mapping[str, Tensor]) -> Tensor:
        """What the first layers see. Filters and users' preprocessors have numbers of their own; without them all policies
        encode alike."""
        obs, index = data["obs"], data["agent_index"]
        if bodies[0].filter is None and bodies[0].features.custom is None:
            return bodies[0].encode(obs.flatten(0, 1), index.flatten()).view(*obs.shape[:2], -1)
        encoded = []
        for k in range(self.size):
            encoded.append(bodies[min(k, len(bodies) - 1)].encode(obs[k], index[k]))
        return torch.stack(encoded)


def _layers_of(network: torch.nn.Module) -> MLP:
    layers = network.network if isinstance(network, Body) else network
    assert isinstance(layers, MLP)
    return layers


class Stack:
    """One training batch of every job, trained on together."""

    def __init__(self, jobs: Sequence[TrainingJob]) -> None:
        self.jobs = list(jobs)
        self.names: list[PolicyID] = [next(iter(job.batches)) for job in jobs]
        self.learners = [job.learner for job in jobs]
        self.parts: list[TrainBatch] = []
        for learner, name, job in zip(self.learners, self.names, jobs, strict=True):
            rows = job.batches[name]
            if learner.on_batch is not None:
                learner.on_batch(name, rows)
            self.parts.append(learner._train_batch(name, rows))
        self.optimisers = FlatStack.of([a.optimisers[n] for a, n in zip(self.learners, self.names, strict=True)])
        networks = [a.networks[n] for a, n in zip(self.learners, self.names, strict=True)]
        self.networks = StackedActorCritic(networks, self.optimisers)
        self.errors: dict[int, TrainingError] = {}

    @torch.no_grad()
    def train(self) -> list[Any]:
        """Metrics of each job, or the error that ended it; the others go on."""
        lrs = [learner.lr[name] for learner, name in zip(self.learners, self.names, strict=True)]
        first, name = self.learners[0], self.names[0]
        stats: list[Numbers] = []
        for minibatch in self._minibatches():
            self.optimisers.zero()
            outputs = self.networks.run(minibatch)
            numbers, slopes = first._loss(name, outputs, minibatch)
            self.networks.pull(minibatch, outputs, slopes)
            norms, errors = self.optimisers.step(first.configs[name].grad_clip, lrs)
            numbers["grad_norm"] = norms
            stats.append(numbers)
            self.errors = {**errors, **self.errors}
        return [self._finished(k, stats) for k in range(len(self.jobs))]

    def _finished(self, k: int, stats: Sequence[Numbers]) -> Any:
        if k in self.errors:
            return self.errors[k]
        learner, name = self.learners[k], self.names[k]
        learner.counters["num_updates"] += len(stats)
        mine: list[Numbers] = []
        for numbers in stats:
            mine.append({key: number[k] for key, number in numbers.items()})
        return {name: learner._finish(name, self.jobs[k].batches[name], self.parts[k], mine)}

    def _minibatches(self) -> Any:
        """``[K, n, ...]``: shuffled for each policy by its own learner's generator."""
        first, name = self.learners[0], self.names[0]
        config, left_out = first.configs[name], first._unread_columns(name)
        columns = self._columns(left_out)
        rows = len(self.parts[0].data["advantages"])
        if config.objective != "ppo":
            yield self._cut(columns, 0, rows)
            return
        for _ in range(config.num_sgd_iter):
            order = self._order(rows)
            shuffled = {}
            for column, values in columns.items():
                flat = torch.index_select(values.flatten(0, 1), 0, order)
                shuffled[column] = flat.view(values.shape)
            for start in range(0, rows, config.sgd_minibatch_size):
                yield self._cut(shuffled, start, min(config.sgd_minibatch_size, rows - start))

    def _columns(self, left_out: set[str]) -> dict[str, Tensor]:
        """Columns of all policies ``[K, rows, ...]``, with rows at the end that fill up the last minibatch."""
        found = {}
        for column, values in self.parts[0].data.items():
            if column in left_out:
                continue
            together_ = values.new_empty(self.networks.size, self._room(), *values.shape[1:])
            for k in range(self.networks.size):
                own = self.parts[min(k, len(self.parts) - 1)].data[column]
                together_[k, : len(own)] = own
                together_[k, len(own) :] = own[:1]  # not zeros: a user's preprocessor may make anything of them
            found[column] = together_
        return found

    def _room(self) -> int:
        """Rows per policy: in a stack of seeds every minibatch is filled up to whole slices (see together.py)."""
        rows = len(self.parts[0].data["advantages"])
        return together.whole(rows + together.SLICE) if together.stacked() else rows

    def _order(self, rows: int) -> Tensor:
        """Where each row of the shuffled columns comes from; rows that fill up stay where they are."""
        room = self._room()
        order = torch.arange(self.networks.size * room).view(self.networks.size, room)
        for k, learner in enumerate(self.learners):
            order[k, :rows] = torch.from_numpy(learner.rng.permutation(rows)) + k * room
        order[len(self.learners) :, :rows] = order[len(self.learners) - 1, :rows]  # the copy for company
        return order.flatten().to(self.parts[0].carry.device)

    def _cut(self, columns: Mapping[str, Tensor], start: int, count: int) -> Minibatch:
        filled = together.whole(count) if together.stacked() else count
        data = {column: values[:, start : start + filled] for column, values in columns.items()}
        return Minibatch(data, None, stacked_rows=count)
