"""The ring: order, n-step outcomes across fragments, priorities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.data.batch import SampleBatch
from marl.data.replay import Priorities, Replay


def rows(t: list[int], eps: int = 0, end: bool = False, reward: float = 1.0) -> SampleBatch:
    n = len(t)
    ended = np.array([False] * (n - 1) + [end])
    return SampleBatch(
        {
            "t": np.array(t),
            "eps_id": np.full(n, eps),
            "elapsed": np.ones(n, np.int64),
            "rewards": np.full(n, reward, np.float32),
            "terminateds": ended,
            "ended": ended,
            "obs": np.array(t, np.float32)[:, None],
            "new_obs": np.array(t, np.float32)[:, None] + 1,
        }
    )


def outcome(replay: Replay, place: int, n_step: int) -> dict[str, Any]:
    return {k: v[0] for k, v in replay._outcomes(np.array([place]), n_step, 0.5).items()}


def test_n_step_targets_do_not_end_at_a_fragments_border() -> None:
    replay = Replay(10)
    stream = np.zeros(2, np.int64)
    replay.add(rows([0, 1]), stream)
    replay.add(rows([2, 3]), stream)
    got = outcome(replay, 1, 3)
    assert got["rewards"] == pytest.approx(1 + 0.5 + 0.25)
    assert (got["elapsed"], got["new_obs"][0]) == (3, 4.0)


def test_n_step_stops_at_the_end_of_an_episode() -> None:
    replay = Replay(10)
    replay.add(rows([0, 1], end=True), np.zeros(2, np.int64))
    replay.add(rows([0, 1], eps=1), np.zeros(2, np.int64))
    got = outcome(replay, 0, 5)
    assert got["rewards"] == pytest.approx(1.5)
    assert bool(got["terminateds"])


def test_streams_are_not_mixed_up() -> None:
    replay = Replay(10)
    both = SampleBatch.concat_samples([rows([0]), rows([0], eps=9, reward=100.0)])
    later = SampleBatch.concat_samples([rows([1]), rows([1], eps=9, reward=100.0)])
    replay.add(both, np.array([0, 1]))
    replay.add(later, np.array([0, 1]))
    assert outcome(replay, 0, 2)["rewards"] == pytest.approx(1.5)
    assert outcome(replay, 1, 2)["rewards"] == pytest.approx(150)


def test_a_gap_left_by_a_lost_decision_breaks_the_chain() -> None:
    replay = Replay(10)
    replay.add(rows([0, 2]), np.zeros(2, np.int64))
    assert outcome(replay, 0, 2)["rewards"] == 1.0


def test_the_oldest_rows_are_overwritten_and_links_stay_right() -> None:
    replay = Replay(4)
    for start in range(0, 12, 3):
        replay.add(rows(list(range(start, start + 3))), np.zeros(3, np.int64))
    assert len(replay) == 4
    assert sorted(replay.columns["t"].tolist()) == [8, 9, 10, 11]
    place = int(np.flatnonzero(replay.columns["t"] == 8)[0])
    assert outcome(replay, place, 9)["new_obs"][0] == 12.0


def test_priorities_draw_in_proportion() -> None:
    tree = Priorities(5, alpha=1.0)
    tree.set(np.arange(5), np.array([0.0, 1.0, 2.0, 3.0, 4.0]))
    places, chance = tree.sample(10_000, np.random.default_rng(0))
    assert np.bincount(places, minlength=5) / 10_000 == pytest.approx([0, 0.1, 0.2, 0.3, 0.4], abs=0.01)
    assert chance[places == 4][0] == pytest.approx(0.4)


def test_weights_undo_the_bias_of_prioritised_drawing() -> None:
    replay = Replay(4, alpha=1.0)
    replay.add(rows([0, 1, 2, 3]), np.zeros(4, np.int64))
    replay.update_priorities(np.arange(4), np.array([1.0, 1.0, 1.0, 3.0], np.float32))
    batch = replay.sample(6_000, np.random.default_rng(0), 1, 0.9, beta=1.0)
    weighted = np.bincount(batch["place"], batch["weights"], 4)
    assert weighted / weighted.sum() == pytest.approx([0.25] * 4, abs=0.01)


def test_a_saved_replay_draws_the_same_rows() -> None:
    replay = Replay(6, alpha=0.6)
    replay.add(rows([0, 1, 2]), np.zeros(3, np.int64))
    copy = Replay(6, alpha=0.6)
    copy.load_state_dict(replay.state_dict())
    for each in (replay, copy):
        each.add(rows([3, 4, 5, 6, 7]), np.zeros(5, np.int64))
    a, b = [r.sample(50, np.random.default_rng(1), 3, 0.9, 0.4) for r in (replay, copy)]
    assert all((a[name] == b[name]).all() for name in a)


def test_a_row_without_an_error_is_still_drawn_now_and_then() -> None:
    priorities = Priorities(4, 0.5)
    priorities.raise_to(np.arange(4), np.zeros(4, np.float32))
    places, chances = priorities.sample(8, np.random.default_rng(0))
    assert set(places.tolist()) == {0, 1, 2, 3}
    assert chances == pytest.approx([0.25] * 8)
