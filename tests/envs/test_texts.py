"""What a reading player is told: everything it may know, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.envs.catalog import FAST
from marl.envs.registry import make_batched_env
from marl.envs.rules import RULES, rules_of
from marl.envs.texts import TextView, text_of
from marl.errors import ConfigError
from marl.gametheory.language.views import TextGrowth, texts_of_views, view_key
from marl.gametheory.tree.build import build_tree

GAMES: dict[str, dict[str, Any]] = {
    "kuhn_poker": {},
    "leduc_poker": {"ranks": 2},
    "liars_dice": {"sides": 2},
    "goofspiel": {"cards": 3, "imp_info": True},
    "tiny_hanabi": {},
    "matrix_game": {"game": "prisoners_dilemma"},
    "phantom_ttt": {"rows": 2, "columns": 2, "connect": 2},
    "dark_hex": {"rows": 2, "columns": 2},
    "tic_tac_toe": {"rows": 2, "columns": 2, "connect": 2},
    "connect_four": {"rows": 2, "columns": 3, "connect": 3},
    "nim": {"piles": [1, 2]},
    "battleship": {"rows": 1, "columns": 3, "ships": [1], "values": [1.0], "shots": 2},
}


def test_every_game_with_rules_is_tried() -> None:
    assert set(GAMES) == {*RULES, "tiny_hanabi"}


class AllTexts(TextGrowth):
    """Keeps every text of a view, not only the first."""

    def _keep(self, env: Any, row: int, seat: int, obs: Any, allowed: Any) -> None:
        found = text_of(env, row, self.players[seat], allowed.tolist())
        first = self.texts[seat].setdefault(view_key(obs), found)
        assert found == first  # else the text tells what the view does not


@pytest.mark.parametrize("name", GAMES)
def test_texts_tell_no_more_than_the_view(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.gametheory.language.views.TextGrowth", AllTexts)
    for texts in texts_of_views(name, GAMES[name]):
        assert texts
        for text in texts.values():
            assert text.rules.startswith(RULES.get(name, "Tiny Hanabi"))
            assert len(text.rules) > 100
            assert text.actions


@pytest.mark.parametrize(
    "name", ["kuhn_poker", "leduc_poker", "liars_dice", "goofspiel", "tiny_hanabi", "dark_hex", "battleship"]
)
def test_texts_tell_no_less_than_the_view(name: str) -> None:
    for texts in texts_of_views(name, GAMES[name]):
        told = {text.seen for text in texts.values()}
        assert len(told) == len(texts)


VARIANTS: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [
    ("kuhn_poker", {}, {"players": 3}, "3 players"),
    ("leduc_poker", {}, {"ranks": 4}, "4 ranks"),
    ("liars_dice", {}, {"dice": 2}, "2 dice of 6 faces"),
    ("liars_dice", {}, {"sides": 4}, "1 die of 4 faces"),
    ("nim", {}, {"misere": True}, "last match loses"),
    ("tic_tac_toe", {}, {"misere": True}, "3 stones in a row, a column or a diagonal loses"),
    ("tic_tac_toe", {"rows": 4, "columns": 4}, {"rows": 4, "columns": 4, "connect": 4}, "4 stones"),
    ("connect_four", {}, {"connect": 3}, "3 stones"),
    ("phantom_ttt", {}, {"version": "abrupt"}, "your turn is over"),
    ("dark_hex", {}, {"version": "abrupt"}, "your turn is over"),
    ("goofspiel", {}, {"returns_type": "total_points"}, "paid its points."),
    ("goofspiel", {}, {"points_order": "ascending"}, "from the lowest"),
    ("goofspiel", {}, {"imp_info": True}, "only who took the prize is told"),
    ("goofspiel", {}, {"cards": 5}, "cards 1 to 5"),
    ("matrix_game", {}, {"repetitions": 7}, "7 times"),
    ("battleship", {}, {"loss_multiplier": 5.0}, "5 times the values"),
    ("battleship", {}, {"values": [1.0, 9.0]}, "one of 2 cells worth 9"),
    ("battleship", {}, {"shots": 2}, "2 shots"),
]


@pytest.mark.parametrize(("name", "usual", "other", "told"), VARIANTS)
def test_games_that_differ_have_rules_that_differ(
    name: str, usual: dict[str, Any], other: dict[str, Any], told: str
) -> None:
    rules = [rules_of(make_batched_env(name, 1, config)) for config in (usual, other)]
    assert told in rules[1]
    assert told not in rules[0]


@pytest.mark.parametrize("points_order", ["random", "descending"])
def test_goofspiel_without_its_history_is_told_as_it_is_seen(points_order: str) -> None:
    config = {"cards": 4, "points_order": points_order, "history": False}
    for texts in texts_of_views("goofspiel", config):
        assert len({text.seen for text in texts.values()}) == len(texts)
        assert not any("Moves" in text.seen for text in texts.values())  # nothing is known of them
    first = next(iter(texts_of_views("goofspiel", {"cards": 3, "points_order": "ascending"})[0].values()))
    assert "prizes to come 2, 3:" in first.seen


def test_matches_of_nim_belong_to_nobody() -> None:
    for text in texts_of_views("nim", {"piles": [1, 2]})[0].values():
        assert "Your pieces" not in text.seen


def test_kuhn_has_a_text_for_each_information_set() -> None:
    texts = texts_of_views("kuhn_poker")
    tree = build_tree("kuhn_poker")
    assert [len(of_seat) for of_seat in texts] == [6, 6]
    assert {view_key(np.array(obs)) for obs in tree.sets.obs} == set(texts[0]) | set(texts[1])
    seen = "\n".join(text.seen for text in texts[0].values())
    assert "You are player_0." in seen
    assert "player_0 holds K, player_1 holds something hidden." in seen


def test_a_board_in_the_dark_is_told_as_its_player_knows_it() -> None:
    env = make_batched_env("phantom_ttt", 1, {})
    env.reset(np.array([0]), np.array([0]))
    frame = env.step([np.array([[4, 0]])])
    text = text_of(env, 0, "player_1", np.flatnonzero(frame.legal[0][0, 1]).tolist())
    assert text.seen.endswith(". . .\n. . .\n. . .")
    assert "Your pieces are O." in text.seen
    assert list(text.actions)[:3] == ["a1", "b1", "c1"]
    assert text.actions["b2"] == 4


def test_payoffs_of_a_matrix_game_are_listed() -> None:
    (first, *_), _ = texts_of_views("matrix_game", {"game": "prisoners_dilemma"})
    (text,) = texts_of_views("matrix_game", {"game": "prisoners_dilemma"})[0].values()
    assert isinstance(text, TextView)
    assert first
    assert text.seen.count("player_0 ") >= 4
    assert set(text.actions.values()) == {0, 1}


def test_bids_that_are_hidden_stay_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marl.gametheory.language.views.TextGrowth", AllTexts)
    assert all(texts_of_views("goofspiel", {"cards": 3, "imp_info": True}))


def test_the_table_of_tiny_hanabi_is_told_in_its_rules() -> None:
    (text, *_) = texts_of_views("tiny_hanabi")[0].values()
    assert "cards (0, 0), actions (0, 0): 10" in text.rules
    assert text.rules.count("cards (") == 36


def test_an_env_without_rules_is_told_by_its_scene_and_numbers() -> None:
    name = f"fast:{next(iter(FAST))}"
    env = make_batched_env(name, 1, {})
    env.reset(np.array([0]), np.array([0]))
    assert rules_of(env) == ""
    text = text_of(env, 0, env.seat_names[0], [0, 1])
    assert len(text.actions) == 2


def test_an_env_that_is_not_native_is_refused() -> None:
    with pytest.raises(ConfigError, match="is no native env"):
        texts_of_views("CartPole-v1")
