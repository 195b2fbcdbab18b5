"""Grows the tree of an env, one env step after the other."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints
from marl.gametheory.tree.builder import Asked, Growth
from marl.gametheory.tree.env_walker import Sight, Stage, States
from marl.gametheory.tree.tree import Reals


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
            allowed = legal[where, i] if kind.masked else np.ones((at.size, kind.columns.options), bool)
            offer = growth.decide(Asked(nodes[at], seat, last[at, seat], shown[where, i], allowed))
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
