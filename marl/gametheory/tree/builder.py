"""Grows a tree: nodes are added many at a time, information sets are told apart by what their player knows.

Two decisions of a player lie in the same information set when its last own choice, its present observation and its legal
actions are equal. The last own choice names the information set before it and so, step by step, the player's whole past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints
from marl.errors import ConfigError
from marl.gametheory.tree.tree import CHANCE, TERMINAL, ChanceMode, ChanceSample, InfoSets, Reals, Tree


class TooLargeError(ConfigError):
    """The tree has more nodes than it may have."""


class Mark(NamedTuple):
    """How far a tree had grown."""

    size: int
    chunks: int
    decisions: int
    ends: int
    sets: int


class Asked(NamedTuple):
    """``n`` nodes at which one player decides."""

    nodes: Ints  # [n]
    player: int
    last: Ints  # [n] the player's last choice, or -1
    obs: Array  # [n, width]
    legal: Bools  # [n, actions]


class Offered(NamedTuple):
    """The children of such nodes: ``rows[i]`` says which of the ``n`` nodes child ``i`` belongs to."""

    nodes: Ints
    rows: Ints
    action: Ints
    choice: Ints


@dataclass
class Growth:
    """A tree that is not finished. Node 0 is the chance move over the starts."""

    name: str
    players: tuple[str, ...]
    max_nodes: int
    parent: list[Ints] = field(default_factory=list)
    branch: list[Ints] = field(default_factory=list)
    probability: list[Reals] = field(default_factory=list)
    decisions: list[tuple[Ints, int, Ints]] = field(default_factory=list)  # nodes, player, information sets
    ends: list[tuple[Ints, Reals]] = field(default_factory=list)
    size: int = 0
    on_trial: int = 0  # more nodes than max_nodes that may be there for a while, because they may be taken away again
    num_choices: int = 0
    set_of: dict[bytes, int] = field(default_factory=dict)
    set_player: list[int] = field(default_factory=list)
    set_parent: list[int] = field(default_factory=list)
    set_first: list[int] = field(default_factory=list)
    set_actions: list[Ints] = field(default_factory=list)
    set_obs: list[Array] = field(default_factory=list)
    choice_owner: list[int] = field(default_factory=list)

    def add(self, parent: Ints, branch: Ints, probability: Reals | None = None) -> Ints:
        """New nodes below these; refuses more than ``max_nodes``."""
        first, self.size = self.size, self.size + len(parent)
        if self.size > self.max_nodes + self.on_trial:
            raise self.too_large()
        self.parent.append(np.asarray(parent, np.int64))
        self.branch.append(np.asarray(branch, np.int64))
        self.probability.append(np.ones(len(parent)) if probability is None else np.asarray(probability, np.float64))
        return np.arange(first, self.size)

    def too_large(self) -> TooLargeError:
        return TooLargeError(
            f"the tree of {self.name!r} has {self.size:,} nodes so far, more than max_nodes = {self.max_nodes:,}. Raise "
            "max_nodes, take a smaller version of the game or fewer chance_samples, merge equal positions (merge_game for "
            "exact best responses, perfect_play for games of perfect information), or estimate exploitability by trained "
            "best responses."
        )

    def decide(self, asked: Asked) -> Offered:
        """Put these nodes into their player's information sets and add a child per legal action."""
        keys = self._keys(asked)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        ids = np.array([self._info_set(keys[row].tobytes(), asked, int(row)) for row in first], np.int64)
        sets = ids[inverse.reshape(-1)]
        self.decisions.append((asked.nodes, asked.player, sets))
        rows, action = np.nonzero(asked.legal)
        counts = asked.legal.sum(axis=1)
        branch = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        choice = np.array(self.set_first, np.int64)[sets[rows]] + branch
        return Offered(self.add(asked.nodes[rows], branch), rows, action, choice)

    def end(self, nodes: Ints, payoffs: Reals) -> None:
        """The game is over at these nodes."""
        self.ends.append((nodes, np.asarray(payoffs, np.float64)))

    def _keys(self, asked: Asked) -> Array:
        """What the player knows, as one block of bytes per node."""
        count = len(asked.nodes)
        obs = np.ascontiguousarray(asked.obs + np.zeros((), asked.obs.dtype))  # -0.0 becomes 0.0
        known = [
            np.full((count, 1), asked.player, np.int64),
            asked.last.reshape(-1, 1).astype(np.int64),
            obs,
            asked.legal,
        ]
        parts = [np.ascontiguousarray(part).view(np.uint8).reshape(count, -1) for part in known]
        rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
        return rows.view(np.dtype((np.void, rows.shape[1]))).reshape(-1)

    def _info_set(self, key: bytes, asked: Asked, row: int) -> int:
        found = self.set_of.get(key)
        if found is None:
            found = self.set_of[key] = len(self.set_player)
            actions = np.flatnonzero(asked.legal[row])
            self.set_player.append(asked.player)
            self.set_parent.append(int(asked.last[row]))
            self.set_first.append(self.num_choices)
            self.set_actions.append(actions)
            self.set_obs.append(np.array(asked.obs[row]))
            self.choice_owner.extend([found] * len(actions))
            self.num_choices += len(actions)
        return found

    # -- subtrees --------------------------------------------------------------------------------------------------

    def mark(self) -> Mark:
        return Mark(self.size, len(self.parent), len(self.decisions), len(self.ends), len(self.set_player))

    def signature(self, mark: Mark) -> bytes:
        """Everything that was added since the mark: equal for equal plays, wherever they stand."""
        size, chunks, decisions, ends, _ = mark
        parts: list[Array] = [np.maximum(part - size, -1) for part in self.parent[chunks:]]
        parts += self.branch[chunks + 1 :]  # which child of the root it is does not matter
        for nodes, player, sets in self.decisions[decisions:]:
            parts += [nodes - size, np.array([player]), sets]
        for nodes, payoffs in self.ends[ends:]:
            parts += [nodes - size, payoffs]
        return b"|".join(part.tobytes() for part in parts)

    def forget(self, mark: Mark) -> None:
        """Take away what was added since the mark, with the information sets that only it has."""
        self.size = mark.size
        del self.parent[mark.chunks :], self.branch[mark.chunks :], self.probability[mark.chunks :]
        del self.decisions[mark.decisions :], self.ends[mark.ends :]
        if len(self.set_player) > mark.sets:
            self.num_choices = self.set_first[mark.sets]
            self.set_of = {key: number for key, number in self.set_of.items() if number < mark.sets}
            del self.set_player[mark.sets :], self.set_parent[mark.sets :], self.set_first[mark.sets :]
            del self.set_actions[mark.sets :], self.set_obs[mark.sets :], self.choice_owner[self.num_choices :]

    # -- the finished tree -----------------------------------------------------------------------------------------

    def finish(
        self,
        chance: ChanceMode,
        kinds: Sequence[AgentType],
        labels: Sequence[Sequence[str]],
        sample: ChanceSample | None = None,
    ) -> Tree:
        """Nodes level by level; ``labels[player][action]`` name the actions."""
        order, levels, parent = self._level_order()
        rank = np.empty(len(order), np.int64)
        rank[order] = np.arange(len(order))
        player, infoset, payoffs = self._roles()
        set_rank, sets = self._numbered(labels)
        player, infoset, payoffs = player[order], infoset[order], payoffs[order]
        infoset = np.where(infoset >= 0, set_rank[np.maximum(infoset, 0)], -1)
        parent, branch = parent[order], np.concatenate(self.branch)[order]
        probability = np.concatenate(self.probability)[order]
        parent = np.where(parent >= 0, rank[np.maximum(parent, 0)], -1)
        if (parent == 0).sum() == 1:  # one start: no chance move over starts
            parent, branch, player, infoset = parent[1:] - 1, branch[1:], player[1:], infoset[1:]
            payoffs, probability, levels = payoffs[1:], probability[1:], levels[1:] - 1
        counts = np.bincount(parent[1:], minlength=len(parent))
        first_child = np.searchsorted(parent, np.arange(len(parent)))
        return Tree(
            self.name, self.players, chance, tuple(kinds), parent, branch, player, infoset, first_child, counts,
            probability, payoffs, levels, sets, sample,
        )  # fmt: skip

    def _level_order(self) -> tuple[Ints, Ints, Ints]:
        """Old numbers in the new order, where the levels begin, and old parents."""
        parent, branch = np.concatenate(self.parent), np.concatenate(self.branch)
        place = np.zeros(self.size, np.int64)
        level, order, starts = np.zeros(1, np.int64), [], [0]
        by_parent = np.argsort(parent, kind="stable")
        sorted_parent = parent[by_parent]
        while level.size:
            place[level] = starts[-1] + np.arange(level.size)
            order.append(level)
            starts.append(starts[-1] + level.size)
            first = np.searchsorted(sorted_parent, level, "left")
            counts = np.searchsorted(sorted_parent, level, "right") - first
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            below = by_parent[np.repeat(first, counts) + within]
            level = below[np.lexsort((branch[below], place[parent[below]]))]
        return np.concatenate(order), np.array(starts), parent

    def _roles(self) -> tuple[Ints, Ints, Reals]:
        player = np.full(self.size, CHANCE, np.int64)
        infoset = np.full(self.size, -1, np.int64)
        payoffs = np.zeros((self.size, len(self.players)))
        for nodes, who, sets in self.decisions:
            player[nodes], infoset[nodes] = who, sets
        for nodes, paid in self.ends:
            player[nodes], payoffs[nodes] = TERMINAL, paid
        return player, infoset, payoffs

    def _numbered(self, labels: Sequence[Sequence[str]]) -> tuple[Ints, InfoSets]:
        """Information sets by player, own level, and the choice that leads to them; and the new number of each."""
        player, parent = np.array(self.set_player, np.int64), np.array(self.set_parent, np.int64)
        counts = np.array([len(actions) for actions in self.set_actions], np.int64)
        level = self._own_levels()
        order, new_choice = self._order(player, parent, level, counts)
        index = np.array(order, np.int64)
        rank = np.zeros_like(level)
        rank[index] = np.arange(len(order))
        counts = counts[index]
        names: list[str] = []
        actions = [np.zeros(0, np.int64)]  # a game may have no information set
        for i in order:
            own = labels[self.set_player[i]]
            names += [own[action] for action in self.set_actions[i].tolist()]
            actions.append(self.set_actions[i])
        return rank, InfoSets(
            player=player[index],
            level=level[index],
            parent_choice=_renumbered(parent[index], new_choice),
            first_choice=np.cumsum(counts) - counts,
            num_actions=counts,
            obs=tuple(self.set_obs[i] for i in order),
            action=np.concatenate(actions),
            labels=tuple(names),
        )

    def _own_levels(self) -> Ints:
        """How many decisions of the same player came before each information set."""
        level = np.zeros(len(self.set_parent), np.int64)
        for i, before in enumerate(self.set_parent):  # parents were found before their children
            if before >= 0:
                level[i] = level[self.choice_owner[before]] + 1
        return level

    def _order(self, player: Ints, parent: Ints, level: Ints, counts: Ints) -> tuple[list[int], Ints]:
        """Information sets in their new order, and the new number of each choice."""
        new_choice, total = np.full(len(self.choice_owner), -1, np.int64), 0
        order: list[int] = []
        for who, depth in sorted(set(zip(player.tolist(), level.tolist(), strict=True))):
            mine = np.flatnonzero((player == who) & (level == depth))
            before = _renumbered(parent[mine], new_choice)  # of the level above, which has its numbers already
            for i in mine[np.argsort(before, kind="stable")].tolist():
                order.append(i)
                first = self.set_first[i]
                new_choice[first : first + counts[i]] = np.arange(total, total + counts[i])
                total += int(counts[i])
        return order, new_choice


def _renumbered(choices: Ints, new_choice: Ints) -> Ints:
    """-1, which stands for no choice, stays."""
    return np.where(choices >= 0, new_choice[np.maximum(choices, 0)], -1)
