"""A policy's training batch and how it is cut into minibatches: rows, or whole sequences for recurrent policies."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.algos.learner_group import LearnerGroup
from marl.data.batch import SampleBatch
from marl.data.sequences import in_sequences, rows_of
from marl.data.task import Ints
from marl.policies.networks import Sequences

COLUMNS = (
    "obs", "actions", "legal", "agent_index", "action_logp", "rewards", "advantages", "values", "value_targets",
    "critic_features",
)  # fmt: skip


@dataclass
class TrainBatch:
    """One row per decision. ``lengths`` are those of the sequences of a recurrent policy, empty without a memory."""

    data: dict[str, Tensor]
    carry: Tensor  # [C, carry_size], with which each sequence began
    lengths: Ints

    def whole(self) -> Minibatch:
        return Minibatch(self.data, self._sequences(np.arange(len(self.lengths)), self.data))

    def minibatches(
        self, rng: np.random.Generator, passes: int, size: int, left_out: Collection[str] = ()
    ) -> Iterator[Minibatch]:
        """Shuffled parts of about ``size`` rows, ``passes`` times over everything, without some columns."""
        rows = len(self.data["advantages"])
        for _ in range(passes):
            if len(self.lengths):
                yield from self._in_sequences(rng, size)
                continue
            order = torch.from_numpy(rng.permutation(rows)).to(self.carry.device)
            # One gather per pass; minibatches are views of it, which is cheaper than a gather for each of them.
            names, parts = [], []
            for name, column in self.data.items():
                if name not in left_out:
                    names.append(name)
                    parts.append(torch.split(torch.index_select(column, 0, order), size))
            for minibatch in zip(*parts, strict=True):
                yield Minibatch(dict(zip(names, minibatch, strict=True)), None)

    def _in_sequences(self, rng: np.random.Generator, size: int) -> Iterator[Minibatch]:
        order = rng.permutation(len(self.lengths))
        # A sequence belongs to the minibatch in which its first row falls: sizes miss ``size`` by less than a sequence.
        before = np.cumsum(self.lengths[order]) - self.lengths[order]
        for chosen in np.split(order, np.flatnonzero(np.diff(before // size)) + 1):
            rows = torch.from_numpy(rows_of(self.lengths, chosen)).to(self.carry.device)
            data = {name: torch.index_select(column, 0, rows) for name, column in self.data.items()}
            yield Minibatch(data, self._sequences(chosen, data))

    def _sequences(self, chosen: Ints, data: Mapping[str, Tensor]) -> Sequences | None:
        if not len(self.lengths):
            return None
        lengths = torch.from_numpy(self.lengths[chosen]).to(self.carry.device)
        return Sequences(lengths, self.carry[torch.from_numpy(chosen)], data["actions"], data["rewards"])


@dataclass
class Minibatch:
    """What one gradient step looks at. ``weight`` is what its mean counts in the mean over all learners' rows."""

    data: dict[str, Tensor]
    sequences: Sequences | None
    weight: float = 1.0
    stacked_rows: int | None = None
    """How many of the rows count, where policies are trained together: the others only fill up."""

    @property
    def rows(self) -> int:
        return len(self.data["advantages"]) if self.stacked_rows is None else self.stacked_rows

    def share(self, learner_group: LearnerGroup) -> Minibatch:
        """A member's rows; whole sequences for a recurrent policy."""
        count = len(self.data["advantages"])
        if self.sequences is None:
            rows, sequences, weight = learner_group.share(count), None, learner_group.weight(count)
        else:
            lengths = self.sequences.lengths
            mine = learner_group.share(len(lengths))
            rows = slice(int(lengths[: mine.start].sum()), int(lengths[: mine.stop].sum()))
            # Shares are cut between sequences, so they count by their rows, not by how many sequences they are.
            weight = (rows.stop - rows.start) / count if learner_group.weight(len(lengths)) else 0.0
            actions, rewards = self.sequences.actions[rows], self.sequences.rewards[rows]
            sequences = Sequences(lengths[mine], self.sequences.carry[mine], actions, rewards)
        return Minibatch({name: column[rows] for name, column in self.data.items()}, sequences, weight)


def columns_of(rows: SampleBatch) -> tuple[str, ...]:
    """Those that become tensors; ``factors`` where others of the team were updated before."""
    return (*COLUMNS, "factors") if "factors" in rows.columns else COLUMNS


def prepare(rows: SampleBatch, carry_size: int, longest: int, device: torch.device) -> TrainBatch:
    """Rows as tensors; those of a recurrent policy in the order of their sequences."""
    if not carry_size:
        nothing = torch.zeros((0, 0), device=device)
        return TrainBatch(to_tensors(rows, columns_of(rows), device), nothing, np.zeros(0, np.int64))
    order, lengths = in_sequences(rows, rows["terminateds"] | rows["truncateds"], longest)
    rows = rows.rows(order)
    carry = rows["carry"][np.cumsum(lengths) - lengths][:, :carry_size]
    carried = torch.from_numpy(np.ascontiguousarray(carry)).to(device)
    return TrainBatch(to_tensors(rows, columns_of(rows), device), carried, lengths)


def to_tensors(
    rows: SampleBatch, columns: Sequence[str], device: torch.device, part: slice = slice(None)
) -> dict[str, Tensor]:
    """These columns of some rows, where the networks are."""
    found = {}
    for name in columns:
        found[name] = torch.from_numpy(np.ascontiguousarray(rows[name][part])).to(device)
    return found
