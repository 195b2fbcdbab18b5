"""A search without Ray: trials that differ in learning rates and seeds alone train in this process at once.

Such trials are one stack (``marl.training.stacked``); stacks are trained one after the other.
"""

from __future__ import annotations

import json
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
    try:
        with (
            suppress(KeyboardInterrupt),
            under(journal.plan.trust),
            interruptible(lambda: screen.note(STOPPING)) as stopped,
        ):
            for stack in stacks_of(journal.plan, journal.open_trials):
                if not stopped():
                    Lockstep([partial(_train, journal, screen, trial, stopped) for trial in stack]).run()
    finally:
        journal.settle()
        for index, status in enumerate(journal.status):
            screen.board.rows[index].status = status
        screen.finish()
        lock.release()


def _train(journal: Journal, screen: Screen, trial: Planned, stopped: Callable[[], bool]) -> bool:
    """One trial in its seat of a stack; True if it ended, be it by an error."""

    def note(status: str, why: str = "") -> None:
        journal.note(trial.index, status, why)
        screen.status(trial.index, status, why)

    place = journal.directory_of(trial)
    note(RUNNING)
    try:
        ended = _run(journal, screen, trial, place, stopped)
    except Exception as error:  # of this trial alone
        write_error(place, error)
        note(ERROR, read_error(place))
        return True
    if ended:
        note(TERMINATED)
    return ended


def _run(journal: Journal, screen: Screen, trial: Planned, place: Path, stopped: Callable[[], bool]) -> bool:
    plan = journal.plan
    running = RunningTrial(trial.config, place.resolve(), trial.trial_id, plan.objective, plan.clock)
    try:
        ended = False
        while not ended and not stopped():
            told = running.step()
            screen.result(trial.index, told)
            ended = bool(told["done"])
            meet()
    except BaseException:
        running.trainer.stop()  # in the middle of an iteration: such a state must not become the newest checkpoint
        raise
    running.close()
    return ended
