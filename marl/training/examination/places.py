"""Where a run's measurements are made: by the run itself, which waits for them, or beside it.

A measurement beside the run ends in a later iteration than it began in, so its answer says to which iteration and env steps it
belongs. Which iterations are measured then depends on how fast the machine is; the run that trains does not.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from marl.errors import ExamProcessError
from marl.policies.build import weights_of
from marl.runs.result import Result
from marl.scenario.resolve import Setup
from marl.training.examination.process import Budget, ExamProcess
from marl.training.examiner import Examiner

if TYPE_CHECKING:
    from marl.training.trainer import Trainer

LOOK_S = 0.2  # how often somebody who waits looks whether the run was told to end


class Place(ABC):
    """Who measures the policies of one run. What cannot be measured is refused when it is built."""

    note: str
    """What a user should know before the run; empty: nothing."""

    @abstractmethod
    def __init__(self, setup: Setup) -> None: ...

    @abstractmethod
    def after_iteration(self, trainer: Trainer, is_due: bool) -> Result | None:
        """An iteration has ended; what was measured, if anything."""

    @abstractmethod
    def now(self, trainer: Trainer) -> Result:
        """Measure the policies as they are and wait for it."""

    def at_the_end(self, trainer: Trainer) -> Result | None:
        """The run is over: its last policies are measured."""
        return self.now(trainer)

    def break_off(self) -> str:
        """The run was told to end; what is not waited for is dropped, and said."""
        return ""

    def close(self) -> None:
        """Free what it holds."""


class InTheRun(Place):
    """Training waits for every measurement."""

    def __init__(self, setup: Setup) -> None:
        self.examiner = Examiner(setup, setup.scenario.exploitability)
        self.note = self.examiner.note

    def after_iteration(self, trainer: Trainer, is_due: bool) -> Result | None:
        return self.now(trainer) if is_due else None

    def now(self, trainer: Trainer) -> Result:
        with trainer.timers("exploitability"):
            return self.examiner.measure(trainer.policies, trainer.workers, trainer.iteration).as_json()


class BesideTheRun(Place):
    """A process of its own. One measurement is open at a time; one that is due meanwhile begins as soon as it may."""

    def __init__(self, setup: Setup) -> None:
        config = setup.scenario.exploitability
        self.setup = setup
        self.process: ExamProcess | None = ExamProcess(setup)
        self.note = self.process.note
        self.budget = Budget(config.share, self.process.expected_s)
        self.open: dict[str, int] | None = None  # the iteration and env steps of what is being measured
        self._is_due = False
        self._is_ending = False

    def after_iteration(self, trainer: Trainer, is_due: bool) -> Result | None:
        self._is_due = self._is_due or is_due
        found = self._guarded(trainer, lambda: self._answer(0.0))
        self._keep_to_the_share()
        if self._is_due and self.open is None and not self._is_ending and self.budget.allows_one():
            self._guarded(trainer, partial(self._begin, trainer))
        return found

    def now(self, trainer: Trainer) -> Result:
        with trainer.timers("exploitability"):
            earlier = self._waited()
            if earlier is not None:
                trainer.notes.append(_in_words(earlier))
            self._begin(trainer)
            found = self._waited()
        if found is None:
            raise ExamProcessError("the measurement of exploitability was broken off, because the run was told to end.")
        return found

    def at_the_end(self, trainer: Trainer) -> Result | None:
        """What is open is waited for; its answer is the last one if it is about the last policies, else a note."""
        if self.open is not None and self.open["training_iteration"] == trainer.iteration:
            return self._guarded(trainer, self._waited)
        return self._guarded(trainer, lambda: self.now(trainer))

    def break_off(self) -> str:
        self._is_ending = True
        if self.open is None:
            return ""
        iteration = self.open["training_iteration"]
        return f"the exploitability of iteration {iteration}, which is being measured, is dropped"

    def close(self) -> None:
        if self.process is not None:
            self.process.close()
            self.process = None

    def _begin(self, trainer: Trainer) -> None:
        """Hand the weights over as they are."""
        if self.process is None:  # the one before has ended
            with self.budget.spending():
                self.process = ExamProcess(self.setup)
        self.process.ask(weights_of(trainer.policies), trainer.iteration)
        self.budget.begin()
        self.open = {"training_iteration": trainer.iteration, "timesteps_total": trainer.timesteps_total}
        self._is_due = False

    def _answer(self, wait_s: float) -> Result | None:
        """What was open, if it has been measured."""
        if self.open is None or self.process is None:
            return None
        found = self.process.answer(wait_s)
        if found is None:
            return None
        # It may have been held up after its last word: it has to read the next weights.
        self.process.go_on()
        about, self.open = self.open, None
        return {**found, **about, "seconds": self.budget.end(found["seconds"])}

    def _keep_to_the_share(self) -> None:
        """A measurement that takes longer than was expected is held up until the share allows for more."""
        if self.open is None or self.process is None:
            return
        if self.budget.is_overdrawn():
            self.process.hold()
            self.budget.hold()
        else:
            self.process.go_on()
            self.budget.go_on()

    def _waited(self) -> Result | None:
        """The same, waited for as long as the run is not told to end: training stands still, so there is no share to keep."""
        if self.process is not None:
            self.process.go_on()
            self.budget.go_on()
        while self.open is not None and not self._is_ending:
            found = self._answer(LOOK_S)
            if found is not None:
                return found
        return None

    def _guarded(self, trainer: Trainer, step: Callable[[], Result | None]) -> Result | None:
        """A run is worth more than its measurements: where their process is lost, that is said, and training goes on."""
        try:
            return step()
        except ExamProcessError as error:
            trainer.notes.append(f"exploitability: {error} The next measurement begins a new process.")
            self.close()
            self.open = None
            self.budget.lose()
            return None


def _in_words(found: Result) -> str:
    return (
        f"exploitability of iteration {found['training_iteration']}, measured meanwhile: NashConv "
        f"{found['nash_conv']:.6g} ({found['bound']})"
    )


PLACES: dict[str, type[Place]] = {"run": InTheRun, "own": BesideTheRun}
"""By the names of ``exploitability.process``."""
