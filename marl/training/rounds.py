"""The rounds of an iteration: collect, learn, bring the weights to whoever acts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from marl.algos.learner import Metrics
from marl.algos.together import in_stack
from marl.data.episode import EpisodeStats
from marl.errors import StoppedWaitingError
from marl.rollout.rollout_buffer import Collected
from marl.runs.custom_metrics import without_pictures
from marl.training.iteration_result import Learned

if TYPE_CHECKING:
    from marl.training.trainer import Trainer


RECENT = 100  # episodes that a result covers when fewer ended in its iteration


def learn_iteration(trainer: Trainer) -> Learned:
    """Rounds of collecting and learning, as many as make an iteration; they are counted, and not yet measured."""
    steps, agent_steps, episodes, metrics = 0, 0, [], trainer.last_metrics
    for collected, learned in rounds(trainer):
        steps += collected.env_steps
        agent_steps += collected.agent_steps
        episodes.append(collected.episodes)
        metrics = {**metrics, **learned}
    trainer.iteration += 1
    trainer.timesteps_total += steps
    trainer.agent_timesteps_total += agent_steps
    trainer.last_metrics = {name: row for name, row in metrics.items() if name in trainer.policies_to_train}
    for extension in trainer.extensions:
        extension.after_learning(trainer)
    ended = EpisodeStats.concat(episodes)
    trainer.episodes_total += len(ended)
    shown = EpisodeStats.concat([trainer.recent, ended]).last(max(RECENT, len(ended)))
    trainer.recent = without_pictures(shown.last(RECENT))
    return Learned(steps, agent_steps, len(ended), shown, dict(trainer.extra))


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
    with in_stack(trainer.scenario.stacked):
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
