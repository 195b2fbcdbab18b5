"""What the proofs of intrinsic rewards say about luck."""

from __future__ import annotations

import numpy as np
import pytest

from marl.envs.games.windy_maze import WALKER, WindyMaze
from marl.scenario.load import load_scenario
from proofs.__main__ import ROOT
from proofs.declaration import Places, read_proofs
from tests.envs.games.maze_luck import luck

PLACES = Places(ROOT)
PROOFS = {proof.name: proof for proof in read_proofs(PLACES)}


def test_the_computed_luck_is_the_share_of_random_episodes_that_find_the_exit() -> None:
    maze = WindyMaze({"rooms": [1, 2], "room_size": 3, "limit": 30, "wind": 0.0})
    rng = np.random.default_rng(0)
    found = 0.0
    for episode in range(2000):
        maze.reset(seed=episode)
        for move in rng.integers(5, size=30):
            _, rewards, ended, _, _ = maze.step({WALKER: int(move)})
            found += rewards[WALKER]
            if ended[WALKER]:
                break
    assert luck(maze) == pytest.approx(0.126, abs=0.001)
    assert found / 2000 == pytest.approx(luck(maze), abs=0.03)  # four deviations


def test_two_steps_that_must_both_be_right_are_found_once_in_twenty_five_times() -> None:
    assert luck(WindyMaze({"map": ["#####", "#S.E#", "#####"], "wind": 0, "limit": 2})) == pytest.approx(1 / 25)


@pytest.mark.parametrize(("name", "one_in"), [("maze_rnd", 2_500_000), ("maze_count", 2_500_000)])
def test_random_walks_hardly_ever_find_the_exit_of_a_maze_that_bonuses_are_proven_in(name: str, one_in: int) -> None:
    proof = PROOFS[name]
    maze = WindyMaze(load_scenario(ROOT / "scenarios" / f"{proof.scenario}.yaml").env_config)
    assert 1 / luck(maze) == pytest.approx(one_in, rel=0.05)
    episodes = proof.budget / maze.config.limit  # at least: one that finds the exit is shorter
    assert episodes * luck(maze) < 0.01
