"""The rounds of an iteration: collect, learn, bring the weights to whoever acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from marl.algos.learner import Metrics
from marl.errors import StoppedWaitingError
from marl.rollout.rollout_buffer import Collected

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


def rounds(trainer: Trainer) -> Iterator[tuple[Collected, Metrics]]:
    """Rounds until the iteration has its steps.

    A run that is told to stop while it waits for clients ends the iteration with the rounds that it has; without any it has
    not begun, and the error says so.
    """
    steps = 0
    while steps < trainer.setup.iteration_steps:
        try:
            collected = collect_and_learn(trainer)
        except StoppedWaitingError:
            if steps == 0:
                raise
            return
        steps += collected[0].env_steps
        yield collected


def collect_and_learn(trainer: Trainer) -> tuple[Collected, Metrics]:
    """One round of the source, learned from."""
    timers = trainer.timers
    timers.start()
    collected = trainer.source.collect(trainer.setup.fragment)
    timers.lap("sample")
    timers.add_sampler(collected.seconds)
    trainer.notes += collected.notes
    trainer.decisions_lost += collected.decisions_lost
    trainer.extra |= collected.extra
    if trainer.choose_trained is not None:
        choose = trainer.choose_trained
        trainer.set_policies_to_train([n for n in trainer.setup.roles if choose(n, collected.batch)])
        timers.start()  # the time of the user's function counts neither as sampling nor as learning
    metrics = trainer.learning.learn(collected.batch)
    timers.lap("learn")
    trained = False
    for learner in trainer.learners:
        timers.move("learn", "load", learner.clock.pop().get("load", 0.0))
        trained = trained or bool(learner.trained)
    if trained:  # else the workers have these weights already
        trainer.workers.sync_weights()
        timers.lap("sync")
    return collected, metrics
