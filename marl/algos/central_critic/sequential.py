"""Policies of a team that are updated one after the other (HAPPO; Kuba et al., 2022).

    order  = a new random order of the team's policies for each training batch
    M_1    = 1
    loss_i = as in ppo, with M_i * A in place of A
    M_i+1  = M_i * pi_i_new(u_i | o_i) / pi_i_old(u_i | o_i)           at the same step of the same episode

The joint advantage of a team is a sum over its members, each given what those before it do. Whoever comes later therefore
learns how good its action is together with what the earlier ones do *now*, and the team as a whole does not get worse.
Policies that learn at the same moment (mappo) may each step towards the old play of the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.algos import together
from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.critic import current_logp
from marl.algos.central_critic.stacked import TrainingJob
from marl.data.batch import SampleBatch
from marl.data.task import Floats, Ints, PolicyID, Task
from marl.errors import ConfigError

if TYPE_CHECKING:
    from marl.algos.central_critic.learner import CentralCriticLearner


class SequentialJob:
    """One training batch of all policies of a learner; turn by turn, each with the factor of those before it.

    A policy that plays several agents of a team takes one turn for all of them.
    """

    key = "one policy after the other"  # jobs of several learners take their turns side by side

    def __init__(
        self, learner: CentralCriticLearner, policies: Sequence[PolicyID], batches: Mapping[PolicyID, SampleBatch]
    ) -> None:
        self.learner, self.policies, self.batches = learner, policies, batches
        names = list(batches)
        self.order: list[PolicyID] = [names[place] for place in learner.rng.permutation(len(names))]
        self.moments = moments(batches, learner.task)
        count = max([int(places.max()) + 1 for places in self.moments.values()], default=0)
        self.log_factors = np.zeros(count)  # log M of each moment
        self.before: Floats = np.zeros(0, np.float32)  # what log_chances said before this turn's gradient steps
        self.metrics: dict[PolicyID, dict[str, float]] = {}
        self.error: Exception | None = None

    @classmethod
    def run_together(cls, jobs: Sequence[SequentialJob]) -> Sequence[Any]:
        """Metrics of each, or its error."""
        most = max(len(job.order) for job in jobs)
        for turn in range(most):
            take_turn([job for job in jobs if job.has_turn(turn)], turn)
        return [job.outcome for job in jobs]

    def has_turn(self, turn: int) -> bool:
        """Whether there is one: an error ends the turns of a learner."""
        return self.error is None and turn < len(self.order)

    @property
    def outcome(self) -> Any:
        """Metrics of all policies, or what went wrong."""
        return self.metrics if self.error is None else self.error

    def training(self, turn: int) -> TrainingJob:
        """The gradient steps of this turn's policy, whose rows say what those before it have changed."""
        name = self.order[turn]
        self.before = self.log_chances(turn)
        factors = np.exp(self.log_factors[self.moments[name]]).astype(np.float32)
        return TrainingJob(self.learner, (name,), {name: self.batches[name].with_columns(factors=factors)})

    def log_chances(self, turn: int) -> Floats:
        """Of what this turn's policy did, under the policy as it is now."""
        name = self.order[turn]
        return current_logp(self.learner.actors[name], self.batches[name])

    def took(self, turn: int, result: Any) -> None:
        """The turn is over: what follows is weighed by how much more likely the policy's actions have become."""
        if isinstance(result, Exception):
            self.error = result
            return
        name = self.order[turn]
        self.metrics |= result
        self.metrics[name]["mean_factor"] = float(np.exp(self.log_factors[self.moments[name]]).mean())
        np.add.at(self.log_factors, self.moments[name], self.log_chances(turn) - self.before)


def take_turn(jobs: Sequence[SequentialJob], turn: int) -> None:
    """One policy of each learner is trained; what it has changed counts for those after it."""
    trainings = [job.training(turn) for job in jobs]
    results = together.run(trainings)
    for job, result in zip(jobs, results, strict=True):
        job.took(turn, result)


def job_of(
    learner: CentralCriticLearner, policies: Sequence[PolicyID], batches: Mapping[PolicyID, SampleBatch]
) -> TrainingJob | SequentialJob:
    """What is to be done with a training batch."""
    if learner.configs[policies[0]].sequential_update:
        return SequentialJob(learner, policies, batches)
    return TrainingJob(learner, policies, batches)


def in_turn(
    configs: Mapping[PolicyID, CentralCriticConfig], update_groups: Sequence[tuple[PolicyID, ...]]
) -> list[tuple[PolicyID, ...]]:
    """The same groups, but policies that learn one after the other are one of them."""
    takers: list[PolicyID] = []
    others: list[tuple[PolicyID, ...]] = []
    for group in update_groups:
        if not configs[group[0]].sequential_update:
            others.append(group)
            continue
        if len(group) > 1:
            raise ConfigError(
                f"policies {', '.join(group)} share layers, which learn from all of them at once, but with sequential_update "
                "(happo) they learn one after the other. Drop model.shared, or use mappo."
            )
        takers += group
    return sorted([*others, tuple(takers)]) if takers else others


def moments(batches: Mapping[PolicyID, SampleBatch], task: Task) -> dict[PolicyID, Ints]:
    """For each decision the number of its moment: members of one group that decide at one step of an episode share it.

    An agent without a group has moments of its own, so nobody's change counts for it.
    """
    keys = []
    for rows in batches.values():
        lane, seat = np.divmod(rows["stream"], task.num_seats)
        keys.append(np.stack([_teams(task)[seat], lane, rows["eps_id"], rows["t"]], axis=1))
    if not keys:
        return {}
    _, places = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    ends = np.cumsum([len(part) for part in keys])[:-1]
    return dict(zip(batches, np.split(places.reshape(-1), ends), strict=True))


def _teams(task: Task) -> Ints:
    """``[seats]``: a number for each group, and another one for each agent without a group."""
    teams: Ints = -1 - np.arange(task.num_seats)
    for number, seats in enumerate(task.groups.values()):
        teams[list(seats)] = number
    return teams
