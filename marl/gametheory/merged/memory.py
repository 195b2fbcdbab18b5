"""Policies with a memory: what they remember becomes part of the position.

A policy of the present view needs nothing beside the position. One that remembers something finite (its last actions, a few
observations, a row of a table) plays by the view and its *carry*, so positions with different carries are told apart:

    (x, m_1, .., m_P)  --joint action a-->  (x', c_1(m_1, view_1(x), a_1), .., c_P(...))

breadth first, and equal ones are one again. A mixture remembers which member plays: chance draws it at the start, and members
that are never drawn are left out. The exploiter's own policy is not looked at, and the exploiter sees what it saw before.
A memory that keeps every step apart (an LSTM) does not merge: the graph grows like a tree, and is refused beyond a limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

import numpy as np

from marl.data.task import Floats, Ints
from marl.errors import ConfigError
from marl.gametheory.merged.positions import Positions, Views
from marl.gametheory.merged.rows import as_bytes, distinct
from marl.gametheory.merged.views import legal_chances, table_of
from marl.gametheory.readings import carried, check_fits, check_given, read
from marl.gametheory.tree.tree import Reals
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy

MAX_PAIRS = 5_000_000
"""Pairs of a position and memories at most."""


class Remembered(NamedTuple):
    """The game with memories in its positions, and how everybody plays at its views there ``[V, actions]``."""

    positions: Positions
    tables: tuple[Reals, ...]


class Playing(NamedTuple):
    """A policy that may play for a player in an episode, and how likely it is drawn for that."""

    policy: Policy
    chance: float
    explore: bool | None


def with_memories(
    positions: Positions,
    policies: Mapping[str, Policy],
    *,
    explore: bool | None = None,
    exploiter: int | None = None,
    limit: int = MAX_PAIRS,
) -> Remembered:
    """The game as these policies play it, by player's name; the ``exploiter`` needs none, and its table is empty.

    ``explore`` is read as in ``strategy_of``. Views of the exploiter and of players without a memory stay as they are; those
    of the others are numbered anew, one for each pair of a view and a memory.
    """
    return _remembered(positions, _who_plays(positions, policies, explore, exploiter), limit)


def drawn_games(
    positions: Positions, policies: Mapping[str, Policy], *, explore: bool | None = None, limit: int = MAX_PAIRS
) -> list[tuple[float, Remembered]]:
    """The game for every draw of members of mixtures, each with its chance; one game if nobody mixes.

    What all earn is a mean over draws. The game of all draws at once would tell as many positions apart, and at once.
    """
    who = _who_plays(positions, policies, explore, None)
    found = []
    for draw in product(*who.values()):
        chance = float(np.prod([one.chance for one in draw]))
        alone = {player: [one._replace(chance=1.0)] for player, one in zip(who, draw, strict=True)}
        found.append((chance, _remembered(positions, alone, limit)))
    return found


def _who_plays(
    positions: Positions, policies: Mapping[str, Policy], explore: bool | None, exploiter: int | None
) -> dict[int, list[Playing]]:
    """By player: the members of its mixture that can be drawn, or its one policy."""
    others = [player for player in range(positions.num_players) if player != exploiter]
    check_given(positions.name, [positions.players[player] for player in others], policies)
    found = {}
    for player in others:
        policy = policies[positions.players[player]]
        check_fits(positions.name, positions.players[player], positions.kind_of(player), policy)
        if not isinstance(policy, Mixture):
            found[player] = [Playing(policy, 1.0, explore)]
            continue
        draws_actions = policy.draws_actions if explore is None else explore
        chances = policy.chances.cpu().numpy()
        drawn = np.flatnonzero(chances > 0).tolist()
        found[player] = [Playing(policy.member(k), float(chances[k] / chances.sum()), draws_actions) for k in drawn]
    return found


def _remembered(positions: Positions, who: Mapping[int, list[Playing]], limit: int) -> Remembered:
    tables: list[Reals] = [np.zeros(views.legal.shape) for views in positions.views]
    memories = []
    for player, playing in who.items():
        first = playing[0]
        if len(playing) > 1 or first.policy.carry_size:
            memories.append(Memory.of(positions, player, playing))
        else:
            tables[player] = table_of(positions, player, first.policy, first.explore)
    if not memories:
        return Remembered(positions, tuple(tables))
    graph = _Graph(positions, memories, limit)
    graph.grow()
    return graph.finish(tables)


def _inputs(positions: Positions, player: int, policy: Policy, views: Ints) -> Inputs:
    kind, seen = positions.kind_of(player), positions.views[player]
    legal = seen.legal[views] if policy.kind.masked else np.zeros((len(views), 0), bool)
    obs = np.asarray(seen.obs[views], kind.obs_dtype)
    return Inputs(obs, legal, np.full(len(views), player - kind.first_seat))


# -- one player ----------------------------------------------------------------------------------------------------


@dataclass
class Memory:
    """What one player can remember at one level: which member plays ``[m]``, and that member's carry ``[m, c]``."""

    positions: Positions
    player: int
    members: tuple[Policy, ...]
    chances: Reals  # [members] of being drawn at the start
    explore: bool | None
    member: Ints
    carry: Floats

    @classmethod
    def of(cls, positions: Positions, player: int, playing: Sequence[Playing]) -> Memory:
        """As an episode begins: nothing is remembered but who plays."""
        members = tuple(one.policy for one in playing)
        chances = np.array([one.chance for one in playing])
        carry = np.zeros((len(members), max(policy.carry_size for policy in members)), np.float32)
        return cls(positions, player, members, chances, playing[0].explore, np.arange(len(members)), carry)

    def decide(self, view: Ints, memory: Ints) -> Decided:
        """How the player plays at pairs of a view and a row of the memory, and what it remembers after each action."""
        name, legal = self.positions.players[self.player], self.positions.views[self.player].legal
        chances = np.zeros((len(view), legal.shape[1]))
        after = np.full(chances.shape, -1, np.int64)
        member, carry = [self.member], [self.carry]
        rows_so_far = len(self.member)
        for number, policy in enumerate(self.members):
            mine = np.flatnonzero(self.member[memory] == number)
            if not mine.size:
                continue
            past = self.carry[memory[mine], : policy.carry_size]
            inputs = _inputs(self.positions, self.player, policy, view[mine])
            reading = read(name, policy, inputs, past, self.explore)
            chances[mine] = legal_chances(name, reading.chances * legal[view[mine]])
            pair, action = np.nonzero(chances[mine])  # what it never does need not be remembered
            if not policy.carry_size:
                after[mine] = memory[mine][:, None]
                continue
            member.append(np.full(len(pair), number))
            then = np.zeros((len(pair), self.carry.shape[1]), np.float32)
            then[:, : policy.carry_size] = carried(policy, inputs, past, reading.memory, pair, action)
            carry.append(then)
            after[mine[pair], action] = rows_so_far + np.arange(len(pair))
            rows_so_far += len(pair)
        return Decided(chances, after, np.concatenate(member), np.concatenate(carry))

    def advance(self, decided: Decided, used: Ints) -> tuple[Memory, Ints]:
        """The memory of the next level, with the rows that are ``used`` there, and their new numbers."""
        places, number = distinct(as_bytes([decided.member[used], decided.carry[used]]))
        kept = used[places]
        return replace(self, member=decided.member[kept], carry=decided.carry[kept]), number


class Decided(NamedTuple):
    """Decisions of one player at ``n`` pairs of a view and a memory."""

    chances: Reals  # [n, actions]
    after: Ints  # [n, actions] a row of what is remembered then; -1 where the action is never taken
    member: Ints  # rows of what can be remembered: those of before, and new ones
    carry: Floats


# -- the graph -----------------------------------------------------------------------------------------------------


@dataclass
class _Nodes:
    """Pairs of a position and memories at one level, and the edges that lead on."""

    position: Ints  # [n]
    memory: Ints  # [n, K] rows of the players' memories
    view: Ints  # [n, K] pairs of view and memory, counted over all levels; -1 where the player is not asked
    source: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # [e] within this level
    target: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # [e] within the next level
    edge: Ints = field(default_factory=lambda: np.zeros(0, np.int64))  # [e] of the game without memories


class _Graph:
    """Positions with memories of ``K`` players, level by level."""

    def __init__(self, positions: Positions, memories: list[Memory], limit: int) -> None:
        self.positions, self.memories, self.limit = positions, memories, limit
        self.levels: list[_Nodes] = []
        self.seen: list[list[Ints]] = [[] for _ in memories]  # views behind the new numbers, level by level
        self.tables: list[list[Reals]] = [[] for _ in memories]
        self.size = 0
        self.start, self.start_probability, self.first = self._starts()

    def _starts(self) -> tuple[Ints, Reals, _Nodes]:
        """Every start with every choice of members, which chance draws for each player by itself."""
        positions = self.positions
        position, probability = positions.start, positions.start_probability
        memory = np.zeros((len(position), 0), np.int64)
        for one in self.memories:
            count = len(one.members)
            drawn = np.tile(np.arange(count), len(position))
            position, memory = np.repeat(position, count), np.repeat(memory, count, axis=0)
            probability = np.repeat(probability, count) * one.chances[drawn]
            memory = np.concatenate([memory, drawn[:, None]], axis=1)
        places, number = distinct(as_bytes([position, memory]))
        return number, probability, self._nodes(position[places], memory[places])

    def _nodes(self, position: Ints, memory: Ints) -> _Nodes:
        self.size += len(position)
        if self.size > self.limit:
            players = ", ".join(self.positions.players[one.player] for one in self.memories)
            raise ConfigError(
                f"game {self.positions.name!r}: with what the policies of {players} remember there are more than "
                f"{self.limit:,} different positions: their memory does not merge (an LSTM keeps every step apart), "
                "or a mixture has too many members. Measure them by trained best responses, or by their projection on views, "
                "which is a lower bound."
            )
        return _Nodes(position, memory, np.full(memory.shape, -1, np.int64))

    def grow(self) -> None:
        nodes = self.first
        while True:
            self.levels.append(nodes)
            decided = [self._ask(k, nodes) for k in range(len(self.memories))]
            following = self._follow(nodes, decided)
            if following is None:
                return
            nodes = following

    def _ask(self, k: int, nodes: _Nodes) -> Decided:
        """One player's decisions at all pairs of view and memory of this level."""
        one = self.memories[k]
        view = self.positions.view[nodes.position, one.player]
        asked = np.flatnonzero(view >= 0)
        places, number = distinct(as_bytes([view[asked], nodes.memory[asked, k]]))
        pairs = asked[places]
        offset = sum(map(len, self.seen[k]))
        nodes.view[asked, k] = offset + number
        decided = one.decide(view[pairs], nodes.memory[pairs, k])
        self.seen[k].append(view[pairs])
        self.tables[k].append(decided.chances)
        return decided

    def _follow(self, nodes: _Nodes, decided: list[Decided]) -> _Nodes | None:
        """The edges that the players with a memory can take, and the pairs that they lead to."""
        first = self.positions.first_edge
        counts = first[nodes.position + 1] - first[nodes.position]
        source = np.repeat(np.arange(len(nodes.position)), counts)
        edge = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts) + first[nodes.position][source]
        memory = nodes.memory[source]
        for k, one in enumerate(self.memories):
            asked = np.flatnonzero(nodes.view[source, k] >= 0)
            pair = nodes.view[source[asked], k] - sum(map(len, self.seen[k][:-1]))
            memory[asked, k] = decided[k].after[pair, self.positions.actions[edge[asked], one.player]]
        taken = (memory >= 0).all(axis=1)
        nodes.source, nodes.edge, memory = source[taken], edge[taken], memory[taken]
        if not nodes.edge.size:
            return None
        position = self.positions.target[nodes.edge]
        for k, one in enumerate(self.memories):
            used, number = np.unique(memory[:, k], return_inverse=True)
            self.memories[k], renamed = one.advance(decided[k], used)
            memory[:, k] = renamed[number.reshape(-1)]
        memory[self.positions.over[position]] = 0  # nothing follows, so nothing needs to be remembered
        places, nodes.target = distinct(as_bytes([position, memory]))
        return self._nodes(position[places], memory[places])

    def finish(self, tables: list[Reals]) -> Remembered:
        """All levels as one graph."""
        old, levels = self.positions, self.levels
        offset = np.cumsum([0, *(len(nodes.position) for nodes in levels)])
        position = np.concatenate([nodes.position for nodes in levels])
        edge = np.concatenate([nodes.edge for nodes in levels])
        view, views = old.view[position], list(old.views)
        numbers = np.concatenate([nodes.view for nodes in levels])
        for k, one in enumerate(self.memories):
            seen = np.concatenate(self.seen[k])
            view[:, one.player] = numbers[:, k]
            views[one.player] = Views(old.views[one.player].obs[seen], old.views[one.player].legal[seen])
            tables[one.player] = np.concatenate(self.tables[k])
        graph = replace(
            old, level=old.level[position], over=old.over[position], asked=old.asked[position], view=view,
            views=tuple(views), start=self.start, start_probability=self.start_probability,
            source=np.concatenate([nodes.source + offset[i] for i, nodes in enumerate(levels)]),
            target=np.concatenate([nodes.target + offset[i + 1] for i, nodes in enumerate(levels)]),
            actions=old.actions[edge], rewards=old.rewards[edge], probability=old.probability[edge],
        )  # fmt: skip
        return Remembered(graph, tuple(tables))
