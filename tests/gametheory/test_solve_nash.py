"""Nash equilibria: exact on random games, complete where completeness is promised, honest where nothing is."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from marl.errors import ConfigError
from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.solve import all_equilibria, lemke_howson, nash, pure_equilibria, zero_sum
from marl.gametheory.solve.polish import interactions
from marl.gametheory.solve.qre import branch, unit_game
from marl.gametheory.solve.solution import precise

Exact = tuple[Fraction, ...]


def slow_nash_conv(game: MatrixGame, profile: tuple[np.ndarray, ...]) -> float:
    """From the definition, cell by cell."""
    total = 0.0
    for player in range(game.num_players):
        earned = 0.0
        deviating = [0.0] * game.shape[player]
        for joint in np.ndindex(game.shape):
            weights = [profile[i][a] for i, a in enumerate(joint)]
            earned += float(np.prod(weights)) * game.payoffs[(player, *joint)]
            others = float(np.prod(np.delete(weights, player)))
            deviating[joint[player]] += others * game.payoffs[(player, *joint)]
        total += max(deviating) - earned
    return total


# -- two players, zero sum ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 4), (30, 30), (100, 60), (100, 100)])
@pytest.mark.parametrize("constant", [0.0, 5.0])
def test_the_value_of_a_constant_sum_game_is_the_optimum_of_the_column_players_program(
    shape: tuple[int, int], constant: float
) -> None:
    table = np.random.default_rng(sum(shape)).standard_normal(shape)
    game = bimatrix(table, constant - table)
    found = zero_sum(game)
    # The dual, which the solver does not solve: the column player holds the row player to w.
    rows, columns = shape
    dual = linprog(
        np.r_[np.zeros(columns), 1.0],
        A_ub=np.hstack([table, -np.ones((rows, 1))]),
        b_ub=np.zeros(rows),
        A_eq=np.r_[np.ones(columns), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * columns + [(None, None)],
    )
    assert found.values[0] == pytest.approx(dual.fun, abs=1e-8)
    assert found.values.sum() == pytest.approx(constant, abs=1e-9)
    assert (found.profile[0] @ table).min() == pytest.approx((table @ found.profile[1]).max(), abs=1e-8)  # duality
    assert found.nash_conv < 1e-8
    assert found.converged


def test_games_of_partly_common_interest_are_refused_by_the_linear_program() -> None:
    with pytest.raises(ConfigError, match="adds up to different numbers"):
        zero_sum(classic_game("stag_hunt"))


def test_two_player_methods_refuse_three_players() -> None:
    game = random_game((2, 2, 2), np.random.default_rng(0))
    for method in (zero_sum, lemke_howson, all_equilibria):
        with pytest.raises(ConfigError, match="for two players, and game 'random game' has 3"):
            method(game)


# -- two players, general sum ---------------------------------------------------------------------------------------------


def test_200_random_games_up_to_8x8_have_an_odd_number_of_exact_equilibria_and_nash_finds_one_of_them() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        game = random_game(rng.integers(2, 9, 2), rng)
        found = all_equilibria(game)
        assert not found.degenerate
        assert len(found) % 2 == 1
        assert all(s.converged and game.nash_conv(s.profile) < 1e-8 for s in found)
        assert found.nash_conv == max(s.nash_conv for s in found)
        one = nash(game)
        assert one.converged
        assert one.nash_conv < 1e-8
        assert min(distance(one.profile, s.profile) for s in found) < 1e-7


def distance(a: tuple[np.ndarray, ...], b: tuple[np.ndarray, ...]) -> float:
    return max(float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True))


def exact_solve(matrix: list[list[Fraction]], wanted: list[Fraction]) -> list[Fraction] | None:
    """Gauss-Jordan with fractions; None if singular."""
    rows = [[*row, value] for row, value in zip(matrix, wanted, strict=True)]
    for c in range(len(rows)):
        pivot = next((r for r in range(c, len(rows)) if rows[r][c] != 0), None)
        if pivot is None:
            return None
        rows[c], rows[pivot] = rows[pivot], rows[c]
        rows[c] = [x / rows[c][c] for x in rows[c]]
        for r in range(len(rows)):
            if r != c:
                rows[r] = [x - rows[r][c] * y for x, y in zip(rows[r], rows[c], strict=True)]
    return [row[-1] for row in rows]


def exact_mix(table: list[list[int]], support: tuple[int, ...], replies: tuple[int, ...]) -> Exact | None:
    """The mixture over ``support`` (columns) that makes the rows ``replies`` equally good, and no row better."""
    matrix = [[*(Fraction(table[r][c]) for c in support), Fraction(-1)] for r in replies]
    solved = exact_solve(
        [*matrix, [Fraction(1)] * len(support) + [Fraction(0)]], [Fraction(0)] * len(replies) + [Fraction(1)]
    )
    if solved is None or min(solved[:-1]) <= 0:
        return None
    mix = [Fraction(0)] * len(table[0])
    for c, p in zip(support, solved, strict=False):
        mix[c] = p
    earned = [sum(Fraction(u) * p for u, p in zip(row, mix, strict=True)) for row in table]
    return tuple(mix) if max(earned) == solved[-1] else None


def exact_equilibria(row: list[list[int]], column: list[list[int]]) -> set[tuple[Exact, Exact]]:
    """Support enumeration with fractions: slow, without any tolerance, and complete for nondegenerate games."""
    found, turned = set(), [list(c) for c in zip(*column, strict=True)]
    m, n = len(row), len(row[0])
    for size in range(1, min(m, n) + 1):
        for rows in combinations(range(m), size):
            for columns in combinations(range(n), size):
                x, y = exact_mix(turned, rows, columns), exact_mix(row, columns, rows)
                if x and y:
                    found.add((x, y))
    return found


def test_enumeration_finds_what_support_enumeration_with_fractions_finds_and_nothing_else() -> None:
    rng = np.random.default_rng(1)
    sizes = []
    for shape in [(2, 2), (2, 4), (3, 3), (3, 5), (4, 4), (5, 4), (5, 5)] * 3:
        tables = rng.integers(-1000, 1000, (2, *shape))
        slow = exact_equilibria(tables[0].tolist(), tables[1].tolist())
        found = all_equilibria(MatrixGame(tables))
        assert not found.degenerate
        expected = sorted([*map(float, x), *map(float, y)] for x, y in slow)
        got = sorted(np.concatenate(s.profile).tolist() for s in found)
        assert np.shape(got) == np.shape(expected)
        assert np.array(got) == pytest.approx(np.array(expected), abs=1e-9)
        sizes.append(len(got))
    assert max(sizes) >= 5


def test_every_lemke_howson_path_ends_in_an_enumerated_equilibrium() -> None:
    rng = np.random.default_rng(2)
    for _ in range(20):
        game = random_game(rng.integers(2, 7, 2), rng)
        known = all_equilibria(game)
        for label in range(sum(game.shape)):
            end = lemke_howson(game, label)
            assert end.converged
            assert min(distance(end.profile, s.profile) for s in known) < 1e-7


def test_games_full_of_ties_are_solved_and_called_degenerate() -> None:
    rng = np.random.default_rng(3)
    degenerate = 0
    for _ in range(60):
        game = MatrixGame(rng.integers(0, 3, (2, *rng.integers(1, 7, 2))))
        for label in range(sum(game.shape)):
            assert lemke_howson(game, label).nash_conv < 1e-8
        found = all_equilibria(game)
        assert len(found) > 0
        assert found.nash_conv < 1e-8
        degenerate += found.degenerate
    assert degenerate > 40


def test_the_corners_of_a_degenerate_games_set_of_equilibria_are_all_found() -> None:
    # Row b and c pay alike and the column player only has one action: any mixture of b and c is an equilibrium.
    found = all_equilibria(bimatrix([[0], [1], [1]], [[5], [5], [5]]))
    assert found.degenerate
    assert sorted(s.profile[0].tolist() for s in found) == [[0, 0, 1], [0, 1, 0]]


def test_what_is_too_large_to_enumerate_is_refused_with_the_number_of_systems() -> None:
    with pytest.raises(ConfigError, match=r"40,116,600 linear systems.*nash"):
        all_equilibria(random_game((14, 14), np.random.default_rng(0)))


def test_a_label_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"label 4.*0 to 3"):
        lemke_howson(classic_game("chicken"), 4)


@pytest.mark.parametrize(("scale", "offset"), [(1e6, 0.0), (1e-3, 0.0), (1.0, 1e4)])
def test_units_and_offsets_of_payoffs_do_not_change_the_equilibria(scale: float, offset: float) -> None:
    game = random_game((6, 6), np.random.default_rng(4))
    plain, moved = all_equilibria(game), all_equilibria(MatrixGame(game.payoffs * scale + offset))
    assert len(plain) == len(moved) > 1
    for a, b in zip(plain, moved, strict=True):
        assert distance(a.profile, b.profile) < 1e-7


def test_large_games_are_solved_to_the_last_digit() -> None:
    found = nash(random_game((60, 60), np.random.default_rng(4)))
    assert found.method == "Lemke-Howson"
    assert found.nash_conv < 1e-8


# -- more and fewer players -----------------------------------------------------------------------------------------------


def test_one_player_takes_its_best_action() -> None:
    found = nash(MatrixGame(np.array([[1.0, 3.0, 2.0]])))
    assert found.profile[0].tolist() == [0, 1, 0]
    assert found.nash_conv == 0


def test_three_player_answers_carry_the_nash_conv_of_the_definition() -> None:
    rng = np.random.default_rng(5)
    mixed = 0
    for shape in [(2, 2, 2), (3, 3, 3), (2, 3, 4), (2, 2, 2, 2)] * 8:
        game = random_game(shape, rng)
        found = nash(game)
        assert found.nash_conv == pytest.approx(slow_nash_conv(game, found.profile), abs=1e-9)
        assert found.converged == (found.nash_conv < 1e-8)
        assert found.converged  # holds for these games; no method promises it
        mixed += not pure_equilibria(game)
    assert mixed >= 4


def test_three_player_matching_pennies_is_played_uniformly() -> None:
    # Player 0 wants to match 1, player 1 wants to match 2, player 2 wants to differ from 0: no pure equilibrium.
    a, b, c = np.indices((2, 2, 2))
    found = nash(MatrixGame(np.stack([a == b, b == c, c != a])))
    for strategy in found.profile:
        assert strategy == pytest.approx([0.5, 0.5], abs=1e-9)


def test_pure_equilibria_are_the_cells_where_nobody_gains() -> None:
    game = random_game((3, 4, 2), np.random.default_rng(7))
    expected = [joint for joint in np.ndindex(game.shape) if slow_nash_conv(game, game.pure(joint)) <= 1e-12]
    assert pure_equilibria(game) == expected


def test_interactions_are_the_derivatives_of_payoffs_by_the_others_probabilities() -> None:
    game = random_game((2, 3, 2), np.random.default_rng(8))
    rng = np.random.default_rng(9)
    x = [rng.dirichlet(np.ones(n)) for n in game.shape]
    slopes, step, flat = interactions(game, tuple(x)), 1e-6, np.concatenate(x)

    def earned(at: np.ndarray) -> np.ndarray:
        profile = tuple(np.split(at, np.cumsum(game.shape)[:-1]))
        return np.concatenate([game.deviations(profile, i) for i in range(3)])

    for column in range(len(flat)):
        moved = np.eye(len(flat))[column] * step
        measured = (earned(flat + moved) - earned(flat - moved)) / (2 * step)
        assert slopes[:, column] == pytest.approx(measured, abs=1e-8)


def test_a_branch_that_is_cut_off_early_ends_where_it_was_told_to() -> None:
    _, scaled = unit_game(random_game((3, 3), np.random.default_rng(0)))
    points = list(branch(scaled, until=3.0))
    assert points[0].rationality == 0
    assert points[-1].rationality == pytest.approx(3.0)


def test_one_best_reply_too_many_makes_a_game_degenerate_whoever_has_it() -> None:
    row, column = np.array([[1, 0], [0, 1]]), np.array([[1, 1], [0, 2]])  # against the first row both columns pay 1
    assert all_equilibria(bimatrix(row, column)).degenerate
    assert all_equilibria(bimatrix(column.T, row.T)).degenerate  # seats exchanged
    assert not all_equilibria(bimatrix(row, np.array([[2, 1], [0, 2]]))).degenerate


def test_vertices_are_found_whatever_the_size_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    game = random_game((4, 4), np.random.default_rng(11))
    whole = [np.concatenate(found.profile).round(9).tolist() for found in all_equilibria(game)]
    monkeypatch.setattr("marl.gametheory.solve.enumerate.BATCH", 3)
    assert [np.concatenate(found.profile).round(9).tolist() for found in all_equilibria(game)] == whole


def test_a_profile_is_precise_only_if_nobody_gains() -> None:
    game = bimatrix([[1, 0], [0, 1]], [[1, 0], [0, 1]])
    assert precise(game, game.pure([0, 0]))
    tilted = bimatrix(
        [[1, 1], [1, 1]], [[1, 0], [1, 0]]
    )  # the row gains nothing anywhere, the column by its first action
    assert not precise(tilted, tilted.pure([0, 1]))


@pytest.mark.parametrize("label", [1, 3])
def test_lemke_howson_needs_two_pivots_where_both_have_a_dominant_action(label: int) -> None:
    # Dropping the label of a dominant action brings it in; the other's dominant action follows, and the label is back.
    found = lemke_howson(bimatrix([[3, 0], [5, 1]], [[3, 5], [0, 1]]), label)
    assert found.iterations == 2
    assert [strategy.tolist() for strategy in found.profile] == [[0.0, 1.0], [0.0, 1.0]]
