"""alpha-Rank's published numbers, OpenSpiel's answers, and that no game and no alpha makes it fail."""

import math
from dataclasses import replace

import numpy as np
import pytest

from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import alpha_rank, response_graph, sinks

ROCK_PAPER_SCISSORS = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]]
PRISONERS_DILEMMA = bimatrix([[3, 0], [5, 1]], [[3, 5], [0, 1]])
BATTLE_OF_THE_SEXES = bimatrix([[3, 0], [0, 2]], [[2, 0], [0, 3]])
STAG_HUNT = bimatrix([[4, 0], [3, 3]], [[4, 3], [0, 3]])
CHICKEN = bimatrix([[0, -1], [1, -10]], [[0, 1], [-1, -10]])
ALPHAS = (0.0, 1e-4, 0.1, 1.0, 10.0, 1e3, 1e6, 1e300, math.inf)


def two_populations(game: MatrixGame) -> PayoffTensor:
    return PayoffTensor.exact(game, symmetric=False)


def random_game(shape: tuple[int, ...], seed: int) -> PayoffTensor:
    payoffs = np.random.default_rng(seed).normal(size=(len(shape), *shape))
    return PayoffTensor.exact(MatrixGame(payoffs))


@pytest.mark.parametrize("alpha", ALPHAS)
def test_one_population_of_rock_paper_scissors_visits_each_a_third_of_the_time(alpha: float) -> None:
    payoffs = PayoffTensor.two_player(ROCK_PAPER_SCISSORS, ["rock", "paper", "scissors"])
    assert alpha_rank(payoffs, alpha).mass == pytest.approx([1 / 3] * 3, abs=1e-12)


def test_prisoners_dilemma_at_alpha_a_tenth_has_0_985325_on_mutual_defection() -> None:
    assert alpha_rank(two_populations(PRISONERS_DILEMMA), 0.1).mass[1, 1] == pytest.approx(0.985325, abs=1e-6)


def test_battle_of_the_sexes_at_alpha_a_tenth_has_0_499986_on_each_pure_equilibrium_and_two_sinks() -> None:
    payoffs = PayoffTensor.exact(BATTLE_OF_THE_SEXES)
    assert np.diag(alpha_rank(payoffs, 0.1).mass) == pytest.approx([0.499986] * 2, abs=1e-6)
    assert sinks(response_graph(payoffs)) == ((("0", "0"),), (("1", "1"),))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize(
    "payoffs",
    [
        two_populations(STAG_HUNT),
        PayoffTensor.exact(STAG_HUNT),
        two_populations(CHICKEN),
        PayoffTensor.exact(CHICKEN),
        PayoffTensor.exact(BATTLE_OF_THE_SEXES),
        two_populations(PRISONERS_DILEMMA),
        PayoffTensor.exact(MatrixGame(np.zeros((2, 3, 3)))),
        random_game((6, 5), 0),
        random_game((3, 4, 2), 1),
        random_game((1, 4), 2),
        random_game((1, 1), 3),
        replace(random_game((5, 5), 4), symmetric=True),
    ],
)
def test_whatever_the_game_and_alpha_a_distribution_comes_back(payoffs: PayoffTensor, alpha: float) -> None:
    single = payoffs.symmetric and len(payoffs.players) == 2
    for local in (True, False) if single and math.isfinite(alpha) else (True,):
        ranked = alpha_rank(payoffs, alpha, local_selection=local)
        assert ranked.mass.min() >= 0
        assert ranked.mass.sum() == pytest.approx(1.0, abs=1e-9)
        assert np.bincount(ranked.population, ranked.scores) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("alpha", [1e3, 1e6, 1e300, math.inf])
def test_equal_equilibria_share_the_mass_however_strong_selection_is(alpha: float) -> None:
    for game in (BATTLE_OF_THE_SEXES, bimatrix([[1, 0], [0, 1]], [[1, 0], [0, 1]])):
        assert np.diag(alpha_rank(two_populations(game), alpha).mass) == pytest.approx([0.5, 0.5], abs=1e-6)
    chicken = alpha_rank(two_populations(CHICKEN), alpha).mass
    assert (chicken[0, 1], chicken[1, 0]) == pytest.approx((0.5, 0.5), abs=1e-6)


def test_strong_selection_prefers_the_equilibrium_that_is_harder_to_leave() -> None:
    # Leaving (stag, stag) costs 4 - 3 = 1, leaving (hare, hare) costs 3: ever more of the mass sits on hare.
    masses = [alpha_rank(two_populations(STAG_HUNT), alpha).mass[1, 1] for alpha in (0.01, 0.1, 1.0, 1e6)]
    assert masses == sorted(masses)
    assert masses[-1] == pytest.approx(1.0)


def test_the_logarithmic_elimination_continues_the_ordinary_one_at_growing_alpha() -> None:
    payoffs = random_game((6, 6), 5)
    step = [np.abs(alpha_rank(payoffs, a).mass - alpha_rank(payoffs, a * 1.0001).mass).max() for a in (0.5, 1, 2, 4)]
    assert max(step) < 1e-3
    limit = alpha_rank(random_game((6, 6), 5), 1e6).mass
    assert limit == pytest.approx(alpha_rank(payoffs, 2e6).mass, abs=1e-6)


@pytest.mark.parametrize("alpha", [1e-4, 0.01, 0.1])
@pytest.mark.parametrize("shape", [(4, 3), (2, 3, 2), (5, 5)])
def test_answers_equal_those_of_openspiel_where_it_has_one(shape: tuple[int, ...], alpha: float) -> None:
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank")
    payoffs = random_game(shape, 6)
    expected = theirs.compute(list(payoffs.mean), m=50, alpha=alpha)[2]
    assert alpha_rank(payoffs, alpha).mass.ravel() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("local", [True, False])
def test_one_population_equals_openspiel_with_local_and_with_global_selection(local: bool) -> None:
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank")
    table = np.random.default_rng(7).normal(size=(5, 5))
    payoffs = PayoffTensor.exact(bimatrix(table, table.T))
    assert payoffs.symmetric
    expected = theirs.compute([table], m=20, alpha=0.3, use_local_selection_model=local)[2]
    assert alpha_rank(payoffs, 0.3, 20, local).mass == pytest.approx(expected, abs=1e-9)


def test_infinite_alpha_equals_openspiel_with_the_same_epsilon() -> None:
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank")
    payoffs = random_game((4, 4), 8)
    expected = theirs.compute(list(payoffs.mean), use_inf_alpha=True, inf_alpha_eps=0.01)[2]
    assert alpha_rank(payoffs, math.inf, epsilon=0.01).mass.ravel() == pytest.approx(expected, abs=1e-9)
