"""What follows from a start, as nodes of a tree: all joint actions of those who are asked, until every episode is over."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints
from marl.gametheory.tree.builder import Asked, Growth
from marl.gametheory.tree.env_walker import MakeEnv, Sight, Stage, States, stage_for
from marl.gametheory.tree.tree import Reals


class TreeGrowth(Growth):
    """A tree that grows from the starts of an env."""

    def stage(self, make: MakeEnv) -> Stage:
        return stage_for(make)

    def begin(self, stage: Stage, states: States, sight: Sight, probability: Reals, first: int = 0) -> None:
        """One root for each start, and everything below them."""
        starts = len(probability)
        roots = self.add(np.zeros(starts, np.int64), first + np.arange(starts), probability)
        grow(self, stage, roots, states, sight)

    def weigh(self, shares: Reals) -> None:
        """Give the roots other probabilities, by their numbers."""
        for chunk, parent in enumerate(self.parent):
            if parent[0] == 0:
                self.probability[chunk][:] = shares[self.branch[chunk]]


def grow(growth: Growth, stage: Stage, nodes: Ints, states: States, sight: Sight) -> None:
    """Everything below these nodes."""
    last = np.full(sight.present.shape, -1, np.int64)  # [n, P] each player's last choice
    paid = np.zeros(sight.present.shape)
    while len(nodes):
        rows, nodes, last, actions = _ask_everybody(growth, stage.kinds, nodes, last, sight)
        columns = [actions[:, kind.seats] for kind in stage.kinds]
        states, sight = stage.step(stage.take(states, rows), columns)
        paid = paid[rows] + sight.rewards
        nodes, last, paid, states, sight = _end(growth, stage, nodes, last, paid, states, sight)


def _ask_everybody(
    growth: Growth, kinds: Sequence[AgentType], nodes: Ints, last: Array, sight: Sight
) -> tuple[Ints, Ints, Array, Array]:
    """Decisions of all who are present, one after the other: the positions, nodes and joint actions that follow."""
    rows = np.arange(len(nodes))
    actions = np.zeros(last.shape, np.int64)
    for kind, shown, legal in zip(kinds, sight.obs, sight.legal, strict=True):
        for i in range(kind.size):
            seat = kind.first_seat + i
            asked = sight.present[rows, seat]
            at = np.flatnonzero(asked)
            if not at.size:
                continue
            where = rows[at]
            allowed = np.ones((at.size, kind.columns.options), bool)
            if kind.masked:
                allowed = legal[where, i]
            offer = growth.decide(Asked(nodes[at], seat, last[at, seat], shown[where, i], allowed))
            # Those who were not asked stay as they are; each of the others becomes as many as it has actions.
            index = np.concatenate([np.flatnonzero(~asked), at[offer.rows]])
            waiting = index.size - offer.rows.size
            rows, nodes, last, actions = rows[index], nodes[index], last[index], actions[index]
            nodes[waiting:], last[waiting:, seat], actions[waiting:, seat] = offer.nodes, offer.choice, offer.action
    return rows, nodes, last, actions


def _end(
    growth: Growth, stage: Stage, nodes: Ints, last: Array, paid: Reals, states: States, sight: Sight
) -> tuple[Ints, Array, Reals, States, Sight]:
    """Close the nodes where the episode is over; what goes on."""
    over: Bools = sight.over
    growth.end(nodes[over], paid[over])
    on = np.flatnonzero(~over)
    rest = Sight(
        [column[on] for column in sight.obs], [column[on] for column in sight.legal], sight.present[on],
        sight.rewards[on], sight.over[on],
    )  # fmt: skip
    return nodes[on], last[on], paid[on], stage.take(states, on), rest
