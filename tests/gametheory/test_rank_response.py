"""Response graphs, their sinks, and cycles spelled out."""

from itertools import product

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import cycles, response_graph, responses, sinks

CYCLE = [[0.0, 0.3, -0.2, 0.9], [-0.3, 0.0, 0.6, 0.9], [0.2, -0.6, 0.0, 0.9], [-0.9, -0.9, -0.9, 0.0]]
NAMES = ["A", "B", "C", "D"]


def test_a_cycle_above_a_loser_is_spelled_out_with_its_margins() -> None:
    (cycle,) = cycles(PayoffTensor.two_player(CYCLE, NAMES))
    assert str(cycle) == "B > C > A > B"  # B has the largest sum of margins: -0.3 + 0.6 + 0.9
    assert cycle.margins == pytest.approx((0.6, 0.2, 0.3))
    assert cycle.in_sink


def test_a_ladder_has_no_cycle_and_its_top_is_the_only_sink() -> None:
    payoffs = PayoffTensor.two_player([[0, 1, 2], [-1, 0, 1], [-2, -1, 0]], ["a", "b", "c"])
    assert cycles(payoffs) == ()
    assert sinks(response_graph(payoffs)) == (("a",),)
    assert [row.name for row in responses(payoffs).table()] == ["a", "b", "c"]


def test_margins_within_their_errors_make_no_cycle() -> None:
    errors = np.full((4, 4), 0.15)  # C beats A by 0.2, which is 1.33 standard errors
    payoffs = PayoffTensor.two_player(CYCLE, NAMES, errors)
    assert cycles(payoffs, significance=2.0) == ()
    assert len(cycles(payoffs, significance=1.0)) == 1
    assert not response_graph(payoffs).has_edge("A", "C")


def test_the_shortest_cycle_through_the_best_is_named_even_if_a_longer_one_is_clearer() -> None:
    table = np.zeros((4, 4))
    for winner, loser, margin in [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0), (3, 0, 1.0), (2, 0, 0.1), (1, 3, 0.1)]:
        table[winner, loser], table[loser, winner] = margin, -margin
    (cycle,) = cycles(PayoffTensor.two_player(table, NAMES))
    assert len(cycle.nodes) == 3
    assert cycle.nodes[0] == "B"  # sums of margins: A -0.1, B 0.1, C 0.1, D -0.1; the first of the best


def test_edges_of_several_populations_are_all_and_only_the_gainful_deviations_of_one_player() -> None:
    payoffs = PayoffTensor.exact(MatrixGame(np.random.default_rng(0).normal(size=(3, 2, 3, 2))))
    graph = response_graph(payoffs)
    places = list(np.ndindex(2, 3, 2))
    for old, new in product(places, places):
        changed = [i for i in range(3) if old[i] != new[i]]
        gain = payoffs.mean[changed[0]][new] - payoffs.mean[changed[0]][old] if len(changed) == 1 else 0.0
        edge = graph.get_edge_data(tuple(map(str, old)), tuple(map(str, new)))
        assert (edge["weight"] if edge else 0.0) == pytest.approx(max(gain, 0.0))


def test_matching_pennies_is_one_cycle_of_all_four_profiles() -> None:
    found = responses(PayoffTensor.exact(bimatrix([[1, -1], [-1, 1]])))
    (cycle,) = found.cycles
    assert len(cycle.nodes) == len(found.sinks[0]) == 4
    assert cycle.margins == (2, 2, 2, 2)
    assert found.as_json()["cycles"][0]["text"].count(">") == 4


def test_pairings_nobody_played_have_no_edges() -> None:
    table = np.array(CYCLE)
    table[2, 0] = table[0, 2] = np.nan
    payoffs = PayoffTensor.two_player(table, NAMES)
    assert cycles(payoffs) == ()
    assert not response_graph(payoffs).has_edge("A", "C")
    assert not response_graph(payoffs).has_edge("C", "A")


def test_two_strategies_of_one_name_are_refused() -> None:
    with pytest.raises(ConfigError, match="two strategies called 'a'"):
        response_graph(PayoffTensor.two_player(np.zeros((2, 2)), ["a", "a"]))


def test_without_significance_every_better_reply_is_an_edge() -> None:
    payoffs = PayoffTensor.two_player(
        [[0, 0.1], [-0.1, 0]], ["a", "b"], stderr=[[0, 1.0], [1.0, 0]], count=[[9, 9], [9, 9]]
    )
    assert response_graph(payoffs, 0.0).number_of_edges() > response_graph(payoffs, 2.0).number_of_edges()
    for wrong in (-1.0, float("nan")):
        with pytest.raises(ConfigError, match="expected 0 or more standard errors"):
            response_graph(payoffs, wrong)


def test_of_equally_short_cycles_the_one_is_named_whose_smallest_margin_is_largest() -> None:
    table = np.zeros((4, 4))
    # A beats B and C; both beat D, which beats A. By way of C the smallest margin is 0.4, by way of B 0.1.
    for winner, loser, margin in [(0, 1, 3.0), (0, 2, 0.5), (1, 3, 0.1), (2, 3, 0.4), (3, 0, 0.6)]:
        table[winner, loser], table[loser, winner] = margin, -margin
    (cycle,) = cycles(PayoffTensor.two_player(table, NAMES))
    assert str(cycle) == "A > C > D > A"
    assert cycle.margins == pytest.approx((0.5, 0.4, 0.6))
