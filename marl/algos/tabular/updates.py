"""What values should have been, and how far they move there: pure functions of numpy arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.batch import SampleBatch
from marl.data.task import Bools, Ints
from marl.policies.value_table import allowed_of, best_of, epsilon_chances

Doubles: TypeAlias = NDArray[np.float64]
UNKNOWN = -1  # an action that nobody chose


def best_next(values: Doubles, legal: Bools, played: Ints, epsilon: float) -> Doubles:
    """``max_u Q(o', u)`` over legal actions."""
    del played, epsilon
    best: Doubles = np.where(allowed_of(legal, values), values, -np.inf).max(axis=1)
    return best


def played_next(values: Doubles, legal: Bools, played: Ints, epsilon: float) -> Doubles:
    """``Q(o', u')`` of the action that was played next.

    Where an episode was cut off nobody chose one; the mean over what would have been played stands for it.
    """
    chosen = np.take_along_axis(values, np.maximum(played, 0)[:, None], axis=1)[:, 0]
    expected = (epsilon_chances(best_of(values, legal), legal, epsilon) * values).sum(axis=1)
    return np.asarray(np.where(played == UNKNOWN, expected, chosen))


LOOK_AHEAD: Mapping[str, Callable[[Doubles, Bools, Ints, float], Doubles]] = {
    "max": best_next,
    "played": played_next,
}
"""What the state after a decision is worth, by ``backup``."""


def backed_up(rows: SampleBatch, gamma: float, next_value: Doubles) -> Doubles:
    """``r + gamma ** elapsed * next_value``; nothing follows a decision that ended in ``terminated``."""
    alive = ~rows["terminateds"].astype(bool)
    # In double precision: small worlds are compared with exact solutions.
    return np.asarray(rows["rewards"].astype(np.float64) + gamma ** rows["elapsed"] * alive * next_value)


def move(values: Doubles, visits: Ints, cells: Ints, targets: Doubles, lr: float | None) -> None:
    """Move the values of some cells towards their targets, in place; ``values`` and ``visits`` are flat.

    A cell with ``k`` targets goes as far towards their mean as ``k`` single steps would, ``1 - (1 - lr) ** k`` of the way. So
    the order of copies and agents that were in one state at the same time means nothing. Without ``lr`` a value is the
    mean of all targets that it ever had.
    """
    touched, place, counts = np.unique(cells, return_inverse=True, return_counts=True)
    mean = np.bincount(place, targets) / counts
    visits[touched] += counts
    # The new targets' part of the mean over all: k of N visits.
    share = np.asarray(counts / visits[touched], np.float64)
    if lr is not None:
        share = np.asarray(1.0 - (1.0 - lr) ** counts, np.float64)
    values[touched] += share * (mean - values[touched])


def first_visits(rows: SampleBatch, cells: Ints) -> Ints:
    """Row numbers of the first time that a cell was visited in an agent's episode; rows come in the order of time."""
    visits = np.stack([rows["stream"], rows["eps_id"], cells], axis=1)
    _, first = np.unique(visits, axis=0, return_index=True)
    return np.sort(first)


def next_played(rows: SampleBatch) -> tuple[Ints, Bools, Ints]:
    """For each row: the action that its agent played next, whether the row can be learned from, and where that action stands.

    Rows come in the order of time. The next action is unknown where a life ended, or where a decision is missing; a row whose
    agent has not been asked again yet has to wait.
    """
    # Stable: within each agent's stream the order of time stays.
    order = np.argsort(rows["stream"], kind="stable")
    stream, until = rows["stream"][order], (rows["t"] + rows["elapsed"])[order]
    ended = (rows["terminateds"] | rows["truncateds"]).astype(bool)[order]
    same = np.append(stream[1:] == stream[:-1], False)
    later = np.roll(order, -1)  # of the last row of all it is nobody's, as `same` says
    same_episode = rows["eps_id"][later] == rows["eps_id"][order]
    goes_on = same & same_episode & ~ended & (until == rows["t"][later])
    played, follower = np.full(len(order), UNKNOWN), np.full(len(order), UNKNOWN)
    played[order] = np.where(goes_on, rows["actions"][later], UNKNOWN)
    follower[order] = np.where(goes_on, later, UNKNOWN)
    ready = np.zeros(len(order), bool)
    ready[order] = ended | same
    return played, ready, follower
