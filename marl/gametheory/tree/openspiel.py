"""The tree of an OpenSpiel game, straight from its states, with chance moves where they come up.

Players see their information-state tensor where the game has one, else their observation tensor, as in the env
``openspiel:NAME``, so policies trained there can be read on this tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentType, Array, number_seats
from marl.envs.adapters.optional import need
from marl.errors import ConfigError
from marl.gametheory.tree.builder import Asked, Growth
from marl.gametheory.tree.tree import Tree

MAX_NODES = 2_000_000


@dataclass(slots=True)
class Spot:
    """A node that is not expanded: ``moves`` are actions of a simultaneous move that are already chosen, by player."""

    state: Any
    node: int
    last: tuple[int, ...]
    moves: dict[int, int] = field(default_factory=dict)


def tree_from_openspiel(
    game: Any, *, max_nodes: int = MAX_NODES, labels: Sequence[Sequence[str]] | None = None
) -> Tree:
    """The tree of ``game``: an object of pyspiel, or a name with parameters such as ``leduc_poker``.

    ``labels[player][action]`` name the actions; without them they are called as OpenSpiel calls them.
    """
    pyspiel = need("pyspiel", "openspiel")
    if isinstance(game, str):
        game = _load(pyspiel, game)
    return _Walk(pyspiel, game, max_nodes).grow(labels)


def _load(pyspiel: Any, name: str) -> Any:
    try:
        return pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise ConfigError(f"OpenSpiel cannot load the game {name!r}: {error} Give a registered name.") from error


class _Walk:
    """Level by level through the states of a game."""

    def __init__(self, pyspiel: Any, game: Any, max_nodes: int) -> None:
        self.game, kind = game, game.get_type()
        self.informed = bool(kind.provides_information_state_tensor)
        hidden = kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC
        mean_field = kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD
        if hidden or mean_field or not (self.informed or kind.provides_observation_tensor):
            raise ConfigError(
                f"game {game} cannot be made a tree: it draws chance inside, is a mean-field game, or shows no tensors. Take "
                "a game with explicit chance and information states or observations."
            )
        self.players = tuple(f"player_{i}" for i in range(game.num_players()))
        self.growth = Growth(f"openspiel:{game}", self.players, max_nodes)
        self.names: list[dict[int, str]] = [{} for _ in self.players]
        self.has_chance = False

    def grow(self, labels: Sequence[Sequence[str]] | None) -> Tree:
        root = self.growth.add(np.array([-1]), np.zeros(1, np.int64))
        first = self.growth.add(root, np.zeros(1, np.int64))
        level = [Spot(self.game.new_initial_state(), int(first[0]), (-1,) * len(self.players))]
        while level:
            level = self._below(level)
        if not labels:
            labels = [self._labels(names) for names in self.names]
        return self.growth.finish("exact" if self.has_chance else "none", self._kinds(), labels)

    def _labels(self, names: dict[int, str]) -> list[str]:
        """Of all actions of a player; one that never was legal is called by its number."""
        actions = range(self.game.num_distinct_actions())
        return [names.get(action, str(action)) for action in actions]

    def _kinds(self) -> tuple[AgentType, ...]:
        """All players are alike to OpenSpiel, which gives every game one shape of tensors and one number of actions."""
        width = self.game.information_state_tensor_size() if self.informed else self.game.observation_tensor_size()
        seen = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        moves = spaces.Discrete(self.game.num_distinct_actions())
        return number_seats([AgentType("player", self.players, seen, moves, True)])

    def _below(self, level: list[Spot]) -> list[Spot]:
        """The spots below a level: ends are closed, chance and players are asked."""
        found: list[Spot] = []
        asked: list[list[Spot]] = [[] for _ in self.players]
        for spot in level:
            if spot.state.is_terminal():
                self.growth.end(np.array([spot.node]), np.array([spot.state.returns()]))
            elif spot.state.is_chance_node():
                found += self._chance(spot)
            else:
                asked[self._next_player(spot)].append(spot)
        for player, spots in enumerate(asked):
            if spots:
                found += self._decisions(player, spots)
        return found

    def _next_player(self, spot: Spot) -> int:
        """Who is asked. Players of a simultaneous move are asked one after the other, and do not see what was chosen."""
        if not spot.state.is_simultaneous_node():
            return int(spot.state.current_player())
        return self._still_to_move(spot.state, spot.moves)[0]

    def _still_to_move(self, state: Any, moves: dict[int, int]) -> list[int]:
        """Those who have not chosen yet; a player without a legal action is not asked."""
        players = range(len(self.players))
        return [player for player in players if player not in moves and state.legal_actions(player)]

    def _chance(self, spot: Spot) -> list[Spot]:
        self.has_chance = True
        outcomes = spot.state.chance_outcomes()
        parent = np.full(len(outcomes), spot.node)
        chances = np.array([chance for _, chance in outcomes])
        nodes = self.growth.add(parent, np.arange(len(outcomes)), chances)
        found = []
        for node, (outcome, _) in zip(nodes.tolist(), outcomes, strict=True):
            found.append(Spot(spot.state.child(outcome), node, spot.last))
        return found

    def _decisions(self, player: int, spots: list[Spot]) -> list[Spot]:
        legal = np.zeros((len(spots), self.game.num_distinct_actions()), bool)
        for row, spot in enumerate(spots):
            actions = spot.state.legal_actions(player)
            legal[row, actions] = True
            # Names are asked for once: OpenSpiel makes them anew at every call.
            for action in set(actions) - self.names[player].keys():
                self.names[player][action] = spot.state.action_to_string(player, action)
        nodes = np.array([spot.node for spot in spots])
        last = np.array([spot.last[player] for spot in spots])
        obs = np.stack([self._tensor(spot.state, player) for spot in spots])
        offer = self.growth.decide(Asked(nodes, player, last, obs, legal))
        found = []
        columns = (offer.nodes, offer.rows, offer.action, offer.choice)
        for node, row, action, choice in zip(*(column.tolist() for column in columns), strict=True):
            found.append(self._after(spots[row], player, node, action, choice))
        return found

    def _after(self, spot: Spot, player: int, node: int, action: int, choice: int) -> Spot:
        last = (*spot.last[:player], choice, *spot.last[player + 1 :])
        if not spot.state.is_simultaneous_node():
            return Spot(spot.state.child(action), node, last)
        moves = {**spot.moves, player: action}
        if self._still_to_move(spot.state, moves):
            return Spot(spot.state, node, last, moves)
        state = spot.state.clone()
        # A player without a legal action chose nothing, but needs a number in the list.
        state.apply_actions([moves.get(each, 0) for each in range(len(self.players))])
        return Spot(state, node, last)

    def _tensor(self, state: Any, player: int) -> Array:
        numbers = state.information_state_tensor(player) if self.informed else state.observation_tensor(player)
        return np.array(numbers, np.float32)
