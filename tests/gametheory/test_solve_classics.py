"""Games by name, drawn at random, and read from matrix envs."""

from __future__ import annotations

import numpy as np
import pytest

from marl.envs.games.matrix import CLASSICS, classic
from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.classics import NAMES, classic_game, game_of, random_game


def test_classics_have_the_tables_and_names_of_the_envs() -> None:
    for name in CLASSICS:
        payoffs, actions = classic(name)
        game = classic_game(name)
        assert (game.payoffs == payoffs).all()
        assert game.actions == actions
        assert game.name == name
    assert set(NAMES) - set(CLASSICS) == {"shapley", "aumann_chicken"}


def test_aumanns_chicken_pays_six_two_seven_and_nothing() -> None:
    game = classic_game("aumann_chicken")
    assert game.payoffs[0].tolist() == [[6, 2], [7, 0]]
    assert game.payoffs[1].tolist() == [[6, 7], [2, 0]]
    assert game.is_symmetric


def test_the_penalty_is_a_key_of_the_penalty_game_alone() -> None:
    assert classic_game("penalty", penalty=-100).payoffs[0, 0, 0] == -50
    with pytest.raises(ConfigError, match="only the game 'penalty' has one"):
        classic_game("chicken", penalty=-5)


def test_an_unknown_game_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'stag_hunt'"):
        classic_game("stag_hunts")


def test_the_game_of_a_matrix_env_is_its_table() -> None:
    assert game_of({"game": "chicken", "repetitions": 10}).payoffs.tolist() == classic_game("chicken").payoffs.tolist()
    own = game_of(
        {"payoffs": [[[1, 2, 3], [4, 5, 6]], [[0, 0, 1], [1, 0, 0]]], "actions": [["u", "d"], ["l", "m", "r"]]}
    )
    assert own.shape == (2, 3)
    assert own.actions == (("u", "d"), ("l", "m", "r"))
    assert own.payoffs[0, 1, 2] == 6
    with pytest.raises(ConfigError, match="one axis per player"):
        game_of({"payoffs": [[1, 2], [3, 4]]})


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 2), (3, 3, 3)])
def test_random_games_are_what_was_asked_for(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    plain = random_game(shape, rng)
    assert not plain.is_symmetric
    assert not plain.is_zero_sum
    assert random_game(shape, rng, zero_sum=True).is_zero_sum
    assert random_game(shape, rng, symmetric=True).is_symmetric
    both = random_game(shape, rng, zero_sum=True, symmetric=True)
    assert both.is_zero_sum
    assert both.is_symmetric
    assert np.abs(both.payoffs).max() > 0.1


def test_random_games_depend_on_the_generator_alone() -> None:
    games = [random_game((4, 5), np.random.default_rng(seed)).payoffs for seed in (1, 1, 2)]
    assert (games[0] == games[1]).all()
    assert (games[0] != games[2]).all()


def test_impossible_random_games_are_refused() -> None:
    rng = np.random.default_rng(0)
    for shape, keys, message in (
        ((), {}, "number of actions"),
        ((2, 0), {}, "number of actions"),
        ((2, 3), {"symmetric": True}, "equally many"),
        ((2,), {"zero_sum": True}, "two players"),
    ):
        with pytest.raises(ConfigError, match=message):
            random_game(shape, rng, **keys)
