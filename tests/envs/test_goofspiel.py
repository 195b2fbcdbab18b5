"""Goofspiel: rules, what players see, what is the same position; and that it is OpenSpiel's game."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import marl
from marl.envs.check import check_env
from marl.envs.games.cards.goofspiel import GoofspielGames, prize_orders, winners
from marl.envs.games.cards.goofspiel_returns import RETURNS
from marl.errors import ConfigError, EnvError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.perfect import solve_positions
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.response import nash_conv
from marl.gametheory.tree.value import equilibrium
from tests.envs.card_trees import random_moves

CONFIGS: list[dict[str, Any]] = [
    {},
    {"cards": 3, "players": 3, "imp_info": True, "points_order": "random", "returns_type": "point_difference"},
    {"cards": 5, "points_order": "descending", "imp_info": True},
    {"cards": 4, "points_order": "ascending", "returns_type": "total_points", "history": False},
]


def played(config: dict[str, Any], *rounds: tuple[int, ...], deal: int = 0) -> tuple[GoofspielGames, Any]:
    """One copy after the bids of some rounds, and its last frame."""
    env = GoofspielGames(1, config)
    frame = env.reset_to(np.array([0]), np.array([deal]))
    for bids in rounds:
        frame = env.step([np.array([bids])])
    return env, frame


# -- rules -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", CONFIGS)
def test_the_env_keeps_its_contract(config: dict[str, Any]) -> None:
    assert check_env("goofspiel", config) == []


def test_the_highest_bid_takes_the_prize_and_equal_ones_take_nothing() -> None:
    config = {"cards": 4, "points_order": "descending", "returns_type": "total_points"}
    env, frame = played(config, (3, 3), (2, 0))  # for 4 nobody, for 3 player_0
    assert env.points.tolist() == [[3, 0]]
    assert not frame.over[0]
    # Left are 1, 2 and 2, 3: bids 1 and 3 leave 2 and 2 for the last prize, which nobody takes.
    env, frame = played(config, (3, 3), (2, 0), (0, 2))
    assert frame.over[0]
    assert frame.rewards.tolist() == [[3.0, 2.0]]
    assert frame.terminated.all()
    assert not frame.present.any()


def test_all_players_are_asked_at_once_and_may_bid_what_they_hold() -> None:
    _, frame = played({"cards": 3, "players": 3, "points_order": "ascending"}, (0, 1, 2))
    assert frame.present.tolist() == [[True, True, True]]
    assert frame.legal[0][0].tolist() == [[False, True, True], [True, False, True], [True, True, False]]
    assert not frame.rewards.any()


def test_three_equal_or_two_highest_bids_have_no_winner() -> None:
    bids = np.array([[2, 2, 2], [2, 2, 1], [0, 2, 1]])
    assert winners(bids).tolist() == [[False] * 3, [False] * 3, [False, True, False]]


def test_winners_share_one_and_the_others_minus_one() -> None:
    points = np.array([[3, 3, 0], [1, 5, 0], [2, 2, 2]])
    assert RETURNS["win_loss"](points).tolist() == [[0.5, 0.5, -1.0], [-0.5, 1.0, -0.5], [0.0, 0.0, 0.0]]
    assert RETURNS["point_difference"](points).tolist() == [[1.0, 1.0, -2.0], [-1.0, 3.0, -2.0], [0.0, 0.0, 0.0]]


def test_every_order_of_the_prizes_is_a_deal_of_its_own() -> None:
    orders = prize_orders(4, "random")
    assert len({tuple(order) for order in orders.tolist()}) == 24
    assert prize_orders(4, "descending").tolist() == [[3, 2, 1, 0]]
    assert prize_orders(4, "ascending").tolist() == [[0, 1, 2, 3]]


def test_the_symmetric_game_is_worth_nothing_and_its_information_sets_are_known() -> None:
    tree = build_tree("goofspiel", {"cards": 4, "points_order": "descending", "imp_info": True})
    assert (len(tree), len(tree.sets)) == (1077, 162)  # OpenSpiel's goofspiel_4: 162 information states
    assert equilibrium(tree).values.tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_merged_positions_give_the_answers_of_the_tree() -> None:
    for imp_info in (False, True):
        config = {"cards": 4, "points_order": "descending", "imp_info": imp_info, "returns_type": "point_difference"}
        tree = build_tree("goofspiel", config)
        for history in (False, True):
            positions = positions_of("goofspiel", {**config, "history": history})
            tables = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in positions.views]
            measured = MergedGame(positions).measure(tables)
            assert measured.nash_conv == pytest.approx(nash_conv(tree, tree.uniform()), abs=1e-12)
    assert len(positions) > len(positions_of("goofspiel", {**config, "history": False}))


def test_open_bids_for_falling_prizes_are_solved_position_by_position() -> None:
    config = {"cards": 4, "points_order": "descending", "history": False, "returns_type": "point_difference"}
    positions = positions_of("goofspiel", config)
    solved = solve_positions(positions)
    assert MergedGame(positions).measure(solved.policies()).nash_conv == pytest.approx(0.0, abs=1e-6)


# -- what players see ------------------------------------------------------------------------------------------------


def test_hidden_bids_are_seen_only_by_who_won() -> None:
    config = {"cards": 4, "points_order": "descending", "imp_info": True}
    low, high = played(config, (0, 1))[1], played(config, (0, 3))[1]
    np.testing.assert_array_equal(low.obs[0][0, 0], high.obs[0][0, 0])  # it lost, to whichever card
    assert (low.obs[0][0, 1] != high.obs[0][0, 1]).any()
    draw = played(config, (0, 0))[1]
    assert (low.obs[0][0, 0] != draw.obs[0][0, 0]).any()
    open_low, open_high = (
        played({**config, "imp_info": False}, (0, 1))[1],
        played({**config, "imp_info": False}, (0, 3))[1],
    )
    assert (open_low.obs[0][0, 0] != open_high.obs[0][0, 0]).any()


def test_prizes_to_come_do_not_show_their_order() -> None:
    orders = prize_orders(4, "random").tolist()
    first, second = orders.index([0, 1, 2, 3]), orders.index([0, 1, 3, 2])
    np.testing.assert_array_equal(played({}, (0, 1), deal=first)[1].obs[0], played({}, (0, 1), deal=second)[1].obs[0])
    third = orders.index([0, 2, 1, 3])
    assert (played({}, (0, 1), deal=first)[1].obs[0] != played({}, (0, 1), deal=third)[1].obs[0]).any()


def test_without_history_the_same_cards_and_points_are_the_same_position() -> None:
    config = {"cards": 5, "points_order": "ascending", "history": False}
    # Nobody takes the prizes 1 and 2, in either order of the bids.
    one, other = played(config, (0, 0), (1, 1)), played(config, (1, 1), (0, 0))
    np.testing.assert_array_equal(one[1].obs[0], other[1].obs[0])
    for name, rows in one[0].get_state().items():
        np.testing.assert_array_equal(rows, other[0].get_state()[name])
    longer = {**config, "history": True}
    assert (played(longer, (0, 0), (1, 1))[1].obs[0] != played(longer, (1, 1), (0, 0))[1].obs[0]).any()


def test_the_cards_of_a_player_are_read_out_of_what_it_sees() -> None:
    for config in CONFIGS:
        env, rng = GoofspielGames(8, config), np.random.default_rng(3)
        frame = env.reset(np.arange(8), np.arange(8))
        frame = env.step([random_moves(env, frame, rng)])
        for env_id, player in np.ndindex(8, env.players):
            expected = np.flatnonzero(env.hands[env_id, player]) + 1
            assert env.hand_in(frame.obs[0][env_id, player]).tolist() == expected.tolist()


def test_many_copies_play_as_each_would_alone() -> None:
    for config in CONFIGS:
        rng, seeds = np.random.default_rng(0), np.arange(12)
        crowd = GoofspielGames(12, config)
        alone = [GoofspielGames(1, config) for _ in seeds]
        frame = crowd.reset(seeds, seeds)
        for one, seed in zip(alone, seeds, strict=True):
            one.reset(np.array([0]), seeds[seed : seed + 1])
        while not frame.over.all():
            actions = random_moves(crowd, frame, rng)
            frame = crowd.step([actions])
            for env_id in seeds:
                single = alone[env_id].step([actions[env_id : env_id + 1]])
                np.testing.assert_array_equal(single.obs[0][0], frame.obs[0][env_id])
                np.testing.assert_array_equal(single.rewards[0], frame.rewards[env_id])


def test_a_scene_hides_what_its_viewer_does_not_know() -> None:
    env, _ = played({"cards": 3, "points_order": "ascending", "imp_info": True}, (0, 2))
    mine = env.scene(0, "player_0")
    assert mine["players"][1]["cards"] == [None, None]
    assert [move["text"] for move in mine["course"]] == ["bids 1 for 1", "bids a hidden card for 1, takes it"]
    assert mine["table"] == ["2"]
    assert "player_0, player_1 are to move at once" in env.render(0)
    assert [move["text"] for move in env.scene(0)["course"]] == ["bids 1 for 1", "bids 3 for 1, takes it"]


# -- mistakes --------------------------------------------------------------------------------------------------------


def test_a_card_that_was_played_cannot_be_bid_again() -> None:
    with pytest.raises(EnvError, match=r"'player_1' played action 2 in env 0, which is not legal now\. Legal: 0, 1"):
        played({"cards": 3, "points_order": "ascending"}, (0, 2), (1, 2))


def test_random_orders_of_many_prizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="9 prizes have too many random orders to list"):
        marl.make_env("goofspiel", {"cards": 9})
    assert marl.make_env("goofspiel", {"cards": 9, "points_order": "descending"})


# -- OpenSpiel's -----------------------------------------------------------------------------------------------------

SPIEL: list[dict[str, Any]] = [
    {"cards": 4, "points_order": "random", "imp_info": True},
    {"cards": 4, "points_order": "random", "imp_info": False, "returns_type": "point_difference"},
    {"cards": 5, "points_order": "descending", "imp_info": True, "players": 3},
    {"cards": 3, "points_order": "ascending", "players": 3, "returns_type": "total_points"},
]


def spiel_state(pyspiel: Any, env: GoofspielGames, env_id: int, rounds: list[np.ndarray]) -> Any:
    """OpenSpiel's state after the same prizes and the same bids."""
    keys = env.config
    name = (
        f"goofspiel(num_cards={keys.cards},players={keys.players},imp_info={keys.imp_info},"
        f"points_order={keys.points_order},returns_type={keys.returns_type})"
    )
    state = pyspiel.load_game(name).new_initial_state()
    prizes = env.orders[env.deal[env_id]].tolist()
    for bids in (*rounds, None):
        if state.is_chance_node():
            state.apply_action(prizes.pop(0))
        if bids is not None:
            state.apply_actions(bids[env_id].tolist())
    return state


@pytest.mark.parametrize("config", SPIEL)
def test_random_games_are_open_spiels(config: dict[str, Any]) -> None:
    """Same legal cards, same returns, and observations that are equal where OpenSpiel's information states are."""
    pyspiel = pytest.importorskip("pyspiel")
    copies = 80
    env, rng = GoofspielGames(copies, config), np.random.default_rng(1)
    frame = env.reset(np.arange(copies), np.arange(copies))
    rounds: list[np.ndarray] = []
    pairs: set[tuple[bytes, str]] = set()
    while not frame.over.all():
        for env_id in range(copies):
            state = spiel_state(pyspiel, env, env_id, rounds)
            for player in range(env.players):
                assert np.flatnonzero(frame.legal[0][env_id, player]).tolist() == state.legal_actions(player)
                seen = frame.obs[0][env_id, player].tobytes()
                pairs.add((seen, f"{player} {state.information_state_string(player)}"))
        actions = random_moves(env, frame, rng)
        rounds.append(actions)
        frame = env.step([actions])
    ours, theirs = {a for a, _ in pairs}, {b for _, b in pairs}
    assert len(ours) == len(pairs)  # equal observations are equal information
    if env.config.imp_info:  # with open bids OpenSpiel's texts forget which card was played when
        assert len(theirs) == len(pairs)
    for env_id in range(copies):
        returns = spiel_state(pyspiel, env, env_id, rounds).returns()
        assert frame.rewards[env_id].tolist() == pytest.approx(returns, abs=1e-6)
