"""Rounds of a run's population, in which snapshots join and learners begin anew."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from marl.data.task import PolicyID
from marl.policies.build import build_policies
from marl.runs.result import Result
from marl.training.extensions.extension import Extension
from marl.training.learners import build_learners

if TYPE_CHECKING:
    from marl.populations.loop import PopulationTrainer
    from marl.training.trainer import Trainer


class PopulationRounds(Extension):
    """Ends the rounds of a run's population between iterations; a run without one has no rounds."""

    name = "population"

    def __init__(self, trainer: Trainer) -> None:
        self.population: PopulationTrainer | None = None
        setup = trainer.setup
        if setup.stage is not None:
            from marl.populations.loop import PopulationTrainer  # brings the game theory along

            self.population = PopulationTrainer(setup.stage, trainer.policies, setup.policies, setup.scenario.seed)

    def after_learning(self, trainer: Trainer) -> None:
        """A round that is due ends before the result is begun, which tells of the population as it is then."""
        population = self.population
        if population is None or not population.due(trainer.timesteps_total):
            return
        with trainer.timers("population"):
            fresh = population.end_round(trainer.workers, trainer.timesteps_total)
            if fresh:
                begin_anew(trainer, population, fresh)
            trainer.workers.drop_ahead()  # others played it
            trainer.workers.sync_weights()
        trainer.store.write_population(population)

    def numbers(self, trainer: Trainer) -> Result:
        del trainer
        if self.population is None:
            return {}
        return {"population": dict(self.population.numbers)}

    def state_dict(self) -> dict[str, Any]:
        if self.population is None:
            return {}
        return self.population.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if self.population is None:
            return
        self.population.load_state_dict(state)
        if self.population.round:
            self.population.as_json()  # fails here, and not hours later, where lineage and payoffs do not fit


def begin_anew(trainer: Trainer, population: PopulationTrainer, names: Collection[PolicyID]) -> None:
    """New first weights for these policies; their learners forget what they gathered, their optimisers and targets.

    Learners are built once more around spare policies, because optimisers hold on to the tensors of theirs, and the
    state of the new ones is loaded into those of the run.
    """
    setup = trainer.setup
    spare = build_policies(setup.policies, setup.task.kinds)
    for name in setup.roles:
        weights = trainer.policies[name].get_weights()
        if name in names:
            weights = population.new_weights(name).get_weights()
            trainer.policies[name].set_weights(weights)
        spare[name].set_weights(weights)
    # Another seed in every round, or new learners would draw what the first ones drew.
    seed = setup.scenario.seed + 104_729 * population.round
    new_learners = build_learners(setup.plans, setup.roles, spare, setup.task, seed)
    for learner, new in zip(trainer.learners, new_learners, strict=True):
        if set(learner.policies).isdisjoint(names):
            continue
        counters = dict(learner.counters)  # what was done counts for the whole run
        learner.load_state_dict(new.state_dict())
        learner.load_replay_state(new.replay_state())
        learner.counters.update(counters)
    trainer.learning.align()
