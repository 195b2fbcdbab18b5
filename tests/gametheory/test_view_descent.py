"""Mirror descent over views: where views tell all it is the tree's; phantom games it leads near equilibrium."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory.merged.dynamics import ViewDescent, view_descent
from marl.gametheory.merged.game import merge_game
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.mirror import Mirror, MirrorDescent
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import expected_values, nash_conv

MIRROR = Mirror(2.0, 0.3, 0.25, 0.5, magnet_every=4)
PAYOFFS = np.random.default_rng(0).normal(size=(3, 2, 3, 2)).tolist()  # three players at once, general sum


@pytest.mark.parametrize(
    ("env", "config", "iterations"),
    [
        ("kuhn_poker", {}, 20),
        ("kuhn_poker", {"players": 3}, 10),
        ("leduc_poker", {}, 5),
        ("matrix_game", {"payoffs": PAYOFFS}, 20),
        ("matrix_game", {"game": "chicken", "repetitions": 2, "observe": "last"}, 20),  # paid on the way
        ("two_step_game", {}, 20),
    ],
)
def test_where_views_tell_all_it_is_the_descent_on_the_tree(env: str, config: dict[str, Any], iterations: int) -> None:
    tree, descent = build_tree(env, config), ViewDescent(positions_of(env, config), MIRROR).run(iterations)
    slow = MirrorDescent(tree, MIRROR).run(iterations)
    assert strategy_of(tree, descent.policies()) == pytest.approx(slow.current(), abs=1e-12)
    assert strategy_of(tree, descent.policies(descent.average())) == pytest.approx(slow.average(), abs=1e-12)
    assert [player.scale for player in descent.players] == pytest.approx(tree.scales.tolist())


def test_last_iterate_and_average_are_measured_exactly() -> None:
    tree, descent = build_tree("kuhn_poker"), view_descent(positions_of("kuhn_poker"), 50, "nashpg")
    found, slow = descent.measure(), MirrorDescent(tree, "nashpg").run(50)
    assert found.average is not None
    assert found.iterations == 50
    assert found.last.nash_conv == pytest.approx(nash_conv(tree, slow.current()), abs=1e-12)
    assert found.average.nash_conv == pytest.approx(nash_conv(tree, slow.average()), abs=1e-12)
    assert found.last.values == pytest.approx(expected_values(tree, slow.current()), abs=1e-12)


def test_dark_hex_is_led_to_its_equilibrium() -> None:
    # Uniform play has NashConv 1.25; the first player wins 2x2 by force whatever it is told.
    game = merge_game("dark_hex", {"rows": 2, "columns": 2})
    descent = ViewDescent(game.positions, "nashpg", averages=False)
    assert descent.measure().last.nash_conv == pytest.approx(1.25, abs=1e-12)
    descent.run(300)
    assert descent.measure().last.nash_conv == pytest.approx(0.0, abs=1e-6)


def test_policies_play_what_was_measured() -> None:
    game = merge_game("dark_hex", {"rows": 2, "columns": 2, "version": "abrupt"})
    descent = ViewDescent(game.positions, "mmd").run(10)
    assert game.measure(descent.policies()).nash_conv == pytest.approx(descent.measure().last.nash_conv, abs=1e-12)
    average = descent.measure().average
    assert average is not None
    assert game.measure(descent.policies(descent.average())).nash_conv == pytest.approx(average.nash_conv, abs=1e-12)


def test_a_run_in_two_parts_equals_one_run() -> None:
    positions = positions_of("kuhn_poker")
    whole, parts = ViewDescent(positions).run(9), ViewDescent(positions).run(4).run(5)
    for one, other in zip(whole.tables() + whole.average(), parts.tables() + parts.average(), strict=True):
        assert (one == other).all()


def test_an_average_that_was_not_kept_is_refused() -> None:
    descent = ViewDescent(positions_of("kuhn_poker"), averages=False).run(2)
    assert descent.measure().average is None
    with pytest.raises(ConfigError, match="averages=False"):
        descent.average()
    with pytest.raises(ConfigError, match="iterations is 0"):
        view_descent(positions_of("kuhn_poker"), 0)
