"""All learners of a run behind one set of verbs. These live in this process; ``ray_learners`` adds processes that help."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import islice

from marl.algos import together
from marl.algos.learner import Learner, Metrics
from marl.algos.plan import LearnerPlan, Role, build_learner
from marl.algos.together import Job
from marl.data.batch import MultiAgentBatch
from marl.data.task import PolicyID, Task
from marl.errors import ConfigError, did_you_mean
from marl.policies.policy import Policy
from marl.scenario.resolve import Setup
from marl.training.extensions.callbacks import BatchListener


class Learners:
    """The learners that train the run's policies, one per plan."""

    def __init__(self, setup: Setup, policies: Mapping[PolicyID, Policy]) -> None:
        self.policies = policies
        self.listener: BatchListener | None = None
        self.members = build_learners(setup.plans, setup.roles, policies, setup.task, setup.scenario.seed)

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        """Hand one round's batch to every learner."""
        metrics = learn(self.members, batch)
        return metrics if self.listener is None else self.listener.completed(metrics)

    def listen(self, listener: BatchListener) -> None:
        """Tell the user's hook about every batch that a policy of this process learns from."""
        self.listener = listener
        for learner in self.members:
            learner.on_batch = listener

    @property
    def trained(self) -> frozenset[PolicyID]:
        """The policies that learn at present."""
        return frozenset(name for learner in self.members for name in learner.trained)

    def train_only(self, policies: Collection[PolicyID], trainable: Collection[PolicyID]) -> None:
        """Train only these from now on; they must be among those that can be trained at all."""
        for name in policies:
            if name not in trainable:
                known = ", ".join(trainable)
                raise ConfigError(
                    f"policy {name!r} cannot be trained. Trainable: {known}.{did_you_mean(name, trainable)}"
                )
        self.set_trained(policies)

    def set_trained(self, policies: Collection[PolicyID]) -> None:
        """Train only these from now on."""
        for learner in self.members:
            learner.set_trained(policies)

    def counters(self) -> dict[str, int]:
        """Counts of all learners together; the time of the last target update is the newest one."""
        total: dict[str, int] = {}
        for learner in self.members:
            for name, value in learner.counters.items():
                newest = name.startswith("last_")
                total[name] = max(total.get(name, 0), value) if newest else total.get(name, 0) + value
        return total

    def align(self) -> None:
        """Bring the state of the learners in this process to all others: after it was loaded."""

    def stop(self) -> None:
        """Free everything. The learners cannot learn afterwards."""


def build_learners(
    plans: Collection[LearnerPlan],
    roles: Mapping[PolicyID, Role],
    policies: Mapping[PolicyID, Policy],
    task: Task,
    seed: int,
) -> list[Learner]:
    """One learner per plan; the same arguments give the same learners in every process."""
    return [build_learner(plan, roles, policies, task, seed + 7919 * i) for i, plan in enumerate(plans)]


def learn(learners: Collection[Learner], batch: MultiAgentBatch) -> Metrics:
    """One after the other, in the same order everywhere: members of a learner group meet at every gradient."""
    prepared = [learner.prepare(learner.as_learned(batch)) for learner in learners]
    jobs: list[Job] = []
    for ready in prepared:
        jobs += ready.jobs
    # Policies of one shape, whoever their learners are, take their gradient steps together.
    results = iter(together.update(jobs))
    metrics: Metrics = {}
    for learner, ready in zip(learners, prepared, strict=True):
        found = ready.finish(list(islice(results, len(ready.jobs))))
        learner.bonuses.add_stats(found)
        metrics |= found
    return metrics


def make_learners(setup: Setup, policies: Mapping[PolicyID, Policy]) -> Learners:
    """Learners in this process, helped by others where ``num_learners`` is more than 1."""
    if setup.scenario.num_learners == 1:
        return Learners(setup, policies)
    from marl.training.ray_learners import RayLearners

    return RayLearners(setup, policies)
