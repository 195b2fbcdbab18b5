"""Mirror descent over views: the steps of ``tree/mirror.py`` in games that are too large for a tree.

A strategy is a table ``[views, actions]`` per player. One iteration goes over the graph of positions twice, forward for the
reach ``r(x)`` of every position and backward for what a player earns from it on (``flow.py``). At every view

    q(v, a) = sum_x r(x) Q(x, a) / sum_x r(x)     over the positions x that show v

decides about the step. Where a view tells all that its player has seen and done, this is the tree's descent, at the cost of
positions instead of histories; where it does not (phantom games: the order of moves is forgotten) it descends among the
strategies that forget it too. The exact NashConv, against exploiters that forget nothing, tells what that costs.

Averages weigh what is played at a view by how likely the player's own choices lead there, as averages of plans do. The others
are taken to play evenly for that weight: any fixed play of theirs gives the same average where views tell all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marl.data.task import Ints
from marl.errors import ConfigError
from marl.gametheory.merged.flow import Flow
from marl.gametheory.merged.game import Measured, MergedGame
from marl.gametheory.merged.kernel import Table
from marl.gametheory.merged.positions import Positions
from marl.gametheory.solve.solution import require_whole
from marl.gametheory.tree.mirror import Mirror, mirror_of, mirror_step
from marl.gametheory.tree.tree import Reals
from marl.policies.policy import Policy
from marl.policies.tabular import TabularPolicy

NEVER = -1e9
"""The logarithm of the chance of an illegal action: finite, so that means of it are."""


class Moves:
    """The edges at which a player decides, and the positions where it is asked."""

    def __init__(self, positions: Positions, player: int) -> None:
        self.edges = np.flatnonzero(positions.actions[:, player] >= 0)
        self.source, self.target = positions.source[self.edges], positions.target[self.edges]
        self.choice = self._choices(positions, player, np.arange(len(self.edges)))
        self.rewards = np.ascontiguousarray(positions.rewards[self.edges, player], np.float64)
        self.probability = positions.probability[self.edges]
        self.asked = np.flatnonzero(positions.asked[:, player])
        self.view = positions.view[self.asked, player]
        # Who else moves at the same time: the player, at which of these edges, by which of its own choices.
        self.beside: list[tuple[int, Ints, Ints]] = []
        for other in range(positions.num_players):
            along = np.flatnonzero(positions.actions[self.edges, other] >= 0)
            if other != player and len(along):
                self.beside.append((other, along, self._choices(positions, other, along)))

    def _choices(self, positions: Positions, player: int, along: Ints) -> Ints:
        """``view * actions + action`` of a player at some of these edges: where they stand in its table."""
        edges, width = self.edges[along], positions.views[player].legal.shape[1]
        found: Ints = positions.view[self.source[along], player] * width + positions.actions[edges, player]
        return found

    def others(self, tables: Sequence[Table]) -> Reals:
        """The chance of everybody else's part of each edge."""
        if not self.beside:
            return self.probability
        found = self.probability.copy()
        for other, along, choice in self.beside:
            found[along] *= tables[other].reshape(-1)[choice]
        return found


class Descending:
    """One player: its table, its magnet and the sum of what it played."""

    def __init__(self, positions: Positions, player: int) -> None:
        self.moves, self.legal = Moves(positions, player), positions.views[player].legal
        self.rewards = np.ascontiguousarray(positions.rewards[:, player], np.float64)  # of all edges
        self.scale = _largest_return(positions, self.rewards)
        self.uniform: Table = self.legal / self.legal.sum(axis=1, keepdims=True)
        self.table = self.uniform.copy()
        self.logits = _logarithms(self.uniform)
        self.magnet = self.logits
        self.sums = np.zeros(self.table.shape)

    def values(self, reach: Reals, later: Reals, tables: Sequence[Table]) -> Table:
        """``q`` ``[views, actions]``: by the reach of positions, what is earned from them on, and what the others play."""
        moves = self.moves
        worth = (later.take(moves.target) + moves.rewards) * reach.take(moves.source)
        worth *= moves.others(tables)
        total = np.bincount(moves.choice, worth, self.table.size).reshape(self.table.shape)
        often = self._at_views(reach)[:, None] * self.scale
        return np.divide(total, often, out=np.zeros(self.table.shape), where=often > 0.0)

    def _at_views(self, reach: Reals) -> Reals:
        """How likely each view is seen ``[views]``."""
        return np.asarray(np.bincount(self.moves.view, reach.take(self.moves.asked), len(self.table)), np.float64)

    def play(self, logits: Table) -> None:
        weights = np.exp(logits - logits.max(axis=1, keepdims=True)) * self.legal
        total = weights.sum(axis=1, keepdims=True)
        self.table = weights / total
        self.logits = logits - (logits.max(axis=1, keepdims=True) + np.log(total))
        self.logits[~self.legal] = NEVER

    def add_up(self, reach: Reals, t: int) -> None:
        """Count the present table ``t`` times, by how likely ``reach`` leads to each view."""
        self.sums += t * self._at_views(reach)[:, None] * self.table

    def average(self) -> Table:
        total = self.sums.sum(axis=1, keepdims=True)
        return np.where(total > 0.0, self.sums / np.where(total > 0.0, total, 1.0), self.uniform)


class ViewDescent:
    """Mirror descent over the views of a game; ``run`` goes on where it stopped.

    ``averages=False`` leaves the averages out, which takes one pass less per player and iteration.
    """

    def __init__(self, positions: Positions, variant: str | Mirror = "mmd", *, averages: bool = True) -> None:
        self.positions, self.mirror, self.averages = positions, mirror_of(variant), averages
        self.iterations = 0
        self.flow = Flow(positions)
        self.players = [Descending(positions, player) for player in range(positions.num_players)]
        # What one of two players earns the other loses: one pass backward tells both.
        paid = positions.rewards.sum(axis=1)
        self.zero_sum = positions.num_players == 2 and bool((paid == 0.0).all())

    def run(self, iterations: int) -> ViewDescent:
        for _ in range(iterations):
            self.iterations += 1
            if self.averages:
                self._add_up()
            self._step()
        return self

    def _step(self) -> None:
        t = self.iterations
        step, temperature = self.mirror.pull(t)
        tables = self.tables()
        self.flow.set_chances(tables)
        reach = self.flow.forward().copy()
        earned = self._earned()
        for number, player in enumerate(self.players):  # all against what was played so far
            values = player.values(reach, earned[number], tables)
            player.play(mirror_step(player.logits, player.magnet, values, step, temperature))
            if self.mirror.moves_magnet(t):
                player.magnet = player.logits

    def _earned(self) -> list[Reals]:
        """What each player earns from each position on."""
        if self.zero_sum:
            first = self.flow.backward(self.players[0].rewards).copy()
            return [first, -first]
        return [self.flow.backward(player.rewards).copy() for player in self.players]

    def _add_up(self) -> None:
        evenly = [player.uniform for player in self.players]
        for number, player in enumerate(self.players):
            alone = [player.table if other == number else table for other, table in enumerate(evenly)]
            self.flow.set_chances(alone)
            player.add_up(self.flow.forward(), self.iterations)

    # -- what was found --------------------------------------------------------------------------------------------

    def tables(self) -> list[Table]:
        """What each player plays in the next iteration."""
        return [player.table for player in self.players]

    def average(self) -> list[Table]:
        """The average of what each player played; uniform play before the first iteration."""
        if not self.averages:
            raise ConfigError(
                f"the descent on {self.positions.name!r} was made with averages=False, so there is no average. Ask for "
                "tables(), or make it with averages=True."
            )
        return [player.average() for player in self.players]

    def measure(self) -> Descended:
        """Exact distances from equilibrium of what is played now and, where it is kept, of the average."""
        game = MergedGame(self.positions)
        average = game.measure(self.average()) if self.averages else None
        return Descended(self.iterations, game.measure(self.tables()), average)

    def policies(self, tables: Sequence[Table] | None = None) -> dict[str, Policy]:
        """The tables (default: what is played now) as policies that can be played, watched and measured."""
        given = self.tables() if tables is None else tables
        found: dict[str, Policy] = {}
        for number, (name, table) in enumerate(zip(self.positions.players, given, strict=True)):
            kind, views = self.positions.kind_of(number), self.positions.views[number]
            legal = views.legal if kind.masked else views.legal[:0]
            seats = np.full(len(views), number - kind.first_seat)
            found[name] = TabularPolicy(kind, views.obs, table, seats, legal=legal)
        return found


@dataclass(frozen=True, eq=False)
class Descended:
    """How far a descent has come."""

    iterations: int
    last: Measured
    average: Measured | None


def view_descent(positions: Positions, iterations: int, variant: str | Mirror = "mmd") -> ViewDescent:
    """A descent after so many iterations; ``measure()`` tells how far it has come."""
    require_whole("view_descent: iterations", iterations)
    return ViewDescent(positions, variant).run(iterations)


def _logarithms(table: Table) -> Table:
    return np.log(table, out=np.full(table.shape, NEVER), where=table > 0.0)


def _largest_return(positions: Positions, rewards: Reals) -> float:
    """The most that a player may earn or lose in one episode, by its absolute value: the unit of its values."""
    high, low = np.zeros(len(positions)), np.zeros(len(positions))
    bounds = positions.first_of_level.tolist()
    for begin, end in reversed(list(pairwise(bounds))):
        edges = slice(*positions.first_edge[[begin, end]].tolist())
        sources, first = np.unique(positions.source[edges], return_index=True)
        if len(sources):
            high[sources] = np.maximum.reduceat(rewards[edges] + high[positions.target[edges]], first)
            low[sources] = np.minimum.reduceat(rewards[edges] + low[positions.target[edges]], first)
    return float(max(np.abs(high[positions.start]).max(), np.abs(low[positions.start]).max())) or 1.0
