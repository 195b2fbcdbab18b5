"""Games by name, random games, and the game behind a matrix env.

The tables of the built-in matrix envs are read from there; two games that nobody trains on stand here: Shapley's game,
in which fictitious play goes round for ever, and Aumann's chicken, in which a mediator helps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import ValidationError

from marl.config import explain
from marl.envs.games.matrix import CLASSICS, PENALTY, MatrixConfig, MatrixGames, classic
from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.game import MatrixGame, Payoffs

EXTRA: dict[str, tuple[tuple[str, ...], list[list[list[float]]]]] = {
    "shapley": (
        ("a", "b", "c"),
        [[[1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 0, 1], [1, 0, 0]]],
    ),
    "aumann_chicken": (("swerve", "straight"), [[[6, 2], [7, 0]], [[6, 7], [2, 0]]]),
}
NAMES: tuple[str, ...] = (*CLASSICS, *EXTRA)
"""What `classic_game` knows."""


def classic_game(name: str, penalty: float = PENALTY) -> MatrixGame:
    """A two-player game of the literature. ``penalty`` is k of the penalty game and belongs to no other."""
    if name not in NAMES:
        raise UnknownNameError(f"no game is called {name!r}.{did_you_mean(name, NAMES)} Known: {', '.join(NAMES)}.")
    if penalty != PENALTY and name != "penalty":
        raise ConfigError(f"penalty={penalty} was given for the game {name!r}; only the game 'penalty' has one.")
    if name in EXTRA:
        actions, tables = EXTRA[name]
        return MatrixGame(np.array(tables, np.float64), (actions, actions), name=name)
    payoffs, names = classic(name, penalty)
    return MatrixGame(payoffs, names, name=name)


def game_of(env_config: Mapping[str, Any]) -> MatrixGame:
    """The game that one round of the env ``matrix_game`` with this ``env_config`` plays."""
    try:
        env = MatrixGames(1, env_config)
    except ValidationError as error:
        raise explain(error, "env_config of matrix_game", MatrixConfig.model_fields) from None
    name = "own table" if env.config.payoffs else env.config.game
    return MatrixGame(env.payoffs, env.actions, name=name)


def random_game(
    shape: Sequence[int], rng: np.random.Generator | int, zero_sum: bool = False, symmetric: bool = False
) -> MatrixGame:
    """Payoffs drawn from a normal distribution; ``shape`` has the number of actions of every player.

    ``zero_sum``: what all get adds up to 0 in every cell. ``symmetric``: players can be exchanged, which asks for equally
    many actions each. ``rng`` may be a seed.
    """
    rng = np.random.default_rng(rng)
    counts = tuple(shape)
    if not counts or min(counts) < 1:
        raise ConfigError(
            f"random_game: shape {counts}; expected the number of actions of every player, each at least 1."
        )
    if symmetric and len(set(counts)) > 1:
        raise ConfigError(f"random_game: a symmetric game has equally many actions for every player, got {counts}.")
    if zero_sum and len(counts) < 2:
        raise ConfigError("random_game: a zero-sum game needs two players or more.")
    payoffs = _exchangeable(counts, rng) if symmetric else rng.standard_normal((len(counts), *counts))
    if zero_sum:  # by taking the same from everybody, which keeps a symmetric game symmetric
        payoffs = payoffs - payoffs.mean(axis=0)
    return MatrixGame(payoffs, name="random game")


def _exchangeable(counts: tuple[int, ...], rng: np.random.Generator) -> Payoffs:
    """What a player gets depends on its own action and on how many of the others play which, not on who is who."""
    table = rng.standard_normal(counts)
    joint = np.indices(counts)
    seats = []
    for player in range(len(counts)):
        # In order of their actions, so that who of them plays which does not matter.
        others = np.sort(np.delete(joint, player, axis=0), axis=0)
        seats.append(table[(joint[player], *others)])
    return np.stack(seats)
