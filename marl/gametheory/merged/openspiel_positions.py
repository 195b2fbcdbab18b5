"""Positions of an OpenSpiel game, straight from its states, with chance where it comes up.

OpenSpiel has no test of equality for states, so they are compared by all that they show: their text, what every player may
see (both tensors) and do, and who is asked. That is enough where the text tells the whole state, as OpenSpiel's own solvers
take for granted. It is checked as for dict envs: some of the states that were found equal are played on in both ways.
Players see what they see in the env ``openspiel:NAME``, so policies that were trained there can be measured here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from marl.data.task import AgentType, Array, Bools
from marl.errors import ConfigError
from marl.gametheory.merged.dict_positions import TWINS
from marl.gametheory.merged.positions import Positions, Views
from marl.gametheory.merged.rows import as_bytes, distinct
from marl.gametheory.tree.builder import TooLargeError
from marl.gametheory.tree.tree import Reals

NEW_TWINS = 0.05  # share of repeated states that are played on


def openspiel_positions(game: Any, name: str, kinds: tuple[AgentType, ...], max_positions: int) -> Positions:
    """All positions of ``game``, an object of pyspiel; ``kinds`` are the players of its env."""
    walk = _Walk(game, name, kinds, max_positions)
    walk.begin()
    while walk.level:
        walk.next_level()
    return walk.finish()


@dataclass
class _Seen:
    """What one player sees, position by position: rows of where it is asked."""

    obs: list[Array] = field(default_factory=list)
    legal: list[Bools] = field(default_factory=list)
    position: list[int] = field(default_factory=list)


class _Walk:
    """Level by level; ``level`` are the states of the newest one, by their keys."""

    def __init__(self, game: Any, name: str, kinds: tuple[AgentType, ...], max_positions: int) -> None:
        self.game, self.name, self.kinds, self.max_positions = game, name, kinds, max_positions
        self.num_players, self.num_actions = game.num_players(), game.num_distinct_actions()
        kind = game.get_type()
        self.informed = bool(kind.provides_information_state_tensor)
        self.observed = bool(kind.provides_observation_tensor)
        self.rng, self.twins = np.random.default_rng(0), 0
        self.level: dict[bytes, tuple[int, Any]] = {}
        self.depth: list[int] = []
        self.over: list[bool] = []
        self.seen = [_Seen() for _ in range(self.num_players)]
        self.edges: list[tuple[int, int, list[int], Reals, float]] = []
        self.start: list[tuple[int, float]] = []
        self.has_chance = False

    # -- states ----------------------------------------------------------------------------------------------------

    def asked(self, state: Any) -> list[int]:
        """Players who decide now."""
        if state.is_terminal():
            return []
        if not state.is_simultaneous_node():
            return [int(state.current_player())]
        return [player for player in range(self.num_players) if state.legal_actions(player)]

    def tensor(self, state: Any, player: int) -> Array:
        """What the env shows."""
        if self.informed:
            return np.array(state.information_state_tensor(player), np.float32)
        return np.array(state.observation_tensor(player), np.float32)

    def key(self, state: Any) -> bytes:
        """All that a state shows; states that are over are one, because nothing follows from them."""
        if state.is_terminal():
            return b"over"
        parts = [str(state).encode(), repr(self.asked(state)).encode()]
        for player in range(self.num_players):
            parts += [self.tensor(state, player).tobytes(), repr(state.legal_actions(player)).encode()]
            if self.observed:
                parts.append(np.array(state.observation_tensor(player), np.float32).tobytes())
        return b"\0".join(parts)

    def after_chance(self, state: Any, probability: float = 1.0) -> list[tuple[Any, float]]:
        """The states in which somebody is asked, or the game is over, with their probabilities."""
        if not state.is_chance_node():
            return [(state, probability)]
        self.has_chance = True
        found: list[tuple[Any, float]] = []
        for outcome, chance in state.chance_outcomes():
            found += self.after_chance(state.child(outcome), probability * chance)
        return found

    def played(self, state: Any, asked: list[int], actions: tuple[int, ...]) -> Any:
        if not state.is_simultaneous_node():
            return state.child(actions[0])
        # A player without a legal action chose nothing, but needs a number in the list.
        chosen = dict(zip(asked, actions, strict=True))
        following = state.clone()
        following.apply_actions([chosen.get(player, 0) for player in range(self.num_players)])
        return following

    # -- growing ---------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for state, probability in self.after_chance(self.game.new_initial_state()):
            self.start.append((self._place(self.level, state, 0), probability))

    def next_level(self) -> None:
        above, self.level = self.level, {}
        for position, state in above.values():
            asked = self.asked(state)
            if not asked:
                continue
            before = np.array(state.returns())
            for actions in product(*(state.legal_actions(player) for player in asked)):
                row = [-1] * self.num_players
                for player, action in zip(asked, actions, strict=True):
                    row[player] = action
                for following, probability in self.after_chance(self.played(state, asked, actions)):
                    target = self._place(self.level, following, self.depth[position] + 1)
                    paid = np.array(following.returns()) - before
                    self.edges.append((position, target, row, paid, probability))

    def _place(self, level: dict[bytes, tuple[int, Any]], state: Any, depth: int) -> int:
        """The number of a state's position, new or known."""
        key = self.key(state)
        if key in level:
            number, known = level[key]
            self._check_equal(known, state)
            return number
        number = len(self.depth)
        if number >= self.max_positions:
            raise TooLargeError(
                f"{self.name!r} has more than max_positions = {self.max_positions:,} positions. Raise max_positions, take a "
                "smaller version of the game, or estimate exploitability by trained best responses."
            )
        level[key] = (number, state)
        self.depth.append(depth)
        self.over.append(bool(state.is_terminal()))
        for player in self.asked(state):
            mask = np.zeros(self.num_actions, bool)
            mask[state.legal_actions(player)] = True
            self.seen[player].obs.append(self.tensor(state, player))
            self.seen[player].legal.append(mask)
            self.seen[player].position.append(number)
        return number

    def _check_equal(self, one: Any, other: Any) -> None:
        """Now and then: play one random course from both states."""
        if one.is_terminal() or self.twins >= TWINS or self.rng.random() > NEW_TWINS:
            return
        self.twins += 1
        one, other = one.clone(), other.clone()
        first, second = np.array(one.returns()), np.array(other.returns())
        while not one.is_terminal():
            if one.is_chance_node():
                action = int(self.rng.choice([outcome for outcome, _ in one.chance_outcomes()]))
                one, other = one.child(action), other.child(action)
            else:
                asked = self.asked(one)
                actions = tuple(int(self.rng.choice(one.legal_actions(player))) for player in asked)
                one, other = self.played(one, asked, actions), self.played(other, asked, actions)
            gone = np.array(one.returns()) - first - (np.array(other.returns()) - second)
            if np.abs(gone).max() > 1e-9 or not self._shows_the_same(one, other):
                raise ConfigError(
                    f"game {self.name!r}: two states that show the same went on differently after the same actions, so what "
                    "they show is not all of them, and equal positions cannot be found. Build a tree, which compares nothing."
                )

    def _shows_the_same(self, one: Any, other: Any) -> bool:
        if one.is_chance_node() or other.is_chance_node():
            return bool(one.is_chance_node() and other.is_chance_node())
        return self.key(one) == self.key(other)

    # -- the finished graph ----------------------------------------------------------------------------------------

    def finish(self) -> Positions:
        count, players = len(self.depth), self.num_players
        view = np.full((count, players), -1, np.int64)
        views = []
        for player, seen in enumerate(self.seen):
            width = self.kinds[0].obs_width
            obs = np.array(seen.obs, np.float32).reshape(-1, width)
            legal = np.array(seen.legal, bool).reshape(-1, self.num_actions)
            places, number = distinct(as_bytes([obs, legal]))
            view[np.array(seen.position, np.int64), player] = number
            views.append(Views(obs[places], legal[places]))
        source, target, actions, rewards, probability = zip(*self.edges, strict=True) if self.edges else ([],) * 5
        return Positions(
            name=self.name, players=tuple(f"player_{player}" for player in range(players)), kinds=self.kinds,
            chance="exact" if self.has_chance else "none", sample=None,
            level=np.array(self.depth, np.int64), over=np.array(self.over, bool), asked=view >= 0, view=view,
            views=tuple(views), start=np.array([place for place, _ in self.start], np.int64),
            start_probability=np.array([chance for _, chance in self.start]),
            source=np.array(source, np.int64), target=np.array(target, np.int64),
            actions=np.array(actions, np.int64).reshape(-1, players),
            rewards=np.array(rewards, np.float64).reshape(-1, players),
            probability=np.array(probability, np.float64),
        )  # fmt: skip
