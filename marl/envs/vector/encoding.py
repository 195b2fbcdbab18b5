"""How the observations of one kind of agent become rows: out of the envelope, encoded, checked against the space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from marl.data.task import AgentID, AgentType, AnySpace, Array, Bools
from marl.envs.base import Obs
from marl.envs.vector.env_errors import Where
from marl.envs.vector.layout import MASK, encoder, obs_key
from marl.errors import EnvError

BROKEN = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError)  # encoding what is not in a space


class Reader:
    """Reads what agents of ``kind`` are shown; ``given`` is the space as the env announces it, with its envelope."""

    def __init__(self, kind: AgentType, given: AnySpace) -> None:
        self.kind = kind
        self.encode = encoder(kind.observation_space)
        self.key = obs_key(given)
        # A fraction does not fit into a column of whole numbers. The letters are numpy's kinds of types.
        self.dtype = np.dtype(kind.obs_dtype)
        self.takes = "biu"
        if self.dtype.kind == "f":  # a fraction would be cut off where whole numbers are stored
            self.takes = "biuf"

    def opened(self, agent: AgentID, value: Obs, info: Mapping[str, Any], where: Where) -> tuple[Obs, Any]:
        """Observation proper and legal-action mask (None: everything is legal)."""
        mask = info.get(MASK)
        if self.key is None:
            return value, mask
        if isinstance(value, Mapping) and self.key in value:
            return value[self.key], value.get(MASK, mask)
        got = f"the type {type(value).__name__}"
        if isinstance(value, Mapping):
            got = f"the keys {', '.join(map(repr, value))}"
        raise EnvError(
            f"{where()}: the observation of agent {agent!r} has {got}; its space is a "
            f"Dict with {self.key!r}. Give what the space announces."
        )

    def may_wrap(self, given: np.dtype[Any]) -> bool:
        """Whether whole numbers of this type can come out as others when they are stored, such as 300 as a byte."""
        return self.dtype.kind != "f" and not np.can_cast(given, self.dtype)

    def row(self, agent: AgentID, value: Obs, where: Where) -> Array:
        """The observation as a row of numbers."""
        try:
            row = np.asarray(self.encode(value))
        except BROKEN:
            row = np.zeros(0)
        space = self.kind.observation_space
        if row.shape != (self.kind.obs_width,):
            raise EnvError(
                f"{where()}: the observation of agent {agent!r} has {outline(value)}, its space says {space}. Make the two "
                "agree."
            )
        if row.dtype.kind not in self.takes:
            raise EnvError(
                f"{where()}: the observation of agent {agent!r} has the type {row.dtype}, which does not fit its space "
                f"{space}. Return {self.dtype}."
            )
        if self.may_wrap(row.dtype) and (row.astype(self.dtype) != row).any():
            wrong = row[row.astype(self.dtype) != row][0]
            raise EnvError(
                f"{where()}: the observation of agent {agent!r} holds {wrong}, which does not fit its space {space} of "
                f"{self.dtype}. Keep to the bounds, or widen the space."
            )
        return row

    def legal(self, agent: AgentID, mask: Any, where: Where) -> Array:
        """A legal-action mask as a row with one entry per action."""
        kind = self.kind
        if not kind.masked:
            raise EnvError(
                f"{where()}: the info of agent {agent!r} holds an action_mask, which its observation space does not announce. "
                "Make the space Dict(observation=..., action_mask=MultiBinary(n)) and give both in the observation."
            )
        row = np.asarray(mask).reshape(-1)
        if row.shape != (kind.legal_width,):
            raise EnvError(
                f"{where()}: the action_mask of agent {agent!r} has shape {np.shape(mask)}, expected ({kind.legal_width},): "
                f"one entry per action of {kind.action_space}."
            )
        return row


def can_act(kind: AgentType, legal: Bools) -> Bools:
    """Which rows of masks ``[N, legal_width]`` allow at least one option of every choice."""
    if len(kind.columns.choices) == 1:
        return np.asarray(legal.any(axis=1))
    return np.asarray(np.all([part.any(axis=1) for _, part in kind.columns.options_of(legal)], axis=0))


def outline(value: Obs) -> str:
    """Shape of an observation, or what it is instead of an array."""
    try:
        return f"shape {np.shape(value)}"
    except ValueError:  # lists of different lengths
        return f"the type {type(value).__name__}"
