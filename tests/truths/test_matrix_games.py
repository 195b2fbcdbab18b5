"""Known numbers of matrix games: equilibria, fictitious play, correlated welfare, replicator dynamics."""

from __future__ import annotations

import numpy as np
import pytest

from marl.gametheory.classics import classic_game
from marl.gametheory.solve import all_equilibria, correlated, fictitious_play, nash, replicator

EQUILIBRIA: dict[str, list[list[list[float]]]] = {
    "prisoners_dilemma": [[[0, 1], [0, 1]]],
    "stag_hunt": [[[1, 0], [1, 0]], [[0, 1], [0, 1]], [[0.5, 0.5], [0.5, 0.5]]],
    "chicken": [[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0.9, 0.1], [0.9, 0.1]]],
    "matching_pennies": [[[0.5, 0.5], [0.5, 0.5]]],
    "battle_of_the_sexes": [[[1, 0], [1, 0]], [[0, 1], [0, 1]], [[0.6, 0.4], [0.4, 0.6]]],
    "rock_paper_scissors": [[[1 / 3] * 3, [1 / 3] * 3]],
    "shapley": [[[1 / 3] * 3, [1 / 3] * 3]],
}


@pytest.mark.parametrize("name", EQUILIBRIA)
def test_a_classic_has_exactly_the_equilibria_of_the_textbook(name: str) -> None:
    found = all_equilibria(classic_game(name))
    assert not found.degenerate
    assert found.nash_conv < 1e-12
    got = sorted(np.concatenate(s.profile).tolist() for s in found)
    expected = sorted(np.concatenate(profile).tolist() for profile in EQUILIBRIA[name])
    assert len(got) == len(expected)
    for mine, theirs in zip(got, expected, strict=True):
        assert mine == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("name", EQUILIBRIA)
def test_one_equilibrium_of_a_classic_is_one_of_the_textbooks(name: str) -> None:
    found = np.concatenate(nash(classic_game(name)).profile)
    assert min(np.abs(found - np.ravel(profile)).max() for profile in EQUILIBRIA[name]) < 1e-12


@pytest.mark.parametrize(
    ("name", "expected"),
    [("matching_pennies", [0.4, 0.14, 0.044, 0.014]), ("rock_paper_scissors", [0.4, 0.14, 0.028, 0.008])],
)
def test_fictitious_play_comes_down_with_the_root_of_time(name: str, expected: list[float]) -> None:
    run = fictitious_play(classic_game(name), 10_000)
    assert run.curve[[9, 99, 999, 9999]] == pytest.approx(expected, abs=1e-9)
    assert run.nash_conv == pytest.approx(expected[-1], abs=1e-9)


def test_fictitious_play_never_settles_in_shapleys_game() -> None:
    run = fictitious_play(classic_game("shapley"), 10_000)
    assert run.nash_conv == pytest.approx(0.29, abs=0.005)
    assert run.curve[1_000:].min() > 0.25


def test_a_mediator_gets_ten_and_a_half_out_of_aumanns_chicken() -> None:
    best = correlated(classic_game("aumann_chicken"), "welfare")
    assert best.welfare == pytest.approx(10.5, abs=1e-9)
    assert best.max_gain < 1e-9
    assert best.distribution == pytest.approx(np.array([[0.5, 0.25], [0.25, 0.0]]), abs=1e-9)


def test_the_product_of_shares_in_rock_paper_scissors_never_changes() -> None:
    start = np.array([0.5, 0.3, 0.2])
    run = replicator(classic_game("rock_paper_scissors"), (start, start), duration=20.0)
    assert run.path[0].prod(axis=1) == pytest.approx(0.03, abs=1e-9)
    assert np.ptp(run.path[0][:, 0]) > 0.3  # it moves all the time


def test_cooperation_in_the_prisoners_dilemma_has_fallen_to_60_percent_at_time_one() -> None:
    start = np.array([0.9, 0.1])
    run = replicator(classic_game("prisoners_dilemma"), (start, start), duration=1.0)
    assert run.times[-1] == pytest.approx(1.0)
    assert run.profile[0][0] == pytest.approx(0.60487, abs=5e-6)
    assert run.profile[1][0] == pytest.approx(0.60487, abs=5e-6)
