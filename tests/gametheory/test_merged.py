"""Exact best responses by merged positions: the same numbers as by the tree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.task import Array, Floats
from marl.envs.base import ALL, MultiAgentEnv, StepResult
from marl.errors import ConfigError, PolicyError, SpaceMismatchError, UnknownNameError
from marl.gametheory.merged.game import MergedGame, merge_game
from marl.gametheory.merged.kernel import Table
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import best_response, expected_values
from marl.gametheory.tree.sampled import gains_with_errors
from marl.gametheory.tree.tree import Tree
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import RandomPolicy
from marl.policies.tabular import TabularPolicy
from marl.training.examination.figures import Effort
from tests.gametheory.random_games import mixture

GAMES: list[tuple[str, dict[str, Any]]] = [
    ("kuhn_poker", {}),
    ("kuhn_poker", {"players": 3}),
    ("leduc_poker", {}),
    ("liars_dice", {"sides": 3}),
    # Both see nothing but that it goes on: own pasts differ behind equal observations.
    ("matrix_game", {"game": "chicken", "repetitions": 3}),
    ("matrix_game", {"game": "prisoners_dilemma"}),
    ("dark_hex", {"rows": 2, "columns": 2}),
    ("dark_hex", {"rows": 2, "columns": 2, "version": "abrupt"}),
    ("phantom_ttt", {"rows": 2, "columns": 2, "connect": 2}),
]


def random_tables(game: MergedGame, seed: int, none: float = 0.3) -> list[Table]:
    """Chances of legal actions; some are 0, so that parts of the game are never reached."""
    rng, found = np.random.default_rng(seed), []
    for views in game.positions.views:
        weights = rng.exponential(size=views.legal.shape) * (rng.random(views.legal.shape) > none)
        weights = np.where((weights * views.legal).sum(axis=1, keepdims=True) > 0, weights, 1.0) * views.legal
        found.append(weights / weights.sum(axis=1, keepdims=True))
    return found


def as_policies(game: MergedGame, tables: list[Table]) -> dict[str, Policy]:
    found: dict[str, Policy] = {}
    for player, (name, table) in enumerate(zip(game.positions.players, tables, strict=True)):
        kind = game.positions.kind_of(player)
        seat = np.full(len(table), player - kind.first_seat)
        found[name] = TabularPolicy(kind, game.positions.views[player].obs, table, seat)
    return found


def by_tree(tree: Tree, policies: Mapping[str, Policy]) -> tuple[list[float], list[float]]:
    """What play and best responses earn."""
    strategy = strategy_of(tree, policies)
    best = [best_response(tree, strategy, player)[0] for player in range(tree.num_players)]
    return expected_values(tree, strategy).tolist(), best


@pytest.mark.parametrize(("name", "config"), GAMES)
def test_merged_positions_give_the_numbers_of_the_tree(name: str, config: dict[str, Any]) -> None:
    game, tree = merge_game(name, config), build_tree(name, config)
    for seed in range(3):
        policies = as_policies(game, random_tables(game, seed))
        values, best = by_tree(tree, policies)
        measured = game.measure(policies)
        assert measured.values == pytest.approx(values, abs=1e-12)
        assert measured.best == pytest.approx(best, abs=1e-12)
        assert measured.nash_conv == pytest.approx(sum(best) - sum(values), abs=1e-12)


@pytest.mark.parametrize(("name", "config"), GAMES)
def test_the_best_response_is_a_policy_that_earns_its_value(name: str, config: dict[str, Any]) -> None:
    game, tree = merge_game(name, config), build_tree(name, config)
    policies = as_policies(game, random_tables(game, 5))
    for player, who in enumerate(game.positions.players):
        value, response = game.best_response(policies, player)
        earned = expected_values(tree, strategy_of(tree, {**policies, who: response}))
        assert earned[player] == pytest.approx(value, abs=1e-12)
        assert value == pytest.approx(game.measure(policies).best[player], abs=1e-12)


def test_a_response_remembers_where_the_same_view_asks_for_different_actions() -> None:
    config = {"game": "prisoners_dilemma", "repetitions": 3, "observe": "last", "observe_round": False}
    game, tree = merge_game("matrix_game", config), build_tree("matrix_game", config)
    tables = []
    for views in game.positions.views:
        # Tit for tat: at first, and after the other one's cooperation, cooperate. Columns are one-hot, by player.
        other = views.obs[:, 2:4] if views is game.positions.views[0] else views.obs[:, 0:2]
        tables.append(np.eye(2)[(other[:, 1] > 0).astype(int)])
    policies = as_policies(game, tables)
    value, response = game.best_response(policies, 0)
    # Whoever meets tit for tat cooperates until the last round: the same sight, the round before, asks for another action.
    paid = expected_values(tree, strategy_of(tree, {**policies, "player_0": response}))
    assert paid[0] == pytest.approx(value, abs=1e-12)
    assert value > game.measure(policies).values[0]
    assert response.carry_size == 1


@pytest.mark.parametrize("budget", [1, 7, 100])
def test_a_walk_in_small_pieces_finds_the_same(budget: int) -> None:
    game = merge_game("dark_hex", {"rows": 2, "columns": 3})
    tables = random_tables(game, 1, none=0.0)
    whole = game.measure(tables)
    assert game.measure(tables, budget=budget).best == pytest.approx(whole.best, abs=1e-14)


@pytest.mark.parametrize(("name", "config"), GAMES)
def test_information_sets_are_counted_before_the_walk(name: str, config: dict[str, Any]) -> None:
    game, tree = merge_game(name, config), build_tree(name, config)
    assert game.cost(random_tables(game, 0, none=0.0)).information_sets == len(tree.sets)


def test_a_cost_above_the_limit_is_refused_and_told() -> None:
    game = merge_game("leduc_poker")
    policies = {name: RandomPolicy(game.positions.kinds[0]) for name in game.positions.players}
    cost = game.cost(policies)
    assert (cost.positions, cost.information_sets) == (game.positions.num_open, 936)
    assert cost.pairs == game.cost(policies, 0).pairs + game.cost(policies, 1).pairs
    assert game.measure(policies).cost == cost
    with pytest.raises(
        ConfigError, match=r"4,320 positions, 936 information sets, about .* more than the limit of 1e-09 s"
    ):
        game.measure(policies, limit=1e-9)
    assert game.measure(policies, limit=60.0).nash_conv == pytest.approx(4.747222222, abs=1e-9)


@pytest.mark.filterwarnings("error")
def test_a_game_with_more_information_sets_than_any_number_holds_is_refused_in_few_words() -> None:
    payoffs = np.arange(25.0).reshape(5, 5)
    config = {"payoffs": [payoffs.tolist(), (-payoffs).tolist()], "repetitions": 230, "observe": "last"}
    game = merge_game("matrix_game", config)  # 25 ** 230 of them
    even = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in game.positions.views]
    with pytest.raises(
        ConfigError, match=r"positions, more than 1e\+18 information sets, about .* s and [\d,]* MB"
    ) as told:
        game.measure(even, limit=60.0)
    assert len(str(told.value)) < 300
    effort = Effort(positions=5, information_sets=game.cost(even).information_sets, seconds=game.cost(even).seconds)
    assert len(str(effort)) < 100


@pytest.mark.parametrize("mixed", [False, True])
def test_figures_of_sampled_chance_have_the_errors_of_the_tree(mixed: bool) -> None:
    tree, game = build_tree("kuhn_poker", chance_samples=40), merge_game("kuhn_poker", chance_samples=40)
    assert game.positions.sample is not None
    policies: dict[str, Policy] = {name: RandomPolicy(tree.kinds[0]) for name in tree.players}
    if mixed:
        policies["player_1"] = mixture(tree.kinds[0], 3, 0, np.array([0.3, 0.7]))
    found, wanted = game.measure(policies), gains_with_errors(tree, strategy_of(tree, policies))
    assert found.gains == pytest.approx(wanted.gains, abs=1e-12)
    assert found.errors == pytest.approx(wanted.errors, abs=1e-12)
    assert found.total_error == pytest.approx(wanted.total_error, abs=1e-12)
    exact = merge_game("kuhn_poker").measure(policies)
    assert (exact.total_error, exact.errors.tolist()) == (0.0, [0.0, 0.0])


def test_networks_are_read_as_on_trees() -> None:
    game, tree = merge_game("leduc_poker"), build_tree("leduc_poker")
    network = build_policy(PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8]), None, seed=3), tree.kinds[0])
    policies = dict.fromkeys(tree.players, network)
    values, best = by_tree(tree, policies)
    measured = game.measure(policies)
    assert measured.values == pytest.approx(values, abs=1e-6)  # networks answer in float32
    assert measured.best == pytest.approx(best, abs=1e-6)
    greedy = expected_values(tree, strategy_of(tree, policies, explore=False))
    assert game.measure(policies, explore=False).values == pytest.approx(greedy, abs=1e-12)


class Counting(RandomPolicy):
    """Even chances, or none at all; counts how many rows it was asked for."""

    rows, weight = 0, 1.0

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        self.rows += len(inputs)
        options = self.kind.columns.options
        return np.full((len(inputs), options), self.weight / options)


class Stubborn(RandomPolicy):
    """Always the first cell, also where it is taken."""

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        return np.eye(self.kind.columns.options)[np.zeros(len(inputs), int)]


class Saying(RandomPolicy):
    """Says something else than probabilities."""

    said: tuple[float, ...] = ()

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        return np.tile(np.array(self.said), (len(inputs), 1))


def test_a_policy_is_asked_once_for_each_view() -> None:
    game = merge_game("dark_hex", {"rows": 2, "columns": 2})
    policy = Counting(game.positions.kinds[0])
    assert game.measure(dict.fromkeys(game.positions.players, policy)).nash_conv == pytest.approx(1.25, abs=1e-12)
    assert policy.rows == sum(map(len, game.positions.views)) == 42


def test_policies_that_cannot_be_read_at_views_are_refused() -> None:
    game = merge_game("kuhn_poker")
    kind = game.positions.kinds[0]
    fine, silent = RandomPolicy(kind), Counting(kind)
    silent.weight = 0.0
    with pytest.raises(ConfigError, match="no policy was given for player_1"):
        game.measure({"player_0": fine})
    other = RandomPolicy(merge_game("leduc_poker").positions.kinds[0])
    with pytest.raises(SpaceMismatchError, match="its policy was made for"):
        game.measure({"player_0": fine, "player_1": other})
    with pytest.raises(
        PolicyError, match=r"player_1 returned \[0.0, 0.0\] for observation 0 of 6; expected numbers of 0 or"
    ):
        game.measure({"player_0": fine, "player_1": silent})
    board = merge_game("dark_hex", {"rows": 2, "columns": 2})
    stubborn = dict.fromkeys(board.positions.players, Stubborn(board.positions.kinds[0]))
    with pytest.raises(PolicyError, match=r"gives no legal action a chance at \d+ of its \d+ views"):
        board.measure(stubborn)


@pytest.mark.parametrize(
    ("said", "message"),
    [((1.2, -0.2), "returned \\[1.2, -0.2\\]"), ((2.0, 1.0), "Logits become probabilities by a softmax"),
     ((np.nan, 1.0), "expected numbers of 0 or more with the sum 1"), ((np.inf, 0.0), "expected numbers of 0 or more"),
     ((1.0,), r"shape \(6, 1\) for 6 observations; expected \(6, 2\)"), ((0.5, 0.3, 0.2), r"expected \(6, 2\)")],
)  # fmt: skip
def test_what_is_no_probabilities_is_refused_by_positions_and_by_the_tree(
    said: tuple[float, ...], message: str
) -> None:
    game, tree = merge_game("kuhn_poker"), build_tree("kuhn_poker")
    policy = Saying(game.positions.kinds[0])
    policy.said = said
    players = dict.fromkeys(game.positions.players, policy)
    with pytest.raises(PolicyError, match=message):
        game.measure(players)
    with pytest.raises(PolicyError, match=message.replace("6, ", r"\d+, ").replace("for 6", r"for \d+")):
        strategy_of(tree, players)


def test_tables_of_other_shapes_are_refused() -> None:
    game = merge_game("kuhn_poker")
    with pytest.raises(ConfigError, match=r"shapes \[\(6, 2\), \(6, 3\)\] were given; expected \[\(6, 2\), \(6, 2\)\]"):
        game.measure([np.full((6, 2), 0.5), np.full((6, 3), 1 / 3)])
    with pytest.raises(ConfigError, match=r"for each of player_0, player_1 a row for each view"):
        game.measure([np.full((6, 2), 0.5)])


def test_a_player_may_be_named() -> None:
    game = merge_game("kuhn_poker")
    tables = random_tables(game, 0)
    assert game.best_response(tables, "player_1")[0] == game.best_response(tables, 1)[0]
    with pytest.raises(UnknownNameError, match=r"no player 'player_2'.* Players: player_0, player_1"):
        game.best_response(tables, "player_2")


class Meeting(MultiAgentEnv):
    """By chance ``one`` begins, and may leave for 0.3; or ``two`` begins, which pays ``one`` what it says. Both courses meet
    in the same position, where both choose at once: it is the first or the second decision of ``one``."""

    possible_agents = ("one", "two")

    def __init__(self, config: Mapping[str, Any] | None = None) -> None:
        del config
        self.place = 0

    def observation_space(self, agent: str) -> Any:
        return spaces.Discrete(3)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def chance_outcomes(self) -> Any:
        return {0: 0.25, 1: 0.75}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        drawn = int(np.random.default_rng(seed).random() < 0.75)
        self.place = (options or {}).get("chance", drawn)
        return {self.possible_agents[self.place]: self.place}, {}

    def step(self, actions: dict[str, Any]) -> StepResult:
        before, self.place = self.place, 2
        if before == 2:
            won = 1.0 if actions["one"] == actions["two"] else -0.5
            return StepResult({"one": 2, "two": 2}, {"one": won, "two": 1 - won}, {ALL: True}, {ALL: False}, {})
        paid = {"one": 0.3 if before == 0 else float(actions["two"])}
        if before == 0 and actions["one"] == 1:
            return StepResult({"one": 2}, paid, {ALL: True}, {ALL: False}, {})
        rewards = paid if before == 1 else {}
        return StepResult({"one": 2, "two": 2}, rewards, {ALL: False}, {ALL: False}, {})


def test_courses_that_meet_after_different_numbers_of_own_decisions() -> None:
    game, tree = merge_game(Meeting), build_tree(Meeting)
    # Two starts and one place where they meet, which has four joint actions whoever came there.
    assert (game.positions.num_open, len(game.positions.source)) == (3, 2 + 2 + 4)
    for seed in range(3):
        policies = as_policies(game, random_tables(game, seed, none=0.0))
        values, best = by_tree(tree, policies)
        measured = game.measure(policies)
        assert measured.values == pytest.approx(values, abs=1e-12)
        assert measured.best == pytest.approx(best, abs=1e-12)  # what is paid before the first decision is in it
        for player, who in enumerate(tree.players):
            value, response = game.best_response(policies, player)
            paid = expected_values(tree, strategy_of(tree, {**policies, who: response}))
            assert paid[player] == pytest.approx(value, abs=1e-12)


def test_a_response_holds_what_it_reaches_and_nothing_else() -> None:
    game, tree = merge_game("leduc_poker"), build_tree("leduc_poker")
    policies = as_policies(game, random_tables(game, 2, none=0.0))  # the others may lead anywhere
    for player in range(2):
        _, part = best_response(tree, strategy_of(tree, policies), player)
        own, first = tree.infosets(player), tree.choices(player).start
        reached = np.zeros(own.stop, bool)
        for number in range(own.start, own.stop):
            before = tree.sets.parent_choice[number]
            reached[number] = before < 0 or (reached[tree.sets.owner[before]] and part[before - first] > 0)
        assert len(game.best_response(policies, player)[1].table) == int(reached.sum())


@pytest.mark.parametrize(
    "table",
    [np.zeros((6, 2)), np.ones((6, 2)), np.tile([-1.0, 2.0], (6, 1)), np.full((6, 2), np.nan)],
    ids=["logits", "ones", "negative", "nan"],
)
def test_tables_that_hold_no_chances_are_refused(table: Table) -> None:
    game = merge_game("kuhn_poker")
    even = np.full((6, 2), 0.5)
    for play in ([table, even], [even, table]):
        with pytest.raises(ConfigError, match=r"row 0 of the table of player_. .* Expected numbers of 0 or more"):
            game.measure(play)
    assert game.best_value([table, even], 0) == game.best_value([even, even], 0)  # of an exploiter nothing is read


def test_chances_of_illegal_actions_are_refused() -> None:
    game = merge_game("nim", {"piles": [1, 2]})
    tables = [np.full(views.legal.shape, 1 / views.legal.shape[1]) for views in game.positions.views]
    with pytest.raises(ConfigError, match=r"of which \[.*\] are legal"):
        game.measure(tables)


class AlmostChances(RandomPolicy):
    """As a network in float32 may add up: a little less than 0, and a little more than 1."""

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        return np.tile([-5e-5, 1.00005], (len(inputs), 1))


def test_chances_a_little_below_zero_are_zero() -> None:
    game = merge_game("kuhn_poker")
    kind = game.positions.kinds[0]
    found = game.measure(dict.fromkeys(game.positions.players, AlmostChances(kind)))
    always = [np.tile([0.0, 1.0], (6, 1))] * 2
    assert found.nash_conv == pytest.approx(game.measure(always).nash_conv, abs=1e-12)


@pytest.mark.parametrize("player", [7, -1, "nobody"])
def test_players_that_are_not_there_are_refused(player: int | str) -> None:
    game = merge_game("kuhn_poker")
    even = [np.full((6, 2), 0.5)] * 2
    for ask in (game.best_response, game.best_value, game.cost):
        with pytest.raises((ConfigError, UnknownNameError), match="has no player"):
            ask(even, player)


def test_a_budget_of_nothing_is_refused() -> None:
    game = merge_game("kuhn_poker")
    with pytest.raises(ConfigError, match="budget: expected 1 or more"):
        game.measure([np.full((6, 2), 0.5)] * 2, budget=0)
