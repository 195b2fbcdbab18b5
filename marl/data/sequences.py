"""Decisions as sequences: what recurrent policies are trained on."""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.data.batch import SampleBatch
from marl.data.task import Array, Bools, Ints


def in_sequences(rows: SampleBatch, ended: Bools, longest: int) -> tuple[Ints, Ints]:
    """The order that puts decisions of one agent's life one after the other, and the lengths of the sequences.

    Rows come in the order of time; ``ended`` are those with which a life ended. A sequence ends with the life or episode,
    at a gap (a decision that was not trained on), and after ``longest`` decisions.
    """
    order = np.argsort(rows["stream"], kind="stable")
    if not len(order):
        return order, np.zeros(0, np.int64)
    stream, episode = rows["stream"][order], rows["eps_id"][order]
    until = (rows["t"] + rows["elapsed"])[order]
    goes_on = (stream[1:] == stream[:-1]) & (episode[1:] == episode[:-1]) & (until[:-1] == rows["t"][order][1:])
    begins = np.concatenate([[True], ~(goes_on & ~ended[order][:-1])])
    first = np.maximum.accumulate(np.where(begins, np.arange(len(order)), 0))
    begins |= (np.arange(len(order)) - first) % longest == 0
    starts = np.flatnonzero(begins)
    return order, np.diff(np.append(starts, len(order)))


def rows_of(lengths: Ints, chosen: Ints) -> Ints:
    """Row numbers of the chosen sequences, one after the other."""
    starts = np.cumsum(lengths) - lengths
    wanted = lengths[chosen]
    within = np.arange(wanted.sum()) - np.repeat(np.cumsum(wanted) - wanted, wanted)
    found: Ints = np.repeat(starts[chosen], wanted) + within
    return found


class Chunks:
    """Puts rows that arrive piece by piece together to sequences of up to ``longest`` rows, padded with zeros.

    A chunk is handed out when it is full, when its episode or life has ended, or when a gap follows it. Its columns are
    ``[C, longest, ...]``; ``mask`` tells rows from padding. Of ``carry.*`` only the first row's is kept.
    """

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self.waiting: SampleBatch | None = None

    def add(self, rows: SampleBatch) -> SampleBatch | None:
        """Chunks that are complete now, or None."""
        if self.waiting is not None:
            rows = SampleBatch.concat_samples([self.waiting, rows])
        order, lengths = in_sequences(rows, rows["ended"].astype(bool), self.longest)
        if not len(order):
            return None
        rows = rows.rows(order)
        last = np.cumsum(lengths) - 1
        stream = rows["stream"][last]
        followed = np.append(stream[1:] == stream[:-1], False)
        complete = (lengths == self.longest) | rows["ended"][last].astype(bool) | followed
        self.waiting = rows.rows(rows_of(lengths, np.flatnonzero(~complete)))
        chosen = np.flatnonzero(complete)
        return self._padded(rows, lengths, chosen) if chosen.size else None

    def _padded(self, rows: SampleBatch, lengths: Ints, chosen: Ints) -> SampleBatch:
        wanted = lengths[chosen]
        mask = np.arange(self.longest) < wanted[:, None]
        first = (np.cumsum(lengths) - lengths)[chosen]
        taken = rows_of(lengths, chosen)
        padded: dict[str, Array] = {"mask": mask}
        for name, column in rows.items():
            if name.startswith("carry."):
                padded[name] = column[first]
                continue
            padded[name] = np.zeros((len(chosen), self.longest, *column.shape[1:]), column.dtype)
            padded[name][mask] = column[taken]
        return SampleBatch(padded)

    def state_dict(self) -> dict[str, Any]:
        return {} if self.waiting is None else dict(self.waiting.columns)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.waiting = SampleBatch(state) if state else None


def unpadded(chunks: SampleBatch) -> SampleBatch:
    """The rows of chunks, one chunk after the other; what stands once per chunk is repeated."""
    mask = chunks["mask"].astype(bool)
    lengths = mask.sum(axis=1)
    steps = mask.shape[1]
    flat = {}
    for name, column in chunks.items():
        per_row = column.ndim >= 2 and column.shape[1] == steps and not name.startswith("carry.")
        if per_row:
            flat[name] = column[mask]
        else:
            flat[name] = np.repeat(column, lengths, axis=0)
    return SampleBatch(flat)
