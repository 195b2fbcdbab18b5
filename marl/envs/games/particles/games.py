"""What the particle games share: moves, the clock, observations as one sheet, saving, placing, drawing."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike
from pydantic import Field, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AgentType, AnySpace, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv, State, StepOutput
from marl.envs.games.particles.drawing import MARGIN, Colour, Disc, camera_range, draw
from marl.envs.games.particles.physics import Bodies
from marl.envs.games.particles.scene import particle_scene
from marl.envs.games.particles.seeding import Doubles, uniform
from marl.errors import ConfigError, EnvError

# Moves: nothing, left, right, down, up.
DIRECTIONS = np.array([[0.0, -1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, -1.0, 1.0]])
NUM_MOVES = DIRECTIONS.shape[1]
MOVES = ("nothing", "left", "right", "down", "up")


class ParticleConfig(Config):
    """Keys of ``env_config`` that all particle games know."""

    max_cycles: PositiveInt = Field(25, description="Env steps after which an episode is truncated.")
    continuous_actions: bool = Field(
        False, description="Moves are five numbers 0..1 (nothing, left, right, down, up) instead of one of five."
    )
    dynamic_rescaling: bool = Field(
        True, description="Pictures: bodies shrink when the view has to widen; false: they keep their size in pixels."
    )


class ParticleGames(NativeEnv):
    """``num_envs`` copies of a particle game. Global state: everybody's observations in a row.

    A game says what its bodies, seats and rewards are and fills in ``sights``: per kind ``[A_k, obs_width, E]``, parts of one
    sheet whose transpose is the global state. ``position`` ``[E, bodies, 2]`` and ``velocity`` ``[E, agents, 2]`` are views
    of the arrays of ``bodies``.
    """

    state_arrays: tuple[str, ...] = ("position", "velocity", "clock", "stage", "next_stage")
    stages = 1
    """How many difficulties there are; an env's is set by ``set_task`` and counts from its next reset on."""
    standing = "landmark"
    """What bodies that stand still are called."""

    def __init__(
        self,
        num_envs: int,
        config: ParticleConfig,
        bodies: Bodies,
        kinds: Sequence[AgentType],
        curriculum: bool = False,
    ) -> None:
        self.num_envs = num_envs
        self.config = config
        self.bodies = bodies
        self.kinds = number_seats(kinds)
        self.curriculum = curriculum
        self.state_size = sum(kind.size * kind.obs_width for kind in kinds)
        self.position = bodies.position.transpose(2, 1, 0)
        self.velocity = bodies.velocity.transpose(2, 1, 0)
        self.clock = np.zeros(num_envs, np.int64)
        self.stage = np.full(num_envs, 0 if curriculum else self.stages - 1)
        self.next_stage = self.stage.copy()
        self._sheet = np.zeros((self.state_size, num_envs), np.float32)
        self.sights = self._parts()
        self._legal = [np.ones((num_envs, kind.size, 0), bool) for kind in kinds]
        self.starts_within: Doubles = np.ones((bodies.num_bodies, 1))  # distance from the middle, along each axis

    def _parts(self) -> list[Floats]:
        ends = np.cumsum([kind.size * kind.obs_width for kind in self.kinds])[:-1]
        blocks = zip(self.kinds, np.split(self._sheet, ends), strict=True)
        return [block.reshape(kind.size, kind.obs_width, self.num_envs) for kind, block in blocks]

    # -- what a game says ------------------------------------------------------------------------------------------

    @abstractmethod
    def _pay(self) -> Floats:
        """Rewards ``[E, A]`` for where everybody is now."""

    @abstractmethod
    def _look(self) -> None:
        """Fill ``sights``."""

    @abstractmethod
    def colours(self, env_id: int) -> Sequence[Colour]:
        """Of all bodies, for pictures."""

    def _signs(self, env_id: int, reach: float) -> Sequence[Disc]:
        """What a picture shows besides the bodies."""
        del env_id, reach
        return ()

    def _won(self) -> Bools:
        """``[E]``: the episode terminates now, if it is not truncated."""
        return np.zeros(self.num_envs, bool)

    def _set_stage(self, env_ids: Ints) -> None:
        """Make ``stage`` count in these envs."""

    def _directions(self, actions: Sequence[Array]) -> Doubles:
        """``[2, movers, E]``: where everybody accelerates to."""
        return self._moves(np.concatenate(actions, axis=1) if len(actions) > 1 else actions[0])

    # -- playing ---------------------------------------------------------------------------------------------------

    def _moves(self, actions: Array) -> Doubles:
        """Directions ``[2, n, E]`` of moves ``[E, n]`` or, continuous, ``[E, n, 5]``."""
        if not self.config.continuous_actions:
            return DIRECTIONS.take(np.ascontiguousarray(actions.T), axis=1)  # several times faster than by an index
        share = np.clip(actions, 0, 1).T  # [5, n, E]
        directions: Doubles = np.subtract(share[2::2], share[1::2]).astype(np.float64)
        return directions

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        count = self.bodies.num_bodies
        luck = uniform(seeds, 2 * count + 1)
        self._begin(env_ids, (luck[:, :-1].reshape(-1, count, 2) * 2 - 1) * self.starts_within)
        self._draw_secret(env_ids, luck[:, -1])

    def _begin(self, env_ids: Ints, positions: Doubles) -> None:
        self.position[env_ids] = positions
        self.velocity[env_ids] = 0.0
        self.clock[env_ids] = 0
        self.stage[env_ids] = self.next_stage[env_ids]
        self._set_stage(env_ids)
        self.bodies.measure()

    def _draw_secret(self, env_ids: Ints, luck: Doubles) -> None:
        """Choose what is hidden from some agents, by one number in [0, 1) per env."""

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        self.bodies.move(self._directions(actions))
        self.clock += 1
        late = self.clock >= self.config.max_cycles
        won = self._won() & ~late
        rewards = self._pay()
        seats = rewards.shape[1]
        return rewards, np.repeat(won[:, None], seats, axis=1), np.repeat(late[:, None], seats, axis=1), late | won

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        self._look()
        state = np.ascontiguousarray(self._sheet.T)
        obs, column = [], 0
        for kind in self.kinds:
            width = kind.size * kind.obs_width
            obs.append(state[:, column : column + width].reshape(self.num_envs, kind.size, kind.obs_width))
            column += width
        seats = sum(kind.size for kind in self.kinds)
        return obs, self._legal, np.ones((self.num_envs, seats), bool), state

    # -- placing, saving, tasks ------------------------------------------------------------------------------------

    def place(self, env_id: int, agents: ArrayLike, landmarks: ArrayLike) -> StepOutput:
        """Start the env's episode anew with agents and landmarks, one (x, y) each, at these places, everybody at rest."""
        movers = self.bodies.num_movers
        places = [
            self._places("agents", agents, movers),
            self._places("landmarks", landmarks, self.bodies.num_bodies - movers),
        ]
        self._begin(np.array([env_id]), np.concatenate(places)[None])
        return self._still()

    def _places(self, what: str, given: ArrayLike, count: int) -> Doubles:
        rows = np.asarray(given, np.float64)
        if rows.size == count == 0:  # [] has the shape (0,)
            return rows.reshape(0, 2)
        if rows.shape != (count, 2):
            raise EnvError(
                f"{self.name}: {what} to place have shape {rows.shape}; expected ({count}, 2), an x and a y each."
            )
        return rows

    def set_state(self, state: State) -> StepOutput:
        for name in self.state_arrays:
            getattr(self, name)[...] = state[name]
        self.bodies.measure()
        self._set_stage(np.arange(self.num_envs))
        return self._still()

    def set_task(self, env_id: int, task: object) -> None:
        """With ``curriculum``: the env's stage, from 0 (easiest), from its next reset on."""
        if not self.curriculum:
            raise ConfigError(
                f"{self.name}: set_task({env_id}, {task!r}), but stages are off. Set env_config.curriculum to true in a game "
                "that has stages."
            )
        if not isinstance(task, int) or not 0 <= task < self.stages:
            raise ConfigError(f"{self.name}: no stage {task!r}. Expected a whole number from 0 to {self.stages - 1}.")
        self.next_stage[env_id] = task

    # -- drawing ---------------------------------------------------------------------------------------------------

    @property
    def movers(self) -> tuple[AgentID, ...]:
        """Agents whose actions are the five moves, with a word or without."""
        return self.seat_names

    def word_of(self, env_id: int, agent: AgentID) -> int:
        """The word that an agent that moves and speaks in one action said last: arrows of a page keep it."""
        del env_id, agent
        return 0

    def hidden_from(self, env_id: int, viewer: AgentID | None) -> set[AgentID]:
        """Agents that the viewer cannot see."""
        del env_id, viewer
        return set()

    def bodies_named(self) -> list[tuple[str, str]]:
        """Name and role of every body: the agents by their kind, then what stands still."""
        named: list[tuple[str, str]] = []
        for kind in self.kinds:
            named += [(agent, kind.name) for agent in kind.agents]
        for number in range(self.bodies.num_bodies - self.bodies.num_movers):
            named.append((f"{self.standing} {number}", self.standing))
        return named

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        return particle_scene(self, env_id, viewer)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        if self.config.continuous_actions or agent not in self.movers:
            return ()
        return MOVES

    def render(self, env_id: int) -> Array:
        """Height x width x 3, uint8: what stands still first, the largest below, agents over it."""
        reach = camera_range(self.position[env_id])
        size = reach if self.config.dynamic_rescaling else MARGIN
        places = zip(self.position[env_id], self.bodies.radius, self.colours(env_id), strict=True)
        discs = [Disc(float(x), float(y), float(radius) * reach / size, colour) for (x, y), radius, colour in places]
        movers = self.bodies.num_movers
        standing = sorted(discs[movers:], key=lambda disc: -disc.radius)
        return draw([*standing, *discs[:movers], *self._signs(env_id, reach)], reach)


def sees(width: int) -> AnySpace:
    """An observation of so many numbers."""
    return spaces.Box(-np.inf, np.inf, (width,), np.float32)


def chooses(count: int, continuous: bool) -> AnySpace:
    """One of ``count`` actions, or as many numbers from 0 to 1."""
    if continuous:
        return spaces.Box(0.0, 1.0, (count,), np.float32)
    return spaces.Discrete(count)


def ids(pattern: str, count: int) -> tuple[AgentID, ...]:
    return tuple(f"{pattern}_{i}" for i in range(count))
