"""``marl.games``, the front door of the game theory, against numbers that are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import marl
from marl import games
from marl.errors import ConfigError, UnknownNameError
from marl.gametheory.solve import Solution


def test_a_table_of_payoffs_is_solved() -> None:
    dilemma = games.matrix([[3, 0], [5, 1]], [[3, 5], [0, 1]])
    found = games.solve(dilemma)
    assert isinstance(found, Solution)
    assert np.allclose(found.profile, [[0, 1], [0, 1]])
    assert games.nash_conv(dilemma, found.profile) == pytest.approx(0.0)
    assert games.nash_conv(dilemma, ([1.0, 0.0], [1.0, 0.0])) == pytest.approx(4.0)  # each earns 5 instead of 3
    assert np.allclose(games.solve(games.classic("rock_paper_scissors")).profile, 1 / 3)  # type: ignore[union-attr]


def test_a_game_too_large_for_a_tree_is_measured_by_its_positions() -> None:
    hex_game = games.merged("dark_hex", {"rows": 2, "columns": 2})
    even = [views.legal / views.legal.sum(axis=1, keepdims=True) for views in hex_game.positions.views]
    assert hex_game.measure(even).nash_conv == pytest.approx(1.25)


def test_the_tree_of_kuhn_poker_has_its_value() -> None:
    kuhn = games.tree("kuhn_poker")
    assert np.allclose(games.solve(kuhn).values, [-1 / 18, 1 / 18])
    near = games.cfr(kuhn, 500)
    assert games.nash_conv(kuhn, near.strategy) == pytest.approx(near.nash_conv)
    assert 0 < near.nash_conv < 0.01


def test_runs_are_measured_played_against_each_other_ranked_and_reported(tmp_path: Path) -> None:
    config = {"train_batch_size": 16, "fcnet_hiddens": [4], "env_config": {"game": "rock_paper_scissors"}}
    folders = []
    for seed in (0, 1):
        with marl.Trainer("ppo", env="matrix_game", config={**config, "seed": seed}) as trainer:
            folders.append(str(trainer.save(tmp_path / f"run_{seed}")))
    measured = games.exploitability(folders[0], method="exact")
    assert measured.bound == "exact"
    assert measured.nash_conv >= 0
    table = games.cross_play([*folders, "random"], episodes=10)
    assert len(games.rank(table).names) == 3
    assert len(games.rank(table, "nash_average").names) == 3
    with pytest.raises(UnknownNameError, match=r"unknown ranking 'alfa_rank'.*alpha_rank"):
        games.rank(table, "alfa_rank")
    page = games.report("matrix_game", folders, config["env_config"], tmp_path / "report", episodes=10)  # type: ignore[arg-type]
    assert (tmp_path / "report" / "report.html").exists()
    assert "run_0" in page.text


def test_what_is_no_game_is_refused() -> None:
    with pytest.raises(ConfigError, match="expected a game, got a str"):
        games.solve("kuhn_poker")  # type: ignore[arg-type]


def test_positions_of_a_board_are_solved() -> None:
    nim = games.positions("nim", {"piles": [1, 2, 3]})
    assert games.solve(nim).values.tolist() == [-1.0, 1.0]  # type: ignore[union-attr]
    assert games.perfect_play("nim", {"piles": [1, 2]}).values.tolist() == [1.0, -1.0]


def test_mirror_descent_settles_on_trees_and_over_views() -> None:
    on_tree = games.mirror_descent(games.tree("kuhn_poker"), 300)
    over_views = games.view_descent(games.positions("kuhn_poker"), 300).measure()
    assert on_tree.last is not None
    assert 0 < on_tree.last.nash_conv < 0.1  # 11/12 at first
    # Views of Kuhn poker tell all that a player has seen and done, so it is the same descent.
    assert over_views.last.nash_conv == pytest.approx(on_tree.last.nash_conv, abs=1e-12)
