"""The unit of payoffs and delays decides nothing: a game in billionths is the same game."""

from __future__ import annotations

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame
from marl.gametheory.networks import atomic_prices, congestion_equilibrium, congestion_of, graphical_of, pure_equilibria
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import nash_average
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import cfr
from marl.gametheory.tree.psro import exact_psro
from marl.gametheory.tree.response import best_response
from marl.gametheory.tree.tree import Tree
from marl.gametheory.tree.value import equilibrium

SCALES = (1.0, 1e-7, 1e-13, 1e9)
DILEMMA = np.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
PENNIES = np.array([[[1.0, -1.0], [-1.0, 1.0]], [[-1.0, 1.0], [1.0, -1.0]]])


def tree_of(payoffs: np.ndarray) -> Tree:
    return build_tree("matrix_game", {"payoffs": payoffs.tolist()})


@pytest.mark.parametrize("scale", SCALES)
def test_a_dilemma_is_no_zero_sum_game_and_defecting_answers_it(scale: float) -> None:
    tree = tree_of(DILEMMA * scale)
    assert not tree.is_zero_sum
    assert not tree.is_constant_sum
    value, reply = best_response(tree, tree.uniform(), 0)
    assert value / scale == pytest.approx(3.0)
    assert reply.tolist() == [0.0, 1.0]
    with pytest.raises(ConfigError, match="do not add up to a constant"):
        equilibrium(tree)


@pytest.mark.parametrize("scale", SCALES)
def test_pennies_are_tossed_by_the_linear_program_and_by_psro(scale: float) -> None:
    tree = tree_of(PENNIES * scale)
    assert tree.is_zero_sum
    found = equilibrium(tree)
    assert found.nash_conv / scale == pytest.approx(0.0, abs=1e-9)
    assert found.strategy.tolist() == pytest.approx([0.5] * 4)
    history = np.array(exact_psro(tree, 10).nash_convs) / scale
    assert history[0] == pytest.approx(2.0)
    assert history[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 1e-9, 1e6])
def test_drivers_divide_up_in_any_unit_of_time(scale: float) -> None:
    links = [{"from": "s", "to": "t", "delay": [scale]}, {"from": "s", "to": "t", "delay": [0.0, 0.25 * scale]}]
    game = congestion_of({"network": links, "demands": [{"from": "s", "to": "t", "agents": 4}], "flow_per_agent": 1.0})
    # 3 on the second link spend 0.75 each, the fourth would not gain: 1 either way.
    assert sorted(congestion_equilibrium(game).path_counts.tolist()) == [1, 3]
    prices = atomic_prices(game)
    assert prices.price_of_stability == pytest.approx(3.25 / 3.0)
    assert prices.price_of_anarchy == pytest.approx(4.0 / 3.0)


@pytest.mark.parametrize("scale", [1.0, 1e-12])
def test_a_dominant_action_is_the_only_equilibrium_of_an_edge(scale: float) -> None:
    payoffs = (np.array([[1.0, 3.0], [0.0, 2.0]]) * scale).tolist()
    game = graphical_of({"graph": [["a", "b"]], "game": payoffs})
    assert [tuple(actions) for actions in pure_equilibria(game)] == [(0, 0)]


def test_nash_averaging_refuses_tiny_games_in_which_both_gain() -> None:
    tiny = PayoffTensor.exact(MatrixGame(DILEMMA * 1e-9, [["C", "D"]] * 2), symmetric=False)
    with pytest.raises(ConfigError, match="one wins what the other loses"):
        nash_average(tiny)


@pytest.mark.parametrize("iterations", [0, 1.5, True])
def test_cfr_counts_in_whole_iterations(iterations: object) -> None:
    with pytest.raises(ConfigError, match="whole number, 1 or more"):
        cfr(tree_of(PENNIES), iterations)  # type: ignore[arg-type]
