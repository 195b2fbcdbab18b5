"""What is true about the two-step game: its states, what every pair of actions is worth in them, and what play earns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Array, Floats
from marl.envs.batched import StepOutput
from marl.envs.games.two_step import TwoStepGames

Table: TypeAlias = list[list[float]]
"""By the action of the first agent and that of the second."""
STATES = ("first", "safe", "risky")
OPTIONS = 2


@dataclass(frozen=True)
class Situation:
    """What both agents see in a state ``[2, width]``, and the state itself."""

    obs: Array
    state: Floats


def situations(env_config: Mapping[str, Any]) -> dict[str, Situation]:
    """The three states, seen by playing into either branch."""
    games = TwoStepGames(2, env_config)
    first = games.reset(np.arange(2), np.zeros(2, np.int64))
    seen = {"first": Situation(first.obs[0][0].copy(), first.state[0].copy())}
    branches = games.step([np.array([[0, 0], [1, 0]])])  # the first agent picks the branch
    for env_id, name in enumerate(STATES[1:]):
        seen[name] = Situation(branches.obs[0][env_id].copy(), branches.state[env_id].copy())
    return seen


def true_values(env_config: Mapping[str, Any], gamma: float) -> dict[str, Table]:
    """What every pair of actions is worth to a team that plays its best afterwards: backward induction.

    The env itself is asked: all 16 courses of the game are played, and their last steps come first.
    """
    firsts, seconds = np.indices((4, 4)).reshape(2, -1)
    games = TwoStepGames(16, env_config)
    games.reset(np.arange(16), np.zeros(16, np.int64))
    after_first = games.step([_pairs(firsts)])
    paid, reached = _team(after_first), after_first.state.argmax(axis=1)
    last = _team(games.step([_pairs(seconds)]))
    values = {}
    for number, name in enumerate(STATES[1:], start=1):
        # Every branch is reached by several first moves, after which its pairs pay the same.
        course = int(firsts[reached == number][0])
        values[name] = last[firsts == course].reshape(OPTIONS, OPTIONS)
    first = np.zeros(4)
    for move in range(4):
        course = 4 * move  # the first of the courses that begin with this move
        following = values[STATES[reached[course]]]
        first[move] = paid[course] + gamma * following.max()
    values["first"] = first.reshape(OPTIONS, OPTIONS)
    return {name: values[name].tolist() for name in STATES}


def best_return(env_config: Mapping[str, Any]) -> float:
    """The most that a team can earn, without discount."""
    return max(map(_highest, true_values(env_config, gamma=1.0).values()))


def _highest(table: Table) -> float:
    return max(map(max, table))


def _team(output: StepOutput) -> NDArray[np.float64]:
    """What the two earn together in every copy."""
    earned: NDArray[np.float64] = output.rewards.astype(np.float64).sum(axis=1)
    return earned


def _pairs(numbers: Array) -> Array:
    """Pairs of actions by their numbers, 0 to 3."""
    return np.stack([numbers // OPTIONS, numbers % OPTIONS], axis=1)


def greedy_return(env_config: Mapping[str, Any], greedy: Mapping[str, list[int]]) -> float:
    """What the team earns by these pairs, without discount."""
    game = TwoStepGames(1, env_config)
    view = game.reset(np.arange(1), np.zeros(1, np.int64))
    total = 0.0
    for _ in range(2):
        here = STATES[int(view.state[0].argmax())]
        view = game.step([np.array([greedy[here]])])
        total += float(_team(view)[0])
    return total
