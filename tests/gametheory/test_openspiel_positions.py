"""Positions of OpenSpiel's games: measured as their trees are, and as the literature says."""

from __future__ import annotations

from typing import Any

import pytest

from marl.errors import ConfigError
from marl.gametheory.merged.game import MergedGame
from marl.gametheory.merged.openspiel_positions import _Walk
from marl.gametheory.merged.perfect import solve_positions
from marl.gametheory.merged.positions import positions_of
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import expected_values, gains
from marl.policies.scripted import RandomPolicy

pytest.importorskip("pyspiel")

DARK = {"num_rows": 2, "num_cols": 2}


@pytest.mark.parametrize(
    ("game", "config"),
    [
        ("kuhn_poker", {"players": 3}),
        ("goofspiel", {"num_cards": 3, "imp_info": True}),  # simultaneous moves, chance on the way
        ("tiny_hanabi", {}),
    ],
)
def test_games_measure_as_on_their_trees(game: str, config: dict[str, Any]) -> None:
    tree, positions = build_tree(f"openspiel:{game}", config), positions_of(f"openspiel:{game}", config)
    policies = dict.fromkeys(tree.players, RandomPolicy(tree.kinds[0]))
    strategy = strategy_of(tree, policies)
    measured = MergedGame(positions).measure(policies)
    assert measured.values == pytest.approx(expected_values(tree, strategy), abs=1e-12)
    assert measured.gains == pytest.approx(gains(tree, strategy), abs=1e-12)
    assert positions.chance == tree.chance


@pytest.mark.parametrize(("version", "nash_conv"), [("cdh", 1.25), ("adh", 5 / 6)])
def test_dark_hex_of_two_by_two_has_the_known_nash_conv(version: str, nash_conv: float) -> None:
    positions = positions_of("openspiel:dark_hex", {**DARK, "gameversion": version})
    uniform = dict.fromkeys(positions.players, RandomPolicy(positions.kinds[0]))
    assert MergedGame(positions).measure(uniform).nash_conv == pytest.approx(nash_conv, abs=1e-12)


def test_tic_tac_toe_of_openspiel_has_its_5478_positions_and_is_a_draw() -> None:
    positions = positions_of("openspiel:tic_tac_toe")
    going_on = int((~positions.over).sum())
    assert going_on == 5478 - 958  # of all boards, those that are over
    assert solve_positions(positions).values.tolist() == [0.0, 0.0]


class FreeCells(_Walk):
    """Compares boards by their free cells alone."""

    def key(self, state: Any) -> bytes:
        return b"over" if state.is_terminal() else repr((self.asked(state), state.legal_actions())).encode()


def test_states_that_show_only_a_part_of_themselves_are_noticed() -> None:
    import pyspiel

    walk = FreeCells(pyspiel.load_game("tic_tac_toe"), "tic_tac_toe", (), 10_000)
    walk.begin()
    with pytest.raises(ConfigError, match="went on differently after the same actions"):
        while walk.level:
            walk.next_level()
