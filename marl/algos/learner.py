"""What learns. A learner turns batches into better policies; it decides by itself when it has seen enough for an update."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch

from marl.algos.config import LearnerConfig
from marl.algos.intrinsic.bonuses import Bonuses
from marl.algos.learner_group import ALONE, LearnerGroup
from marl.algos.reading import Reading, own_functions
from marl.algos.together import Job
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.clock import Clock
from marl.data.task import Array, Floats, PolicyID, Task
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy

Metrics: TypeAlias = dict[PolicyID, dict[str, float]]


@dataclass(frozen=True)
class LearnerSpec:
    """All that a learner is built from. It trains ``policies`` and may read ``everybody``, all policies of the run by their
    index in a batch. ``seats`` are those that each of its policies may ever play."""

    policies: Mapping[PolicyID, Policy]
    everybody: Mapping[PolicyID, Policy]
    configs: Mapping[PolicyID, LearnerConfig]
    models: Mapping[PolicyID, ModelConfig]
    seats: Mapping[PolicyID, frozenset[int]]
    task: Task
    seed: int
    algo: str = ""


@dataclass(frozen=True)
class Prepared:
    """A round that is ready to be learned from."""

    jobs: Sequence[Job]
    finish: Callable[[Sequence[Any]], Metrics]  # is given the result of each job


class Learner(ABC):
    """Trains ``policies``. It may read every policy but changes only its own, and of these only the ``trained`` ones."""

    shares_minibatches: bool = False
    """Whether it computes only its learner group's share of each minibatch, so that ``num_learners`` may be more than 1."""
    stacks: bool = False
    """Whether it hands its gradient steps to ``together.update``, so that many seeds learn in one go (``--stacked``)."""

    def __init__(self, policies: Mapping[PolicyID, Policy], seed: int) -> None:
        self.policies = dict(policies)
        self.sharing = sharing(policies)
        self.learner_group: LearnerGroup = ALONE
        self.bonuses = Bonuses({})  # what is added to the env's rewards before `learn` is given a batch
        self.ends_at_limits: frozenset[PolicyID] = frozenset()  # for whom a truncated episode is over
        self.trained: frozenset[PolicyID] = frozenset(policies)
        self.rng = np.random.default_rng([seed, 3])
        self.timesteps = dict.fromkeys(policies, 0)  # env steps that each policy has learned from
        self.counters: dict[str, int] = {
            "num_steps_trained": 0,
            "num_agent_steps_trained": 0,
            "num_updates": 0,
        }
        self.clock = Clock()  # books under "load" what turning batches into rows to learn from takes
        self.on_batch: Callable[[PolicyID, SampleBatch], None] | None = None  # is told what a policy will learn from
        self.td_errors: dict[PolicyID, Floats] = {}  # of the newest training batch, with `full_td_error`

    @property
    def crew(self) -> LearnerGroup:
        """The old name of ``learner_group``, for one release."""
        return self.learner_group

    @crew.setter
    def crew(self, group: LearnerGroup) -> None:
        self.learner_group = group

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        """Train only these from now on. A frozen policy changes by nothing; a thawed one goes on where it stopped."""
        trained = frozenset(policies) & frozenset(self.policies)
        for layers, sharers in self.sharing.items():
            if trained & set(sharers) and not trained >= set(sharers):
                raise ConfigError(
                    f"policies {', '.join(sharers)} share the layers {layers!r}, but only "
                    f"{', '.join(sorted(trained & set(sharers)))} would be trained, which would change the others. Train all "
                    "of them or none, or give them layers of their own."
                )
        self.trained = trained

    @classmethod
    @abstractmethod
    def build(cls, spec: LearnerSpec) -> Learner:
        """A learner of these policies; refuses with a ``UserError`` what it cannot learn."""

    @abstractmethod
    def learn(self, batch: MultiAgentBatch) -> Metrics:
        """Take one round's batch; metrics of the policies that were updated, empty when it was not yet time."""

    def as_learned(self, batch: MultiAgentBatch) -> MultiAgentBatch:
        """The batch as this learner learns from it: with intrinsic rewards, and with ends where its policies take a time limit
        for one."""
        batch = self.with_bonuses(batch)
        if self.ends_at_limits:
            batch = batch.with_ends(self.ends_at_limits)
        return batch

    def with_bonuses(self, batch: MultiAgentBatch) -> MultiAgentBatch:
        """The batch with the intrinsic rewards of its policies."""
        return self.bonuses.add_to(batch, self.trained, self.timesteps)

    def prepare(self, batch: MultiAgentBatch) -> Prepared:
        """``learn`` in two steps, for learners whose gradient steps may be done together with those of others: jobs to do,
        and what to do with their results."""
        return Prepared([], lambda _: self.learn(batch))

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        """What ``marl show`` prints of an algorithm with these keys; unless declared, all that the class defines."""
        del config
        return Reading(own_functions(cls))

    def value_function(self, policy: PolicyID, batch: MultiAgentBatch) -> Array:
        """Values ``[N]`` of a policy's decisions in a batch."""
        del batch
        raise ConfigError(f"policy {policy!r} is trained by an algorithm without a critic.")

    @abstractmethod
    def state_dict(self) -> dict[str, Any]:
        """Everything but the policies' own weights and the replay: optimisers, critics, targets, counters."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None: ...

    def replay_state(self) -> dict[str, Any]:
        """The replay, which only the newest checkpoint holds; empty for learners without one."""
        return {}

    def load_replay_state(self, state: Mapping[str, Any]) -> None:
        del state

    def _show(self, policy: PolicyID, rows: SampleBatch | Callable[[], SampleBatch]) -> None:
        """Tell whoever listens what the policy is about to learn from, or how to make it if anybody listens."""
        if self.on_batch is None:
            return
        if not isinstance(rows, SampleBatch):
            rows = rows()
        self.on_batch(policy, rows)

    def _count_steps(self, env_steps: int) -> None:
        for policy in self.trained:
            self.timesteps[policy] += env_steps

    def _count_target_update(self, policy: PolicyID) -> None:
        """Slow copies have moved; ``last_target_update_ts`` is the env step of the newest move."""
        self.counters["num_target_updates"] += 1
        self.counters["last_target_update_ts"] = self.timesteps[policy]

    def _observe(self, batch: MultiAgentBatch) -> None:
        """Running statistics of the policies' observations take this batch into account."""
        for name in sorted(self.trained):
            policy = self.policies[name]
            if policy.keeps_statistics:
                rows = batch.for_policy(name, kind=batch.task.kinds.index(policy.kind))
                policy.observe(rows["obs"], rows["agent_index"])

    def _anneal(self) -> None:
        for policy in self.trained:
            self.policies[policy].anneal(self.timesteps[policy])

    def _common_state(self) -> dict[str, Any]:
        bonuses = self.bonuses.state_dict()
        return {
            "rng": self.rng.bit_generator.state, "timesteps": dict(self.timesteps), "counters": dict(self.counters),
            "td_errors": dict(self.td_errors), **({"intrinsic": bonuses} if bonuses else {}),
        }  # fmt: skip

    def _load_common_state(self, state: Mapping[str, Any]) -> None:
        self.rng.bit_generator.state = state["rng"]
        self.timesteps = dict(state["timesteps"])
        self.counters |= state["counters"]
        self.td_errors.clear()
        self.td_errors |= state.get("td_errors", {})
        self._load_bonuses(state)

    def _load_bonuses(self, state: Mapping[str, Any]) -> None:
        self.bonuses.load_state_dict(state.get("intrinsic", {}))


def sharing(policies: Mapping[PolicyID, Policy]) -> dict[str, list[PolicyID]]:
    """Names of shared layers to the policies that have them."""
    found: dict[str, list[PolicyID]] = {}
    for name, policy in policies.items():
        for layers in policy.shared:
            found.setdefault(layers, []).append(name)
    return found


def update_groups(
    policies: Mapping[PolicyID, Policy], sharing: Mapping[str, list[PolicyID]]
) -> list[tuple[PolicyID, ...]]:
    """Policies that share layers, and each of the others by itself."""
    groups = [tuple(sorted(users)) for users in sharing.values()]
    sharers: set[PolicyID] = set().union(*groups)
    for name in policies:
        if name not in sharers:
            groups.append((name,))
    return sorted(groups)


def to_numpy(state: Mapping[str, torch.Tensor]) -> dict[str, Array]:
    return {name: tensor.detach().cpu().numpy().copy() for name, tensor in state.items()}


def load_numpy(module: torch.nn.Module, state: Mapping[str, Array]) -> None:
    module.load_state_dict({name: torch.from_numpy(np.array(array)) for name, array in state.items()})


def mean_metrics(rows: Sequence[Mapping[str, torch.Tensor | float]]) -> dict[str, float]:
    """Means over the updates of one call."""
    means = {}
    for name in rows[0]:
        means[name] = float(np.mean([float(row[name]) for row in rows]))
    return means
