"""One look per grid instead of one per step: finite numbers, choices that exist, observations within their bounds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from gymnasium import spaces

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, AgentType, Array, Bools
from marl.envs.batched import BatchedEnv
from marl.envs.vector.bounds import stored_bounds
from marl.envs.vector.checks import FINITE, finite, largest_choices
from marl.errors import EnvError

VIEWS = (("obs", 0), ("new_obs", 1))  # columns with observations, and how many steps after ``t`` they were shown


class GridCheck:
    """Ends the run at the first bad number of a grid, before anybody learns from it, and says whose it was."""

    def __init__(self, env: BatchedEnv, worker_index: int) -> None:
        self.env, self.worker_index = env, worker_index
        seats = [(kind, (env.num_envs * kind.size,)) for kind in env.kinds]
        self._tops = [None if (top := largest_choices(kind)) is None else np.tile(top, times) for kind, times in seats]
        self._floats = [np.issubdtype(np.dtype(kind.obs_dtype), np.floating) for kind in env.kinds]
        self._bounds = [_told(kind) for kind in env.kinds]

    def numbers(self, batch: MultiAgentBatch) -> None:
        """NaN, infinity and choices that do not exist."""
        rewards = batch.rewards[batch.context :]
        if not finite(rewards):
            for row, env_id, seat in _first(~np.isfinite(rewards)):
                who, value = self._agent(env_id, seat), rewards[row, env_id, seat]
                raise EnvError(
                    f"{self._where(batch, row, env_id, 1)}: the reward of agent {who!r} is {value}. {FINITE}"
                )
        for k in range(len(self.env.kinds)):
            for name, later in VIEWS:
                self._look_at_sights(batch, k, name, later)
        for state, later in ((batch.state, 0), (batch.new_state, 1)):
            if state.size and not finite(state[batch.context :]):
                for row, env_id, place in _first(~np.isfinite(state[batch.context :])):
                    value = state[batch.context + row, env_id, place]
                    where = self._where(batch, row, env_id, later)
                    raise EnvError(f"{where}: entry {place} of the global state is {value}. {FINITE}")

    def _look_at_sights(self, batch: MultiAgentBatch, k: int, name: str, later: int) -> None:
        shown, top = getattr(batch, name)[k][batch.context :], self._tops[k]
        if self._floats[k]:
            if not finite(shown):
                self._refuse(batch, k, shown, ~np.isfinite(shown), later, "holds", FINITE)
        elif top is not None:
            outside = shown.reshape(len(shown), -1).view(np.uint64) > top  # a negative number is a huge one there
            if np.count_nonzero(outside):
                remedy = f"Its space is {self.env.kinds[k].observation_space}: make the two agree."
                outside = outside.reshape(shown.shape)
                self._refuse(batch, k, shown, outside, later, "is not in its space: it holds", remedy)

    def bounds(self, batch: MultiAgentBatch) -> None:
        """What agents were shown when they were asked lies within the bounds of their spaces."""
        for k, bounds in enumerate(self._bounds):
            shown = batch.obs[k][batch.context :]
            if bounds is None or not shown.size or _all_inside(shown.reshape(-1, shown.shape[-1]), *bounds):
                continue
            low, high = bounds
            asked = batch.present[batch.context :, :, self.env.kinds[k].seats]  # cells of absent agents mean nothing
            outside = ((shown < low) | (shown > high)) & asked[..., None]
            for *_, place in _first(outside):
                remedy = (
                    f"Expected {low[place]:.6g} to {high[place]:.6g}. Widen the bounds (np.inf is fine), or cut the "
                    "observation with np.clip; check_bounds: false trains on it as it is."
                )
                space = self.env.kinds[k].observation_space
                self._refuse(batch, k, shown, outside, 0, f"is not in its space {space}: it holds", remedy)

    def _refuse(
        self, batch: MultiAgentBatch, k: int, shown: Array, bad: Bools, later: int, verb: str, remedy: str
    ) -> None:
        for row, env_id, column, place in _first(bad):
            who, value = self._agent(env_id, self.env.kinds[k].first_seat + column), shown[row, env_id, column, place]
            where = self._where(batch, row, env_id, later)
            raise EnvError(f"{where}: the observation of agent {who!r} {verb} {value:g} at place {place}. {remedy}")

    def _where(self, batch: MultiAgentBatch, row: int, env_id: int, later: int) -> str:
        step = batch.t[batch.context + row, env_id] + later
        return f"env {self.env.name!r}, worker {self.worker_index}, copy {env_id}, step {step}"

    def _agent(self, env_id: int, seat: int) -> AgentID:
        """Who sits there; where seats change hands, who sat there in that row is not known any more."""
        return self.env.agent_at(env_id, seat) if self.env.fixed_seats else self.env.seat_names[seat]


def _told(kind: AgentType) -> tuple[Array, Array] | None:
    """Bounds that say something: choices are looked at apart, and a type such as uint8 may keep them by itself."""
    if isinstance(kind.observation_space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    low, high = stored_bounds(kind)
    dtype = np.dtype(kind.obs_dtype)
    if dtype.kind in "iu" and (low <= np.iinfo(dtype).min).all() and (high >= np.iinfo(dtype).max).all():
        return None
    return None if np.isinf(low).all() and np.isinf(high).all() else (low, high)


def _all_inside(rows: Array, low: Array, high: Array) -> bool:
    if (low == low[0]).all() and (high == high[0]).all():
        return bool(rows.min() >= low[0] and rows.max() <= high[0])
    return bool((rows.min(axis=0) >= low).all() and (rows.max(axis=0) <= high).all())


def _first(bad: Bools) -> Iterator[list[int]]:
    """The place of the first one, in the order of time."""
    yield from np.argwhere(bad)[:1].tolist()
