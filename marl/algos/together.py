"""Work that several learners hand in to be done in one go.

A hot place of a learner (one gradient step of a policy) is a *job*: an object with a ``key`` and a class method
``run_together(jobs)``, which does several jobs with equal keys by one batched computation. ``update(jobs)`` has them done: at
once in an ordinary run, where jobs of equal keys are those of policies of one shape; where many seeds train in one process,
a *coordinator* lets the caller wait until all seeds have come to such a place, and does equal jobs of all of them together.

In such a *stack* the numbers of one seed must not depend on who else is there: seeds end at different times, and one of them
may be resumed alone. That is a promise of ``run_together`` wherever ``stacked()`` is true. It holds if

- every slice of a batched tensor begins at a multiple of ``SLICE`` numbers: flat vectors are that long (``whole``), and
  minibatches have that many rows, filled up with rows that get no slope. Else the kernels of a slice depend on where in memory
  it begins, and the last numbers of a tensor are computed by other code than the rest;
- gradients of weights are added into such a flat row in place, not taken from a product of their own;
- a job without companions is done as a stack of two, the second a copy: one matrix is multiplied by other code than two.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, Self

SLICE = 32  # numbers: two vectors of the widest registers there are, and two lines of the cache


class Job(Protocol):
    """Something to compute. Jobs of one class with equal keys (shapes, and keys of the algorithm) can be done together."""

    @property
    def key(self) -> Hashable: ...

    @classmethod
    def run_together(cls, jobs: Sequence[Self]) -> Sequence[Any]:
        """The result of each; an ``Exception`` in place of the result of a job that failed by itself."""
        ...


class Coordinator(Protocol):
    """Who decides when jobs are done, and together with which others."""

    def wait_for(self, jobs: Sequence[Job]) -> list[Any]:
        """The results of these jobs, in their order; exceptions in place of results that there are not."""

    def meet(self) -> None:
        """Wait until everybody has come to such a place."""


_coordinator: ContextVar[Coordinator | None] = ContextVar("coordinator", default=None)


def update(jobs: Sequence[Job]) -> list[Any]:
    """Have these jobs done; raises the error of the first one that failed."""
    coordinator = _coordinator.get()
    if coordinator is None:
        results = run(jobs)
    else:
        results = coordinator.wait_for(jobs)
    for result in results:
        if isinstance(result, Exception):
            raise result
    return results


def run(jobs: Sequence[Job]) -> list[Any]:
    """Do all of them now, equal ones in one call; results in their order, or what went wrong."""
    groups: dict[tuple[type, Hashable], list[int]] = {}
    for index, job in enumerate(jobs):
        groups.setdefault((type(job), job.key), []).append(index)
    results: list[Any] = [None] * len(jobs)
    for (kind, _), members in groups.items():
        done: Sequence[Any]
        try:
            done = kind.run_together([jobs[index] for index in members])  # type: ignore[attr-defined]
        except Exception as error:  # nobody knows whose fault it is, but other groups have nothing to do with it
            done = [error] * len(members)
        for index, result in zip(members, done, strict=True):
            results[index] = result
    return results


def meet() -> None:
    """Go on together with all others: where an iteration ends, so that nobody is ahead and jobs stay alike."""
    coordinator = _coordinator.get()
    if coordinator is not None:
        coordinator.meet()


def stacked() -> bool:
    """Whether the numbers of a job must be the same whoever else is there."""
    return _coordinator.get() is not None


def whole(count: int) -> int:
    """So many numbers, or rows, rounded up to whole slices."""
    return -(-count // SLICE) * SLICE


@contextmanager
def coordinated_by(coordinator: Coordinator) -> Iterator[None]:
    """While the block runs, jobs go to this coordinator."""
    token = _coordinator.set(coordinator)
    try:
        yield
    finally:
        _coordinator.reset(token)


class _Alone:
    """A stack of one: nobody is waited for."""

    def wait_for(self, jobs: Sequence[Job]) -> list[Any]:
        return run(jobs)

    def meet(self) -> None:
        """Everybody is here."""


@contextmanager
def in_stack(wanted: bool) -> Iterator[None]:
    """Around a part of a run: what is ``stacked`` computes so without others too, as when one seed is resumed by itself."""
    if not wanted or stacked():
        yield
        return
    with coordinated_by(_Alone()):
        yield
