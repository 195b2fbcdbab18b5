"""Grows the graph of positions: level by level, all joint actions at once, and equal positions become one.

Two positions of a level are equal when the env's state, who is asked, and what these see and may do are equal. The state of
a native env is rows of arrays, so a level is compared as a table of bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints
from marl.envs.adapters.openspiel import OpenSpielEnv
from marl.envs.vector.vector_env import DictVector
from marl.gametheory.merged.dict_positions import ComparedCopy, compared_stage
from marl.gametheory.merged.openspiel_positions import openspiel_positions
from marl.gametheory.merged.positions import Positions, Views
from marl.gametheory.merged.rows import Bytes, as_bytes, distinct
from marl.gametheory.tree.build import check_players
from marl.gametheory.tree.builder import Mark, TooLargeError
from marl.gametheory.tree.chance import grow_all
from marl.gametheory.tree.env_walker import MakeEnv, Sight, Stage, States, joined
from marl.gametheory.tree.tree import ChanceMode, ChanceSample, Reals

STEPPED = 500_000  # edges that are played at once, so that a wide level does not take all memory


def grow_positions(make: MakeEnv, chance_samples: int | None, max_positions: int) -> Positions:
    """All positions of the env that ``make`` makes."""
    env = make(1)
    check_players(env.name, env.kinds, env.fixed_seats, chance_samples)
    inner = env.envs[0] if isinstance(env, DictVector) else None
    # OpenSpiel's states tell their chance moves with probabilities, which no reset seed does.
    if chance_samples is None and isinstance(inner, OpenSpielEnv):
        return openspiel_positions(inner.game, env.name, env.kinds, max_positions)
    growth = PositionGrowth(env.name, tuple(env.seat_names), env.kinds, max_positions)
    chance, sample = grow_all(growth, make, env, chance_samples)
    return growth.finish(chance, sample)


def state_keys(stage: Stage, states: States) -> Array:
    """What stored states are compared by ``[n, ...]``: arrays of a native env side by side, digests of any other."""
    if isinstance(stage, ComparedCopy):
        return stage.keys(states)
    return as_bytes([states[name] for name in sorted(states)])


@dataclass
class Level:
    """Different positions at one time."""

    key: Bytes  # [n, w]
    over: Bools  # [n]
    asked: Bools  # [n, P]
    obs: list[Array]  # per player: rows of the positions where it is asked
    legal: list[Bools]

    def part(self, places: Ints) -> Level:
        """Some of the positions."""
        obs, legal = [], []
        for player, mine in enumerate(self.asked.T):
            # Rows stand only where the player is asked: from places among positions to places among rows.
            rows = (np.cumsum(mine) - 1)[places[mine[places]]]
            obs.append(self.obs[player][rows])
            legal.append(self.legal[player][rows])
        return Level(self.key[places], self.over[places], self.asked[places], obs, legal)


def joined_levels(levels: Sequence[Level]) -> Level:
    """Positions of several levels, one after the other."""
    obs, legal = [], []
    for player in range(levels[0].asked.shape[1]):
        obs.append(np.concatenate([level.obs[player] for level in levels]))
        legal.append(np.concatenate([level.legal[player] for level in levels]))
    key = np.concatenate([level.key for level in levels])
    over = np.concatenate([level.over for level in levels])
    return Level(key, over, np.concatenate([level.asked for level in levels]), obs, legal)


@dataclass
class Edges:
    """From a level to the next; numbers of positions are within their levels."""

    source: Ints
    target: Ints
    actions: Ints
    rewards: Reals


@dataclass
class Chunk:
    """Everything that follows from some starts. The numbers of starts are ``first``, ``first + 1``, ..."""

    first: int
    start: Ints  # [S] within the first level
    probability: Reals  # [S]
    levels: list[Level] = field(default_factory=list)
    edges: list[Edges] = field(default_factory=list)
    signature: bytes = b""

    def level(self, number: int) -> Level:
        """One of its levels; an empty one below the last."""
        if number < len(self.levels):
            return self.levels[number]
        return self.levels[0].part(np.zeros(0, np.int64))


@dataclass
class PositionGrowth:
    """A graph that is not finished: a chunk for each time that ``begin`` was called. ``Growing`` of ``tree/chance.py``."""

    name: str
    players: tuple[str, ...]
    kinds: tuple[AgentType, ...]
    max_nodes: int
    size: int = 0
    on_trial: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    signature_of: dict[bytes, bytes] = field(default_factory=dict)  # by the key of a single start

    # -- growing ---------------------------------------------------------------------------------------------------

    def stage(self, make: MakeEnv) -> Stage:
        return compared_stage(make)

    def begin(self, stage: Stage, states: States, sight: Sight, probability: Reals, first: int = 0) -> None:
        """These starts and everything that follows from them."""
        key = self._key(stage, states, sight)
        places, start = distinct(key)
        chunk = Chunk(first, start, np.array(probability))
        self.chunks.append(chunk)
        if isinstance(stage, ComparedCopy):
            stage.meet(0, key, states, sight)
        known = self.signature_of.get(key.tobytes())
        if known is not None:
            chunk.signature = known  # an equal position has the same future, which need not be played again
            return
        states, sight = stage.take(states, places), part_of(sight, places)
        chunk.levels.append(self._level(key[places], sight))
        while not sight.over.all():
            states, sight = self._next_level(chunk, stage, states, sight)
        chunk.signature = self._signature(chunk)
        if len(key) == 1:
            self.signature_of[key.tobytes()] = chunk.signature

    def _next_level(self, chunk: Chunk, stage: Stage, states: States, sight: Sight) -> tuple[States, Sight]:
        """Play all joint actions of a level, some at a time; the different positions after them."""
        source, actions = joint_actions(self.kinds, sight)
        keys, sights, found = [], [], []
        for at in range(0, len(source), STEPPED):
            part, moves = source[at : at + STEPPED], np.maximum(actions[at : at + STEPPED], 0)
            after, seen = stage.step(stage.take(states, part), [moves[:, kind.seats] for kind in self.kinds])
            key = self._key(stage, after, seen)
            places, target = distinct(key)
            if isinstance(stage, ComparedCopy):
                stage.check_equal(after, seen, target)
            keys.append(key[places])
            sights.append((part_of(seen, places), seen.rewards, target))
            found.append(stage.take(after, places))
        # Slices may have found the same position: once more over all of them.
        places, number = distinct(np.concatenate(keys))
        offset = np.cumsum([0, *map(len, keys)])
        target = np.concatenate([number[target + offset[i]] for i, (_, _, target) in enumerate(sights)])
        rewards = np.concatenate([paid for _, paid, _ in sights])
        chunk.edges.append(Edges(source, target, actions, rewards))
        seen = part_of(joined([seen for seen, _, _ in sights]), places)
        key, after = np.concatenate(keys)[places], _taken(stage, found, places)
        chunk.levels.append(self._level(key, seen))
        if isinstance(stage, ComparedCopy):
            stage.meet(len(chunk.levels) - 1, key, after, seen)
        return after, seen

    def _key(self, stage: Stage, states: States, sight: Sight) -> Bytes:
        """What makes positions of a level different."""
        asked = sight.present & ~sight.over[:, None]
        parts: list[Array] = [state_keys(stage, states), ~sight.over, asked]
        for kind, obs, legal in zip(self.kinds, sight.obs, sight.legal, strict=True):
            mine = asked[:, kind.seats]
            parts.append(np.where(mine[:, :, None], obs, np.zeros((), obs.dtype)))
            parts.append(legal & mine[:, :, None])
        rows = as_bytes(parts)
        # Nothing follows from a position where the game is over, and edges say what was paid: one per level will do.
        rows[sight.over] = 0
        return rows

    def _level(self, key: Bytes, sight: Sight) -> Level:
        self.size += len(key)
        if self.size > self.max_nodes + self.on_trial:
            raise self.too_large()
        asked = sight.present & ~sight.over[:, None]
        obs, legal = [], []
        for kind, shown, masks in zip(self.kinds, sight.obs, sight.legal, strict=True):
            for i in range(kind.size):
                mine = asked[:, kind.first_seat + i]
                obs.append(shown[mine, i])
                legal.append(_allowed(kind, masks[mine, i]))
        return Level(key, sight.over, asked, obs, legal)

    def _signature(self, chunk: Chunk) -> bytes:
        """What it looks like to the players. Positions are numbered as they are met, so states themselves do not matter."""
        digest = sha256()
        for level in chunk.levels:
            for part in (level.over, level.asked, *level.obs, *level.legal):
                digest.update(part.tobytes())
        for edges in chunk.edges:
            for column in (edges.source, edges.target, edges.actions, edges.rewards):
                digest.update(column.tobytes())
        return digest.digest()

    # -- taking away -----------------------------------------------------------------------------------------------

    def weigh(self, shares: Reals) -> None:
        """Give the starts other probabilities, by their numbers."""
        for chunk in self.chunks:
            chunk.probability = shares[chunk.first : chunk.first + len(chunk.start)]

    def mark(self) -> Mark:
        return Mark(self.size, len(self.chunks), 0, 0, 0)

    def forget(self, mark: Mark) -> None:
        """Take away what was added since the mark."""
        self.size = mark.size
        del self.chunks[mark.chunks :]

    def signature(self, mark: Mark) -> bytes:
        return b"".join(chunk.signature for chunk in self.chunks[mark.chunks :])

    def too_large(self) -> TooLargeError:
        return TooLargeError(
            f"{self.name!r} has {self.size:,} positions so far, more than max_positions = {self.max_nodes:,}. Raise "
            "max_positions, take a smaller version of the game or fewer chance_samples, or estimate exploitability by "
            "trained best responses. A game that may go on for ever has no end of positions: let it end after so many steps."
        )

    # -- the finished graph ----------------------------------------------------------------------------------------

    def finish(self, chance: ChanceMode, sample: ChanceSample | None) -> Positions:
        """All chunks as one graph, level by level; what several of them have is there once."""
        depth = max(len(chunk.levels) for chunk in self.chunks)
        merged = [self._merged_level(number) for number in range(depth)]
        offset = np.cumsum([0, *(len(level.over) for level, _ in merged)])
        columns = [self._merged_edges(number, merged, offset) for number in range(depth - 1)]
        source, target, actions, rewards = self._joined_edges(columns)
        start = np.concatenate([merged[0][1][i][chunk.start] for i, chunk in enumerate(self.chunks)])
        levels = [level for level, _ in merged]
        view, views = self._views(levels)
        return Positions(
            name=self.name, players=self.players, kinds=self.kinds, chance=chance, sample=sample,
            level=np.repeat(np.arange(depth), np.diff(offset)),
            over=np.concatenate([level.over for level in levels]),
            asked=np.concatenate([level.asked for level in levels]),
            view=view, views=views, start=start,
            start_probability=np.concatenate([chunk.probability for chunk in self.chunks]),
            source=source, target=target, actions=actions, rewards=rewards, probability=np.ones(len(source)),
        )  # fmt: skip

    def _merged_level(self, number: int) -> tuple[Level, list[Ints]]:
        """The different positions of a level of all chunks, and their numbers for the positions of each chunk."""
        found = [chunk.level(number) for chunk in self.chunks]
        if len(found) == 1:
            return found[0], [np.arange(len(found[0].over))]
        whole = joined_levels(found)
        places, numbers = distinct(whole.key)
        ends = np.cumsum([len(level.over) for level in found])
        return whole.part(places), np.split(numbers, ends[:-1])

    def _merged_edges(self, number: int, merged: Sequence[tuple[Level, list[Ints]]], offset: Ints) -> Edges:
        """The edges from a level to the next; of a position that several chunks have, those of the first."""
        taken = np.zeros(len(merged[number][0].over), bool)
        found = []
        for i, chunk in enumerate(self.chunks):
            if number >= len(chunk.edges):
                continue
            edges, place = chunk.edges[number], merged[number][1][i]
            new = ~taken[place]
            taken[place] = True
            keep = new[edges.source]
            source = place[edges.source[keep]] + offset[number]
            target = merged[number + 1][1][i][edges.target[keep]] + offset[number + 1]
            found.append(Edges(source, target, edges.actions[keep], edges.rewards[keep]))
        return self._sorted(found)

    def _sorted(self, found: Sequence[Edges]) -> Edges:
        source, target, actions, rewards = self._joined_edges(found)
        order = np.argsort(source, kind="stable")
        return Edges(source[order], target[order], actions[order], rewards[order])

    def _joined_edges(self, found: Sequence[Edges]) -> tuple[Ints, Ints, Ints, Reals]:
        """One after the other; a game that is over at its start has none."""
        nothing, unpaid = np.zeros((0, len(self.players)), np.int64), np.zeros((0, len(self.players)))
        source = np.concatenate([np.zeros(0, np.int64), *(edges.source for edges in found)])
        target = np.concatenate([np.zeros(0, np.int64), *(edges.target for edges in found)])
        actions = np.concatenate([nothing, *(edges.actions for edges in found)])
        return source, target, actions, np.concatenate([unpaid, *(edges.rewards for edges in found)])

    def _views(self, levels: Sequence[Level]) -> tuple[Ints, tuple[Views, ...]]:
        """What each player sees, each once, and its number for every position."""
        asked = np.concatenate([level.asked for level in levels])
        view, views = np.full(asked.shape, -1, np.int64), []
        for player in range(len(self.players)):
            obs = np.concatenate([level.obs[player] for level in levels])
            legal = np.concatenate([level.legal[player] for level in levels])
            places, number = distinct(as_bytes([obs, legal]))
            view[asked[:, player], player] = number
            views.append(Views(obs[places], legal[places]))
        return view, tuple(views)


def joint_actions(kinds: Sequence[AgentType], sight: Sight) -> tuple[Ints, Ints]:
    """All legal joint actions ``[m, P]`` (-1: not asked) of positions that go on, and the position of each."""
    rows = np.flatnonzero(~sight.over)
    actions = np.full((len(rows), sight.present.shape[1]), -1, np.int64)
    for kind, masks in zip(kinds, sight.legal, strict=True):
        for i in range(kind.size):
            seat = kind.first_seat + i
            asked = sight.present[rows, seat]
            allowed = np.zeros((len(rows), kind.columns.options + 1), bool)
            allowed[:, 0] = ~asked  # the column of "not asked", so that such a position stays one
            allowed[asked, 1:] = _allowed(kind, masks[rows[asked], i])
            index, action = np.nonzero(allowed)
            rows, actions = rows[index], actions[index]
            actions[:, seat] = action - 1
    return rows, actions


def part_of(sight: Sight, places: Ints) -> Sight:
    """Some of the positions."""
    return Sight(
        [column[places] for column in sight.obs], [column[places] for column in sight.legal],
        sight.present[places], sight.rewards[places], sight.over[places],
    )  # fmt: skip


def _allowed(kind: AgentType, legal: Bools) -> Bools:
    return legal if kind.masked else np.ones((len(legal), kind.columns.options), bool)


def _taken(stage: Stage, found: Sequence[States], places: Ints) -> States:
    """Rows of several sets of states, counted through."""
    if len(found) == 1:
        return stage.take(found[0], places)
    if isinstance(found[0], dict):
        whole = {name: np.concatenate([states[name] for states in found]) for name in found[0]}
        return stage.take(whole, places)
    return stage.take([state for states in found for state in states], places)
