"""A strategy written down as a table: what is seen, and the chance of every action there.

A mixed strategy has no greedy version: the most likely action at every information set is another, usually bad, strategy.
So the policy draws, with and without ``explore``, unless it is made ``greedy``. What the table does not know is played
evenly among the legal actions.

Where the same observation may follow different own pasts, which the table tells apart, the policy *remembers*: its carry is
the row and action that it chose last, and each row says after which of them it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import ArrayLike
from torch import Tensor

from marl.data.task import AgentType, Array, Bools, Floats, Ints
from marl.errors import ConfigError, SpaceMismatchError
from marl.policies.distributions import race
from marl.policies.policy import Decision, Inputs, Insight, Policy

NOWHERE = -1
"""The carry after a past that the table does not know."""


class TabularPolicy(Policy):
    """``R`` rows: seat, observation, what came before, and probabilities of the ``n`` actions.

    ``seat`` is the agent's number within its kind. ``after`` is 0 at the start and ``1 + row * n + action`` after an own
    choice; without it the policy has no memory. ``legal`` masks, where given, have to be met as well. Weights of a table with
    another number of rows can be loaded.
    """

    seat: Tensor
    obs: Tensor
    after: Tensor
    legal: Tensor
    table: Tensor

    def __init__(
        self,
        kind: AgentType,
        obs: ArrayLike = (),
        probabilities: ArrayLike = (),
        seat: ArrayLike = (),
        after: ArrayLike = (),
        legal: ArrayLike = (),
        *,
        greedy: bool = False,
    ) -> None:
        super().__init__(kind)
        if not isinstance(kind.action_space, spaces.Discrete):
            raise SpaceMismatchError(
                f"a table of probabilities needs Discrete actions, but agents {kind.agents[0]!r}, ... have "
                f"{kind.action_space}. Wrap the env so that each joint choice is one number."
            )
        self.num_actions, self.greedy = int(kind.action_space.n), greedy
        rows = np.asarray(obs, kind.obs_dtype).reshape(-1, kind.obs_width)
        chances = np.asarray(probabilities, np.float64).reshape(-1, self.num_actions)
        seats = np.asarray(seat, np.int64) if np.size(seat) else np.zeros(len(rows), np.int64)
        _check_table(rows, chances, seats)
        self.carry_size = int(np.size(after) > 0)
        self.register_buffer("obs", torch.from_numpy(rows.copy()))
        self.register_buffer("seat", torch.from_numpy(seats.copy()))
        self.register_buffer("after", torch.from_numpy(np.array(after, np.int64).reshape(-1)))
        masks = np.array(legal, bool).reshape(-1, self.num_actions)
        self.register_buffer("legal", torch.from_numpy(masks))
        self.register_buffer("table", torch.from_numpy(chances.copy()))
        self._row_of: dict[bytes, int] | None = None

    # -- acting ----------------------------------------------------------------------------------------------------

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del explore
        rows = self._rows(inputs, carry)
        chances = self._chances(rows, inputs.legal)
        actions = chances.argmax(axis=1) if self.greedy else race(chances.astype(np.float32), rng)
        drawn = chances[np.arange(len(actions)), actions]
        logp = np.zeros(len(actions)) if self.greedy else np.log(np.maximum(drawn, 1e-38))
        return Decision(actions, logp.astype(np.float32), self._carried(rows, actions, carry))

    def tells_logp(self, explore: bool) -> bool:
        del explore
        return True

    def probabilities(self, inputs: Inputs, carry: Floats) -> Array:
        """Chances of the actions as they are played ``[N, n]``."""
        chances = self._chances(self._rows(inputs, carry), inputs.legal)
        return np.eye(self.num_actions)[chances.argmax(axis=1)] if self.greedy else chances

    def insight(self, inputs: Inputs, carry: Floats, *, explore: bool) -> Insight:
        del explore
        return Insight(self.probabilities(inputs, carry))

    def recarried(self, inputs: Inputs, before: Floats, after: Floats, actions: Array) -> Floats:
        del after
        return self.carried(inputs, before, actions)

    def carried(self, inputs: Inputs, carry: Floats, actions: Ints) -> Floats:
        """The carry after these actions."""
        return self._carried(self._rows(inputs, carry), actions, carry)

    def _carried(self, rows: Ints, actions: Ints, carry: Floats) -> Floats:
        if not self.carry_size:
            return carry
        choice = np.where(rows >= 0, 1 + rows * self.num_actions + actions, NOWHERE)
        return choice.astype(np.float32).reshape(-1, 1)

    def _chances(self, rows: Ints, legal: Bools) -> Array:
        """The table's rows without what is illegal; even chances where nothing is left."""
        table = self.table.numpy()
        allowed = legal if legal.shape[1] else np.ones((len(rows), self.num_actions), bool)
        known = table[np.maximum(rows, 0)] if len(table) else np.zeros(allowed.shape)
        chances = np.where((rows >= 0)[:, None], known, 0.0) * allowed
        total = chances.sum(axis=1, keepdims=True)
        return np.asarray(
            np.where(total > 0, chances, allowed) / np.where(total > 0, total, allowed.sum(1, keepdims=True))
        )

    # -- looking up ------------------------------------------------------------------------------------------------

    def _rows(self, inputs: Inputs, carry: Floats) -> Ints:
        """The table's row for each of the inputs, or -1."""
        if self._row_of is None:
            self._row_of = self._index()
        past, masks = np.zeros(len(inputs), np.int64), inputs.legal[:, :0]
        if self.carry_size:
            past = carry[:, 0].astype(np.int64)
        if len(self.legal):
            masks = inputs.legal
        found = _keys(np.asarray(inputs.obs, self.kind.obs_dtype), inputs.agent_index, past, masks)
        return np.array([self._row_of.get(key, -1) for key in found], np.int64)

    def _index(self) -> dict[bytes, int]:
        """Rows by what they are found by."""
        after, masks = np.zeros(len(self.obs), np.int64), np.zeros((len(self.obs), 0), bool)
        if self.carry_size:
            after = self.after.numpy()
        if len(self.legal):
            masks = self.legal.numpy()
        known = _keys(self.obs.numpy(), self.seat.numpy(), after, masks)
        return {key: row for row, key in enumerate(known)}

    def fit(self, weights: Mapping[str, Array]) -> None:
        """Have as many rows as these weights: a table that is a member of a population is built empty."""
        for name in ("obs", "seat", "after", "legal", "table"):
            mine, given = getattr(self, name), weights.get(name)
            if given is not None and given.shape[1:] == mine.shape[1:]:
                setattr(self, name, torch.zeros(given.shape, dtype=mine.dtype))
        self._row_of = None

    def _load_from_state_dict(self, state_dict: dict[str, Tensor], prefix: str, *args: Any) -> None:
        """Take a table of any length."""
        for name in ("obs", "seat", "after", "legal", "table"):
            given = state_dict.get(prefix + name)
            if given is not None and given.shape[1:] == getattr(self, name).shape[1:]:
                setattr(self, name, torch.empty(given.shape, dtype=getattr(self, name).dtype))
        super()._load_from_state_dict(state_dict, prefix, *args)
        self._row_of = None
        self.carry_size = int(len(self.after) > 0)


def _keys(obs: Array, seat: Ints, after: Ints, legal: Bools) -> list[bytes]:
    """What a row is found by; equal numbers give equal bytes (-0.0 becomes 0.0)."""
    rows = np.ascontiguousarray(obs + np.zeros((), obs.dtype))
    who = np.stack([np.asarray(seat, np.int64), np.asarray(after, np.int64)], axis=1)
    return [w.tobytes() + row.tobytes() + mask.tobytes() for w, row, mask in zip(who, rows, legal, strict=True)]


def _check_table(rows: Array, chances: Array, seats: Ints) -> None:
    if not len(rows) == len(chances) == len(seats):
        raise ConfigError(
            f"a table has {len(rows)} observations, {len(chances)} rows of probabilities and {len(seats)} seats; expected "
            "equally many."
        )
    wrong = np.flatnonzero((chances < -1e-6).any(axis=1) | (np.abs(chances.sum(axis=1) - 1) > 1e-6))
    if wrong.size:
        raise ConfigError(f"row {wrong[0]} of the table is {chances[wrong[0]]}; expected probabilities that sum to 1.")
