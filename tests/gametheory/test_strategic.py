"""Vector fields, basins of attraction and gamescapes, against games whose answers are known."""

from __future__ import annotations

import json

import numpy as np
import pytest

from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.classics import classic_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.solve.dynamics import replicator
from marl.gametheory.strategic import DYNAMICS, basins, gamescape, vector_field
from marl.gametheory.strategic.basins import wilson
from marl.gametheory.strategic.populations import earnings

GOOD_RPS = [[0, -1, 2], [2, 0, -1], [-1, 2, 0]]
BAD_RPS = [[0, -2, 1], [1, 0, -2], [-2, 1, 0]]


def symmetric(rows: object) -> MatrixGame:
    table = np.array(rows, float)
    return bimatrix(table, table.T)


def margins(table: np.ndarray) -> PayoffTensor:
    return PayoffTensor.two_player(table, [f"s{i}" for i in range(len(table))])


# -- fields ----------------------------------------------------------------------------------------------------------


def test_a_field_of_the_prisoners_dilemma_leads_to_defection_from_everywhere_inside() -> None:
    field = vector_field(classic_game("prisoners_dilemma"), resolution=9)
    assert field.space == "square"
    cooperation = field.points[0][:, 0]
    inside = (cooperation > 0) & (cooperation < 1)
    assert (field.velocity[0][inside, 0] < 0).all()
    assert not field.velocity[0][~inside].any()  # what is extinct stays extinct
    towards = vector_field(classic_game("prisoners_dilemma"), "best_response", resolution=9)
    np.testing.assert_allclose(towards.velocity[0], [0.0, 1.0] - towards.points[0], atol=1e-15)


@pytest.mark.parametrize("dynamics", DYNAMICS.names)
def test_shares_stay_shares_and_equilibria_rest(dynamics: str) -> None:
    for game in (classic_game("rock_paper_scissors"), classic_game("chicken"), symmetric(GOOD_RPS)):
        field = vector_field(game, dynamics, resolution=7)
        for moves in field.velocity:
            np.testing.assert_allclose(moves.sum(axis=1), 0.0, atol=1e-12)
    middle = vector_field(classic_game("rock_paper_scissors"), dynamics, resolution=4)
    uniform = np.flatnonzero(np.isclose(middle.points[0], 1 / 3).all(axis=1))
    assert middle.speed[uniform] == pytest.approx(0.0, abs=1e-12)
    assert json.loads(json.dumps(middle.as_json()))["space"] == "triangle"


def test_the_replicator_field_is_the_slope_of_the_replicator_dynamics() -> None:
    game = classic_game("stag_hunt")
    field = vector_field(game, resolution=5)
    start = tuple(shares[7] for shares in field.points)
    short = 1e-5
    path = replicator(game, start, duration=short)
    spread = game.spreads  # fields have payoffs in units of it
    for player in (0, 1):
        slope = (path.last[player] - start[player]) / short / spread[player]
        assert field.velocity[player][7] == pytest.approx(slope, rel=1e-3, abs=1e-6)


def test_a_step_of_the_replicator_keeps_the_product_of_rock_paper_scissors() -> None:
    earn = earnings(classic_game("rock_paper_scissors"), 1)
    place = (np.array([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]]),)
    before = place[0].prod(axis=1)
    for _ in range(200):
        place = DYNAMICS["replicator"].step(earn, place, 0.1)
    assert place[0].prod(axis=1) == pytest.approx(before, rel=1e-5)


def test_a_line_shows_one_population_with_two_actions() -> None:
    field = vector_field(classic_game("stag_hunt"), populations=1, resolution=5)
    assert field.space == "line"
    assert np.sign(field.velocity[0][:, 0]).tolist() == [0, -1, 0, 1, 0]  # the mixed equilibrium is at a half


# -- basins ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dynamics", DYNAMICS.names)
def test_basins_of_a_coordination_game_have_the_areas_of_the_formula(dynamics: str) -> None:
    """With payoffs d_i on the diagonal strategy i wins where d_i x_i is largest: exponentials with the rates 1 / d_i."""
    found = basins(symmetric(np.diag([1.0, 2.0, 3.0])), dynamics, starts=3000)
    rates = 1 / np.array([3.0, 2.0, 1.0])
    for number, basin in enumerate(found.basins):
        one, (other, third) = rates[number], np.delete(rates, number)
        area = 1 - one / (one + other) - one / (one + third) + one / rates.sum()
        assert abs(basin.area - area) < 4 * basin.stderr
        assert basin.interval[0] < basin.area < basin.interval[1]
        assert basin.attractor[0].argmax() == 2 - number
    assert found.unsettled == 0
    assert sum(basin.area for basin in found.basins) == 1


def test_basins_are_those_that_the_starts_show() -> None:
    found = basins(symmetric(np.diag([1.0, 2.0, 3.0])), starts=400)
    won = (found.starts[0] * [1.0, 2.0, 3.0]).argmax(axis=1)
    attractors = np.array([basin.attractor[0].argmax() for basin in found.basins])
    assert attractors[found.ends].tolist() == won.tolist()


@pytest.mark.parametrize("dynamics", DYNAMICS.names)
def test_both_sides_of_the_stag_hunt_have_half_of_the_square(dynamics: str) -> None:
    found = basins(classic_game("stag_hunt"), dynamics)
    assert [basin.area for basin in found.basins] == pytest.approx([0.5, 0.5], abs=4 * 0.0158)
    total = found.starts[0][:, 0] + found.starts[1][:, 0]  # the mixed equilibrium at a half: the diagonal divides them
    hunts_stag = [basin.attractor[0][0] > 0.5 for basin in found.basins]
    assert np.array(hunts_stag)[found.ends].tolist() == (total > 1).tolist()


def test_rock_paper_scissors_comes_to_rest_only_where_it_should() -> None:
    still_turning = basins(classic_game("rock_paper_scissors"), starts=100, duration=50)
    assert (still_turning.basins, still_turning.unsettled) == ((), 1.0)
    (middle,) = basins(symmetric(GOOD_RPS), starts=100).basins
    assert middle.attractor[0] == pytest.approx([1 / 3] * 3, abs=1e-2)
    assert middle.area == 1.0
    # It lingers at the corners for longer and longer, which is no rest.
    assert basins(symmetric(BAD_RPS), starts=100).unsettled == 1.0
    (mixed,) = basins(classic_game("rock_paper_scissors"), "best_response", starts=100).basins
    assert mixed.attractor[0] == pytest.approx([1 / 3] * 3, abs=0.02)


def test_a_whole_line_of_equilibria_is_one_attractor_that_says_how_long_it_is() -> None:
    game = bimatrix([[1, 1], [1, 1]], [[1, 0], [1, 0]])  # the row does not care, the column prefers its first action
    (found,) = basins(game, starts=300).basins
    assert found.area == 1.0
    assert found.extent > 0.9


def test_wilsons_interval_is_never_empty_and_covers_as_often_as_it_says() -> None:
    assert wilson(0, 100)[0] == pytest.approx(0.0, abs=1e-12)
    assert wilson(0, 100)[1] == pytest.approx(0.036994, abs=1e-5)
    rng = np.random.default_rng(0)
    inside = [low <= 0.1 <= high for low, high in (wilson(n, 200) for n in rng.binomial(200, 0.1, 2000).tolist())]
    assert np.mean(inside) == pytest.approx(0.95, abs=0.02)


# -- gamescapes ------------------------------------------------------------------------------------------------------


def test_rock_paper_scissors_is_all_cycle_and_one_disc() -> None:
    found = gamescape(classic_game("rock_paper_scissors"))
    assert (found.transitive_share, found.cyclic_share) == (0.0, 1.0)
    (disc,) = found.discs
    assert (disc.strength, disc.share) == pytest.approx((np.sqrt(3), 1.0))
    assert np.linalg.norm(disc.points, axis=1) == pytest.approx([np.linalg.norm(disc.points[0])] * 3)
    assert found.layers == (("rock", "paper", "scissors"),)
    assert found.diversity == pytest.approx(1 / 3)
    assert found.triangles == (1, 1, 1)


def test_a_game_of_ratings_is_all_transitive_and_every_layer_is_one_strategy() -> None:
    ratings = np.array([0.3, -1.0, 2.0, 0.9])
    found = gamescape(margins(ratings[:, None] - ratings[None]))
    assert found.transitive_share == pytest.approx(1.0)
    assert found.ratings == pytest.approx(ratings - ratings.mean())
    assert np.abs(found.cyclic).max() < 1e-12
    assert found.layers == (("s2",), ("s3",), ("s0",), ("s1",))
    assert found.diversity == pytest.approx(0.0)
    assert found.triangles == (0, 0, 0, 0)
    assert len(found.discs) == 1  # a plane: the rating and a constant


def test_a_disc_game_is_found_again_as_one_disc() -> None:
    rng = np.random.default_rng(4)
    points = rng.normal(size=(7, 2))
    table = np.outer(points[:, 0], points[:, 1]) - np.outer(points[:, 1], points[:, 0])
    found = gamescape(margins(table))
    (disc,) = found.discs
    assert disc.share == pytest.approx(1.0)
    again = np.outer(disc.points[:, 0], disc.points[:, 1]) - np.outer(disc.points[:, 1], disc.points[:, 0])
    np.testing.assert_allclose(again, table, atol=1e-9)


@pytest.mark.parametrize("size", [2, 5, 8])
def test_discs_and_both_parts_add_up_to_the_table(size: int) -> None:
    table = np.random.default_rng(size).normal(size=(size, size))
    table -= table.T
    found = gamescape(margins(table))
    total = np.zeros_like(table)
    for disc in found.discs:
        x, y = disc.points.T
        total += np.outer(x, y) - np.outer(y, x)
    np.testing.assert_allclose(total, table, atol=1e-9)
    np.testing.assert_allclose(found.transitive + found.cyclic, table, atol=1e-12)
    assert float((found.transitive * found.cyclic).sum()) == pytest.approx(0.0, abs=1e-9)  # orthogonal
    assert sum(disc.share for disc in found.discs) == pytest.approx(1.0)
    parts = (found.transitive**2).sum(), (found.cyclic**2).sum()
    assert found.transitive_share == pytest.approx(parts[0] / sum(parts))
    assert [disc.strength for disc in found.discs] == sorted((disc.strength for disc in found.discs), reverse=True)


def test_layers_of_a_cycle_above_a_loser_are_two_and_the_cycle_comes_first() -> None:
    table = np.zeros((4, 4))
    table[:3, :3] = classic_game("rock_paper_scissors").payoffs[0]
    table[:3, 3], table[3, :3] = 1.0, -1.0
    found = gamescape(margins(table))
    assert found.layers == (("s0", "s1", "s2"), ("s3",))
    assert found.triangles == (1, 1, 1, 0)


def test_noise_widens_the_interval_of_the_transitive_share_and_exact_tables_have_none() -> None:
    ratings = np.array([0.3, -1.0, 2.0, 0.9])
    table = ratings[:, None] - ratings[None]
    exact = gamescape(margins(table))
    assert exact.transitive_interval == (exact.transitive_share, exact.transitive_share)
    names = [f"s{i}" for i in range(4)]
    count = np.full((4, 4), 10)
    noisy = gamescape(PayoffTensor.two_player(table, names, stderr=np.full((4, 4), 0.5), count=count))
    low, high = noisy.transitive_interval
    assert low < high < 1.0  # noise is cyclic
    again = gamescape(PayoffTensor.two_player(table, names, stderr=np.full((4, 4), 0.5), count=count))
    assert again.transitive_interval == (low, high)
    assert json.loads(json.dumps(noisy.as_json()))["cyclic_share"] == noisy.cyclic_share


def test_win_shares_and_margins_have_the_same_gamescape() -> None:
    rps = classic_game("rock_paper_scissors").payoffs[0]
    found = gamescape(margins((rps + 1) / 2))
    assert found.cyclic_share == pytest.approx(1.0)
    assert found.margins == pytest.approx(rps / 2)


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_what_cannot_be_drawn_or_followed_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="unknown dynamics 'replicater'"):
        vector_field(classic_game("chicken"), "replicater")
    with pytest.raises(ConfigError, match="which no plane holds"):
        vector_field(symmetric(np.eye(4)))
    with pytest.raises(ConfigError, match="is not symmetric"):
        basins(classic_game("battle_of_the_sexes"), populations=1)
    with pytest.raises(ConfigError, match="has 3 players"):
        basins(MatrixGame(np.zeros((3, 2, 2, 2))))
    with pytest.raises(ConfigError, match="at least one start"):
        basins(classic_game("chicken"), starts=0)
    with pytest.raises(ConfigError, match="resolution is 1"):
        vector_field(classic_game("chicken"), resolution=1)
    with pytest.raises(ConfigError, match="one population whose strategies meet in pairs"):
        gamescape(classic_game("matching_pennies"))
