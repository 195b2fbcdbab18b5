"""The game theory of a run: rounds of its population, in which snapshots join and learners begin anew, and its examiner."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from marl.data.task import PolicyID
from marl.policies.build import build_policies
from marl.runs.result import Result
from marl.scenario.resolve import Setup
from marl.training.learners import build_learners

if TYPE_CHECKING:
    from marl.populations.loop import PopulationTrainer
    from marl.training.examiner import Examiner
    from marl.training.trainer import Trainer


def make_population(trainer: Trainer) -> PopulationTrainer | None:
    """The population of a run that has one."""
    setup = trainer.setup
    if setup.stage is None:
        return None
    from marl.populations.loop import PopulationTrainer  # brings the game theory along

    return PopulationTrainer(setup.stage, trainer.policies, setup.policies, setup.scenario.seed)


def make_examiner(setup: Setup) -> Examiner:
    """What measures exploitability by the scenario's section of that name."""
    from marl.training.examiner import Examiner

    return Examiner(setup, setup.scenario.exploitability)


def end_round_if_due(trainer: Trainer) -> None:
    """Called between iterations."""
    population = trainer.population
    if population is None or not population.due(trainer.timesteps_total):
        return
    with trainer.timers("population"):
        fresh = population.end_round(trainer.workers, trainer.timesteps_total)
        if fresh:
            begin_anew(trainer, population, fresh)
        trainer.workers.sync_weights()
    trainer.store.write_population(population)


def begin_anew(trainer: Trainer, population: PopulationTrainer, names: Collection[PolicyID]) -> None:
    """New first weights for these policies; their learners forget what they gathered, their optimisers and targets.

    Learners are built once more around spare policies, because optimisers hold on to the tensors of theirs, and the
    state of the new ones is loaded into those of the run.
    """
    setup = trainer.setup
    spare = build_policies(setup.policies, setup.task.kinds)
    for name in setup.roles:
        weights = (population.new_weights(name) if name in names else trainer.policies[name]).get_weights()
        spare[name].set_weights(weights)
        if name in names:
            trainer.policies[name].set_weights(weights)
    seed = setup.scenario.seed + 104_729 * population.round
    for learner, new in zip(
        trainer.learners, build_learners(setup.plans, setup.roles, spare, setup.task, seed), strict=True
    ):
        if set(learner.policies) & set(names):
            counters = dict(learner.counters)
            learner.load_state_dict(new.state_dict())
            learner.load_replay_state(new.replay_state())
            learner.counters.update(counters)
    trainer.learning.align()


def population_numbers(trainer: Trainer) -> Result:
    """The result's ``population`` block."""
    return {} if trainer.population is None else {"population": dict(trainer.population.numbers)}
