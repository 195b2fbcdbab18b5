"""What everybody may know of a game: kinds of agents, seats, groups, the size of the global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from numpy.typing import DTypeLike, NDArray

from marl.data.actions import AnySpace, Array, Columns, action_storage, columns_of
from marl.errors import SpaceMismatchError

AgentID: TypeAlias = str
PolicyID: TypeAlias = str
GroupID: TypeAlias = str
Floats: TypeAlias = NDArray[np.float32]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

__all__ = [
    "AgentID", "AgentType", "AnySpace", "Array", "Bools", "Floats", "GroupID", "Ints", "PolicyID", "Task", "number_seats",
]  # fmt: skip


@dataclass(frozen=True)
class AgentType:
    """Agents with equal spaces. They sit on consecutive *seats*, the columns of every array.

    ``agents`` names the seats: the agents' ids where these are known in advance, else ``car_*[0]`` and so on.
    Observations are stored flat: ``obs_width`` numbers of ``obs_dtype`` per agent.
    """

    name: str
    agents: tuple[AgentID, ...]
    observation_space: AnySpace
    action_space: AnySpace
    masked: bool = False
    first_seat: int = 0

    @cached_property
    def size(self) -> int:
        return len(self.agents)

    @cached_property
    def seats(self) -> slice:
        """Where this kind sits among all seats of the game."""
        return slice(self.first_seat, self.first_seat + self.size)

    @cached_property
    def obs_width(self) -> int:
        return obs_storage(self.observation_space)[0]

    @cached_property
    def obs_dtype(self) -> DTypeLike:
        return obs_storage(self.observation_space)[1]

    @cached_property
    def action_shape(self) -> tuple[int, ...]:
        return action_storage(self.action_space)[0]

    @cached_property
    def action_dtype(self) -> DTypeLike:
        return action_storage(self.action_space)[1]

    @cached_property
    def columns(self) -> Columns:
        """What a stored action holds."""
        return columns_of(self.action_space)

    @cached_property
    def legal_width(self) -> int:
        """Number of options in a legal-action mask, of all choices side by side; 0 where everything is always legal."""
        if not self.masked:
            return 0
        if not self.columns.choices:
            raise SpaceMismatchError(
                f"agents {self.agents[0]!r}, ... have an action_mask, but their actions are {self.action_space}. Masks "
                "work with Discrete choices: drop the mask, or make the actions Discrete."
            )
        return self.columns.options


@dataclass(frozen=True)
class Task:
    """All that a learner may know of the game. Seats are numbered over all kinds: ``0 .. num_seats - 1``."""

    kinds: tuple[AgentType, ...]
    state_size: int = 0
    groups: Mapping[GroupID, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def num_seats(self) -> int:
        return sum(kind.size for kind in self.kinds)

    @cached_property
    def seat_names(self) -> tuple[AgentID, ...]:
        names: list[AgentID] = []
        for kind in self.kinds:
            names.extend(kind.agents)
        return tuple(names)

    def kind_of(self, seat: int) -> int:
        """Index of the kind that the seat belongs to."""
        for k, kind in enumerate(self.kinds):
            if kind.seats.start <= seat < kind.seats.stop:
                return k
        raise LookupError(f"seat {seat} of a game with {self.num_seats}")

    def group_of(self, seat: int) -> GroupID | None:
        for group, seats in self.groups.items():
            if seat in seats:
                return group
        return None


def number_seats(kinds: Sequence[AgentType]) -> tuple[AgentType, ...]:
    """The same kinds on consecutive seats."""
    numbered, first = [], 0
    for kind in kinds:
        numbered.append(
            AgentType(kind.name, kind.agents, kind.observation_space, kind.action_space, kind.masked, first)
        )
        first += kind.size
    return tuple(numbered)


def obs_storage(space: AnySpace) -> tuple[int, DTypeLike]:
    """How many numbers of which type one observation takes. Doubles are kept as float32."""
    if isinstance(space, spaces.Discrete):
        return 1, np.int64
    if isinstance(space, spaces.MultiDiscrete):
        return int(np.prod(space.shape)), np.int64
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        dtype = np.dtype(space.dtype)
        if dtype == np.float64:
            dtype = np.dtype(np.float32)
        return int(np.prod(space.shape)), dtype
    return int(spaces.flatdim(space)), np.float32
