"""Nash averaging: maximum-entropy equilibria and the ratings against them."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import nash_average
from marl.gametheory.rank.average import game_value, max_entropy_strategy

pytestmark = pytest.mark.slow

CYCLE = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def names(n: int) -> list[str]:
    return [f"s{i}" for i in range(n)]


def antisymmetric(n: int, seed: int, values: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, n)) if not values else rng.integers(-values, values + 1, (n, n)).astype(float)
    return np.triu(table, 1) - np.triu(table, 1).T


def test_a_copy_of_rock_shares_rocks_weight_and_changes_no_rating() -> None:
    order = [0, 0, 1, 2]
    found = nash_average(PayoffTensor.two_player(CYCLE[np.ix_(order, order)], names(4)))
    assert found.weights == pytest.approx([1 / 6, 1 / 6, 1 / 3, 1 / 3], abs=1e-9)
    assert found.scores == pytest.approx([0.0] * 4, abs=1e-9)


def test_a_dominated_strategy_is_rated_by_its_loss_against_the_cycle() -> None:
    table = np.zeros((4, 4))
    table[:3, :3] = CYCLE
    table[:3, 3], table[3, :3] = [1, 2, 3], [-1, -2, -3]
    found = nash_average(PayoffTensor.two_player(table, names(4)))
    assert found.weights == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0], abs=1e-9)
    assert found.table()[-1] == ("s3", pytest.approx(-2.0), pytest.approx(-2.0), pytest.approx(-2.0))
    assert found.nash_conv == pytest.approx(0.0, abs=1e-9)


def test_when_nobody_beats_anybody_the_average_is_plain() -> None:
    assert nash_average(PayoffTensor.two_player(np.zeros((5, 5)), names(5))).weights == pytest.approx([0.2] * 5)


def test_an_inequality_that_binds_is_respected() -> None:
    # Equilibria of the column-less side: p on two safe rows with p0 >= 2 p1 (column 2 punishes too much of row 1).
    table = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, -2.0]])
    assert max_entropy_strategy(table, 0.0) == pytest.approx([2 / 3, 1 / 3], abs=1e-8)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("values", [0, 1, 2])
def test_the_average_is_an_equilibrium_and_no_equilibrium_has_more_entropy(seed: int, values: int) -> None:
    table = antisymmetric(7, seed, values)
    found = nash_average(PayoffTensor.two_player(table, names(7)))
    assert found.nash_conv < 1e-8
    best = _slow_entropy(table)
    assert _entropy(found.weights) >= best - 1e-5


@pytest.mark.parametrize("edge", [1e-3, 1e-6, 1e-8])
def test_a_weight_that_is_tiny_is_not_dropped(edge: float) -> None:
    # Payoffs edge, 1 and 1 around the cycle: weights (1, 1, edge) / (2 + edge).
    table = np.array([[0, edge, -1], [-edge, 0, 1], [1, -1, 0]])
    found = nash_average(PayoffTensor.two_player(table, names(3)))
    assert found.weights == pytest.approx(np.array([1, 1, edge]) / (2 + edge), rel=1e-6)
    assert found.nash_conv < 1e-12


@pytest.mark.parametrize("seed", range(12))
def test_an_equilibrium_with_weights_of_many_magnitudes_is_found(seed: int) -> None:
    # With Q = I - p d' / (d'p), Q p is 0, so p is an equilibrium of Q' A Q.
    rng = np.random.default_rng(seed)
    weights = 10.0 ** rng.uniform(-7, 0, 7)
    weights /= weights.sum()
    d = rng.normal(size=7)
    q = np.eye(7) - np.outer(weights, d) / (d @ weights)
    table = q.T @ antisymmetric(7, seed) @ q
    table = (table - table.T) / (2 * np.abs(table).max())
    assert nash_average(PayoffTensor.two_player(table, names(7))).nash_conv < 1e-8


def test_a_search_that_stops_at_a_bound_goes_on() -> None:
    # The first of some 6000 random games of this stream on which one search ended far from the equilibrium.
    rng = np.random.default_rng(16)
    for _ in range(334):
        size = int(rng.integers(3, 12))
        drawn = rng.normal(size=(size, size))
    table = np.triu(drawn, 1) - np.triu(drawn, 1).T
    assert nash_average(PayoffTensor.two_player(table, names(size))).nash_conv < 1e-10


@pytest.mark.parametrize("seed", range(12))
def test_where_there_are_many_equilibria_none_lies_in_the_direction_of_more_entropy(seed: int) -> None:
    # Entropy is concave: p is best if and only if no equilibrium q has (q - p)'(-log p) > 0, which a program decides.
    rng = np.random.default_rng(seed)
    base = antisymmetric(6, seed, values=1 + seed % 2)
    order = rng.integers(0, 6, 10)  # copies of strategies
    table = base[np.ix_(order, order)]
    found = nash_average(PayoffTensor.two_player(table, names(10)))
    assert found.nash_conv < 1e-10
    slope = -np.log(np.maximum(found.weights, 1e-12))
    best = linprog(-slope, A_ub=table, b_ub=np.zeros(10), A_eq=np.ones((1, 10)), b_eq=[1], method="highs")
    assert -best.fun <= _entropy(found.weights) + 1e-6


@pytest.mark.parametrize("seed", range(10))
def test_agents_and_tasks_are_both_rated_and_weights_form_an_equilibrium(seed: int) -> None:
    table = np.random.default_rng(seed).integers(0, 3, (6, 9)).astype(float)
    table[3] = table[0]
    found = nash_average(PayoffTensor.exact(bimatrix(table)))
    rows, columns = found.weights[:6], found.weights[6:]
    assert found.nash_conv < 1e-8
    assert found.value == pytest.approx(game_value(table))
    assert rows[0] == pytest.approx(rows[3], abs=1e-7)
    assert found.scores == pytest.approx(np.r_[table @ columns, -(rows @ table)])
    assert found.names[0] == "player_0: 0"


def test_large_tables_are_solved_too() -> None:
    assert nash_average(PayoffTensor.two_player(antisymmetric(60, 0), names(60))).nash_conv < 1e-7


def test_a_single_strategy_has_all_the_weight() -> None:
    assert nash_average(PayoffTensor.two_player([[0.0]], ["only"])).weights == pytest.approx([1.0])


def test_games_in_which_both_can_gain_and_three_players_and_gaps_are_refused() -> None:
    with pytest.raises(ConfigError, match="sum of both payoffs ranges from 0 to 5"):
        nash_average(PayoffTensor.exact(bimatrix([[3, 0], [0, 2]], [[2, 0], [0, 3]])))
    with pytest.raises(ConfigError, match="3 players"):
        nash_average(PayoffTensor.exact(MatrixGame(np.zeros((3, 2, 2, 2)))))
    with pytest.raises(ConfigError, match="2 of 4 pairings have no payoff yet, the first is s0 against s1"):
        nash_average(PayoffTensor.two_player([[0, np.nan], [np.nan, 0]], names(2)))


def _entropy(p: np.ndarray) -> float:
    positive = p[p > 0]
    return float(-(positive * np.log(positive)).sum())


def _slow_entropy(table: np.ndarray) -> float:
    """The largest entropy that a general solver finds among feasible points, from several starts."""
    n, best = len(table), 0.0
    for seed in range(2):
        start = np.random.default_rng(seed).dirichlet(np.ones(n))
        found = minimize(
            lambda p: float((p * np.log(np.maximum(p, 1e-12))).sum()),
            start,
            bounds=[(0, 1)] * n,
            constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "ineq", "fun": lambda p: p @ table}],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-12},
        )
        p = np.clip(found.x, 0, 1)
        if (p @ table).min() > -1e-8 and abs(p.sum() - 1) < 1e-8:
            best = max(best, _entropy(p))
    return best
