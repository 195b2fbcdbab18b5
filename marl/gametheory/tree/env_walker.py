"""How an env is walked: from stored states and joint actions to the states after them, many at a time or one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from marl.data.task import AgentType, Array, Bools, Ints
from marl.envs.batched import BatchedEnv, NativeEnv, StepOutput
from marl.envs.chance import Outcome
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.tree.tree import Reals

MakeEnv: TypeAlias = Callable[[int], BatchedEnv]
"""A fresh env with so many lanes."""
States: TypeAlias = Any
"""Positions of an env that can be gone back to: rows of arrays, or a list of snapshots."""


class Start(NamedTuple):
    """How an episode begins: as its seed draws it, or with an outcome (a deal) that the env lists."""

    seed: int = 0
    outcome: Outcome = None
    listed: bool = False


def begin(env: BatchedEnv, start: Start) -> StepOutput:
    """A new episode in an env of one lane."""
    env_id = np.zeros(1, np.int64)
    if start.listed and isinstance(env, DealtEnv):
        return env.reset_to(env_id, np.array([start.outcome]))
    if start.listed:
        assert isinstance(env, DictVector)
        return env.reset_to(env_id, [start.outcome], np.array([start.seed]))
    return env.reset(env_id, np.array([start.seed]))


@dataclass(slots=True)
class Sight:
    """What ``n`` positions show. Arrays are the reader's own."""

    obs: list[Array]  # per kind [n, A_k, width]
    legal: list[Bools]  # per kind [n, A_k, legal_width]
    present: Bools  # [n, A]
    rewards: Reals  # [n, A]
    over: Bools  # [n]


def sight_of(frame: StepOutput) -> Sight:
    """Copies: the env writes its next step into the same arrays."""
    return Sight(
        obs=[np.array(column) for column in frame.obs],
        legal=[np.array(column) for column in frame.legal],
        present=np.array(frame.present),
        rewards=np.array(frame.rewards, np.float64),
        over=np.array(frame.over),
    )


def stepped(env: BatchedEnv, actions: Sequence[Array]) -> Sight:
    """What a step shows, with payoffs as precise as the env told them."""
    sight = sight_of(env.step(actions))
    if env.paid is not None:
        sight.rewards[:] = env.paid
    _check_payoffs(env.name, sight)
    return sight


def _check_payoffs(name: str, sight: Sight) -> None:
    """Refuse payoffs with which nothing can be computed."""
    if not np.isfinite(sight.rewards).all():
        row, seat = np.argwhere(~np.isfinite(sight.rewards))[0].tolist()
        raise ConfigError(
            f"env {name!r}: a step paid {sight.rewards[row, seat]} to the agent in seat {seat}, so payoffs cannot be added up "
            "or compared. Let every reward be a finite number."
        )


def joined(sights: Sequence[Sight]) -> Sight:
    """Positions of several sights, one after the other."""
    obs: list[Array] = []
    legal: list[Bools] = []
    for kind in range(len(sights[0].obs)):
        obs.append(np.concatenate([sight.obs[kind] for sight in sights]))
        legal.append(np.concatenate([sight.legal[kind] for sight in sights]))
    present = np.concatenate([sight.present for sight in sights])
    rewards = np.concatenate([sight.rewards for sight in sights])
    over = np.concatenate([sight.over for sight in sights])
    return Sight(obs, legal, present, rewards, over)


class Stage(Protocol):
    """An env of which positions can be kept and played on."""

    kinds: tuple[AgentType, ...]

    def start(self, start: Start) -> tuple[States, Sight]:
        """One position: the beginning of an episode."""

    def take(self, states: States, rows: Ints) -> States:
        """Some of the positions, perhaps several times."""

    def step(self, states: States, actions: Sequence[Array]) -> tuple[States, Sight]:
        """Play ``actions[k]`` ``[n, A_k]`` in ``n`` positions."""


class ManyLanes:
    """A native env whose state is rows of arrays: as many lanes as there are positions."""

    def __init__(self, make: MakeEnv) -> None:
        self.make = make
        self.kinds = make(1).kinds

    def start(self, start: Start) -> tuple[States, Sight]:
        env = self.make(1)
        sight = sight_of(begin(env, start))
        return env.get_state(), sight

    def deals(self, deals: Ints) -> tuple[States, Sight]:
        """One position for each of these deals."""
        env = self.make(len(deals))
        frame: StepOutput = env.reset_to(np.arange(len(deals)), deals)  # type: ignore[attr-defined]
        return env.get_state(), sight_of(frame)

    def take(self, states: States, rows: Ints) -> States:
        return {name: array[rows] for name, array in states.items()}

    def step(self, states: States, actions: Sequence[Array]) -> tuple[States, Sight]:
        env = self.make(len(actions[0]))
        env.set_state(states)
        sight = stepped(env, actions)
        return env.get_state(), sight


class OneCopy:
    """Any other env: one copy that is put back into a position by its own state, or by its seed and actions."""

    def __init__(self, make: MakeEnv) -> None:
        self.env = make(1)
        self.kinds = self.env.kinds

    def start(self, start: Start) -> tuple[States, Sight]:
        sight = sight_of(begin(self.env, start))
        return [self.kept()], sight

    def kept(self) -> Any:
        """The position in which the copy is now."""
        return self.env.get_state()

    def back_to(self, kept: Any) -> bool:
        """Put the copy back into a position; False where that would take too long."""
        return not self.env.set_state(kept).over.any()

    def take(self, states: States, rows: Ints) -> States:
        return [states[row] for row in rows.tolist()]

    def step(self, states: States, actions: Sequence[Array]) -> tuple[States, Sight]:
        after, sights = [], []
        for row, state in enumerate(states):
            if not self.back_to(state):
                raise ConfigError(
                    f"env {self.env.name!r}: an episode is too long to be replayed, so no tree can be built. Give the env "
                    "get_state() and set_state()."
                )
            sight = stepped(self.env, [column[row : row + 1] for column in actions])
            sights.append(sight)
            # What is over is not played on, and a snapshot may be large.
            after.append(None if sight.over.all() else self.kept())
        return after, joined(sights)


def stage_for(make: MakeEnv) -> Stage:
    """Many lanes where the env's whole state is arrays, else one copy."""
    env = make(1)
    if not isinstance(env, NativeEnv):
        return OneCopy(make)
    # An env that overrides one of them keeps something beside its arrays.
    own_get, own_set = type(env).get_state, type(env).set_state
    if own_get is NativeEnv.get_state and own_set is NativeEnv.set_state:
        return ManyLanes(make)
    return OneCopy(make)
