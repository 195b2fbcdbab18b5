"""An even sample of everything that was ever seen."""

from __future__ import annotations

import math

import numpy as np

from marl.algos.nfsp.reservoir import Reservoir
from marl.data.batch import SampleBatch


def numbers(first: int, end: int) -> SampleBatch:
    return SampleBatch({"n": np.arange(first, end), "pair": np.arange(2 * first, 2 * end).reshape(-1, 2)})


def test_a_reservoir_that_is_not_full_holds_everything_in_order() -> None:
    reservoir, rng = Reservoir(5_000), np.random.default_rng(0)
    for first in range(0, 3_000, 600):
        reservoir.add(numbers(first, first + 600), rng)
    assert len(reservoir) == 3_000
    held = reservoir.sample(3_000, rng)
    assert held["n"].tolist() == list(range(3_000))
    assert (held["pair"][:, 1] == 2 * held["n"] + 1).all()


def test_every_row_ever_seen_is_kept_equally_often() -> None:
    rng, kept = np.random.default_rng(1), np.zeros(40)
    for _ in range(4_000):
        reservoir = Reservoir(8)
        for first in (0, 5, 18):  # 5, 13 and 22 rows
            reservoir.add(numbers(first, {0: 5, 5: 18, 18: 40}[first]), rng)
        kept[reservoir.sample(8, rng)["n"]] += 1
    # each with the chance 8 / 40: 800 times with a deviation of 25
    assert kept.sum() == 4_000 * 8
    assert np.abs(kept - 800).max() < 5 * 25.3


def test_rows_shown_at_once_or_one_by_one_leave_the_same_sample() -> None:
    at_once, one_by_one = Reservoir(10), Reservoir(10)
    first, second = np.random.default_rng(2), np.random.default_rng(2)
    at_once.add(numbers(0, 500), first)
    for n in range(500):
        one_by_one.add(numbers(n, n + 1), second)
    assert at_once.columns["n"].tolist() == one_by_one.columns["n"].tolist()


def test_a_small_draw_holds_every_kept_row_with_the_same_chance_and_a_large_one_every_row_once() -> None:
    reservoir, rng = Reservoir(10), np.random.default_rng(3)
    reservoir.add(numbers(0, 10), rng)
    drawn = np.concatenate([reservoir.sample(9, rng)["n"] for _ in range(2_000)])
    assert np.abs(np.bincount(drawn, minlength=10) - 1_800).max() < 5 * math.sqrt(18_000 * 0.09)
    assert sorted(reservoir.sample(64, rng)["n"].tolist()) == list(range(10))
