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
from marl.tune.population import Copy, Decider, Standing
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
    decider = decider_of(journal)
    for trial in journal.plan.trials:
        screen.board.params[trial.index] = journal.now(trial).params
    while True:
        decided = journal.history.generations[journal.generation :]
        if decided:
            _take_effect(journal, decided[0], screen)
        trials = [journal.now(trial) for trial in _waiting(journal)]
        player.play(trials, decider.end_of(journal.generation))
        # Nobody is compared before all have come: those that were faster would decide otherwise than slower ones.
        if player.stopped() or not _waiting(journal):
            return
        generation = _decide(journal, decider)
        journal.history.add(generation)
        if not generation.compared:
            screen.note(
                f"nobody was compared at {generation.clock} {generation.at:g}: no result since the last time has "
                f"{journal.plan.objective.metric}. Evaluate more often, or raise perturbation_interval."
            )


def decider_of(journal: Journal) -> Decider:
    assert journal.plan.population is not None
    return journal.plan.population.decider


def _waiting(journal: Journal) -> list[Planned]:
    """Trials that train on."""
    return [trial for trial in journal.open_trials if journal.status[trial.index] != ERROR]


def _decide(journal: Journal, decider: Decider) -> Generation:
    """Compare the trials: what becomes of them in the next generation."""
    number = journal.generation
    standings, failed = [], []
    for trial in journal.plan.trials:
        if journal.status[trial.index] == ERROR:
            failed.append(trial.index)
        else:
            standings.append(_standing(journal, trial))
    copies = decider.decide(number, standings, journal.plan.objective.sign)
    copies = [copy for copy in copies if _fits(journal, copy)]
    return made_of(number, decider.end_of(number), decider.clock, standings, copies, failed)


def _standing(journal: Journal, trial: Planned) -> Standing:
    """Where a trial is. Only results of this generation count: earlier ones may be about weights that it no longer has."""
    results = RunFiles(journal.directory_of(trial)).results()
    is_open = journal.status[trial.index] not in ENDED
    began = 0
    if is_open:
        began = journal.history.iteration_of(trial.index, journal.generation)
    value, iteration = None, 0
    for result in results:
        iteration = result["training_iteration"]
        if iteration <= began:
            continue
        newest = journal.plan.objective.value(result)
        if newest is not None:  # an evaluation was due
            value = newest
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
        before, after = _short(copy.before.get(key)), _short(value)
        changes.append(f"{population.names[key]} {before} -> {after}")
    words = f"trial {copy.trial:05d}"
    if copy.source != copy.trial:
        words += f" copies trial {copy.source:05d}"
    return f"{words}, {', '.join(changes)}"


def _short(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return str(value)
