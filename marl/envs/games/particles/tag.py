"""Tag: slow adversaries chase fast agents among obstacles.

An agent pays 10 for each adversary that it overlaps with, and for leaving the plane (``leaving``). Every adversary gets 10 for
each overlapping pair of an agent and an adversary. Everybody sees its own velocity and position, obstacles and others as seen
from itself, and the velocities of the other agents, not of adversaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, NonNegativeInt, PositiveInt

from marl.data.task import AgentType, Bools, Floats, Ints
from marl.envs.games.particles.drawing import Colour
from marl.envs.games.particles.games import NUM_MOVES, ParticleConfig, ParticleGames, chooses, ids, sees
from marl.envs.games.particles.observations import Sight, others, write_slots
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles

RED, GREEN, GREY = (0.85, 0.35, 0.35), (0.35, 0.85, 0.35), (0.25, 0.25, 0.25)
ADVERSARY = Body(0.075, solid=True, acceleration=3.0, top_speed=1.0)
AGENT = Body(0.05, solid=True, acceleration=4.0, top_speed=1.3)
OBSTACLE = Body(0.2, solid=True)
OBSTACLES_WITHIN = 0.9
TAGGED = 10.0
AGENT_SPEEDS = np.array([0.5, 0.75, 1.0])  # by stage of the curriculum


class TagConfig(ParticleConfig):
    """Keys of ``env_config``."""

    num_good: PositiveInt = Field(1, description="Agents that are chased.")
    num_adversaries: PositiveInt = Field(3, description="Adversaries that chase.")
    num_obstacles: NonNegativeInt = Field(2, description="Obstacles that stand in the way.")
    curriculum: bool = Field(
        False, description="Stages by set_task: in stages 0, 1, 2 agents have 50, 75, 100 % of their speed."
    )
    terminate_on_success: bool = Field(
        False, description="The episode terminates once an adversary overlaps with every agent."
    )
    num_agent_neighbors: PositiveInt | None = Field(
        None, description="Everybody sees so many of the others, the nearest first; null: all."
    )
    num_landmark_neighbors: PositiveInt | None = Field(
        None, description="Everybody sees so many obstacles, the nearest first; null: all."
    )


class TagGames(ParticleGames):
    """``num_envs`` games of tag. Adversaries and agents are kinds of their own."""

    config_class = TagConfig

    name = "fast:simple_tag"
    standing = "obstacle"
    stages = len(AGENT_SPEEDS)
    config: TagConfig

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = TagConfig(**env_config)
        chasing, chased, obstacles = config.num_adversaries, config.num_good, config.num_obstacles
        bodies = Bodies(num_envs, [ADVERSARY] * chasing + [AGENT] * chased, [OBSTACLE] * obstacles)
        everybody = np.arange(chasing + chased)
        self.adversaries = slice(0, chasing)
        self.agents = slice(chasing, chasing + chased)
        self.teams = [everybody[self.adversaries], everybody[self.agents]]
        standing = np.arange(len(everybody), bodies.num_bodies)
        self.sights_of_obstacles: list[Sight] = []
        self.sights_of_others: list[Sight] = []
        self.agents_seen: list[Ints] = []  # whose velocity is seen as well; that of adversaries is not, as in MPE
        for team in self.teams:
            to_all = np.tile(standing, (len(team), 1))
            self.sights_of_obstacles.append(Sight(bodies, team, to_all, config.num_landmark_neighbors))
            self.sights_of_others.append(Sight(bodies, team, others(team, everybody), config.num_agent_neighbors))
            self.agents_seen.append(others(team, self.teams[1]))
        kinds = [self._kind(config, k, name) for k, name in enumerate(("adversary", "agent"))]
        super().__init__(num_envs, config, bodies, kinds, config.curriculum)
        self.starts_within[standing] = OBSTACLES_WITHIN

    def _kind(self, config: TagConfig, k: int, name: str) -> AgentType:
        bodies_seen = self.sights_of_obstacles[k].slots + self.sights_of_others[k].slots
        velocities_seen = config.num_agent_neighbors or self.agents_seen[k].shape[1]
        width = 4 + 2 * bodies_seen + 2 * velocities_seen
        agents = ids(name, len(self.teams[k]))
        return AgentType(name, agents, sees(width), chooses(NUM_MOVES, config.continuous_actions))

    def _set_stage(self, env_ids: Ints) -> None:
        speed = AGENT_SPEEDS[self.stage[env_ids]]
        self.bodies.acceleration[self.agents, env_ids] = AGENT.acceleration * speed
        self.bodies.top_speed[self.agents, env_ids] = AGENT.top_speed * speed

    def _look(self) -> None:
        bodies = self.bodies
        for k, (sheet, team) in enumerate(zip(self.sights, (self.adversaries, self.agents), strict=True)):
            sheet[:, 0:2] = bodies.velocity[:, team].swapaxes(0, 1)
            sheet[:, 2:4] = bodies.position[:, team].swapaxes(0, 1)
            column = 4
            for sight in (self.sights_of_obstacles[k], self.sights_of_others[k]):
                write_slots(sheet, column, sight.look())
                column += 2 * sight.slots
            write_slots(sheet, column, self._velocities_seen(k))

    def _velocities_seen(self, k: int) -> Doubles:
        """``[2, n, slots, E]``: of all other agents, or of those among the nearest others (0 for adversaries)."""
        velocity = self.bodies.velocity
        if self.config.num_agent_neighbors is None:
            return velocity[:, self.agents_seen[k]]
        nearest = self.sights_of_others[k].who()
        found = velocity[:, nearest, np.arange(self.num_envs)]
        return found * (nearest >= self.agents.start)

    def _tagged(self) -> Bools:
        """``[adversaries, agents, E]``: which pairs overlap."""
        pairs = self.adversaries, self.agents
        tagged: Bools = self.bodies.distance[pairs] < self.bodies.touching_at[pairs][..., None]
        return tagged

    def _pay(self) -> Floats:
        tagged = self._tagged()
        rewards = np.empty((self.num_envs, len(self.bodies.velocity[0])), np.float32)
        # All adversaries are paid for every tag, whoever made it: they are one team.
        rewards[:, self.adversaries] = TAGGED * tagged.sum(axis=(0, 1))[:, None]
        rewards[:, self.agents] = -(TAGGED * tagged.sum(axis=0) + leaving(self.bodies.position[:, self.agents])).T
        return rewards

    def _won(self) -> Bools:
        if not self.config.terminate_on_success:
            return super()._won()
        return np.asarray(self._tagged().any(axis=0).all(axis=0))

    def colours(self, env_id: int) -> Sequence[Colour]:
        del env_id
        config = self.config
        return [RED] * config.num_adversaries + [GREEN] * config.num_good + [GREY] * config.num_obstacles


def leaving(position: Doubles) -> Doubles:
    """What it costs to be so far out, summed over both axes ``[2, ...]``.

    Nothing below 0.9 from the middle, then ``10 (x - 0.9)`` up to 1, then ``exp(2x - 2)`` up to 10.
    """
    out = np.abs(position)
    slope = np.maximum(out - 0.9, 0.0) * 10.0
    # Cut at 3, where 10 has long been passed: far out exp would overflow.
    beyond = np.minimum(np.exp(2.0 * np.minimum(out, 3.0) - 2.0), 10.0)
    cost: Doubles = np.where(out < 1.0, slope, beyond).sum(axis=0)
    return cost
