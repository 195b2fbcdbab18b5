"""A policy's training batch and how it is cut into minibatches: rows, or whole sequences for recurrent policies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.algos.learner_group import LearnerGroup
from marl.data.batch import SampleBatch
from marl.data.sequences import in_sequences, rows_of
from marl.data.task import Ints
from marl.policies.body import Sequences

COLUMNS = (
    "obs", "actions", "legal", "agent_index", "action_logp", "rewards", "advantages", "values", "value_targets",
    "critic_features",
)  # fmt: skip


@dataclass
class TrainBatch:
    """The data and the rates that hold while a policy is trained on it. ``lengths`` is empty without a memory."""

    data: dict[str, Tensor]
    carry: Tensor  # [C, carry_size], with which each sequence began
    lengths: Ints
    lr: float
    entropy_coeff: float

    def __len__(self) -> int:
        return len(self.data["advantages"])

    def whole(self) -> Minibatch:
        return Minibatch(self.data, self._sequences(np.arange(len(self.lengths)), self.data))

    def minibatches(self, rng: np.random.Generator, passes: int, size: int) -> Iterator[Minibatch]:
        """Shuffled parts of about ``size`` rows, ``passes`` times over everything."""
        for _ in range(passes):
            yield from self._in_sequences(rng, size) if len(self.lengths) else self._in_rows(rng, size)

    def _in_rows(self, rng: np.random.Generator, size: int) -> Iterator[Minibatch]:
        order = torch.from_numpy(rng.permutation(len(self)))
        shuffled = {name: column[order] for name, column in self.data.items()}
        for start in range(0, len(self), size):
            yield Minibatch({name: column[start : start + size] for name, column in shuffled.items()}, None)

    def _in_sequences(self, rng: np.random.Generator, size: int) -> Iterator[Minibatch]:
        order = rng.permutation(len(self.lengths))
        before = np.cumsum(self.lengths[order]) - self.lengths[order]
        for chosen in np.split(order, np.flatnonzero(np.diff(before // size)) + 1):
            rows = torch.from_numpy(rows_of(self.lengths, chosen))
            data = {name: column[rows] for name, column in self.data.items()}
            yield Minibatch(data, self._sequences(chosen, data))

    def _sequences(self, chosen: Ints, data: Mapping[str, Tensor]) -> Sequences | None:
        if not len(self.lengths):
            return None
        lengths = torch.from_numpy(self.lengths[chosen]).to(self.carry.device)
        return Sequences(lengths, self.carry[torch.from_numpy(chosen)], data["actions"], data["rewards"])


@dataclass
class Minibatch:
    """What one gradient step looks at."""

    data: dict[str, Tensor]
    sequences: Sequences | None

    def share(self, crew: LearnerGroup) -> tuple[Minibatch, float]:
        """A crew member's rows, whole sequences for a recurrent policy, and what their mean counts in the mean over all."""
        count = len(self.data["advantages"])
        if self.sequences is None:
            rows, sequences, weight = crew.share(count), None, crew.weight(count)
        else:
            lengths = self.sequences.lengths
            mine = crew.share(len(lengths))
            rows = slice(int(lengths[: mine.start].sum()), int(lengths[: mine.stop].sum()))
            weight = (rows.stop - rows.start) / count if crew.weight(len(lengths)) else 0.0
            actions, rewards = self.sequences.actions[rows], self.sequences.rewards[rows]
            sequences = Sequences(lengths[mine], self.sequences.carry[mine], actions, rewards)
        return Minibatch({name: column[rows] for name, column in self.data.items()}, sequences), weight


def prepare(
    rows: SampleBatch, carry_size: int, longest: int, device: torch.device, lr: float, entropy_coeff: float
) -> TrainBatch:
    """Rows as tensors; those of a recurrent policy in the order of their sequences."""
    lengths, carry = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
    if carry_size:
        order, lengths = in_sequences(rows, rows["terminateds"] | rows["truncateds"], longest)
        rows = rows.rows(order)
        carry = rows["carry"][np.cumsum(lengths) - lengths][:, :carry_size]
    data = {name: torch.from_numpy(np.ascontiguousarray(rows[name])).to(device) for name in COLUMNS}
    return TrainBatch(data, torch.from_numpy(np.ascontiguousarray(carry)).to(device), lengths, lr, entropy_coeff)
