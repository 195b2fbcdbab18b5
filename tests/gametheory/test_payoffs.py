"""Payoff tensors and matrix games: shapes, properties, redrawing and files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.classics import random_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import elo
from marl.gametheory.resampling import tied

PENNIES = bimatrix([[1, -1], [-1, 1]])
DILEMMA = bimatrix([[3, 0], [5, 1]], [[3, 5], [0, 1]])
TABLE = np.array([[0.0, 0.3], [-0.3, 0.0]])
RNG_SEED = 0


def draw(payoffs: PayoffTensor, stderr: float = 0.1) -> PayoffTensor:
    return replace(payoffs, stderr=np.full_like(payoffs.mean, stderr)).redrawn(np.random.default_rng(RNG_SEED))


def test_uniform_play_in_matching_pennies_has_zero_nash_conv_and_pure_play_four() -> None:
    assert PENNIES.nash_conv(PENNIES.uniform()) == 0
    assert PENNIES.gains(PENNIES.pure([0, 0])).tolist() == [0, 2]
    assert DILEMMA.nash_conv(DILEMMA.pure([0, 0])) == 4


def test_games_know_whether_they_are_zero_sum_symmetric_or_common() -> None:
    shared = bimatrix([[1, 0], [0, 2]], [[1, 0], [0, 2]])
    kinds = [(g.is_zero_sum, g.is_constant_sum, g.is_symmetric, g.is_common) for g in (PENNIES, DILEMMA, shared)]
    assert kinds == [(True, True, False, False), (False, False, True, False), (False, False, True, True)]


def test_values_of_mixed_play_equal_the_sum_over_profiles() -> None:
    rng = np.random.default_rng(1)
    game = MatrixGame(rng.normal(size=(3, 2, 3, 4)))
    profile = tuple(rng.dirichlet(np.ones(n)) for n in game.shape)
    slow = np.zeros(3)
    for place in np.ndindex(2, 3, 4):
        slow += game.payoffs[(slice(None), *place)] * np.prod([p[i] for p, i in zip(profile, place, strict=True)])
    assert game.values(profile) == pytest.approx(slow)
    assert game.deviations(profile, 1) @ profile[1] == pytest.approx(slow[1])


def test_mistaken_games_and_profiles_are_refused() -> None:
    for payoffs in (np.zeros((2, 3)), np.zeros((3, 2, 2)), np.full((2, 2, 2), np.nan)):
        with pytest.raises(ConfigError, match="payoffs"):
            MatrixGame(payoffs)
    with pytest.raises(ConfigError, match="not a distribution"):
        PENNIES.profile([[0.5, 0.6], [0.5, 0.5]])
    with pytest.raises(ConfigError, match="same shape"):
        bimatrix([[1]], [[1, 2]])


def test_an_exact_tensor_is_the_game_again() -> None:
    payoffs = PayoffTensor.exact(DILEMMA)
    assert payoffs.is_exact
    assert payoffs.symmetric
    assert payoffs.is_mirrored
    assert np.array_equal(payoffs.game.payoffs, DILEMMA.payoffs)
    assert not PayoffTensor.exact(PENNIES).symmetric


def test_unplayed_pairings_make_a_tensor_incomplete_and_survive_a_file(tmp_path: Path) -> None:
    payoffs = PayoffTensor.two_player([[0, np.nan], [np.nan, 0]], ["a", "b"])
    assert not payoffs.is_complete
    with pytest.raises(ConfigError, match=r"2 pairing\(s\)"):
        _ = payoffs.game
    payoffs.save(tmp_path / "payoffs.json")
    again = PayoffTensor.load(tmp_path / "payoffs.json")
    assert np.array_equal(again.mean, payoffs.mean, equal_nan=True)
    assert (again.names, again.players, again.symmetric) == (payoffs.names, payoffs.players, True)


def test_a_file_that_is_no_tensor_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{")
    (tmp_path / "y.json").write_text(json.dumps({"format": 99}))
    for name, text in (("x", "cannot read"), ("y", "format 99"), ("z", "cannot read")):
        with pytest.raises(ConfigError, match=text):
            PayoffTensor.load(tmp_path / f"{name}.json")


def test_redrawn_means_scatter_by_their_standard_errors() -> None:
    payoffs = PayoffTensor(
        np.zeros((2, 1, 2)), np.array([[[0.1, 0]], [[0.4, 0]]]), np.ones((1, 2), int), (("a",), ("b", "c")), ("x", "y")
    )
    rng = np.random.default_rng(2)
    drawn = np.stack([payoffs.redrawn(rng).mean for _ in range(4000)])
    assert drawn.std(axis=0) == pytest.approx(payoffs.stderr, abs=0.02)
    assert drawn.mean(axis=0) == pytest.approx(payoffs.mean, abs=0.03)


def test_redrawn_zero_sum_and_constant_sum_games_stay_so() -> None:
    for total in (0.0, 1.0):
        table = np.random.default_rng(3).normal(size=(3, 4))
        drawn = draw(PayoffTensor.exact(bimatrix(table, total - table)))
        assert drawn.mean.sum(axis=0) == pytest.approx(np.full((3, 4), total))
        assert not np.allclose(drawn.mean[0], table)


def test_redrawn_mirrored_seats_stay_mirrored_whether_opposed_alike_or_neither() -> None:
    alike = bimatrix([[1, 0], [0, 2]], [[1, 0], [0, 2]])
    for payoffs in (PayoffTensor.two_player(TABLE, ["a", "b"]), PayoffTensor.exact(alike), PayoffTensor.exact(DILEMMA)):
        drawn = draw(payoffs)
        assert drawn.is_mirrored
        assert not np.allclose(drawn.mean, payoffs.mean)
    assert draw(PayoffTensor.two_player(TABLE, ["a", "b"])).mean.sum(axis=0) == pytest.approx(np.zeros((2, 2)))
    assert np.array_equal(*draw(PayoffTensor.exact(alike)).mean)


def test_redrawn_teammates_are_still_paid_alike() -> None:
    shared = np.random.default_rng(4).normal(size=(2, 3, 2))
    drawn = draw(PayoffTensor.exact(MatrixGame(np.stack([shared] * 3))))
    assert np.ptp(drawn.mean, axis=0).max() == 0


def test_seats_that_were_measured_separately_are_drawn_separately() -> None:
    apart = np.array([[0, 0.3], [-0.2, 0]])
    payoffs = replace(PayoffTensor.two_player(TABLE, ["a", "b"]), mean=np.stack([apart, -apart]))
    assert not payoffs.is_mirrored
    drawn = draw(payoffs).mean[0] - payoffs.mean[0]
    assert abs(drawn[0, 1] + drawn[1, 0]) > 1e-3


def test_gaps_stay_gaps_and_an_exact_table_is_drawn_as_it_is() -> None:
    payoffs = PayoffTensor.two_player([[0, np.nan], [np.nan, 0]], ["a", "b"])
    assert np.isnan(draw(payoffs).mean).sum() == 4
    exact = PayoffTensor.exact(DILEMMA)
    assert np.array_equal(draw(exact, 0.0).mean, exact.mean)


def test_tensors_whose_parts_do_not_fit_are_refused() -> None:
    good = PayoffTensor.exact(PENNIES)
    for change in ({"stderr": np.zeros(2)}, {"count": np.zeros(3, int)}, {"players": ("x",)}):
        with pytest.raises(ConfigError, match="payoff tensor"):
            replace(good, **change)
    with pytest.raises(ConfigError, match="same strategies"):
        replace(good, names=(("a", "b"), ("c", "d")), symmetric=True)


def test_a_table_of_win_shares_is_a_constant_sum_population() -> None:
    payoffs = PayoffTensor.two_player([[0.5, 0.8], [0.2, 0.5]], ["a", "b"])
    assert payoffs.mean[1].tolist() == [[0.5, 0.2], [0.8, 0.5]]
    assert payoffs.game.is_constant_sum
    assert payoffs.is_mirrored
    scores = elo(payoffs).scores
    assert scores[0] - scores[1] == pytest.approx(400 * np.log10(4), abs=0.3)  # 0.8 : 0.2, but for one imagined draw
    drawn = draw(payoffs)
    assert drawn.mean.sum(axis=0) == pytest.approx(np.ones((2, 2)))
    assert drawn.mean[0, 0, 0] == 0.5


@pytest.mark.parametrize("table", [[[1, 2], [3, 4]], [[0, 0.8], [0.2, 0]], [[0, 0.3], [-0.2, 0]]])
def test_a_table_in_which_pairings_share_different_sums_is_refused(table: list[list[float]]) -> None:
    with pytest.raises(ConfigError, match="expected the same sum in all pairings"):
        PayoffTensor.two_player(table, ["a", "b"])


def three_players(stderr: float = 0.1) -> PayoffTensor:
    """One population of three strategies, three players, zero-sum."""
    game = random_game((3, 3, 3), 5, zero_sum=True, symmetric=True)
    mean = game.payoffs.copy()
    for place in np.ndindex(3, 3, 3):  # the same numbers in all seatings to the last digit
        order = np.argsort(place, kind="stable")
        for rank, seat in enumerate(order):
            mean[(seat, *place)] = mean[(rank, *sorted(place))]
    return PayoffTensor(mean, np.full_like(mean, stderr), np.ones((3, 3, 3), int), game.actions, game.players, True)


def test_redrawn_tables_of_three_players_stay_zero_sum_and_keep_exchanged_seats_alike() -> None:
    payoffs = three_players()
    assert payoffs.is_mirrored
    drawn = payoffs.redrawn(np.random.default_rng(RNG_SEED))
    assert drawn.mean.sum(axis=0) == pytest.approx(np.zeros((3, 3, 3)), abs=1e-12)
    assert drawn.is_mirrored
    assert not np.allclose(drawn.mean[:, 0, 1, 2], payoffs.mean[:, 0, 1, 2])


def test_redrawn_zero_sum_errors_of_three_players_have_their_standard_errors() -> None:
    rng = np.random.default_rng(1)
    for size in ([0.1, 0.1, 0.1], [0.3, 0.2, 0.25]):  # 0.3^2 <= 0.2^2 + 0.25^2
        stderr = np.array(size).reshape(3, 1, 1, 1)
        mean = np.array([0.1, 0.2, -0.3]).reshape(3, 1, 1, 1)
        payoffs = PayoffTensor(mean, stderr, np.ones((1, 1, 1), int), (("a",),) * 3, ("x", "y", "z"))
        drawn = np.stack([payoffs.redrawn(rng).mean.ravel() for _ in range(4000)])
        assert drawn.std(axis=0) == pytest.approx(size, rel=0.05)
        assert np.abs(drawn.sum(axis=1)).max() < 1e-12


def test_an_error_that_the_others_cannot_balance_comes_out_as_theirs_together() -> None:
    stderr = np.array([0.5, 0.03, 0.04]).reshape(3, 1, 1, 1)
    payoffs = PayoffTensor(np.zeros((3, 1, 1, 1)), stderr, np.ones((1, 1, 1), int), (("a",),) * 3, ("x", "y", "z"))
    rng = np.random.default_rng(1)
    drawn = np.stack([payoffs.redrawn(rng).mean.ravel() for _ in range(4000)])
    assert drawn.std(axis=0) == pytest.approx([0.05, 0.03, 0.04], rel=0.05)
    assert np.abs(drawn.sum(axis=1)).max() < 1e-9


@pytest.mark.parametrize(
    ("part", "value", "text"),
    [
        ("mean", np.inf, "mean is infinite"),
        ("stderr", -0.1, "standard error is negative"),
        ("stderr", np.nan, "standard error is negative or not finite"),
        ("count", -1, "no counts"),
        ("count", 0.5, "no counts"),
    ],
)
def test_numbers_that_no_measurement_gives_are_refused(part: str, value: float, text: str) -> None:
    good = PayoffTensor.exact(PENNIES)
    with pytest.raises(ConfigError, match=text):
        replace(good, **{part: np.full_like(getattr(good, part), value, np.float64)})


def test_lists_will_do_and_empty_tables_and_binary_files_are_refused(tmp_path: Path) -> None:
    zeros = [[[0.0]], [[0.0]]]
    lists = PayoffTensor(zeros, zeros, [[0]], (("a",), ("b",)), ("x", "y"))  # type: ignore[arg-type]
    assert lists.mean.shape == (2, 1, 1)
    with pytest.raises(ConfigError, match="at least one"):
        PayoffTensor.two_player(np.zeros((0, 0)), [])
    (tmp_path / "x.bin").write_bytes(bytes(range(128, 256)))
    with pytest.raises(ConfigError, match="cannot read"):
        PayoffTensor.load(tmp_path / "x.bin")


@pytest.mark.parametrize(
    "profile",
    [
        (np.ones(2), np.ones(2)),
        (np.array([np.nan, 1.0]), np.array([0.5, 0.5])),
        (np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5])),
        (np.array([0.5, 0.5]),),
    ],
)
def test_what_is_no_profile_has_no_nash_conv(profile: tuple[np.ndarray, ...]) -> None:
    for asked in (PENNIES.nash_conv, PENNIES.gains, PENNIES.values, PENNIES.profile):
        with pytest.raises(ConfigError, match="distribution"):
            asked(profile)


@pytest.mark.parametrize("actions", [[5, 0], [-1, 0], [0], [0.5, 0]])
def test_actions_that_do_not_exist_are_refused(actions: list[int]) -> None:
    with pytest.raises(ConfigError, match="one number per player"):
        PENNIES.pure(actions)


def test_tables_that_are_no_tables_are_refused() -> None:
    for table in ([[1, 2], [3]], [["a"]]):
        with pytest.raises(ConfigError, match="rows of equal length"):
            bimatrix(table)  # type: ignore[arg-type]


def test_what_nobody_has_played_ties_nobody() -> None:
    nothing = np.full((2, 2, 2), np.nan)
    assert tied(nothing, np.zeros((2, 2, 2))) == (False, False)
    assert tied(np.ones((1, 3)), np.zeros((1, 3))) == (False, False)  # alone
    table = np.array([[1.0, 2.0], [3.0, -1.0]])
    assert tied(np.stack([table, -table]), np.ones((2, 2, 2))) == (True, False)
    assert tied(np.stack([table, table]), np.ones((2, 2, 2))) == (False, True)
