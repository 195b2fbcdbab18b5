"""Looks at what envs show before anybody learns from it: shapes, finite numbers, choices in range, bounds.

Shapes are compared at every step. Numbers of dict envs are looked at step by step, those of native envs once per rollout,
which is much cheaper; whether observations lie within the bounds of their spaces is asked once per rollout for all envs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, AgentType, Array, Bools
from marl.envs.batched import BatchedEnv, StepOutput
from marl.errors import EnvError

FINITE = "Return finite numbers."
PLAIN = ("present", "rewards", "terminated", "truncated", "blind")  # arrays with one cell per copy and seat
ROUNDING = 1e-6  # relative to the bound, and to 1 where it is smaller


class EnvCheck:
    """Ends the run at the first number that no learner can use, and says whose it was.

    ``every_step``: the numbers of every frame are looked at; else ``look_at_rollout`` does it. Frames of lifted dict envs have
    the right shapes by construction.
    """

    def __init__(self, env: BatchedEnv, worker_index: int = 0, every_step: bool = True) -> None:
        self.env, self.worker_index, self.every_step = env, worker_index, every_step
        self._shapes: object = None  # of a frame that was found to be right
        self._floats: list[bool] = []
        self._tops: list[NDArray[np.uint64] | None] = []  # largest choices, one row for all seats of all copies
        self._bounds: list[tuple[Array, Array] | None] = []
        for kind in env.kinds:
            top = largest_choices(kind)
            # The same for all agents: comparing arrays of one shape is several times faster than broadcasting a short one.
            if top is not None:
                top = np.tile(top, env.num_envs * kind.size)
            self._tops.append(top)
            self._floats.append(bool(np.issubdtype(np.dtype(kind.obs_dtype), np.floating)))
            self._bounds.append(_bounds_to_ask_for(kind))

    # -- one frame -------------------------------------------------------------------------------------------------

    def look(self, frame: StepOutput, where: Callable[[int], str]) -> None:
        """``where`` tells env, worker, copy and step of a copy."""
        if self.env.lifted:
            self.look_at_numbers(frame, where)
            return
        try:
            flags = (frame.present, frame.terminated, frame.truncated, frame.blind, frame.over)
            arrays = (*flags, frame.rewards, frame.state, *frame.obs, *frame.legal)
            shapes: object = ([array.shape for array in arrays], [column.dtype for column in frame.obs])
        except (AttributeError, TypeError):
            shapes = None  # something is no array, or the frame no frame
        if shapes is None or shapes != self._shapes:  # those of the frame before were right
            for text in misshapen(self.env, frame):
                raise EnvError(f"{where(0)}: {text}")
            self._shapes = shapes
        if self.every_step:
            self.look_at_numbers(frame, where)

    def look_at_numbers(self, frame: StepOutput, where: Callable[[int], str]) -> None:
        """NaN, infinity and choices that do not exist."""
        if not finite(frame.rewards):
            env_id, seat = _first(~np.isfinite(frame.rewards))
            raise EnvError(
                f"{where(env_id)}: the reward of agent {self.env.agent_at(env_id, seat)!r} is {frame.rewards[env_id, seat]}. "
                f"{FINITE}"
            )
        for k, shown in enumerate(frame.obs):
            bad = self._unusable(k, shown[None])
            if bad is None:
                continue
            env_id, column, place = _first(bad[0])
            agent = self.env.agent_at(env_id, self.env.kinds[k].first_seat + column)
            value = shown[env_id, column, place]
            raise EnvError(f"{where(env_id)}: {self._bad_number(k, agent, str(value), place)}")
        if frame.state.size and not finite(frame.state):
            env_id, place = _first(~np.isfinite(frame.state))
            raise EnvError(
                f"{where(env_id)}: entry {place} of the global state is {frame.state[env_id, place]}. {FINITE}"
            )

    # -- a whole rollout -------------------------------------------------------------------------------------------

    def look_at_rollout(self, batch: MultiAgentBatch, bounds: bool = True) -> None:
        """All rows but the context, which has been looked at; ``bounds``: whether observations are to keep to them."""
        new = slice(batch.context, None)
        if not self.every_step:
            self._look_at_all_numbers(batch, new)
        if bounds:
            for k, limits in enumerate(self._bounds):
                if limits is not None:
                    self._look_at_bounds(batch, k, batch.obs[k][new], *limits)

    def _look_at_all_numbers(self, batch: MultiAgentBatch, new: slice) -> None:
        if not finite(batch.rewards[new]):
            self._refuse_reward(batch, batch.rewards[new])
        # What a step shows is the view before the next one, unless episodes begin: only these rows are to be looked at twice.
        first = (batch.t[new] == 0).any(axis=1)
        first[:1] = True
        for k in range(len(self.env.kinds)):
            self._look_at_obs(batch, k, batch.new_obs[k][new], 1)
            if self._unusable(k, batch.obs[k][new][first]) is not None:
                self._look_at_obs(batch, k, batch.obs[k][new], 0)
        if not batch.task.state_size:
            return
        for later, state in enumerate((batch.state[new][first], batch.new_state[new])):
            if not finite(state):
                self._refuse_state(batch, batch.new_state[new] if later else batch.state[new], later)

    def _look_at_obs(self, batch: MultiAgentBatch, k: int, shown: Array, later: int) -> None:
        bad = self._unusable(k, shown)
        if bad is not None:
            self._refuse_obs(batch, k, shown, bad, later)

    def _refuse_reward(self, batch: MultiAgentBatch, rewards: Array) -> None:
        row, env_id, seat = _first(~np.isfinite(rewards))
        who, value = self._agent(env_id, seat), rewards[row, env_id, seat]
        raise EnvError(f"{self._where(batch, row, env_id, 1)}: the reward of agent {who!r} is {value}. {FINITE}")

    def _refuse_obs(self, batch: MultiAgentBatch, k: int, shown: Array, bad: Bools, later: int) -> None:
        """``later``: how many steps after ``t`` these observations were shown."""
        row, env_id, column, place = _first(bad)
        who, value = self._agent(env_id, self.env.kinds[k].first_seat + column), shown[row, env_id, column, place]
        where = self._where(batch, row, env_id, later)
        raise EnvError(f"{where}: {self._bad_number(k, who, f'{value:g}', place)}")

    def _refuse_state(self, batch: MultiAgentBatch, state: Array, later: int) -> None:
        row, env_id, place = _first(~np.isfinite(state))
        where, value = self._where(batch, row, env_id, later), state[row, env_id, place]
        raise EnvError(f"{where}: entry {place} of the global state is {value}. {FINITE}")

    def _look_at_bounds(self, batch: MultiAgentBatch, k: int, shown: Array, low: Array, high: Array) -> None:
        """What agents were shown when they were asked lies within the bounds of their spaces."""
        if not shown.size or _all_inside(shown.reshape(-1, shown.shape[-1]), low, high):
            return
        kind = self.env.kinds[k]
        asked = batch.present[batch.context :, :, kind.seats]  # cells of absent agents mean nothing
        outside = ((shown < low) | (shown > high)) & asked[..., None]
        if not outside.any():
            return
        row, env_id, column, place = _first(outside)
        who, value = self._agent(env_id, kind.first_seat + column), shown[row, env_id, column, place]
        raise EnvError(
            f"{self._where(batch, row, env_id, 0)}: the observation of agent {who!r} is not in its space "
            f"{kind.observation_space}: it holds {value:g} at place {place}. Expected {low[place]:.6g} to {high[place]:.6g}. "
            "Widen the bounds (np.inf is fine), or cut the observation with np.clip; check_bounds: false trains on it as it "
            "is."
        )

    # -- both ------------------------------------------------------------------------------------------------------

    def _unusable(self, k: int, shown: Array) -> Bools | None:
        """Where observations ``[T, E, A_k, obs_width]`` hold what no network can take; None: nowhere."""
        if self._floats[k]:
            # Almost always all is well, and `finite` is several times faster than a look at each number.
            if finite(shown):
                return None
            return ~np.isfinite(shown)
        top = self._tops[k]
        if top is None:
            return None
        outside = shown.reshape(len(shown), -1).view(np.uint64) > top  # a negative number is a huge one there
        if not np.count_nonzero(outside):
            return None
        return outside.reshape(shown.shape)

    def _bad_number(self, k: int, agent: AgentID, value: str, place: int) -> str:
        if self._floats[k]:
            return f"the observation of agent {agent!r} holds {value} at place {place}. {FINITE}"
        space = self.env.kinds[k].observation_space
        return (
            f"the observation of agent {agent!r} is not in its space: it holds {value} at place {place}. Its space is "
            f"{space}: make the two agree."
        )

    def _where(self, batch: MultiAgentBatch, row: int, env_id: int, later: int) -> str:
        step = batch.t[batch.context + row, env_id] + later
        return f"env {self.env.name!r}, worker {self.worker_index}, copy {env_id}, step {step}"

    def _agent(self, env_id: int, seat: int) -> AgentID:
        """Who sits there; where seats change hands, who sat there in that row is not known any more."""
        if self.env.fixed_seats:
            return self.env.agent_at(env_id, seat)
        return self.env.seat_names[seat]


def finite(numbers: Array) -> bool:
    """Whether there is neither NaN nor infinity; a sum of squares tells it fastest, unless it overflows."""
    flat = numbers.ravel()
    return math.isfinite(np.vdot(flat, flat)) or bool(np.isfinite(flat).all())


def misshapen(env: BatchedEnv, frame: object) -> Iterator[str]:
    """What is wrong with the sizes and types of a frame's arrays."""
    if not isinstance(frame, StepOutput):
        yield f"the env returned a {type(frame).__name__}; expected a marl.StepOutput."
        return
    copies = env.num_envs
    cells = (copies, len(env.seat_names))
    wanted = {**dict.fromkeys(PLAIN, cells), "over": (copies,), "state": (copies, env.state_size)}
    for name, shape in wanted.items():
        if np.shape(getattr(frame, name)) != shape:
            yield f"frame.{name} has shape {np.shape(getattr(frame, name))}, expected {shape}."
    for name in ("obs", "legal"):
        columns = getattr(frame, name)
        if not hasattr(columns, "__len__"):
            yield f"frame.{name} is a {type(columns).__name__}, expected a list of arrays: one per kind of agent."
            continue
        if len(columns) != len(env.kinds):
            yield f"frame.{name} has {len(columns)} arrays, expected {len(env.kinds)}: one per kind of agent."
            continue
        for k, kind in enumerate(env.kinds):
            yield from _misshapen_column(name, k, kind, columns[k], copies)


def _misshapen_column(name: str, k: int, kind: AgentType, column: Array, copies: int) -> Iterator[str]:
    """What is wrong with the observations or the masks of one kind of agent."""
    width = kind.legal_width
    if name == "obs":
        width = kind.obs_width
    expected = (copies, kind.size, width)
    if np.shape(column) != expected:
        yield f"frame.{name}[{k}] has shape {np.shape(column)}, expected {expected} for kind {kind.name!r}."
    elif name == "obs":
        given, wanted = column.dtype, np.dtype(kind.obs_dtype)
        both_floats = given.kind == wanted.kind == "f"
        if given != wanted and not both_floats:
            yield f"frame.obs[{k}] has the type {given}, expected {wanted} for kind {kind.name!r}."


def largest_choices(kind: AgentType) -> NDArray[np.uint64] | None:
    """Per number of a stored observation the largest one that its network can show; None where any number will do."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return np.array([space.n - 1], np.uint64)
    if isinstance(space, spaces.MultiDiscrete):
        return (space.nvec.reshape(-1) - 1).astype(np.uint64)
    return None


def stored_bounds(kind: AgentType) -> tuple[Array, Array]:
    """Lowest and highest value of each number of a stored observation, a little wider than the space because of rounding."""
    space = kind.observation_space
    if isinstance(space, spaces.Discrete):
        return np.zeros(1), np.full(1, space.n - 1.0)
    if isinstance(space, spaces.MultiDiscrete):
        return np.zeros(kind.obs_width), space.nvec.reshape(-1) - 1.0
    flat = space
    if not isinstance(space, spaces.Box):
        flat = spaces.flatten_space(space)
    if not isinstance(flat, spaces.Box):
        return np.full(kind.obs_width, -np.inf), np.full(kind.obs_width, np.inf)
    low, high = flat.low.reshape(-1).astype(np.float64), flat.high.reshape(-1).astype(np.float64)
    return low - ROUNDING * np.maximum(np.abs(low), 1), high + ROUNDING * np.maximum(np.abs(high), 1)


def _bounds_to_ask_for(kind: AgentType) -> tuple[Array, Array] | None:
    """Bounds that say something: choices are looked at apart, and a type such as uint8 may keep them by itself."""
    if isinstance(kind.observation_space, spaces.Discrete | spaces.MultiDiscrete):
        return None
    low, high = stored_bounds(kind)
    dtype = np.dtype(kind.obs_dtype)
    smallest, largest = -np.inf, np.inf
    if dtype.kind in "iu":
        smallest, largest = np.iinfo(dtype).min, np.iinfo(dtype).max
    if (low <= smallest).all() and (high >= largest).all():
        return None
    return low, high


def _all_inside(rows: Array, low: Array, high: Array) -> bool:
    if (low == low[0]).all() and (high == high[0]).all():
        smallest, largest = rows.min(), rows.max()  # one pair for all columns is found much faster
    else:
        smallest, largest = rows.min(axis=0), rows.max(axis=0)
    return bool(np.all(smallest >= low) and np.all(largest <= high))


def _first(bad: Bools) -> tuple[int, ...]:
    """The place of the first one, in the order of time."""
    return tuple(np.argwhere(bad)[0].tolist())
