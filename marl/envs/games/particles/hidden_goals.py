"""Particle games with secrets: landmarks that some agents know of and others do not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from marl.data.task import AgentType, Ints
from marl.envs.batched import StepOutput
from marl.envs.games.particles.games import ParticleConfig, ParticleGames
from marl.envs.games.particles.physics import Bodies
from marl.envs.games.particles.seeding import Doubles
from marl.errors import EnvError


class HiddenGoalGames(ParticleGames):
    """``goals`` ``[E, num_goals]`` are numbers of landmarks, drawn anew with every episode, each on its own.

    It is a view of ``goals_by_env`` ``[num_goals, E]``, which ends with the axis of the copies as all arrays of a step do.
    """

    state_arrays: tuple[str, ...] = (*ParticleGames.state_arrays, "goals")
    num_goals = 1

    def __init__(self, num_envs: int, config: ParticleConfig, bodies: Bodies, kinds: Sequence[AgentType]) -> None:
        super().__init__(num_envs, config, bodies, kinds)
        self.num_landmarks = bodies.num_bodies - bodies.num_movers
        self.goals_by_env = np.zeros((self.num_goals, num_envs), np.int64)
        self.goals = self.goals_by_env.T
        self._env_ids = np.arange(num_envs)

    def _draw_secret(self, env_ids: Ints, luck: Doubles) -> None:
        # One number of the seed holds all goals: its digits in base num_landmarks.
        digits = (luck * self.num_landmarks**self.num_goals).astype(np.int64)
        for goal in range(self.num_goals):
            digits, self.goals[env_ids, goal] = np.divmod(digits, self.num_landmarks)

    def place(
        self, env_id: int, agents: ArrayLike, landmarks: ArrayLike, goals: Sequence[int] | None = None
    ) -> StepOutput:
        """As in all particle games, with these landmarks as goals (null: landmark 0)."""
        chosen = [0] * self.num_goals if goals is None else list(goals)
        if len(chosen) != self.num_goals or not set(chosen) <= set(range(self.num_landmarks)):
            raise EnvError(
                f"{self.name}: goals {chosen} to place; expected {self.num_goals} of the landmarks 0 to "
                f"{self.num_landmarks - 1}."
            )
        self.goals[env_id] = chosen
        return super().place(env_id, agents, landmarks)

    def _goal_bodies(self, goal: int = 0) -> Ints:
        """``[E]``: which body is this goal."""
        bodies: Ints = self.bodies.num_movers + self.goals_by_env[goal]
        return bodies

    def _distance_to_goal(self, movers: slice | int, goal: int = 0) -> Doubles:
        """``[n, E]`` for a slice of movers, ``[E]`` for one: how far they are from this goal."""
        bodies = self._goal_bodies(goal)
        distance: Doubles = self.bodies.distance[movers][..., bodies, self._env_ids]
        return distance

    def _offset_to_goal(self, movers: slice, goal: int = 0) -> Doubles:
        """``[2, n, E]``: where this goal is as seen from movers."""
        offset: Doubles = self.bodies.offset[:, movers][:, :, self._goal_bodies(goal), self._env_ids]
        return offset
