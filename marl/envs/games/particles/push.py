"""Push: an agent wants to be at one of two landmarks; an adversary, which does not know at which, wants to push it away.

The agent pays its distance to the goal. The adversary gets the agent's distance to the goal and pays its own. Both see their
velocity and landmarks and the other one as seen from themselves. The agent also sees where the goal is and everything's
colours: its own, which is like the goal's, and those of the landmarks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentID, AgentType, Floats
from marl.envs.games.particles.drawing import Colour
from marl.envs.games.particles.games import NUM_MOVES, ParticleConfig, chooses, ids, sees
from marl.envs.games.particles.hidden_goals import HiddenGoalGames
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles

ADVERSARY, AGENT, LANDMARKS = 0, 1, slice(2, 4)
COLOURS = np.array([[0.1, 0.9, 0.1], [0.1, 0.1, 0.9]])  # of the landmarks
AGENT_COLOURS = np.array([[0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])  # of the agent, by its goal
RED = (0.75, 0.25, 0.25)


class PushConfig(ParticleConfig):
    """Keys of ``env_config``."""


class PushGames(HiddenGoalGames):
    """``num_envs`` games of push."""

    config_class = PushConfig

    name = "fast:simple_push"

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = PushConfig(**env_config)
        bodies = Bodies(num_envs, [Body(0.05, solid=True)] * 2, [Body(0.05)] * 2)
        moves = chooses(NUM_MOVES, config.continuous_actions)
        kinds = [
            AgentType("adversary", ids("adversary", 1), sees(8), moves),
            AgentType("agent", ids("agent", 1), sees(19), moves),
        ]
        super().__init__(num_envs, config, bodies, kinds)

    def _look(self) -> None:
        bodies = self.bodies
        adversary, agent = self.sights[ADVERSARY][0], self.sights[AGENT][0]
        adversary[0:2] = bodies.velocity[:, ADVERSARY]
        adversary[2:6] = self._landmarks_from(ADVERSARY)
        adversary[6:8] = bodies.offset[:, ADVERSARY, AGENT]
        agent[0:2] = bodies.velocity[:, AGENT]
        agent[2:4] = self._offset_to_goal(slice(AGENT, AGENT + 1))[:, 0]
        agent[4:7] = AGENT_COLOURS.T.take(self.goals_by_env[0], axis=1)
        agent[7:11] = self._landmarks_from(AGENT)
        agent[11:17] = COLOURS.reshape(6, 1)
        agent[17:19] = bodies.offset[:, AGENT, ADVERSARY]

    def _landmarks_from(self, mover: int) -> Doubles:
        """``[4, E]``: x and y of both landmarks as seen from the mover."""
        return self.bodies.offset[:, mover, LANDMARKS].swapaxes(0, 1).reshape(4, self.num_envs)

    def _pay(self) -> Floats:
        far = self._distance_to_goal(slice(0, 2))  # [2, E]
        rewards = np.empty((self.num_envs, 2), np.float32)
        rewards[:, ADVERSARY] = far[AGENT] - far[ADVERSARY]
        rewards[:, AGENT] = -far[AGENT]
        return rewards

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """Which landmark is the goal is hidden from the adversary."""
        scene = super().scene(env_id, viewer)
        for number, landmark in enumerate(scene["bodies"][LANDMARKS]):
            landmark["colour"] = number
        if viewer != "adversary_0":
            goal = int(self.goals[env_id, 0])
            scene["bodies"][LANDMARKS][goal]["marked"] = True
            scene["text"] += f" The goal is landmark {goal}."
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        red, green, blue = AGENT_COLOURS[self.goals[env_id, 0]]
        return [RED, (red, green, blue), *((r, g, b) for r, g, b in COLOURS)]
