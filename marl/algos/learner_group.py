"""Learners that share every minibatch: each computes the gradient of its own rows, the learner group adds the gradients up.

    g = sum_k (n_k / n) * grad mean_{i in share k} l_i = grad mean_i l_i

All members are built alike, see the same batches and draw the same random numbers; only the rows between sampling and
gradient differ. So weights, targets, replay and generators stay equal on all of them, and together they do what one
learner would do with the whole minibatch, up to the order in which floats are added.

A learner alone is a learner group as well: its share is everything, and sums cost nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeAlias

import torch
from torch import Tensor

from marl.errors import TrainingError

Numbers: TypeAlias = Mapping[str, Tensor | float]
PATIENCE_S = 300.0  # seconds that a member waits for the others before it gives up


class LearnerGroupError(TrainingError):
    """A member lost the others: one of them failed, died, or was stopped."""


class LearnerGroup:
    """A learner alone, and what every learner group can do."""

    rank: int = 0
    size: int = 1

    def bounds(self, rows: int) -> tuple[int, int]:
        """First row of this member's share of ``rows`` and the row after its last; shares differ by one row at most."""
        return rows * self.rank // self.size, rows * (self.rank + 1) // self.size

    def share(self, rows: int) -> slice:
        """This member's rows. Where there are fewer rows than members, an idle one repeats the first row with weight 0."""
        first, end = self.bounds(rows)
        return slice(first, end) if end > first else slice(0, min(rows, 1))

    def weight(self, rows: int) -> float:
        """What a mean over this member's share counts in the mean over all rows."""
        first, end = self.bounds(rows)
        return (end - first) / max(rows, 1)

    def sum_(self, tensor: Tensor) -> Tensor:
        """Replace the tensor by its sum over all members, which is returned."""
        return tensor

    def gather(self, mine: Tensor, rows: int, place: slice | None = None) -> Tensor:
        """One number (or vector) per row: from each member those of its share, to all members all of them. ``place``: where
        this member's rows belong if they are not its ``share(rows)``."""
        if self.size == 1:
            return mine
        place = slice(*self.bounds(rows)) if place is None else place
        whole = torch.zeros(rows, *mine.shape[1:], dtype=mine.dtype)
        whole[place] = mine[: place.stop - place.start]
        return self.sum_(whole)

    def sum_metrics(self, rows: Sequence[Numbers]) -> Sequence[Numbers]:
        """Numbers of several updates, each already multiplied by the member's weight, summed over all in one go."""
        if self.size == 1 or not rows:
            return rows
        numbers = []
        for row in rows:
            numbers.append([float(number) for number in row.values()])
        summed = self.sum_(torch.tensor(numbers, dtype=torch.float64))
        return [dict(zip(rows[0], row, strict=True)) for row in summed]

    def close(self) -> None:
        """Leave. Members that wait for this one get an error at once."""


ALONE = LearnerGroup()


class GlooLearnerGroup(LearnerGroup):
    """One process of several, joined by torch's gloo. The group belongs to this object: torch's global one stays free."""

    def __init__(self, store: Any, rank: int, size: int, address: str) -> None:
        from torch.distributed import ProcessGroupGloo

        self.rank, self.size = rank, size
        options = ProcessGroupGloo._Options()  # type: ignore[attr-defined]
        options._devices = [ProcessGroupGloo.create_device(hostname=address)]  # listens on this address alone
        options._timeout = timedelta(seconds=PATIENCE_S)
        try:
            self._group: Any = ProcessGroupGloo(store, rank, size, options)
        except RuntimeError as error:
            raise LearnerGroupError(
                f"learner {rank} of {size} could not reach the others: {_first_line(error)}"
            ) from error

    def sum_(self, tensor: Tensor) -> Tensor:
        if self._group is None:
            raise LearnerGroupError(f"learner {self.rank} has left its crew after an error. Start the run again.")
        try:
            self._group.allreduce([tensor]).wait()
        except RuntimeError as error:
            raise LearnerGroupError(
                f"learner {self.rank} of {self.size} lost the others: {_first_line(error)}"
            ) from error
        return tensor

    def close(self) -> None:
        self._group = None  # the last reference: its connections are closed


def open_store(address: str) -> Any:
    """Where members find each other: served by this process, on this address alone."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    listening = socket.create_server((address, 0))
    port = listening.getsockname()[1]
    patience = timedelta(seconds=PATIENCE_S)
    return TCPStore(
        address, port, is_master=True, timeout=patience, wait_for_workers=False, master_listen_fd=listening.detach()
    )


def join_store(address: str, port: int) -> Any:
    """The store that another member has opened."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    return TCPStore(address, port, is_master=False, timeout=timedelta(seconds=PATIENCE_S))


def _first_line(error: object) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
