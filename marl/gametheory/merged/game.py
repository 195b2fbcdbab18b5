"""Exact exploitability of games that are too large for a tree (docs/games/merged.md).

>>> game = merge_game("phantom_ttt")
>>> game.measure({"player_0": policy, "player_1": policy}).nash_conv
>>> value, response = game.best_response({"player_0": policy, "player_1": policy}, 0)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from marl.envs.registry import EnvCreator
from marl.errors import ConfigError
from marl.gametheory.merged.blocks import Blocks
from marl.gametheory.merged.cost import Cost, cost_of, total
from marl.gametheory.merged.kernel import Table, expected_values, fold
from marl.gametheory.merged.layers import Layers
from marl.gametheory.merged.memory import Remembered, drawn_games, with_memories
from marl.gametheory.merged.positions import MAX_POSITIONS, Positions, positions_of
from marl.gametheory.merged.response import best_response
from marl.gametheory.merged.sampled import gain_errors, spans_of, with_shares
from marl.gametheory.merged.views import check_tables, tables_of
from marl.gametheory.merged.walk import BUDGET, Walk
from marl.gametheory.tree.tree import Reals
from marl.policies.policy import Policy
from marl.policies.tabular import TabularPolicy

Play: TypeAlias = Mapping[str, Policy] | Sequence[Table]
"""How all play: policies by player's name, or a table ``[views, actions]`` per player."""


@dataclass(frozen=True, eq=False)
class Measured:
    """What play earns and what best responses to it would."""

    values: Reals  # [P] what each player earns
    best: Reals  # [P] what each would earn by its best response to the others
    cost: Cost  # what was walked for it
    errors: Reals  # [P] standard errors of the gains; 0 where chance is exact
    total_error: float  # of NashConv

    @property
    def gains(self) -> Reals:
        """What each player could gain ``[P]``; never below 0 but for rounding."""
        return np.asarray(self.best - self.values)

    @property
    def nash_conv(self) -> float:
        """0 exactly in a Nash equilibrium."""
        return float(self.gains.sum())


class MergedGame:
    """A game by its distinct positions."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions

    def tables(self, policies: Mapping[str, Policy], explore: bool | None = None) -> list[Table]:
        """Per player the chances ``[views, actions]`` of its actions; refuses policies with a memory."""
        return tables_of(self.positions, policies, explore)

    def cost(self, play: Play, player: int | str | None = None, *, budget: int = BUDGET) -> Cost:
        """What the best response of one player, or of all, costs: known before it is walked."""
        players = range(self.positions.num_players) if player is None else (self.positions.player_index(player),)
        found = [self._cost(self.played(play, None, each), each, budget) for each in players]
        return total(found)

    def measure(
        self, play: Play, *, budget: int = BUDGET, limit: float | None = None, explore: bool | None = None
    ) -> Measured:
        """Exact values and best responses. Refuses what would take more than ``limit`` seconds by estimate.

        ``budget`` cells of a level are walked at once: more is not faster, less takes less memory.
        """
        draws = self._drawn(play, explore)
        if len(draws) == 1 and draws[0][1].positions is self.positions:
            play = draws[0][1].tables  # nobody remembers anything, so nobody needs to be asked again
        games = [self.played(play, explore, player) for player in range(self.positions.num_players)]
        if limit is not None:
            costs = [self._cost(game, player, budget) for player, game in enumerate(games)]
            self._check(total(costs), limit)
        best, costs = [], []
        for player, game in enumerate(games):
            blocks = _blocks(game, player)
            costs.append(cost_of(blocks, game.positions.num_open, budget))
            best.append(Walk(blocks, budget).best_value())
        values = sum(
            (chance * expected_values(*drawn) for chance, drawn in draws), np.zeros(self.positions.num_players)
        )
        cost, gains, spans = total(costs), np.array(best) - values, partial(spans_of, self.positions)
        errors = gain_errors(self.positions, gains, partial(_gains_at, draws, games, budget), spans, cost.seconds)
        return Measured(values, np.array(best), cost, *errors)

    def best_response(
        self, play: Play, player: int | str, *, budget: int = BUDGET, explore: bool | None = None
    ) -> tuple[float, TabularPolicy]:
        """The most that the player, by number or name, can earn against the others, and a policy that earns it."""
        player = self.positions.player_index(player)
        game = self.played(play, explore, player)
        return best_response(Walk(_blocks(game, player), budget), game.positions, player)

    def best_value(self, play: Play, player: int | str, *, budget: int = BUDGET, explore: bool | None = None) -> float:
        """The same without the policy, which may be too large to be kept."""
        player = self.positions.player_index(player)
        game = self.played(play, explore, player)
        return Walk(_blocks(game, player), budget).best_value()

    def played(self, play: Play, explore: bool | None = None, exploiter: int | None = None) -> Remembered:
        """The game as all, or all but the ``exploiter``, play it: what they remember is part of its positions."""
        if isinstance(play, Mapping):
            return with_memories(self.positions, play, explore=explore, exploiter=exploiter)
        check_tables(self.positions, play, exploiter)
        return Remembered(self.positions, tuple(play))

    def _drawn(self, play: Play, explore: bool | None) -> list[tuple[float, Remembered]]:
        """The game as all play it, for every draw of members of mixtures."""
        if isinstance(play, Mapping):
            return drawn_games(self.positions, play, explore=explore)
        return [(1.0, self.played(play))]

    def _cost(self, game: Remembered, player: int, budget: int) -> Cost:
        return cost_of(_blocks(game, player), game.positions.num_open, budget)

    def _check(self, cost: Cost, limit: float) -> None:
        if cost.seconds > limit:
            raise ConfigError(
                f"game {self.positions.name!r}: an exact best response of every player takes {cost.text}, more than the limit "
                f"of {limit:g} s. Raise the limit, take a smaller version of the game, or measure by trained best responses."
            )


def _gains_at(
    draws: Sequence[tuple[float, Remembered]], games: Sequence[Remembered], budget: int, shares: Reals
) -> Reals:
    """What each player could gain ``[P]`` if the starts had other shares."""
    values = np.zeros(len(games))
    for chance, drawn in draws:
        values += chance * expected_values(with_shares(drawn.positions, shares), drawn.tables)
    best = []
    for player, game in enumerate(games):
        other = Remembered(with_shares(game.positions, shares), game.tables)
        best.append(Walk(_blocks(other, player), budget).best_value())
    return np.array(best) - values


def _blocks(game: Remembered, player: int) -> Blocks:
    return Blocks(Layers(fold(game.positions, game.tables, player)))


def merge_game(
    env: str | EnvCreator,
    env_config: Mapping[str, Any] | None = None,
    *,
    chance_samples: int | None = None,
    max_positions: int = MAX_POSITIONS,
) -> MergedGame:
    """The game of an env, by its distinct positions (``positions_of``)."""
    return MergedGame(positions_of(env, env_config, chance_samples=chance_samples, max_positions=max_positions))
