"""A table of action values: one row per state that was met, greedy with an epsilon of random play.

A state is what an agent sees, to the last bit, and with ``agent_id`` also which agent it is. A state that is not in the table
has the ``initial_value`` for every action. Rows are added by the learner alone; the table travels with the weights and takes
the length of those that are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor, nn

from marl.data.plain_rows import PlainRows, as_rows
from marl.data.task import AgentType, AnySpace, Array, Bools, Floats, Ints
from marl.errors import SpaceMismatchError, TrainingError
from marl.policies.config import ExplorationConfig, PolicySpec
from marl.policies.distributions import race
from marl.policies.exploration import over_values
from marl.policies.policy import Decision, Inputs, Insight, Policy

TABLE = "table"
"""The way of acting without a network: keys of ``model:`` mean nothing to it, but for ``agent_id``."""
UNUSED = -1  # the seat of rows that are not in use yet
FIRST_ROWS = 64  # so many at first; then twice as many whenever they are full


class ValueTable(Policy):
    """Rows ``[R]``: ``obs`` and ``seat`` say which state it is, ``values`` ``[R, actions]`` what its actions are worth."""

    differs_by_worker = True
    obs: Tensor
    seat: Tensor
    values: Tensor

    def __init__(self, kind: AgentType, spec: PolicySpec) -> None:
        super().__init__(kind)
        if not isinstance(kind.action_space, spaces.Discrete):
            raise SpaceMismatchError(
                f"a table of action values needs Discrete actions, but agents {kind.agents[0]!r}, ... have "
                f"{kind.action_space}. Use ppo or a2c for them, or sac, td3 or ddpg for a Box."
            )
        self.num_actions = int(kind.action_space.n)
        self.told_apart = spec.agent_id
        self.initial_value = float(spec.options.get("initial_value", 0.0))
        self.max_states = int(spec.options.get("max_states", 100_000))
        if not spec.options.get("float_states"):
            _check_countable(kind)
        self.exploration = over_values(spec.exploration or ExplorationConfig(type="EpsilonGreedy"), temperature=0.0)
        self.register_buffer("obs", torch.zeros((0, kind.obs_width), dtype=torch.from_numpy(_no_obs(kind)).dtype))
        self.register_buffer("seat", torch.zeros(0, dtype=torch.int64))
        self.register_buffer("values", torch.zeros((0, self.num_actions), dtype=torch.float64))
        self._row_of: dict[bytes, int] | None = None

    def __len__(self) -> int:
        """How many states it knows."""
        return len(self._index())

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        chances = self.chances(inputs, explore=explore)
        if not explore:
            return Decision(chances.argmax(axis=1), np.zeros(len(inputs), np.float32), carry)
        actions = race(chances.astype(np.float32), rng)
        logp = np.log(chances[np.arange(len(actions)), actions])
        return Decision(actions, logp.astype(np.float32), carry)

    def tells_logp(self, explore: bool) -> bool:
        del explore
        return True

    def chances(self, inputs: Inputs, *, explore: bool) -> NDArray[np.float64]:
        """How likely each action is played ``[N, actions]``. Without ``explore`` the first of the best ones is certain."""
        best = best_of(self.values_of(inputs.obs, inputs.agent_index), inputs.legal)
        if not explore:
            return np.asarray(np.eye(self.num_actions)[best.argmax(axis=1)])
        # While exploring, equal values are played alike: a fresh table would try its first action over and over.
        return epsilon_chances(best, inputs.legal, self.exploration.chance_of_random())

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        """Action values; chances only where it explores, as greedy play takes the highest value."""
        del carry
        values = self.values_of(inputs.obs, inputs.agent_index)
        chances: Floats | None = None
        if explore:
            chances = self.chances(inputs, explore=True).astype(np.float32)
        best = np.where(allowed_of(inputs.legal, values), values, -np.inf).max(axis=1)
        return Insight(chances, q_values=values.astype(np.float32), value=best.astype(np.float32))

    def q_values(self, batch: PlainRows) -> Tensor:
        """Action values ``[N, actions]`` of a batch of this policy or of ``{"obs": observations}``."""
        rows = as_rows(batch, self.kind, told_apart=self.told_apart)
        return torch.from_numpy(self.values_of(rows["obs"], rows["agent_index"]))

    def anneal(self, timesteps: int) -> None:
        self.exploration.anneal(timesteps)

    def place(self, index: int, total: int) -> None:
        self.exploration.place(index, total)

    # -- looking up ------------------------------------------------------------------------------------------------

    def values_of(self, obs: Array, agent_index: Ints) -> NDArray[np.float64]:
        """Action values ``[N, actions]`` of what agents see."""
        return self.at(self.rows_of(obs, agent_index))

    def at(self, rows: Ints) -> NDArray[np.float64]:
        """Values of rows of the table; -1: a state that it does not know."""
        found = np.full((len(rows), self.num_actions), self.initial_value)
        known = rows >= 0
        found[known] = self.values.numpy()[rows[known]]
        return found

    def rows_of(self, obs: Array, agent_index: Ints) -> Ints:
        """The row of each state, or -1."""
        index = self._index()
        found = [index.get(key, -1) for key in self._keys(obs, agent_index)]
        return np.array(found, np.int64)

    def add(self, obs: Array, agent_index: Ints) -> Ints:
        """The row of each state; those that are not in the table get one. Called by the learner alone."""
        index = self._index()
        rows = np.zeros(len(obs), np.int64)
        for i, key in enumerate(self._keys(obs, agent_index)):
            row = index.setdefault(key, len(index))
            rows[i] = row
            if row >= len(self.seat):
                self._make_room()
            if self.seat[row] == UNUSED:
                self.obs[row] = torch.from_numpy(np.asarray(obs[i], self.kind.obs_dtype))
                self.seat[row] = int(agent_index[i]) if self.told_apart else 0
        return rows

    def _keys(self, obs: Array, agent_index: Ints) -> list[bytes]:
        """What states are found by; equal numbers give equal bytes (-0.0 becomes 0.0)."""
        rows = np.asarray(obs, self.kind.obs_dtype)
        rows = np.ascontiguousarray(rows + np.zeros((), rows.dtype))
        seats = np.asarray(agent_index, np.int64) if self.told_apart else np.zeros(len(rows), np.int64)
        return [seat.tobytes() + row.tobytes() for seat, row in zip(seats, rows, strict=True)]

    def _index(self) -> dict[bytes, int]:
        if self._row_of is None:
            used = int((self.seat != UNUSED).sum())  # they come first
            keys = self._keys(self.obs[:used].numpy(), self.seat[:used].numpy())
            self._row_of = {key: row for row, key in enumerate(keys)}
        return self._row_of

    def _make_room(self) -> None:
        """Twice as many rows, so that a table which grows state by state is not copied for each of them."""
        rows = len(self.seat)
        if rows >= self.max_states:
            raise TrainingError(
                f"the table of agents {self.kind.agents[0]!r}, ... has {rows:,} states, which is max_states, and they see "
                f"another one in {self.kind.observation_space}. Use dqn, whose network needs no row for each state; or raise "
                "max_states, if there are only a few more."
            )
        more = min(max(rows, FIRST_ROWS), self.max_states - rows)
        self.obs = torch.cat([self.obs, self.obs.new_zeros((more, self.kind.obs_width))])
        self.seat = torch.cat([self.seat, self.seat.new_full((more,), UNUSED)])
        self.values = torch.cat([self.values, self.values.new_full((more, self.num_actions), self.initial_value)])

    # -- weights ---------------------------------------------------------------------------------------------------

    def fit(self, weights: Mapping[str, Array]) -> None:
        """Have as many rows as these weights."""
        rows = len(weights.get("seat", self.seat))
        if rows == len(self.seat):
            return
        self.obs = self.obs.new_zeros((rows, self.kind.obs_width))
        self.seat = self.seat.new_full((rows,), UNUSED)
        self.values = self.values.new_full((rows, self.num_actions), self.initial_value)
        self._row_of = None

    def set_weights(self, weights: dict[str, Array]) -> None:
        self.fit(weights)
        super().set_weights(weights)
        self._row_of = None

    def _apply(self, fn: object, recurse: bool = True) -> nn.Module:
        """A table stays in the memory of the CPU, whatever the networks of a run are moved to."""
        del fn, recurse
        return self


def best_of(values: Array, legal: Bools) -> Bools:
    """Which legal actions have the highest value ``[N, actions]``."""
    scores = np.where(allowed_of(legal, values), values, -np.inf)
    return np.asarray(scores == scores.max(axis=1, keepdims=True))


def epsilon_chances(best: Bools, legal: Bools, epsilon: float) -> NDArray[np.float64]:
    """``epsilon / n`` for each of the ``n`` legal actions, and the rest for the best ones alike."""
    allowed = allowed_of(legal, best)
    even = allowed / allowed.sum(axis=1, keepdims=True)
    return np.asarray((1.0 - epsilon) * best / best.sum(axis=1, keepdims=True) + epsilon * even)


def allowed_of(legal: Bools, like: Array) -> Bools:
    """The mask, where there is one, else every action."""
    if legal.shape[1]:
        return legal
    return np.ones(like.shape, bool)


def _no_obs(kind: AgentType) -> Array:
    return np.zeros((0, kind.obs_width), kind.obs_dtype)


def _check_countable(kind: AgentType) -> None:
    """Refuse observations that hardly ever come twice."""
    if countable(kind.observation_space):
        return
    raise SpaceMismatchError(
        f"a table has one row per observation, but agents {kind.agents[0]!r}, ... see fractions: {kind.observation_space}. "
        "Use dqn, which learns a network; or set float_states: true in algo, if only few different ones are ever shown, such "
        "as one-hot vectors."
    )


def countable(space: AnySpace) -> bool:
    """Whether a space holds whole numbers alone."""
    if isinstance(space, spaces.Dict):
        return all(countable(part) for part in space.values())
    if isinstance(space, spaces.Tuple):
        return all(countable(part) for part in space)
    if isinstance(space, spaces.Box):
        return np.dtype(space.dtype).kind in "biu"
    return isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary)
