"""The scripted prey of tag runs away from adversaries, stays on the plane, and is far harder to catch than one that waits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from marl.data.task import Array, Floats
from marl.envs.games.particles.scripted_prey import WIDTH, flee
from marl.envs.games.particles.tag import TagGames
from marl.errors import ConfigError

NOTHING, LEFT, RIGHT, DOWN, UP = range(5)
FAR = (5.0, 5.0)


def seen(
    *adversaries: tuple[float, float], position: tuple[float, float] = (0, 0), velocity: tuple[float, float] = (0, 0)
) -> Floats:
    """What the prey sees of adversaries here and there; obstacles, and adversaries that are not given, are far away."""
    others = [FAR, FAR, *adversaries, *[FAR] * (3 - len(adversaries))]
    return np.array([velocity, position, *others], np.float32).reshape(-1)


@pytest.mark.parametrize(
    ("adversary", "move"), [((-0.3, 0), RIGHT), ((0.3, 0), LEFT), ((0, 0.3), DOWN), ((0, -0.3), UP)]
)
def test_it_runs_away_from_an_adversary(adversary: tuple[float, float], move: int) -> None:
    assert flee(seen(adversary)) == move


def test_between_two_adversaries_it_leaves_sideways_and_in_a_ring_through_the_gap() -> None:
    assert flee(seen((-0.3, 0), (0.3, 0))) in (UP, DOWN)
    assert flee(seen((-0.3, 0), (0.3, 0), (0, 0.3))) == DOWN


def test_at_the_edge_it_runs_along_it_instead_of_out() -> None:
    assert flee(seen((-0.3, 0), position=(0.95, 0), velocity=(0.5, 0))) in (UP, DOWN)


def test_alone_outside_it_comes_back() -> None:
    assert flee(seen(position=(1.1, 0))) == LEFT
    assert flee(seen(position=(0, -1.1))) == UP


def test_rows_are_answered_as_one_by_one() -> None:
    rows = np.random.default_rng(0).normal(size=(200, WIDTH)).astype(np.float32)
    found = flee(rows)
    assert found.tolist() == [int(flee(row)) for row in rows]
    assert set(found.tolist()) == {NOTHING, LEFT, RIGHT, DOWN, UP}


def test_straight_chase_catches_a_prey_that_waits_ten_times_as_often() -> None:
    assert touches(lambda obs: int(flee(obs))) < 0.1 * touches(lambda obs: NOTHING)


def touches(prey: Callable[[Floats], int], games: int = 100) -> float:
    """How often three adversaries that head straight for the prey touch it, per episode."""
    env = TagGames(games, {})
    frame = env.reset(np.arange(games), np.arange(games))
    total = 0.0
    for _ in range(25):
        moves = np.array([[prey(obs[0])] for obs in frame.obs[1]])
        frame = env.step([chase(frame.obs[0]), moves])
        total += float(frame.rewards[:, 0].sum()) / 10
    return total / games


def chase(obs: Array) -> Array:
    """Along the longer of the two ways to the prey, which an adversary sees after two obstacles and two adversaries."""
    way = obs[..., 12:14]
    sideways = np.abs(way[..., 0]) > np.abs(way[..., 1])
    moves: Array = np.where(sideways, np.where(way[..., 0] < 0, LEFT, RIGHT), np.where(way[..., 1] < 0, DOWN, UP))
    return moves


def test_it_refuses_a_game_with_other_numbers_of_bodies() -> None:
    with pytest.raises(ConfigError, match=rf"shape \(16,\); expected \({WIDTH},\).*num_adversaries 3"):
        flee(np.zeros(16, np.float32))
