"""A search without Ray: trials that differ in learning rates and seeds alone train in this process at once.

Such trials are one stack (``marl.training.stacked``); stacks are trained one after the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from marl.algos.together import meet
from marl.errors import ConfigError
from marl.runs.lock import take_lock
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.training.lockstep import Lockstep
from marl.training.loop import interruptible
from marl.training.stacked import check_stack
from marl.trust import under
from marl.tune.journal import ERROR, RUNNING, TERMINATED, Journal
from marl.tune.plan import Plan, Planned
from marl.tune.play_population import play_population
from marl.tune.table import Board, Screen
from marl.tune.trial import RunningTrial, read_error, write_error

STOPPING = "stopping all trials after this iteration; press Ctrl-C again to stop at once"


def stacks_of(plan: Plan, trials: Sequence[Planned]) -> list[list[Planned]]:
    """Trials that can be trained together, at most ``max_concurrent_trials`` at a time."""
    alike: dict[str, list[Planned]] = {}
    for trial in trials:
        alike.setdefault(_without_rates(trial), []).append(trial)
    stacks = []
    for group in alike.values():
        size = plan.options.max_concurrent_trials or len(group)
        for first in range(0, len(group), size):
            stacks.append(group[first : first + size])
    return stacks


def _without_rates(trial: Planned) -> str:
    """All that a trial is, but its seed and learning rates."""
    keys = describe(compose(trial.config, str(trial.directory)))
    sections = [keys["algo"], *keys["multiagent"]["policies"].values()]
    for section in sections:
        section.pop("lr", None)
    del keys["seed"]
    return json.dumps(keys, sort_keys=True)


def check_stacked_search(plan: Plan, num_cpus: int | None) -> None:
    """Refuse what a search in one process cannot do, before anything is written."""
    if plan.function is not None:
        raise ConfigError(
            "stacked: true trains trials of an algorithm together; a training function of your own does its own training. "
            "Drop stacked."
        )
    if num_cpus is not None:
        raise ConfigError(
            "a stacked search starts no Ray, so num_cpus would mean nothing. Drop --num-cpus (ray_num_cpus), or --stacked."
        )
    for stack in stacks_of(plan, plan.trials):
        check_stack([compose(trial.config, str(trial.directory)) for trial in stack])


def play_stacked(journal: Journal, verbose: int) -> None:
    """Train the trials that have not ended. Ctrl-C ends them behind their iteration, and the search can go on."""
    if not journal.open_trials:
        return
    lock = take_lock(journal.directory)
    screen = Screen(Board(journal.plan, journal.directory, {}, journal.status), verbose)
    for trial in journal.open_trials:
        (journal.directory_of(trial) / "error.txt").unlink(missing_ok=True)  # of an earlier start
    screen.start()
    here = InThisProcess(journal, screen)
    try:
        with suppress(KeyboardInterrupt), under(journal.plan.trust), interruptible(here.stop_soon) as stopped:
            here.stopped = stopped
            if journal.plan.population is None:
                here.play(journal.open_trials)
            else:
                play_population(journal, here, screen)
    finally:
        journal.settle()
        for index, status in enumerate(journal.status):
            screen.board.rows[index].status = status
        screen.finish()
        lock.release()


class InThisProcess:
    """Trains trials here, stack by stack."""

    def __init__(self, journal: Journal, screen: Screen) -> None:
        self.journal, self.screen = journal, screen
        self.stopped: Callable[[], bool] = lambda: False
        self._running: list[RunningTrial] = []

    def play(self, trials: Sequence[Planned], until: float = math.inf) -> None:
        """Until the clock shows ``until``, the trial ends or fails, or Ctrl-C."""
        for stack in stacks_of(self.journal.plan, trials):
            if not self.stopped():
                Lockstep([partial(self._train, trial, until) for trial in stack]).run()

    def stop_soon(self) -> None:
        """The first Ctrl-C. While one trial is evaluated others come next, so none of these evaluations is waited for."""
        evaluations = [running.trainer.evaluation for running in self._running]
        running = [evaluation for evaluation in evaluations if evaluation.running]
        if running:
            self.screen.note("stopping; evaluations are broken off, and made when the search goes on")
        self.screen.note(STOPPING)
        for evaluation in evaluations:
            evaluation.unwanted = bool(running)
        for evaluation in running:  # one at most: nobody waits for others in the middle of one
            evaluation.break_off()

    def _train(self, trial: Planned, until: float) -> None:
        """One trial in its seat of a stack."""

        def note(status: str, why: str = "") -> None:
            self.journal.note(trial.index, status, why)
            self.screen.status(trial.index, status, why)

        place = self.journal.directory_of(trial)
        note(RUNNING)
        try:
            ended = self._run(trial, place, until)
        except Exception as error:  # of this trial alone
            write_error(place, error)
            note(ERROR, read_error(place))
            return
        if ended:
            note(TERMINATED)

    def _run(self, trial: Planned, place: Path, until: float) -> bool:
        """Whether it ended."""
        plan = self.journal.plan
        running = RunningTrial(trial.config, place.resolve(), trial.trial_id, plan.objective, plan.clock)
        self._running.append(running)
        try:
            ended = False
            while not ended and not running.arrived(until) and not self.stopped():
                told = running.step()
                if told is None:  # its evaluation was broken off
                    break
                self.screen.result(trial.index, told)
                ended = bool(told["done"])
                meet()
        except BaseException:
            running.trainer.stop()  # in the middle of an iteration: such a state must not become the newest checkpoint
            raise
        finally:
            self._running.remove(running)
        running.close(draw=ended or self.stopped())
        return ended
