"""Looks at every frame before anybody learns from it: shapes, finite numbers, choices in range."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marl.data.task import AgentType, Array, Bools
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.vector.vector_env import DictVector
from marl.errors import EnvError

FINITE = "Return finite numbers."
PLAIN = ("present", "rewards", "terminated", "truncated", "blind")  # arrays with one cell per lane and seat


class FrameCheck:
    """Ends the run at the first number that no learner can use, and says whose it was.

    Frames of lifted dict envs have the right shapes by construction.
    """

    def __init__(self, env: BatchedEnv) -> None:
        self.env = env
        self._lifted = isinstance(env, DictVector)
        self._shapes: object = None  # of a frame that was found to be right
        self._tops = [_tiled(largest_choices(kind), (env.num_envs, kind.size, 1)) for kind in env.kinds]
        self._floats = [np.issubdtype(np.dtype(kind.obs_dtype), np.floating) for kind in env.kinds]

    def look(self, frame: StepOutput, where: Callable[[int], str]) -> None:
        """``where`` tells env, worker, copy and step of a lane."""
        self.look_at_shapes(frame, where)
        if not finite(frame.rewards):
            env_id, seat = _first(~np.isfinite(frame.rewards))
            raise EnvError(
                f"{where(env_id)}: the reward of agent {self.env.agent_at(env_id, seat)!r} is {frame.rewards[env_id, seat]}. "
                f"{FINITE}"
            )
        for k, (column, top) in enumerate(zip(frame.obs, self._tops, strict=True)):
            if self._floats[k]:
                if not finite(column):
                    self._refuse(k, column, ~np.isfinite(column), "holds", FINITE, where)
            elif top is not None and np.count_nonzero(
                column.view(np.uint64) > top
            ):  # a negative number is a huge one there
                remedy = f"Its space is {self.env.kinds[k].observation_space}: make the two agree."
                self._refuse(k, column, column.view(np.uint64) > top, "is not in its space: it holds", remedy, where)
        if frame.state.size and not finite(frame.state):
            env_id, place = _first(~np.isfinite(frame.state))
            raise EnvError(
                f"{where(env_id)}: entry {place} of the global state is {frame.state[env_id, place]}. {FINITE}"
            )

    def look_at_shapes(self, frame: StepOutput, where: Callable[[int], str]) -> None:
        if self._lifted:
            return
        try:
            shapes = (
                frame.present.shape, frame.rewards.shape, frame.terminated.shape, frame.truncated.shape, frame.over.shape,
                frame.blind.shape, frame.state.shape, [(c.shape, c.dtype) for c in frame.obs], [c.shape for c in frame.legal],
            )  # fmt: skip
        except AttributeError:
            shapes = None
        if shapes is None or shapes != self._shapes:
            for text in misshapen(self.env, frame):
                raise EnvError(f"{where(0)}: {text}")
            self._shapes = shapes

    def _refuse(self, k: int, column: Array, bad: Bools, verb: str, remedy: str, where: Callable[[int], str]) -> None:
        env_id, column_seat, place = _first(bad)
        agent = self.env.agent_at(env_id, self.env.kinds[k].first_seat + column_seat)
        raise EnvError(
            f"{where(env_id)}: the observation of agent {agent!r} {verb} {column[env_id, column_seat, place]} "
            f"at place {place}. {remedy}"
        )


def finite(numbers: Array) -> bool:
    """Whether there is neither NaN nor infinity; a sum of squares tells it fastest, unless it overflows."""
    flat = numbers.ravel()
    return math.isfinite(np.vdot(flat, flat)) or bool(np.isfinite(flat).all())


def misshapen(env: BatchedEnv, frame: object) -> Iterator[str]:
    """What is wrong with the sizes and types of a frame's arrays."""
    if not isinstance(frame, StepOutput):
        yield f"the env returned a {type(frame).__name__}; expected a marl.StepOutput."
        return
    env_ids = env.num_envs
    cells = (env_ids, sum(kind.size for kind in env.kinds))
    wanted = {**dict.fromkeys(PLAIN, cells), "over": (env_ids,), "state": (env_ids, env.state_size)}
    for name, shape in wanted.items():
        if np.shape(getattr(frame, name)) != shape:
            yield f"frame.{name} has shape {np.shape(getattr(frame, name))}, expected {shape}."
    for name in ("obs", "legal"):
        columns = getattr(frame, name)
        if len(columns) != len(env.kinds):
            yield f"frame.{name} has {len(columns)} arrays, expected {len(env.kinds)}: one per kind of agent."
            continue
        for k, kind in enumerate(env.kinds):
            yield from _misshapen_column(name, k, kind, columns[k], env_ids)


def _misshapen_column(name: str, k: int, kind: AgentType, column: Array, env_ids: int) -> Iterator[str]:
    """What is wrong with the observations or the masks of one kind of agent."""
    width = kind.obs_width if name == "obs" else kind.legal_width
    expected = (env_ids, kind.size, width)
    if np.shape(column) != expected:
        yield f"frame.{name}[{k}] has shape {np.shape(column)}, expected {expected} for kind {kind.name!r}."
    elif name == "obs" and not _fits(column.dtype, np.dtype(kind.obs_dtype)):
        expected_type = np.dtype(kind.obs_dtype)
        yield f"frame.obs[{k}] has the type {column.dtype}, expected {expected_type} for kind {kind.name!r}."


def _fits(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    return given == wanted or (given.kind == "f" and wanted.kind == "f")


def largest_choices(kind: AgentType) -> NDArray[np.uint64] | None:
    """Per number of a stored observation the largest one that its network can show; None where any number will do."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return np.array([space.n - 1], np.uint64)
    if isinstance(space, spaces.MultiDiscrete):
        return (space.nvec.reshape(-1) - 1).astype(np.uint64)
    return None


def _tiled(top: NDArray[np.uint64] | None, times: tuple[int, ...]) -> NDArray[np.uint64] | None:
    """The same for all agents: comparing arrays of one shape is several times faster than broadcasting a short one."""
    return None if top is None else np.tile(top, times)


def _first(bad: Bools) -> tuple[int, ...]:
    return tuple(np.argwhere(bad)[0].tolist())
