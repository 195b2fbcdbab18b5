"""How a training batch is cut: into sequences that end with a life, and into shuffled parts that hold every row once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from marl.algos.central_critic.train_batch import COLUMNS, TrainBatch, prepare
from marl.data.batch import SampleBatch
from marl.data.sequences import in_sequences

# stream, episode, t, elapsed, terminated, truncated; in the order of time
LIVES = [
    (0, 0, 0, 1, False, False), (1, 0, 0, 2, False, False), (0, 0, 1, 1, True, False),
    (0, 0, 2, 1, False, False), (1, 0, 2, 1, False, True),  # both begin new lives at once, in the same episode
    (1, 0, 3, 1, False, False), (0, 0, 3, 2, False, False), (1, 0, 4, 1, True, True),
    (0, 0, 6, 1, False, False),  # a decision of step 5 is missing
    (0, 1, 7, 1, False, False), (0, 1, 8, 1, False, False), (0, 1, 9, 1, False, False),
]  # fmt: skip
SEQUENCES = [[0, 2], [3, 6], [8], [9, 10], [11], [1, 4], [5, 7]]  # rows, with at most two in a sequence


def batch() -> SampleBatch:
    numbers = np.arange(len(LIVES), dtype=np.float32)
    names = ("stream", "eps_id", "t", "elapsed", "terminateds", "truncateds")
    columns: dict[str, Any] = {name: np.array([life[i] for life in LIVES]) for i, name in enumerate(names)}
    columns |= {name: numbers.copy() for name in COLUMNS}
    columns["carry"] = np.stack([numbers, -numbers, numbers + 0.5], axis=1)
    return SampleBatch(columns)


def lesson(carry_size: int, longest: int = 2) -> TrainBatch:
    return prepare(batch(), carry_size, longest, torch.device("cpu"))


def test_sequences_end_with_a_life_an_episode_a_gap_and_their_length() -> None:
    found = lesson(carry_size=2)
    flat = [float(row) for rows in SEQUENCES for row in rows]
    assert found.lengths.tolist() == [len(rows) for rows in SEQUENCES]
    assert all(found.data[name].tolist() == flat for name in COLUMNS)
    assert found.carry.tolist() == [[float(rows[0]), -float(rows[0])] for rows in SEQUENCES]
    assert len(found.data["advantages"]) == 12
    whole = found.whole()
    assert whole.sequences is not None
    assert whole.sequences.lengths.tolist() == found.lengths.tolist()
    assert whole.sequences.actions.tolist() == whole.sequences.rewards.tolist() == flat


def test_without_a_memory_rows_stay_in_their_order() -> None:
    found = lesson(carry_size=0)
    assert found.data["obs"].tolist() == [float(row) for row in range(12)]
    assert len(found.lengths) == 0
    assert found.whole().sequences is None


@pytest.mark.parametrize("size", [1, 5, 12, 100])
def test_every_pass_holds_every_row_once_in_parts_of_the_wanted_size(size: int) -> None:
    parts = list(lesson(carry_size=0).minibatches(np.random.default_rng(0), 3, size))
    each = len(parts) // 3
    assert each == -(-12 // size)
    orders = []
    for turn in range(3):
        mine = parts[turn * each : (turn + 1) * each]
        assert [len(part.data["obs"]) for part in mine[:-1]] == [size] * (each - 1)
        orders.append([row for part in mine for row in part.data["obs"].tolist()])
        assert sorted(orders[-1]) == list(range(12))
        assert all(part.data[name].tolist() == part.data["obs"].tolist() for part in mine for name in COLUMNS)
    assert orders[0] != orders[1] != orders[2]


@pytest.mark.parametrize(("size", "parts"), [(1, 7), (4, 3), (100, 1)])
def test_parts_of_a_recurrent_policy_hold_whole_sequences(size: int, parts: int) -> None:
    found = list(lesson(carry_size=2).minibatches(np.random.default_rng(1), 1, size))
    assert len(found) in (parts, parts + 1)
    seen = []
    for part in found:
        assert part.sequences is not None
        rows = [int(row) for row in part.data["obs"].tolist()]
        assert part.sequences.actions.tolist() == part.sequences.rewards.tolist() == rows
        at = 0
        for length, carry in zip(part.sequences.lengths.tolist(), part.sequences.carry.tolist(), strict=True):
            seen.append(rows[at : at + length])
            assert carry == [float(rows[at]), -float(rows[at])]
            at += length
        assert at == len(rows)
    assert sorted(seen) == sorted(SEQUENCES)


def test_long_sequences_are_cut_by_ends_of_lives_alone() -> None:
    found = lesson(carry_size=2, longest=9)
    assert found.lengths.tolist() == [2, 2, 1, 3, 2, 2]
    assert found.data["obs"].tolist() == [0, 2, 3, 6, 8, 9, 10, 11, 1, 4, 5, 7]
    assert found.carry[:, 0].tolist() == [0, 3, 8, 9, 1, 5]


def test_no_rows_make_no_sequences() -> None:
    order, lengths = in_sequences(batch().rows(slice(0, 0)), np.zeros(0, bool), 3)
    assert order.shape == lengths.shape == (0,)
