"""Two against one: known values, with and without a signal between the members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.errors import ConfigError
from marl.gametheory import teams
from marl.gametheory.solve.zero_sum import maximin
from marl.gametheory.teams import TeamMaxmin, team_maxmin
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import best_response
from marl.gametheory.tree.tree import Tree


def matrix(team: Any) -> Tree:
    """Players 0 and 1 are paid half of the table each, player 2 loses it."""
    table = np.asarray(team, float)
    return build_tree("matrix_game", {"payoffs": [(table / 2).tolist(), (table / 2).tolist(), (-table).tolist()]})


def meeting(places: int) -> Any:
    """The team wins 1 where its members meet and the adversary does not wait."""
    table = np.zeros((places, places, places))
    for place in range(places):
        table[place, place, :] = 1.0
        table[place, place, place] = 0.0
    return table


def guaranteed(tree: Tree, found: TeamMaxmin) -> float:
    """What the team's plans earn against the adversary's best reply to all of them."""
    form, alone = tree.form, tree.player_index(found.adversary)
    payoffs = np.zeros(form.players[alone].num_sequences)
    for plan in found.plans:
        strategy = tree.uniform()
        for name, mine in plan.strategies.items():
            strategy[tree.choices(tree.player_index(name))] = mine
        payoffs += plan.chance * form.counterfactual(alone, form.plans(strategy))
    return -form.players[alone].best_value(payoffs)


@pytest.mark.parametrize("places", [2, 3])
def test_a_signal_is_worth_a_factor_when_the_team_has_to_meet(places: int) -> None:
    """With a signal (m - 1) / m: they meet for certain. Without one 1 / 4, at two of the places."""
    tree = matrix(meeting(places))
    assert team_maxmin(tree, "player_2").value == pytest.approx((places - 1) / places, abs=1e-9)
    alone = team_maxmin(tree, "player_2", correlated=False)
    assert alone.value == pytest.approx(1 / 4, abs=1e-6)
    assert alone.upper == pytest.approx((places - 1) / places, abs=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_with_a_signal_a_one_shot_game_is_zero_sum_over_joint_actions(seed: int) -> None:
    table = np.random.default_rng(seed).normal(size=(3, 2, 4))
    found = team_maxmin(matrix(table), "player_2")
    joint = table.reshape(6, 4)
    rows, columns, _ = maximin(joint)
    value = rows @ joint @ columns
    assert found.value == pytest.approx(value, abs=1e-7)
    assert found.upper == pytest.approx(value, abs=1e-7)


@pytest.mark.parametrize(
    ("adversary", "value"),
    [
        ("player_0", 5 / 132),
        pytest.param("player_1", 7 / 264, marks=pytest.mark.slow),
        pytest.param("player_2", -1 / 24, marks=pytest.mark.slow),
    ],
)
def test_kuhn_poker_of_three_has_these_values_and_the_plans_guarantee_them(adversary: str, value: float) -> None:
    tree = build_tree("kuhn_poker", {"players": 3})
    found = team_maxmin(tree, adversary)
    assert found.value == pytest.approx(value, abs=1e-8)
    assert found.upper == pytest.approx(value, abs=1e-8)
    assert sum(plan.chance for plan in found.plans) == pytest.approx(1.0)
    assert guaranteed(tree, found) == pytest.approx(value, abs=1e-8)


def test_independent_members_are_sure_of_what_they_are_told() -> None:
    tree = build_tree("kuhn_poker", {"players": 3})
    found = team_maxmin(tree, "player_0", correlated=False, starts=2)
    assert guaranteed(tree, found) == pytest.approx(found.value, abs=1e-8)
    assert 0.02 < found.value < found.upper
    (plan,) = found.plans
    strategy = tree.uniform()
    for name, mine in plan.strategies.items():
        strategy[tree.choices(tree.player_index(name))] = mine
    assert best_response(tree, strategy, 0)[0] == pytest.approx(-found.value, abs=1e-8)


def test_a_game_of_two_is_refused() -> None:
    with pytest.raises(ConfigError, match="has 2 players; a team of two against one needs three"):
        team_maxmin(build_tree("kuhn_poker"), "player_0")


def test_a_pair_that_comes_again_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else rounding of the programs could make the same pair look better for ever."""
    tree = build_tree("kuhn_poker", {"players": 3})
    expected = team_maxmin(tree, tree.players[2])
    monkeypatch.setattr(teams, "TOLERANCE", -1.0)  # as if every pair that is found were better
    monkeypatch.setattr(teams, "MOST_ROUNDS", expected.rounds + 40)
    found = team_maxmin(tree, tree.players[2])
    assert found.rounds < expected.rounds + 40
    assert found.value == pytest.approx(expected.value, abs=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_a_single_climb_gets_to_the_top_from_anywhere(seed: int) -> None:
    """Members who take turns would stay where they begin: 0, if each waits at a place of its own."""
    alone = team_maxmin(matrix(meeting(2)), "player_2", correlated=False, starts=1, seed=seed)
    assert alone.value == pytest.approx(1 / 4, abs=1e-6)


def test_without_a_start_there_is_nothing_to_climb_from() -> None:
    with pytest.raises(ConfigError, match="starts is 0; expected at least one"):
        team_maxmin(matrix(meeting(2)), "player_2", correlated=False, starts=0)
