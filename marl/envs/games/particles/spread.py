"""Spread: ``N`` agents cover ``N`` landmarks without bumping into each other.

Everybody pays the sum over landmarks of the distance to the nearest agent, times ``1 - local_ratio``, and 1 for each agent
that it overlaps with, times ``local_ratio``. An agent sees its velocity, its position, the landmarks and the others as seen
from itself, and the others' words, which are always 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from marl.data.task import AgentType, Bools, Floats
from marl.envs.games.particles.drawing import Colour
from marl.envs.games.particles.games import NUM_MOVES, ParticleConfig, ParticleGames, chooses, ids, sees
from marl.envs.games.particles.observations import Sight, others, write_slots
from marl.envs.games.particles.physics import Bodies, Body

BLUE, GREY = (0.35, 0.35, 0.85), (0.25, 0.25, 0.25)
COVERED_WITHIN = 0.1


class SpreadConfig(ParticleConfig):
    """Keys of ``env_config``."""

    N: PositiveInt = Field(3, description="Number of agents, and of landmarks.")
    local_ratio: float = Field(0.5, ge=0, le=1, description="Weight of an agent's own bumps against the team's reward.")
    curriculum: bool = Field(
        False, description="Stages by set_task: in stage 0 bumps cost nothing, in stage 1 they do."
    )
    terminate_on_success: bool = Field(
        False, description="The episode terminates once an agent is within 0.1 of every landmark."
    )
    num_agent_neighbors: PositiveInt | None = Field(
        None, description="An agent sees so many of the others, the nearest first; null: all."
    )
    num_landmark_neighbors: PositiveInt | None = Field(
        None, description="An agent sees so many landmarks, the nearest first; null: all."
    )


class SpreadGames(ParticleGames):
    """``num_envs`` games of spread."""

    config_class = SpreadConfig

    name = "fast:simple_spread"
    stages = 2
    config: SpreadConfig

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = SpreadConfig(**env_config)
        self.size = config.N
        bodies = Bodies(num_envs, [Body(0.15, solid=True)] * config.N, [Body(0.05)] * config.N)
        agents, landmarks = np.arange(config.N), np.arange(config.N, 2 * config.N)
        to_all = np.tile(landmarks, (config.N, 1))
        self.sight_of_landmarks = Sight(bodies, agents, to_all, config.num_landmark_neighbors)
        self.sight_of_others = Sight(bodies, agents, others(agents, agents), config.num_agent_neighbors)
        # Velocity, position, landmarks, others, and two numbers of each other's words.
        width = 4 + 2 * self.sight_of_landmarks.slots + 4 * self.sight_of_others.slots
        kind = AgentType("agent", ids("agent", config.N), sees(width), chooses(NUM_MOVES, config.continuous_actions))
        super().__init__(num_envs, config, bodies, [kind], config.curriculum)

    def _look(self) -> None:
        sheet, bodies = self.sights[0], self.bodies
        sheet[:, 0:2] = bodies.velocity.swapaxes(0, 1)
        sheet[:, 2:4] = bodies.position[:, : self.size].swapaxes(0, 1)
        column = 4
        for sight in (self.sight_of_landmarks, self.sight_of_others):
            write_slots(sheet, column, sight.look())
            column += 2 * sight.slots

    def _pay(self) -> Floats:
        ratio, distance = self.config.local_ratio, self.bodies.distance
        # Each landmark counts by the agent that is nearest to it, whoever that is: all are paid alike for it.
        far = distance[:, self.size :].min(axis=0).sum(axis=0)  # [E]
        near = distance[:, : self.size] < self.bodies.touching_at[:, : self.size, None]
        bumps = (near.sum(axis=1) - 1) * self.stage  # [A, E]; everybody is near itself, and in stage 0 bumps are free
        return np.ascontiguousarray((-(1 - ratio) * far - ratio * bumps).T, np.float32)

    def _won(self) -> Bools:
        if not self.config.terminate_on_success:
            return super()._won()
        covered: Bools = (self.bodies.distance[:, self.size :].min(axis=0) < COVERED_WITHIN).all(axis=0)
        return covered

    def colours(self, env_id: int) -> Sequence[Colour]:
        del env_id
        return [BLUE] * self.size + [GREY] * self.size
