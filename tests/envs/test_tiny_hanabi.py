"""Tiny Hanabi: what is paid and seen, the best joint policy, OpenSpiel's game."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import marl
from marl.envs.check import check_env
from marl.envs.games.cards.tiny_hanabi import BAYESIAN_ACTION_DECODER, TinyHanabiGames
from marl.errors import ConfigError
from marl.gametheory.tree.build import build_tree
from tests.envs.card_trees import nodes

THREE_PLAYERS = {"payoffs": np.arange(64.0).reshape((2,) * 6).tolist()}


@pytest.mark.parametrize("config", [{}, THREE_PLAYERS])
def test_the_env_keeps_its_contract(config: dict[str, Any]) -> None:
    assert check_env("tiny_hanabi", config) == []


def test_everybody_is_paid_the_entry_of_all_cards_and_actions() -> None:
    table = np.array(THREE_PLAYERS["payoffs"])
    env = TinyHanabiGames(1, THREE_PLAYERS)
    for deal, actions in product(range(8), [(0, 0, 1), (1, 0, 1)]):
        frame = env.reset_to(np.array([0]), np.array([deal]))
        for turn, action in enumerate(actions):
            assert frame.present[0].tolist() == [player == turn for player in range(3)]
            frame = env.step([np.full((1, 3), action)])
        assert frame.over[0]
        assert frame.rewards.tolist() == [[table[(*env.cards[deal], *actions)]] * 3]


def test_a_player_sees_the_actions_before_but_not_the_card_of_the_other() -> None:
    env = TinyHanabiGames(4, {})
    env.reset_to(np.arange(4), np.arange(4))  # cards 00, 01, 10, 11
    frame = env.step([np.array([[0, 0], [0, 0], [0, 0], [1, 0]])])
    seen = frame.obs[0][:, 1]
    np.testing.assert_array_equal(seen[0], seen[2])
    assert (seen[0] != seen[1]).any()
    assert (seen[1] != seen[3]).any()
    assert len(build_tree("tiny_hanabi").sets) == 2 + 2 * 3


def test_the_best_joint_policy_earns_ten_and_the_best_without_signals_less() -> None:
    table = np.array(BAYESIAN_ACTION_DECODER, float)
    best = 0.0
    for first in product(range(3), repeat=2):  # an action for each card
        # The second player answers to its card and the action it sees, as well as possible.
        answers = np.zeros((2, 3, 3))  # [its card, action seen, its action]
        for card, action in enumerate(first):
            answers[:, action] += table[card, :, action] / 4
        best = max(best, answers.max(axis=2).sum())
    assert best == 10
    assert max(table[:, :, first].mean(axis=0).max(axis=1).mean() for first in range(3)) == 8


def test_cards_are_hidden_in_scenes_until_all_have_acted() -> None:
    env = TinyHanabiGames(1, {})
    env.reset_to(np.array([0]), np.array([1]))
    env.step([np.array([[2, 0]])])
    assert [player["cards"] for player in env.scene(0, "player_1")["players"]] == [[None], ["1"]]
    env.step([np.array([[0, 2]])])
    assert [player["cards"] for player in env.scene(0, "player_1")["players"]] == [["0"], ["1"]]
    assert env.render(0) == (
        "Tiny Hanabi: player_0 holds 0, player_1 holds 1. Moves: player_0 plays 2, player_1 plays 2. "
        "The game is over: player_0 +10, player_1 +10."
    )


@pytest.mark.parametrize(
    ("payoffs", "text"),
    [
        ([[1, 2], [3]], "not nested lists of equal lengths"),
        ([[1, 2], [3, 4]], r"payoffs have shape \(2, 2\)"),
        (np.zeros((2, 2, 2, 3)).tolist(), "equally many actions"),
        (np.full((2, 2, 2, 2), np.inf).tolist(), "not finite"),
    ],
)
def test_what_is_no_table_is_refused(payoffs: list[Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        marl.make_env("tiny_hanabi", {"payoffs": payoffs})


def test_the_whole_game_is_open_spiels() -> None:
    pyspiel = pytest.importorskip("pyspiel")
    env, pairs = TinyHanabiGames(1, {}), set()
    for node in nodes(TinyHanabiGames, {}):
        state = pyspiel.load_game("tiny_hanabi").new_initial_state()
        for move in (*env.cards[node.deal].tolist(), *node.history):
            state.apply_action(move)
        assert state.is_terminal() == node.over
        if node.over:
            assert tuple(state.returns()) == node.rewards
        else:
            pairs.add(((node.player, node.seen), state.information_state_string()))
    assert len({a for a, _ in pairs}) == len({b for _, b in pairs}) == len(pairs) == 8
