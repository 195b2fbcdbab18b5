"""Outcomes after several decisions from a ring that is overwritten, against lists of all that was ever added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from marl.data.batch import SampleBatch
from marl.data.replay import Replay
from marl.data.tree import pack, unpack

CAPACITY = 23


@dataclass
class Row:
    stream: int
    eps: int
    t: int
    elapsed: int
    reward: float
    terminated: bool
    ended: bool


def lives(rng: np.random.Generator, streams: int, count: int) -> list[Row]:
    """Decisions of agents of the same few episodes in the order of time, some of them missing."""
    now, eps, rows = [0] * streams, [0] * streams, []
    while len(rows) < count:
        s = int(rng.integers(streams))
        if not rows and streams > 1:
            s = streams - 1  # the last stream is known before the others
        lasts, ended = int(rng.integers(1, 4)), bool(rng.random() < 0.15)
        row = Row(s, eps[s], now[s], lasts, float(rng.integers(-9, 10)), ended and bool(rng.random() < 0.5), ended)
        now[s] += lasts
        if rng.random() < 0.85:
            rows.append(row)
        if ended:
            now[s], eps[s] = 0, eps[s] + 1
    return rows


def batch(rows: list[Row]) -> tuple[SampleBatch, Any]:
    columns = {
        "eps_id": np.array([row.eps for row in rows]),
        "t": np.array([row.t for row in rows]),
        "elapsed": np.array([row.elapsed for row in rows]),
        "rewards": np.array([row.reward for row in rows], np.float32),
        "terminateds": np.array([row.terminated for row in rows]),
        "ended": np.array([row.ended for row in rows]),
        "obs": np.array([[row.stream, row.t] for row in rows], np.float32),
        "new_obs": np.array([[row.stream, row.t + row.elapsed] for row in rows], np.float32),
    }
    return SampleBatch(columns), np.array([row.stream for row in rows])


def slow_outcome(rows: list[Row], start: int, n_step: int) -> tuple[float, int, bool, bool, list[float], list[float]]:
    """By looking through all later rows for the one that goes on."""
    first = last = rows[start]
    at, reward, elapsed = start, first.reward, first.elapsed
    for _ in range(n_step - 1):
        later = [i for i in range(at + 1, len(rows)) if rows[i].stream == last.stream]
        if last.ended or not later:
            break
        following = rows[later[0]]
        if (following.eps, following.t) != (last.eps, last.t + last.elapsed):
            break
        at, last = later[0], following
        reward += 0.5**elapsed * last.reward
        elapsed += last.elapsed
    seen, then = [float(first.stream), float(first.t)], [float(last.stream), float(last.t + last.elapsed)]
    return reward, elapsed, last.terminated, last.ended, seen, then


@pytest.mark.parametrize("seed", range(8))
def test_outcomes_after_n_decisions_are_those_of_a_search_through_all_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = lives(rng, streams=1 + seed % 4, count=70)
    replay, at = Replay(CAPACITY), 0
    while at < len(rows):
        size = int(rng.integers(1, 12))
        replay.add(*batch(rows[at : at + size]))
        at = min(at + size, len(rows))
        if rng.random() < 0.3:  # a restart
            saved, replay = unpack(*pack(replay.state_dict())), Replay(CAPACITY)
            replay.load_state_dict(saved)
        kept = list(range(max(0, at - CAPACITY), at))
        assert len(replay) == len(kept)
        for n_step in (1, 2, 4):
            places = np.array([serial % CAPACITY for serial in kept])
            got = replay._outcomes(places, n_step, 0.5)
            for i, serial in enumerate(kept):
                expected = slow_outcome(rows[:at], serial, n_step)
                names = ("rewards", "elapsed", "terminateds", "ended", "obs", "new_obs")
                assert tuple(got[name][i].tolist() for name in names) == expected


def test_of_more_rows_than_fit_the_newest_are_kept() -> None:
    rows = lives(np.random.default_rng(9), 2, 3 * CAPACITY)
    replay = Replay(CAPACITY)
    replay.add(*batch(rows[:5]))
    replay.add(*batch(rows))
    assert len(replay) == CAPACITY
    order = np.argsort(replay.columns["obs"][:, 1], kind="stable")
    kept = sorted(rows[-CAPACITY:], key=lambda row: row.t)
    assert replay.columns["rewards"][order].sum() == sum(row.reward for row in kept)
    assert sorted(replay.columns["t"].tolist()) == [row.t for row in kept]
    replay.add(*batch([]))
    assert len(replay) == CAPACITY
