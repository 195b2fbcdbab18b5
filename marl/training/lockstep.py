"""Several bodies of code in one thread, which wait for each other wherever they hand in jobs that can be done together.

Each body runs in a greenlet: ordinary code, such as the whole loop of a run. It is left where it hands in jobs
(``marl.algos.together.update``), and when all bodies wait there or have ended, the jobs of all are done, equal ones by one
batched call. Threads would do as well, but cost some ten times as much per change, and Ctrl-C reaches only one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Generic, TypeVar, cast

import torch
from greenlet import getcurrent, greenlet

from marl.algos.together import Job, coordinated_by, run

T = TypeVar("T")


class _Seat(Generic[T]):
    """One body: where it is, what it waits for, how it ended."""

    def __init__(self, body: Callable[[], T]) -> None:
        self._body = body
        self.outcome: T | Exception | None = None
        self.jobs: Sequence[Job] | None = None  # that it waits for
        self.results: list[Any] = []  # of these jobs, when it may go on
        self.meets = False  # whether it waits for all others to come to where it is
        self.place = greenlet(self._run)

    def _run(self) -> None:
        try:
            self.outcome = self._body()
        except Exception as error:  # of one seed: the others go on
            self.outcome = error

    @property
    def ended(self) -> bool:
        return bool(self.place.dead)


class Lockstep(Generic[T]):
    """Runs all bodies to their ends; gives what each returned, or the exception with which it ended."""

    def __init__(self, bodies: Sequence[Callable[[], T]]) -> None:
        self._seats = [_Seat(body) for body in bodies]
        self._hub: Any = None
        self._current: _Seat[T] | None = None
        self.done_together = 0  # calls that did jobs of several bodies

    def run(self) -> list[T | Exception]:
        self._hub = getcurrent()
        with coordinated_by(self):
            for seat in self._seats:
                # A greenlet begins without context variables; those of the caller say what may be trusted, for instance.
                seat.place.gr_context = copy_context()
            try:
                while not all(seat.ended for seat in self._seats):
                    self._go_on()
                    if any(seat.jobs is not None for seat in self._seats):
                        self._do_jobs()
                    else:  # all that have not ended have met
                        for seat in self._seats:
                            seat.meets = False
            finally:
                self._end_all()
        return [cast("T | Exception", seat.outcome) for seat in self._seats]

    def wait_for(self, jobs: Sequence[Job]) -> list[Any]:
        """Called within a body: the others go on until the jobs of all are done."""
        seat = self._current
        assert seat is not None, "jobs are handed in by bodies alone"
        # Torch's modes belong to the thread, which other bodies are about to use.
        assert not torch.is_inference_mode_enabled(), "a body must not wait inside of inference_mode"
        with_gradients = torch.is_grad_enabled()
        seat.jobs = jobs
        self._hub.switch()
        torch.set_grad_enabled(with_gradients)
        return seat.results

    def meet(self) -> None:
        """Called within a body: it goes on when all others have come here, or ended."""
        assert self._current is not None, "bodies alone can meet"
        self._current.meets = True
        self._hub.switch()

    def _go_on(self) -> None:
        """Let every body run until it waits again."""
        for seat in self._seats:
            if not seat.ended and not seat.meets:
                self._current = seat
                torch.set_grad_enabled(True)
                seat.place.switch()
        self._current = None

    def _do_jobs(self) -> None:
        waiting = [seat for seat in self._seats if seat.jobs is not None]
        jobs: list[Job] = []
        for seat in waiting:
            jobs += seat.jobs or []
        torch.set_grad_enabled(True)
        results = run(jobs)
        self.done_together += len(waiting) > 1
        for seat in waiting:
            count = len(seat.jobs or [])
            seat.results, results = results[:count], results[count:]
            seat.jobs = None

    def _end_all(self) -> None:
        """Ctrl-C has ended one of them at once: the others hear of it where they wait, so that files tell the truth."""
        for seat in self._seats:
            if not seat.ended and seat.place:  # else it never began
                with suppress(KeyboardInterrupt):
                    seat.place.throw(KeyboardInterrupt())
