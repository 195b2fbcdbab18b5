"""A whole run: train until the stop condition or Ctrl-C, show it, keep it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from marl.algos.together import meet
from marl.errors import StoppedWaitingError
from marl.runs.directories import told_state
from marl.runs.manifest import numbered
from marl.runs.progress import progress_of
from marl.runs.result import Result
from marl.training.display import Display, Quiet
from marl.training.extensions.evaluation import EvaluationBrokenOff
from marl.training.notebook_display import notebook_display
from marl.training.noting import noted_in
from marl.training.trainer import Trainer

Stopping: TypeAlias = AbstractContextManager[Callable[[], bool]]
"""While it is entered, somebody can stop the run; it gives a function that says whether that has happened."""
ENDING = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGBREAK") if hasattr(signal, name)]
"""How a run is told to end; on Windows another process can only send the last of them."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    result: Result
    interrupted: bool
    checkpoint: Path
    directory: Path


def run_until_stopped(trainer: Trainer, display: Display | None = None, stopping: Stopping | None = None) -> Outcome:
    """Iterate until a stop condition is met or Ctrl-C is pressed; ends with a checkpoint and the learning curve.

    The trainer's run directory must be open. Ctrl-C ends the run after the current iteration, or at once while it is being
    evaluated; a second one ends it at once in any case. ``stopping``: who hears of Ctrl-C for several runs at once.
    """
    directory = trainer.store.directory
    assert directory is not None
    with _shown(display, directory) as shown, noted_in(directory, shown, lambda: trainer.iteration) as noting:
        return _run(trainer, noting, stopping or interruptible(lambda: _stop_soon(trainer, noting)))


@contextmanager
def _shown(display: Display | None, directory: Path) -> Iterator[Display]:
    """Who trains in a notebook and asks for nothing sees it there; in a program it is quiet."""
    own = None
    if display is None:
        display = own = notebook_display()
    try:
        yield display or Quiet()
    finally:
        if own is not None:  # others are ended by those who gave them
            own.finish([f"results: {directory}"])


def _run(trainer: Trainer, display: Display, stopping: Stopping) -> Outcome:
    store = trainer.store
    assert store.directory is not None
    assert store.files is not None
    _begin(trainer, display, store.directory)
    result: Result = trainer.last_result
    done = trainer.finished
    with told_state(store.directory) as ended, stopping as stopped:
        while not stopped() and not done:
            new = _iteration(trainer)
            if new is None:
                break
            result = new
            _show(trainer, result, display)
            meet()
            done = result["done"] or trainer.finished
        checkpoint = trainer.save()
        store.files.draw_curve()
        interrupted = stopped() and not done
        ended.append("stopped" if interrupted else "finished")
    return Outcome(result, interrupted, checkpoint, store.directory)


def _begin(trainer: Trainer, display: Display, directory: Path) -> None:
    """Say what will be done, and where; from here on, whatever takes long is shown."""
    display.start([*trainer.setup.header, *_endless(trainer.scenario.stop), f"results: {directory}"])
    if trainer.finished:
        display.note("this run has met its stop condition already, so nothing is trained. Raise it: --stop-timesteps N")
    trainer.store.check_own()
    trainer.evaluation.show = display.busy
    trainer.workers.hear(display.note, display.busy)
    if trainer.workers.keeps_journal and not numbered(directory / "checkpoints"):
        trainer.save()  # a journal is read from a checkpoint on


def _iteration(trainer: Trainer) -> Result | None:
    """The result of one more iteration; None where the run was stopped before there was one."""
    try:
        with trainer.store.proven():
            return trainer.train()
    except EvaluationBrokenOff:
        return None  # there is no result yet: it comes when the run goes on
    except StoppedWaitingError:
        return None  # before the first round of an iteration: all is as after the one before


def _show(trainer: Trainer, result: Result, display: Display) -> None:
    display.update(trainer.store.newest, progress_of(trainer.scenario.stop, result))
    while trainer.notes:
        display.note(trainer.notes.pop(0))


def _stop_soon(trainer: Trainer, display: Display) -> None:
    """The first Ctrl-C. An evaluation is broken off: it may take any time, and nothing is learned from it."""
    if trainer.evaluation.running:
        display.note("stopping; this evaluation is broken off, and made when the run goes on")
        trainer.evaluation.break_off()
    dropped = trainer.exploitability.break_off()
    if dropped:
        display.note(f"stopping; {dropped}")
    if trainer.workers.stop_waiting():
        display.note("stopping; clients are told so, and what they have reported is kept")
        return
    display.note("stopping after this iteration; press Ctrl-C again to stop at once")


def _endless(stop: Mapping[str, float | bool]) -> list[str]:
    """A run without a limit says so before it begins: nobody should wait for its end."""
    if stop:
        return []
    return [
        "no stop condition: it trains until Ctrl-C, which saves a checkpoint. Another time: --stop-timesteps N, "
        "--stop-iters N or --stop-reward X"
    ]


@contextmanager
def interruptible(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """The first SIGINT or SIGTERM sets a flag; the second one raises ``KeyboardInterrupt``."""
    pressed = threading.Event()

    def press(*_: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()
        on_first()

    if threading.current_thread() is not threading.main_thread():
        yield pressed.is_set
        return
    before = {number: signal.signal(number, press) for number in ENDING}
    try:
        yield pressed.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
