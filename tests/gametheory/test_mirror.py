"""Exact mirror descent on trees: the step by hand, quantal responses as its limit, and equilibria behind them."""

from __future__ import annotations

from functools import cache
from math import inf, nan
from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.game import MatrixGame
from marl.gametheory.solve.qre import logit_qre
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import Discount
from marl.gametheory.tree.mirror import MIRRORS, Mirror, MirrorDescent, Mirrored, mirror_descent
from marl.gametheory.tree.response import expected_values, nash_conv
from marl.gametheory.tree.tree import Tree

from .test_tree_solvers import others_reach
from .trees import play_through, random_strategy

TABLES = np.array([[[1.0, -2.0, 0.5], [0.0, 1.0, -1.0]], [[-1.0, 2.0, -0.5], [0.0, -1.0, 1.0]]])


@cache
def kuhn(players: int = 2) -> Tree:
    return build_tree("kuhn_poker", {"players": players})


def table_tree(tables: np.ndarray) -> Tree:
    return build_tree("matrix_game", {"payoffs": tables.tolist()})


def test_steps_follow_a_slow_loop_over_a_table() -> None:
    mirror = Mirror(0.7, 0.4, 0.5, 0.25, magnet_every=3)
    solver = MirrorDescent(table_tree(TABLES), mirror).run(8)
    plays, sums = [np.full(n, 1 / n) for n in (2, 3)], [np.zeros(2), np.zeros(3)]
    magnets, scale = list(plays), 2.0  # the largest payoff of both
    for t in range(1, 9):
        eta, alpha = 0.7 / t**0.5, 0.4 / t**0.25
        earned = [TABLES[0] @ plays[1] / scale, plays[0] @ TABLES[1] / scale]
        for i in (0, 1):
            sums[i] += t * plays[i]
            pulled = plays[i] * magnets[i] ** (eta * alpha) * np.exp(eta * earned[i])
            pulled **= 1 / (1 + eta * alpha)
            plays[i] = pulled / pulled.sum()
            if t % 3 == 0:
                magnets[i] = plays[i]
    assert solver.current() == pytest.approx(np.concatenate(plays), abs=1e-14)
    assert solver.average() == pytest.approx(np.concatenate([total / total.sum() for total in sums]), abs=1e-14)


@pytest.mark.parametrize("players", [2, 3])
def test_values_of_choices_are_what_they_earn_where_their_set_is_reached(players: int) -> None:
    tree = kuhn(players)
    strategy = random_strategy(tree, 5)
    form, plans = tree.form, tree.form.plans(strategy)
    for player, mine in enumerate(form.players):
        learner = Mirrored(mine, float(tree.scales[player]))
        learner.strategy = strategy[mine.choices]
        found = learner.values(form.counterfactual(player, plans), form.reached(player, plans))
        for infoset in range(*tree.infosets(player).indices(len(tree.sets)))[:4]:
            nodes = np.flatnonzero(tree.infoset == infoset)
            reach = np.array([others_reach(tree, strategy, player, node) for node in nodes])
            for action in range(tree.sets.num_actions[infoset]):
                worth = [play_through(tree, strategy, tree.first_child[n] + action)[player] for n in nodes]
                slow = reach @ worth / reach.sum() / tree.scales[player]
                choice = tree.sets.first_choice[infoset] + action - mine.choices.start
                assert found[choice] == pytest.approx(slow, abs=1e-12)


def test_with_a_fixed_temperature_the_last_iterate_is_a_quantal_response() -> None:
    # A temperature of 0.25 largest payoffs (2) is a rationality of 1 / (0.25 * 2) per unit of payoff.
    truth = logit_qre(MatrixGame(TABLES), 2.0)
    solver = MirrorDescent(table_tree(TABLES), Mirror(0.5, 0.25)).run(400)
    assert solver.current() == pytest.approx(np.concatenate(truth.profile), abs=1e-9)


def test_it_comes_nearer_by_the_same_factor_again_and_again() -> None:
    truth = np.concatenate(logit_qre(MatrixGame(TABLES), 2.0).profile)
    solver, far = MirrorDescent(table_tree(TABLES), Mirror(0.5, 0.25)), []
    for _ in range(3):
        far.append(float(np.abs(solver.run(60).current() - truth).max()))
    assert far[1] < 0.01 * far[0]
    assert far[2] < 0.01 * far[1]


def test_a_moving_magnet_leads_the_last_iterate_to_the_equilibrium_of_kuhn() -> None:
    answer = mirror_descent(kuhn(), 1000, Mirror(5.0, 0.2, magnet_every=10))
    assert answer.last is not None
    assert answer.last.nash_conv == pytest.approx(0.0, abs=1e-12)
    assert answer.last.values[0] == pytest.approx(-1 / 18, abs=1e-12)
    assert 1e-6 < answer.nash_conv < 1e-3  # the average still holds what was played at first
    # Without a magnet that moves, the same pull ends at a quantal response and stays there.
    stays = mirror_descent(kuhn(), 1000, Mirror(5.0, 0.2)).last
    assert stays is not None
    assert stays.nash_conv > 0.1


def test_annealed_mirror_descent_comes_to_the_equilibrium_of_kuhn_slowly() -> None:
    near, nearer = (mirror_descent(kuhn(), iterations).last for iterations in (300, 3000))
    assert near is not None
    assert nearer is not None
    assert nearer.nash_conv < 0.5 * near.nash_conv < 0.02


def test_both_ways_come_near_the_equilibrium_of_leduc() -> None:
    for variant in MIRRORS:
        answer = mirror_descent(build_tree("leduc_poker"), 300, variant)
        assert answer.last is not None
        assert max(answer.nash_conv, answer.last.nash_conv) < 0.6  # uniform play: 4.7


def test_three_players_are_led_near_an_equilibrium_of_kuhn() -> None:
    answer = mirror_descent(kuhn(3), 500, "nashpg").last
    assert answer is not None
    assert answer.nash_conv < 0.01 * nash_conv(kuhn(3), kuhn(3).uniform())


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_the_unit_of_payoffs_does_not_matter(unit: float) -> None:
    plain, scaled = (MirrorDescent(table_tree(TABLES * by), "nashpg").run(20) for by in (1.0, unit))
    assert scaled.current() == pytest.approx(plain.current(), abs=1e-12)


def test_what_nobody_leads_to_goes_to_the_magnet() -> None:
    tree = kuhn()
    solver = MirrorDescent(tree, Mirror(1.0, 1.0))
    first, second = solver.players
    first.play(np.where(tree.first_action()[tree.choices(0)] > 0, 0.0, -1e6))  # never bets: nobody is ever raised
    assert first.plan.min() == 0.0
    solver.run(1)
    assert np.isfinite(solver.current()).all()
    assert expected_values(tree, solver.current()).sum() == pytest.approx(0.0, abs=1e-12)
    assert second.strategy.min() > 0.0


def test_a_run_in_two_parts_equals_one_run() -> None:
    for variant in MIRRORS:
        whole, parts = MirrorDescent(kuhn(), variant).run(30), MirrorDescent(kuhn(), variant).run(10).run(20)
        assert (whole.current() == parts.current()).all()
        assert (whole.average() == parts.average()).all()


def test_what_is_no_mirror_descent_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'mmd'"):
        MirrorDescent(kuhn(), "mdd")
    for wrong in ({"step": 0.0}, {"temperature": -1.0}, {"magnet_every": -1}, {"step": float("nan")}):
        with pytest.raises(ConfigError, match="a step above 0"):
            Mirror(**{"step": 1.0, "temperature": 1.0} | wrong)
    with pytest.raises(ConfigError, match="iterations is 0"):
        mirror_descent(kuhn(), 0)


@pytest.mark.parametrize("keys", [{"step": inf}, {"step_decay": nan}, {"temperature_decay": inf}, {"temperature": nan}])
def test_steps_and_decays_are_finite_numbers(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected finite numbers"):
        Mirror(**{"step": 1.0, "temperature": 0.1, **keys})


@pytest.mark.parametrize("keys", [{"alpha": nan}, {"beta": nan}, {"gamma": inf}])
def test_exponents_of_discounts_are_numbers(keys: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="expected numbers, of which alpha and beta may be infinite"):
        Discount(**keys)
