"""Env steps as rows of numbers, for models of values: when it is, what agents see, what the judged ones do.

    x = 1, t, t^2 | what everybody sees | for every judged agent: its action, and its action times what it sees

All of it is linear in the actions. Options are one-hot; their mean over a policy's draws are its chances. So there are two
tables: with what was done, and with what the policies would do on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from marl.data.task import AgentType, Array, Ints, Task
from marl.offline.estimators import Doubles
from marl.offline.trajectories import Trajectories
from marl.policies.networks import byte_scale, one_hot_sizes

if TYPE_CHECKING:
    from marl.offline.judging import Decisions

SEEN = 64  # columns of what everybody sees at most; more are mixed into so many
OWN = 8  # the same of what an agent sees, beside its action
SEED = 0x6F7065  # of the mixing, which is the same for everybody


def describe_steps(data: Trajectories, decisions: Sequence[Decisions]) -> tuple[Doubles, Doubles]:
    """``[S, d]`` with the actions that were taken, and with the policies' own on average."""
    seen = _seen_by_all(data)
    shared = [_time(data), _narrowed(seen, SEEN)]
    taken, expected = list(shared), list(shared)
    for made in decisions:
        done = _encoded(data, made)
        own = _narrowed(_encoded_obs(data, made.kind, made.rows, made.seats), OWN)
        wished = np.concatenate([made.strategy.chances, made.strategy.mean], axis=1)
        for seat in np.unique(made.seats).tolist():
            mine = made.seats == seat
            taken.append(_of_agent(data, made.rows[mine], done[mine], own[mine]))
            expected.append(_of_agent(data, made.rows[mine], wished[mine], own[mine]))
    return np.concatenate(taken, axis=1), np.concatenate(expected, axis=1)


def _time(data: Trajectories) -> Doubles:
    """What is still to come depends on how much is left."""
    steps = np.arange(data.env_steps) - np.repeat(data.starts[:-1], data.lengths)
    share = steps / max(int(data.lengths.max()), 1)
    return np.stack([np.ones_like(share), share, share**2], axis=1)


def _seen_by_all(data: Trajectories) -> Doubles:
    """``[S, width]``: observations of all seats side by side, zeros where nobody is asked."""
    parts = []
    for kind in data.task.kinds:
        for seat in range(kind.seats.start, kind.seats.stop):
            rows = np.flatnonzero(data.columns["present"][:, seat])
            seats = np.full(len(rows), seat)
            encoded = _encoded_obs(data, kind, rows, seats)
            table = np.zeros((data.env_steps, encoded.shape[1]))
            table[rows] = encoded
            parts.append(table)
    return np.concatenate(parts, axis=1)


def _encoded_obs(data: Trajectories, kind: AgentType, rows: Ints, seats: Ints) -> Doubles:
    """Observations as numbers: discrete ones one-hot, bytes as 0..1."""
    obs = data.columns[f"obs.{_place(data.task, kind)}"][rows, seats - kind.first_seat]
    sizes = one_hot_sizes(kind.observation_space)
    if not sizes:
        return np.asarray(obs * byte_scale(kind.observation_space), np.float64)
    parts = [np.eye(size)[obs[:, column].astype(np.int64)] for column, size in enumerate(sizes)]
    return np.concatenate(parts, axis=1)


def _encoded(data: Trajectories, made: Decisions) -> Doubles:
    """What was done: one-hot options, then coordinates."""
    kind = made.kind
    actions: Array = data.columns[f"actions.{_place(data.task, kind)}"][made.rows, made.seats - kind.first_seat]
    table = actions.reshape(len(actions), -1)
    parts = [np.eye(kind.columns.sizes[column])[table[:, column].astype(np.int64)] for column in kind.columns.choices]
    parts.append(table[:, list(kind.columns.numbers)].astype(np.float64))
    return np.concatenate(parts, axis=1)


def _of_agent(data: Trajectories, rows: Ints, actions: Doubles, own: Doubles) -> Doubles:
    """Its action, and its action times what it sees; zeros in steps in which it does not decide."""
    products = (actions[:, :, None] * own[:, None, :]).reshape(len(rows), -1)
    mine = np.concatenate([actions, products], axis=1)
    table = np.zeros((data.env_steps, mine.shape[1]))
    table[rows] = mine
    return table


def _narrowed(table: Doubles, most: int) -> Doubles:
    """Columns of about one; where there are too many, ``most`` random sums of them (Johnson & Lindenstrauss)."""
    scale = table.std(axis=0)
    # Without their means: what is far from zero and hardly moves would look like the constant column, only larger.
    even = np.asarray((table - table.mean(axis=0)) / np.where(scale > 0, scale, 1.0))
    if even.shape[1] <= most:
        return even
    mixing = np.random.default_rng(SEED).standard_normal((even.shape[1], most))
    return np.asarray(even @ (mixing / np.sqrt(even.shape[1])))


def _place(task: Task, kind: AgentType) -> int:
    return task.kinds.index(kind)
