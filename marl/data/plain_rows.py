"""Observations that somebody types, ``{"obs": [[0.1, 0.2, 0.3, 0.4]]}``, as the batches that policies and critics take.

A policy's batch out of a rollout has more columns than a user who only wants to look knows of: the seat of the agent, which
actions are allowed, what is remembered. Here they are filled in: the first agent, everything, nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import AgentType, Array, PolicyID, Task
from marl.errors import SpaceMismatchError

PlainRows: TypeAlias = Mapping[str, Any] | Array | Sequence[Any]
"""A policy's batch, ``{"obs": observations}`` (and more columns, if wanted), or the observations alone; one row each."""


def as_rows(given: PlainRows, kind: AgentType, carry_size: int = 0, *, told_apart: bool = False) -> SampleBatch:
    """``given`` with all columns that models look at. ``told_apart``: the model is shown which agent it plays."""
    columns = dict(given) if isinstance(given, Mapping) else {"obs": given}
    if "obs" not in columns:
        raise SpaceMismatchError(
            f"a batch with the columns {', '.join(columns)} has no observations. Give {{'obs': ...}}."
        )
    if told_apart and kind.size > 1 and "agent_index" not in columns:
        raise SpaceMismatchError(
            f"this policy is shown which agent it plays. Add a column agent_index: the place of the agent in "
            f"{', '.join(kind.agents)}, from 0."
        )
    obs = _flat(columns["obs"], kind)
    filled: dict[str, Array] = {
        "agent_index": np.zeros(len(obs), np.int64),
        "legal": np.ones((len(obs), kind.legal_width), bool),
        "carry": np.zeros((len(obs), carry_size), np.float32),
    }
    for name, column in columns.items():
        filled[name] = np.asarray(column)
    return SampleBatch({**filled, "obs": obs})


def _flat(given: Any, kind: AgentType) -> Array:
    """Observations ``[N, obs_width]`` as they are stored; of shape ``[N, *shape of the space]`` or flat already."""
    obs = np.asarray(given)
    rows = len(obs) if obs.ndim else 0
    shapes = [(rows, kind.obs_width), (rows, *(kind.observation_space.shape or ()))]
    if obs.dtype == object or obs.shape not in shapes:
        raise SpaceMismatchError(
            f"observations of shape {obs.shape}; expected one row each, {(rows or 'N', *shapes[1][1:])}, of "
            f"{kind.observation_space}. A single observation x is written [x]."
        )
    return obs.reshape(rows, kind.obs_width).astype(kind.obs_dtype)


def as_grid(given: PlainRows, task: Task, policy_ids: Sequence[PolicyID], policy: PolicyID, k: int) -> MultiAgentBatch:
    """One step of as many copies as there are observations, each decided by the first agent of kind ``k``."""
    kind = task.kinds[k]
    obs = as_rows(given, kind)["obs"]
    copies, seat = len(obs), kind.first_seat
    there = np.zeros((1, copies, task.num_seats), bool)
    there[:, :, seat] = True
    nobody = np.zeros_like(there)
    playing = np.full(there.shape, policy_ids.index(policy), np.int64)
    seen = [np.zeros((1, copies, other.size, other.obs_width), other.obs_dtype) for other in task.kinds]
    seen[k][0, :, 0] = obs
    actions = [np.zeros((1, copies, other.size, *other.action_shape), other.action_dtype) for other in task.kinds]
    allowed = [np.ones((1, copies, other.size, other.legal_width), bool) for other in task.kinds]
    state = np.zeros((1, copies, task.state_size), np.float32)
    return MultiAgentBatch(
        task, tuple(policy_ids), seen, seen, actions, allowed, allowed, np.zeros(there.shape, np.float32), nobody, nobody,
        there, there, there, there, there, there.astype(np.int64), playing, playing, np.zeros(there.shape, np.float32),
        state, state, np.zeros((1, copies), np.int64), np.arange(copies)[None],
    )  # fmt: skip
