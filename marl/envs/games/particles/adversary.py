"""Adversary: agents cover the landmark that is their goal and mislead an adversary, which does not know which one it is.

The adversary pays its distance to the goal. Every agent pays the distance of the agent that is nearest to the goal and gets
the adversary's distance. Everybody sees landmarks and others as seen from itself; agents see the goal before that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field, PositiveInt

from marl.data.task import AgentID, AgentType, Floats
from marl.envs.games.particles.drawing import Colour
from marl.envs.games.particles.games import NUM_MOVES, ParticleConfig, chooses, ids, sees
from marl.envs.games.particles.hidden_goals import HiddenGoalGames
from marl.envs.games.particles.observations import Sight, others, write_slots
from marl.envs.games.particles.physics import Bodies, Body

RED, BLUE = (0.85, 0.35, 0.35), (0.35, 0.35, 0.85)
GREEN, DARK = (0.15, 0.65, 0.15), (0.15, 0.15, 0.15)  # the goal, and other landmarks
ADVERSARY, AGENTS = slice(0, 1), slice(1, None)


class AdversaryConfig(ParticleConfig):
    """Keys of ``env_config``."""

    N: PositiveInt = Field(2, description="Number of agents besides the adversary, and of landmarks.")
    num_agent_neighbors: PositiveInt | None = Field(
        None, description="Everybody sees so many of the others, the nearest first; null: all."
    )
    num_landmark_neighbors: PositiveInt | None = Field(
        None, description="Everybody sees so many landmarks, the nearest first; null: all. Agents always see the goal."
    )


class AdversaryGames(HiddenGoalGames):
    """``num_envs`` games of adversary. The adversary and the agents are kinds of their own."""

    config_class = AdversaryConfig

    name = "fast:simple_adversary"
    config: AdversaryConfig

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = AdversaryConfig(**env_config)
        bodies = Bodies(num_envs, [Body(0.15)] * (config.N + 1), [Body(0.08)] * config.N)
        everybody = np.arange(config.N + 1)
        landmarks = np.arange(config.N + 1, bodies.num_bodies)
        self.sights_of_landmarks: list[Sight] = []
        self.sights_of_others: list[Sight] = []
        for team in (everybody[ADVERSARY], everybody[AGENTS]):
            to_all = np.tile(landmarks, (len(team), 1))
            self.sights_of_landmarks.append(Sight(bodies, team, to_all, config.num_landmark_neighbors))
            self.sights_of_others.append(Sight(bodies, team, others(team, everybody), config.num_agent_neighbors))
        width = 2 * (self.sights_of_landmarks[0].slots + self.sights_of_others[0].slots)
        moves = chooses(NUM_MOVES, config.continuous_actions)
        kinds = [
            AgentType("adversary", ids("adversary", 1), sees(width), moves),
            AgentType("agent", ids("agent", config.N), sees(width + 2), moves),
        ]
        super().__init__(num_envs, config, bodies, kinds)

    def _look(self) -> None:
        adversary, agents = self.sights
        agents[:, 0:2] = self._offset_to_goal(AGENTS).swapaxes(0, 1)
        for k, (sheet, column) in enumerate(((adversary, 0), (agents, 2))):
            landmarks, company = self.sights_of_landmarks[k], self.sights_of_others[k]
            write_slots(sheet, column, landmarks.look())
            write_slots(sheet, column + 2 * landmarks.slots, company.look())

    def _pay(self) -> Floats:
        far = self._distance_to_goal(slice(0, self.config.N + 1))  # [A, E]
        rewards = np.empty((self.num_envs, self.config.N + 1), np.float32)
        rewards[:, ADVERSARY] = -far[ADVERSARY].T
        # All agents are paid alike, by the one that is nearest to the goal.
        rewards[:, AGENTS] = (far[0] - far[AGENTS].min(axis=0))[:, None]
        return rewards

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """Which landmark is the goal is hidden from the adversary."""
        scene = super().scene(env_id, viewer)
        if viewer != "adversary_0":
            goal = int(self.goals[env_id, 0])
            scene["bodies"][self.bodies.num_movers + goal]["marked"] = True
            scene["text"] += f" The goal is landmark {goal}."
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        landmarks: list[Colour] = [DARK] * self.config.N
        landmarks[self.goals[env_id, 0]] = GREEN
        return [RED, *[BLUE] * self.config.N, *landmarks]
