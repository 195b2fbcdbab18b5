"""Matrix games: all pick an action at the same time and a table says who is paid what; once or repeatedly.

A game is a classic by name, or a table in ``env_config``. For ``n`` players the table has one block per
player, each indexed by the actions of player 0, player 1, and so on: ``payoffs[player][a_0][a_1]...``. The
prisoner's dilemma::

    payoffs: [[[3, 0], [5, 1]], [[3, 5], [0, 1]]]
    actions: [[cooperate, defect], [cooperate, defect]]

With ``common: true`` the table is the reward of the whole team, ``payoffs[a_0][a_1]...``. Each player then
gets its share, the entry divided by the number of players, so that the rewards of a team add up to the
table. The climbing and the penalty game are of this kind. Tables of the classics stand in ``CLASSICS`` (row:
player 0, column: player 1).

In a repeated game every round is a step and the last round terminates the episode. All players see the same,
which is also the global state: a constant 1, or what ``observe`` and ``observe_round`` ask for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv
from marl.errors import ConfigError, UnknownNameError, did_you_mean

Payoffs: TypeAlias = NDArray[np.float64]
"""What each player gets: ``[players, actions of player 0, actions of player 1, ...]``."""
ActionNames: TypeAlias = tuple[tuple[str, ...], ...]
"""Names of the actions, per player."""
Game: TypeAlias = Literal[
    "prisoners_dilemma",
    "stag_hunt",
    "chicken",
    "battle_of_the_sexes",
    "matching_pennies",
    "rock_paper_scissors",
    "climbing",
    "penalty",
]
Rows: TypeAlias = list[list[float]]


@dataclass(frozen=True)
class Classic:
    """A two-player game of the literature: the table of each player, or one ``common`` table of the team."""

    actions: tuple[str, ...]
    tables: tuple[Rows, ...]
    common: bool = False


# The penalty game is written for k = 0; `classic` puts the penalty where the two players miss each other.
CLASSICS: dict[str, Classic] = {
    "prisoners_dilemma": Classic(("cooperate", "defect"), ([[3, 0], [5, 1]], [[3, 5], [0, 1]])),
    "stag_hunt": Classic(("stag", "hare"), ([[4, 1], [3, 2]], [[4, 3], [1, 2]])),
    "chicken": Classic(("swerve", "straight"), ([[0, -1], [1, -10]], [[0, 1], [-1, -10]])),
    "battle_of_the_sexes": Classic(("opera", "football"), ([[3, 0], [0, 2]], [[2, 0], [0, 3]])),
    "matching_pennies": Classic(("heads", "tails"), ([[1, -1], [-1, 1]], [[-1, 1], [1, -1]])),
    "rock_paper_scissors": Classic(
        ("rock", "paper", "scissors"),
        ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], [[0, 1, -1], [-1, 0, 1], [1, -1, 0]]),
    ),
    "climbing": Classic(("a", "b", "c"), ([[11, -30, 0], [-30, 7, 6], [0, 0, 5]],), common=True),
    "penalty": Classic(("a", "b", "c"), ([[0, 0, 10], [0, 2, 0], [10, 0, 0]],), common=True),
}
PENALTY = -10.0


class MatrixConfig(Config):
    """Keys of ``env_config``."""

    game: Game = Field("prisoners_dilemma", description="Name of a classic; not together with payoffs.")
    payoffs: list[Any] = Field([], description="Own table [player][a_0][a_1]..., or [a_0][a_1]... if common.")
    common: bool = Field(False, description="The own table is the team's reward; each player gets its share.")
    actions: list[list[str]] = Field([], description="Names of the actions of the own table, per player.")
    penalty: FiniteFloat = Field(PENALTY, description="k of the penalty game: [[k, 0, 10], [0, 2, 0], [10, 0, k]].")
    repetitions: PositiveInt = Field(1, description="Rounds per episode, one env step each.")
    observe: Literal["none", "last"] = Field(
        "none",
        description="In repeated games: nothing, or everybody's last action as one-hots (zeros at first).",
    )
    observe_round: bool = Field(False, description="In repeated games: also see the share of rounds played.")


def classic(name: str, penalty: float = PENALTY) -> tuple[Payoffs, ActionNames]:
    """Payoffs ``[players, ...]`` and action names of a game of the literature, by name.

    Common payoffs come as equal shares that add up to the team's table. ``penalty`` is k of the penalty game.
    """
    if name not in CLASSICS:
        raise UnknownNameError(
            f"no matrix game is called {name!r}.{did_you_mean(name, CLASSICS)} Known: {', '.join(CLASSICS)}. "
            "Own tables go into env_config.payoffs."
        )
    game = CLASSICS[name]
    tables = np.array(game.tables, np.float64)
    if name == "penalty":
        tables[0, 0, 0] = tables[0, 2, 2] = penalty
    names = (game.actions, game.actions)
    if game.common:
        return _shares(tables[0]), names
    return tables, names


def own_game(config: MatrixConfig) -> tuple[Payoffs, ActionNames]:
    """Payoffs ``[players, ...]`` and action names that the user wrote down; refuses what is not a game."""
    payoffs = _numbers(config.payoffs)
    if config.common:
        payoffs = _shares(payoffs)
    players, counts = payoffs.shape[0], payoffs.shape[1:]
    if len(counts) != players:
        raise ConfigError(
            f"payoffs have shape {payoffs.shape}: tables for {players} players, but indexed by the actions "
            f"of {len(counts)}. Expected [player][a_0][a_1]... with one axis per player; for one table of "
            "the whole team set common: true."
        )
    names: ActionNames = tuple(map(tuple, config.actions))
    if not names:
        names = tuple(tuple(map(str, range(count))) for count in counts)
    named = tuple(map(len, names))
    if named != counts:
        raise ConfigError(
            f"actions name {list(named)} actions, but the payoffs are for {list(counts)} actions "
            "per player. Expected one list of names per player, or leave actions out."
        )
    return payoffs, names


def _numbers(table: list[Any]) -> Payoffs:
    expected = "Expected nested lists of equal lengths with finite numbers: [player][a_0][a_1]..."
    try:
        payoffs = np.array(table, np.float64)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"payoffs are ragged or hold something that is no number: {table}. {expected}") from error
    if payoffs.size == 0 or not np.isfinite(payoffs).all():
        raise ConfigError(f"payoffs are empty, NaN or infinite in places: {table}. {expected}")
    return payoffs


def _shares(team: Payoffs) -> Payoffs:
    """Equal parts of the team's table, one per player (as many as the table has axes)."""
    return np.repeat(team[None] / team.ndim, team.ndim, axis=0)


def _chosen_game(config: MatrixConfig) -> tuple[Payoffs, ActionNames]:
    given = config.model_fields_set
    if config.payoffs and "game" in given:
        raise ConfigError(f"both game: {config.game} and payoffs are given. Leave one of them out.")
    if config.payoffs:
        return own_game(config)
    useless = sorted(given & {"common", "actions", "payoffs"})
    if useless:
        raise ConfigError(
            f"{', '.join(useless)} given without a table. Write the table into payoffs, or leave it out to "
            f"play the classic {config.game!r}."
        )
    return classic(config.game, config.penalty)


class MatrixGames(NativeEnv):
    """``num_envs`` copies of a matrix game. Players with equally many actions form one kind."""

    config_class = MatrixConfig

    name = "matrix_game"
    deterministic = True
    state_arrays = ("rounds", "last")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = MatrixConfig(**env_config)
        self.payoffs, self.actions = _chosen_game(self.config)
        counts = self.payoffs.shape[1:]
        repeated = self.config.repetitions > 1
        self.shows_last = repeated and self.config.observe == "last"
        self.shows_round = repeated and self.config.observe_round
        self.state_size = max(1, sum(counts) * self.shows_last + self.shows_round)
        players_with: dict[int, list[int]] = {}  # by their number of actions
        for player, count in enumerate(counts):
            players_with.setdefault(count, []).append(player)
        self.players = list(players_with.values())
        self.kinds = number_seats([self._kind(players) for players in self.players])
        self.player_at = np.concatenate(self.players)  # seats go by kind, tables by player
        self.first_column = np.cumsum((0, *counts[:-1]))  # of each player's one-hot in what all see
        self.rounds = np.zeros(num_envs, np.int64)
        self.last = np.zeros((num_envs, len(counts)), np.int64)

    def _kind(self, players: Sequence[int]) -> AgentType:
        count = self.payoffs.shape[1 + players[0]]
        name = "player" if len(self.players) == 1 else f"player_with_{count}_actions"
        agents = tuple(f"player_{player}" for player in players)
        seen = spaces.Box(0, 1, (self.state_size,), np.float32)
        return AgentType(name, agents, seen, spaces.Discrete(count))

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        del seeds  # nothing is random
        self.rounds[env_ids] = 0
        self.last[env_ids] = 0

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        return self.actions[int(agent.rsplit("_", 1)[1])]

    def _play(self, actions: Sequence[Array]) -> tuple[Array, Bools, Bools, Bools]:
        for players, chosen in zip(self.players, actions, strict=True):
            self.last[:, players] = chosen
        paid = self.payoffs[(slice(None), *self.last.T)]  # [players, E]: everybody's table at the joint action
        rewards = paid.T[:, self.player_at]
        self.rounds += 1
        over = self.rounds >= self.config.repetitions
        ended = np.repeat(over[:, None], rewards.shape[1], axis=1)
        return rewards, ended, np.zeros_like(ended), over

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        state = self._seen_by_all()
        obs = [np.repeat(state[:, None], kind.size, axis=1) for kind in self.kinds]
        legal = [np.ones((self.num_envs, kind.size, 0), bool) for kind in self.kinds]
        return obs, legal, np.ones((self.num_envs, len(self.player_at)), bool), state

    def _seen_by_all(self) -> Floats:
        if not (self.shows_last or self.shows_round):
            return np.ones((self.num_envs, 1), np.float32)
        state = np.zeros((self.num_envs, self.state_size), np.float32)
        if self.shows_last:
            played = np.flatnonzero(self.rounds > 0)  # before the first round there is no last action: zeros
            state[played[:, None], self.first_column + self.last[played]] = 1.0
        if self.shows_round:
            state[:, -1] = self.rounds / self.config.repetitions
        return state

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The payoffs and what was played last; a viewer who is not shown that sees its own action until the end."""
        rounds = int(self.rounds[env_id])
        players = [f"player_{player}" for player in range(len(self.actions))]
        played = self._seen_moves(env_id, players, viewer)
        places: dict[str, int] = {}
        if viewer in players:
            own = len(self.action_names(str(viewer)))
            places = {str(move): move for move in range(own)}
        return {
            "kind": "matrix",
            "text": f"{self._title()}, round {rounds} of {self.config.repetitions}. {self._told(players, played)}",
            "players": players,
            "moves": self.actions,
            "payoffs": self.payoffs.tolist(),
            "played": played,
            "round": rounds,
            "rounds": self.config.repetitions,
            "actions": places,
        }

    def _seen_moves(self, env_id: int, players: Sequence[AgentID], viewer: AgentID | None) -> list[int | None] | None:
        rounds = self.rounds[env_id]
        if rounds == 0:
            return None
        played: list[int | None] = self.last[env_id].tolist()
        secret = viewer is not None and not self.shows_last and rounds < self.config.repetitions
        if not secret:
            return played
        return [move if name == viewer else None for name, move in zip(players, played, strict=True)]

    def _title(self) -> str:
        if self.config.payoffs:
            return "Matrix game"
        return self.config.game.replace("_", " ").capitalize()

    def _told(self, players: Sequence[AgentID], played: Sequence[int | None] | None) -> str:
        if played is None:
            return "Nobody has played yet."
        moves: list[str] = []
        for name, move, names in zip(players, played, self.actions, strict=True):
            if move is not None:
                moves.append(f"{name} played {names[move]}")
        return f"{', '.join(moves)}."

    def render(self, env_id: int) -> str:
        """The table, one line per joint action, with an arrow at what was played last."""
        played: tuple[int, ...] = ()
        if self.rounds[env_id]:
            played = tuple(self.last[env_id])
        lines = [f"matrix game, round {self.rounds[env_id]} of {self.config.repetitions}"]
        for joint in np.ndindex(self.payoffs.shape[1:]):
            arrow = "->" if joint == played else "  "
            names = ", ".join(self.actions[player][action] for player, action in enumerate(joint))
            pay = ", ".join(f"{x:g}" for x in self.payoffs[(slice(None), *joint)])
            lines.append(f"{arrow} ({names}): {pay}")
        return "\n".join(lines)
