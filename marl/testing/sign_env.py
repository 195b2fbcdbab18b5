"""The small env in which ``check_learner`` examines algorithms: every agent is shown a sign and has to answer it.

An episode has four moves. A move earns up to 1, and what it earned is paid one step later (the last move's at once), so
that a learner has to look past the next reward; what is still to be paid stands beside the sign. The keys of
``env_config`` make it an env with masks, with agents that come and go, or with agents of different spaces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from pydantic import Field

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv
from marl.errors import EnvError

MOVES = 4  # per episode
SIGNS = (3, 2)  # how many signs there are for agents of the first and of the second kind
TARGETS = np.array([-0.8, 0.8, 0.1], np.float32)  # the right coordinate for each sign, where actions are coordinates


class SignsConfig(Config):
    """Keys of ``env_config``."""

    actions: Literal["discrete", "box"] = Field("discrete", description="Answer by a choice, or by coordinates.")
    masked: bool = Field(False, description="One wrong choice is illegal at each move; playing it is an error.")
    come_and_go: bool = Field(
        False, description="A third agent; none is asked at every step, and one ends before the others."
    )
    two_kinds: bool = Field(False, description="The second agent has fewer signs and choices, or more coordinates.")
    never: list[AgentID] = Field([], description="Agents that never appear.")


class Signs(NativeEnv):
    """``num_envs`` copies. Global state: what all agents see, side by side."""

    name = "signs"
    state_arrays = ("signs", "illegal", "owed", "moves")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs, self.config = num_envs, SignsConfig(**env_config)
        self.kinds = number_seats(self._kinds())
        sizes = [kind.size for kind in self.kinds]
        self.agents = sum(sizes)
        self.options = np.repeat(SIGNS[: len(sizes)], sizes)
        self.absent = np.array([name in self.config.never for name in self.seat_names])
        self.state_size = sum(kind.size * kind.obs_width for kind in self.kinds)
        self.signs = np.zeros((num_envs, MOVES + 1, self.agents), np.int64)
        self.illegal = np.zeros_like(self.signs)  # the one choice that is not allowed
        self.owed = np.zeros((num_envs, self.agents), np.float32)  # earned by the last move, not yet paid
        self.moves = np.zeros(num_envs, np.int64)
        self.asked = self._asked()

    def _kinds(self) -> list[AgentType]:
        if self.config.two_kinds:
            return [self._kind("first", ("first_0",), 0), self._kind("second", ("second_0",), 1)]
        count = 3 if self.config.come_and_go else 2
        names = tuple(f"agent_{i}" for i in range(count))
        return [self._kind("agent", names, 0)]

    def _kind(self, name: str, agents: tuple[AgentID, ...], k: int) -> AgentType:
        sees = spaces.Box(0.0, 1.0, (SIGNS[k] + 1,), np.float32)
        if self.config.actions == "box":
            return AgentType(name, agents, sees, spaces.Box(-1.0, 1.0, (k + 1,), np.float32))
        return AgentType(name, agents, sees, spaces.Discrete(SIGNS[k]), masked=self.config.masked)

    def _asked(self) -> Bools:
        """``[MOVES + 1, A]``: who is asked at which move of an episode."""
        asked = np.ones((MOVES + 1, self.agents), bool)
        if self.config.come_and_go:  # agents 0, 1, 2 are asked at the moves 0, 1, 3; 0, 2; 1, 2
            move, agent = np.indices(asked.shape)
            asked = ((move + agent) % 3 != 2) & ~((agent == 1) & (move > 2))
        asked[:, self.absent] = False
        return asked

    @property
    def best(self) -> float:
        """The most that all agents together can earn in an episode."""
        return float(self.asked[:MOVES].sum())

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self.moves[env_ids] = 0
        self.owed[env_ids] = 0.0
        for env_id, seed in zip(env_ids.tolist(), seeds.tolist(), strict=True):
            luck = np.random.default_rng(seed).random((2, MOVES + 1, self.agents))
            self.signs[env_id] = (luck[0] * self.options).astype(np.int64)
            another = 1 + (luck[1] * (self.options - 1)).astype(np.int64)  # never the right one
            self.illegal[env_id] = (self.signs[env_id] + another) % self.options

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        asked = self.asked[self.moves]
        earned = np.where(asked, self._earned(actions, asked), np.float32(0.0))
        over = self.moves == MOVES - 1
        ended = np.repeat(over[:, None], self.agents, axis=1)
        if self.config.come_and_go:  # agent_1 ends with the third move, before the others
            ended[:, 1] = self.moves == 2
        ended[:, self.absent] = False
        rewards = self.owed + np.where(ended, earned, np.float32(0.0))
        self.owed = np.where(ended, np.float32(0.0), earned)
        self.moves += 1
        return rewards, ended, np.zeros_like(ended), over

    def _earned(self, actions: Sequence[Array], asked: Bools) -> Floats:
        """``[E, A]``: 1 for the right choice, or the nearness to the right coordinates."""
        env_ids = np.arange(self.num_envs)
        signs = self.signs[env_ids, self.moves]
        if self.config.actions == "box":
            parts = []
            for part, kind in zip(actions, self.kinds, strict=True):
                off = np.abs(part - TARGETS[signs[:, kind.seats], None])
                parts.append(1.0 - off.mean(axis=2))
            near: Floats = np.concatenate(parts, axis=1).astype(np.float32)
            return np.maximum(near, np.float32(0.0))
        chosen: Ints = np.concatenate(list(actions), axis=1)
        if self.config.masked and (asked & (chosen == self.illegal[env_ids, self.moves])).any():
            raise EnvError("an agent played an action that its mask forbids.")
        right: Floats = (chosen == signs).astype(np.float32)
        return right

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        env_ids = np.arange(self.num_envs)
        signs = self.signs[env_ids, self.moves]
        illegal = self.illegal[env_ids, self.moves]
        obs, legal = [], []
        for k, kind in enumerate(self.kinds):
            shown = np.eye(SIGNS[k], dtype=np.float32)[signs[:, kind.seats]]
            obs.append(np.concatenate([shown, self.owed[:, kind.seats, None]], axis=2))
            allowed = ~np.eye(SIGNS[k], dtype=bool)[illegal[:, kind.seats]]
            legal.append(allowed[:, :, : kind.legal_width])
        state = np.concatenate([part.reshape(self.num_envs, -1) for part in obs], axis=1)
        return obs, legal, self.asked[self.moves], state


def right_choice(obs: Array, rng: np.random.Generator) -> int:
    """Perfect play where actions are choices; a scripted policy."""
    del rng
    return int(obs[:-1].argmax())


def right_coordinates(obs: Array, rng: np.random.Generator) -> Array:
    """Perfect play where actions are coordinates: as many as there are fewer signs, plus one."""
    del rng
    signs = len(obs) - 1
    return np.full(SIGNS[0] - signs + 1, TARGETS[obs[:-1].argmax()], np.float32)
