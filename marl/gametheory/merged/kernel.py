"""The game as one player meets it: everything between two of its decisions folded into one step.

The others and chance play by fixed tables, so from a position ``x`` where the player is asked and its action ``a`` there is a
probability for every position ``y`` where it is asked next, and an expected payment on the way:

    K(x, a)(y) = P_om + P_oo P_om + P_oo^2 P_om + ...   after the edge of a        (o: others' positions, m: the player's own)
    R(x, a)    = what the edge of a pays, and what is paid until y

Positions are numbered by the player's view there, so those that it cannot tell apart stand side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from marl.data.task import Bools, Ints
from marl.gametheory.merged.positions import Positions
from marl.gametheory.tree.tree import Reals

Table = Reals
"""Chances ``[V, actions]`` of a player's actions at each of its views."""


class Moves(NamedTuple):
    """From one decision of the player to its next: ``E`` of them, sorted by source."""

    source: Ints  # [E] from which position,
    action: Ints  # [E] by which action,
    target: Ints  # [E] to which next position
    chance: Reals  # [E] with which probability of the others


@dataclass(frozen=True, eq=False)
class Kernel:
    """``n`` positions where the player is asked, sorted by its ``V`` views."""

    legal: Bools  # [V, actions]
    own: Ints  # [n] numbers of the positions in the game
    view: Ints  # [n]
    moves: Moves
    reward: Reals  # [n, actions] what is paid until the next decision or the end
    start: Reals  # [n] where the first decision is
    paid: float  # before the first decision

    def __len__(self) -> int:
        return len(self.own)


def fold(positions: Positions, tables: Sequence[Table], player: int) -> Kernel:
    """What ``player`` meets when everybody else plays by its table ``[views, actions]``; its own table is not looked at."""
    game = _Fold(positions, edge_chances(positions, tables, player), player)
    reach, paid_later = game.until_asked()
    return Kernel(
        legal=positions.views[player].legal,
        own=game.own,
        view=game.view,
        moves=game.moves(reach),
        reward=game.rewards(paid_later),
        start=game.at_first(reach),
        paid=float(positions.start_probability @ paid_later[positions.start]),
    )


def edge_chances(positions: Positions, tables: Sequence[Table], player: int | None = None) -> Reals:
    """How likely the others and chance take each edge ``[M]``, given that ``player`` does its part of it."""
    found = positions.probability.copy()
    for other, table in enumerate(tables):
        if other == player:
            continue
        edges = np.flatnonzero(positions.actions[:, other] >= 0)
        view = positions.view[positions.source[edges], other]
        found[edges] *= table[view, positions.actions[edges, other]]
    return found


class _Fold:
    """Own positions, others' positions, and the edges among them that can happen."""

    def __init__(self, positions: Positions, chance: Reals, player: int) -> None:
        self.positions, self.player = positions, player
        mine = positions.asked[:, player]
        own = np.flatnonzero(mine)
        self.own = own[np.argsort(positions.view[own, player], kind="stable")]
        self.view = positions.view[self.own, player]
        others = np.flatnonzero(~mine & ~positions.over)
        self.own_place = _places(self.own, len(positions))
        self.other_place = _places(others, len(positions))
        self.actions = positions.views[player].legal.shape[1]
        self.num_others = len(others)
        # Edges that the others never take lead nowhere: without them all that follows is smaller.
        happens = chance > 0
        self.by_me = np.flatnonzero(happens & mine[positions.source])
        self.by_others = np.flatnonzero(happens & ~mine[positions.source])
        self.chance = chance
        self.paid = chance * positions.rewards[:, player]

    def until_asked(self) -> tuple[sparse.csr_array, Reals]:
        """From others' positions: chances ``[others, own]`` of where the player is asked next, and ``[N]`` what it is paid."""
        edges = self.by_others
        rows = self.other_place[self.positions.source[edges]]
        to_own = self._matrix(edges, rows, self.num_others, self.own_place, len(self.own))
        onwards = self._matrix(edges, rows, self.num_others, self.other_place, self.num_others)
        reach = term = to_own
        # P_om + P_oo P_om + ...: positions never repeat, so the sum ends.
        while term.nnz:
            term = onwards @ term
            reach = reach + term
        paid = step = np.bincount(rows, self.paid[edges], self.num_others)
        while step.any():
            step = onwards @ step
            paid = paid + step
        everywhere = np.zeros(len(self.positions))
        everywhere[self.other_place >= 0] = paid
        return sparse.csr_array(reach), everywhere

    def moves(self, reach: sparse.csr_array) -> Moves:
        """From one own position to the next."""
        edges = self.by_me
        rows = self._choices()
        size = len(self.own) * self.actions
        to_own = self._matrix(edges, rows, size, self.own_place, len(self.own))
        to_others = self._matrix(edges, rows, size, self.other_place, self.num_others)
        # Compressed rows stand in order, so moves are sorted by their sources.
        found = sparse.coo_array(sparse.csr_array(to_own + to_others @ reach))
        choice, target = (part.astype(np.int64) for part in found.coords)
        return Moves(choice // self.actions, choice % self.actions, target, np.asarray(found.data, np.float64))

    def rewards(self, paid_later: Reals) -> Reals:
        """What an action pays until the next decision ``[n, actions]``."""
        edges = self.by_me
        worth = self.paid[edges] + self.chance[edges] * paid_later[self.positions.target[edges]]
        found = np.zeros((len(self.own), self.actions))
        found.reshape(-1)[:] = np.bincount(self._choices(), worth, found.size)
        return found

    def at_first(self, reach: sparse.csr_array) -> Reals:
        """How likely the first decision is at each own position ``[n]``."""
        start, chance = self.positions.start, self.positions.start_probability
        own, other = self.own_place[start], self.other_place[start]
        found = np.bincount(own[own >= 0], chance[own >= 0], len(self.own))
        before = np.bincount(other[other >= 0], chance[other >= 0], self.num_others)
        return np.asarray(found + reach.T @ before)

    def _choices(self) -> Ints:
        """A number for the position and action of every own edge."""
        edges = self.by_me
        place: Ints = self.own_place[self.positions.source[edges]]
        choice: Ints = place * self.actions + self.positions.actions[edges, self.player]
        return choice

    def _matrix(self, edges: Ints, rows: Ints, height: int, place: Ints, width: int) -> sparse.csr_array:
        """Chances of the edges, from rows to the places of their targets."""
        columns = place[self.positions.target[edges]]
        there = columns >= 0
        entries = (self.chance[edges][there], (rows[there], columns[there]))
        return sparse.csr_array(sparse.coo_array(entries, shape=(height, width)))


def _places(chosen: Ints, size: int) -> Ints:
    """From numbers in the game to numbers among the chosen ones; -1 elsewhere."""
    found = np.full(size, -1, np.int64)
    found[chosen] = np.arange(len(chosen))
    return found


def expected_values(positions: Positions, tables: Sequence[Table]) -> Reals:
    """What each player earns ``[P]`` when all play by their tables."""
    chance = edge_chances(positions, tables)
    reach = np.bincount(positions.start, positions.start_probability, len(positions))
    earned = np.zeros(positions.num_players)
    bounds = positions.first_edge[positions.first_of_level]
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        flow = reach[positions.source[first:last]] * chance[first:last]
        earned += flow @ positions.rewards[first:last]
        reach += np.bincount(positions.target[first:last], flow, len(positions))
    return earned
