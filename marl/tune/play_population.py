"""Trials in generations: all train until the same moment, then it is decided who copies whom, and all go on.

Everything that decides stands on the disk: checkpoints and results of the trials, ``generations.jsonl``, and in ``tune.json``
how many generations have taken effect. Killed at any moment, the search comes to the same decisions and results.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Protocol

from marl.errors import ConfigError
from marl.runs.files import RunFiles
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.tune.copying import take_over
from marl.tune.generations import Generation, made_of
from marl.tune.journal import ENDED, ERROR, Journal
from marl.tune.plan import Planned
from marl.tune.population import Copy, Standing
from marl.tune.table import Screen

log = logging.getLogger(__name__)


class Player(Protocol):
    """Who trains trials: in this process, or on Ray."""

    def play(self, trials: Sequence[Planned], until: float) -> None:
        """Train each until the clock shows ``until``, it ends or fails; the journal is told. Returns early if stopped."""

    def stopped(self) -> bool:
        """Whether somebody pressed Ctrl-C."""


def play_population(journal: Journal, player: Player, screen: Screen) -> None:
    """Generation after generation, until all trials have ended or somebody stops them."""
    population, history = journal.plan.population, journal.history
    assert population is not None
    for trial in journal.plan.trials:
        screen.board.params[trial.index] = journal.now(trial).params
    while True:
        if len(history.generations) > journal.generation:
            _take_effect(journal, history.generations[journal.generation], screen)
        trials = _waiting(journal)
        end = population.decider.end_of(journal.generation)
        player.play([journal.now(trial) for trial in trials], end)
        there = _waiting(journal)
        if player.stopped() or not there:
            return
        # Nobody may be compared before all have come: those that were faster would decide otherwise than slower ones.
        standings = [_standing(journal, trial) for trial in journal.plan.trials if journal.status[trial.index] != ERROR]
        copies = population.decider.decide(journal.generation, standings, journal.plan.objective.sign)
        copies = [copy for copy in copies if _fits(journal, copy)]
        failed = [trial.index for trial in journal.plan.trials if journal.status[trial.index] == ERROR]
        history.add(made_of(journal.generation, end, population.decider.clock, standings, copies, failed))
        if all(trial.value is None for trial in standings):
            screen.note(
                f"nobody was compared at {population.decider.clock} {end:g}: no result since the last time has "
                f"{journal.plan.objective.metric}. Evaluate more often, or raise perturbation_interval."
            )


def _waiting(journal: Journal) -> list[Planned]:
    """Trials that train on."""
    return [trial for trial in journal.open_trials if journal.status[trial.index] != ERROR]


def _standing(journal: Journal, trial: Planned) -> Standing:
    """Where a trial is. Only results of this generation count: earlier ones may be about weights that it no longer has."""
    results = RunFiles(journal.directory_of(trial)).results()
    began = journal.history.iteration_of(trial.index, journal.generation)
    is_open = journal.status[trial.index] not in ENDED
    value = None
    for result in results:
        is_new = result["training_iteration"] > began or not is_open
        newest = journal.plan.objective.value(result)
        if is_new and newest is not None:
            value = newest
    iteration = results[-1]["training_iteration"] if results else 0
    return Standing(trial.index, iteration, value, journal.values_of(trial), is_open)


def _fits(journal: Journal, copy: Copy) -> bool:
    """Whether a run can be made with these values together; each by itself was tried before the search began."""
    try:
        compose(journal.with_values(journal.plan.trials[copy.trial], copy.values).config)
    except ConfigError as error:
        log.warning("trial %05d does not become %s: %s", copy.trial, copy.values, error)
        return False
    return True


def _take_effect(journal: Journal, generation: Generation, screen: Screen) -> None:
    """Let the copies of a generation be made; then the journal says that they were."""
    for copy in generation.copies:
        trial, source = journal.plan.trials[copy.trial], journal.plan.trials[copy.source]
        # No trial both copies and is copied, so the order does not matter, also when it is done again after a kill.
        changed = journal.with_values(trial, copy.values)
        scenario = describe(compose(changed.config, str(trial.directory)))
        take_over(journal.directory_of(trial), journal.directory_of(source), scenario)
    journal.generation += 1
    journal.write()
    for copy in generation.copies:
        screen.board.params[copy.trial] = journal.now(journal.plan.trials[copy.trial]).params
        screen.note(f"{generation.clock} {generation.at:g}: {told(journal, copy)}")


def told(journal: Journal, copy: Copy) -> str:
    """``trial 00002 copies trial 00000, lr 0.1 -> 0.0012``."""
    population = journal.plan.population
    assert population is not None
    changes = []
    for key, value in copy.values.items():
        changes.append(f"{population.names[key]} {_short(copy.before[key])} -> {_short(value)}")
    words = f"trial {copy.trial:05d}"
    if copy.source != copy.trial:
        words += f" copies trial {copy.source:05d}"
    return f"{words}, {', '.join(changes)}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
