"""Reference: each of two agents knows to which of three landmarks the other one should go, and tells it.

An agent's own reward is minus the distance between the other one and its goal; both get the mean of the two, weighted
against their own reward by ``local_ratio``. An agent sees its velocity, landmarks as seen from itself, the colour of the
other one's goal, and the word that the other one said last (0 at first). An action is a move and one of ten words: ``move +
5 * word``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import Field

from marl.data.task import AgentID, AgentType, Array, Floats, Ints
from marl.envs.games.particles.drawing import Colour, Disc
from marl.envs.games.particles.games import MOVES, NUM_MOVES, ParticleConfig, chooses, ids, sees
from marl.envs.games.particles.hidden_goals import HiddenGoalGames
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles
from marl.envs.games.particles.words import lamps, moves_and_words, names_of_moves_and_words, sayings

AGENTS, LANDMARKS = slice(0, 2), slice(2, 5)
OTHER = [1, 0]
NUM_LANDMARKS, NUM_WORDS = 3, 10
COLOURS = np.array([[0.75, 0.25, 0.25], [0.25, 0.75, 0.25], [0.25, 0.25, 0.75]])  # of the landmarks


class ReferenceConfig(ParticleConfig):
    """Keys of ``env_config``."""

    local_ratio: float = Field(0.5, ge=0, le=1, description="Weight of an agent's own reward against the mean of both.")
    continuous_actions: bool = Field(
        False, description="Actions are 15 numbers 0..1 (five moves, ten words) instead of one of 50."
    )


class ReferenceGames(HiddenGoalGames):
    """``num_envs`` games of reference. Goal ``a`` is where agent ``a`` wants the other one to be."""

    config_class = ReferenceConfig

    name = "fast:simple_reference"
    state_arrays = (*HiddenGoalGames.state_arrays, "words")
    num_goals = 2
    config: ReferenceConfig

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = ReferenceConfig(**env_config)
        bodies = Bodies(num_envs, [Body(0.05)] * 2, [Body(0.05)] * NUM_LANDMARKS)
        count = NUM_MOVES + NUM_WORDS if config.continuous_actions else NUM_MOVES * NUM_WORDS
        width = 2 + 2 * NUM_LANDMARKS + 3 + NUM_WORDS
        kind = AgentType("agent", ids("agent", 2), sees(width), chooses(count, config.continuous_actions))
        super().__init__(num_envs, config, bodies, [kind])
        self.heard = np.zeros((2, NUM_WORDS, num_envs), np.float32)
        self.words = self.heard.transpose(2, 0, 1)

    def _directions(self, actions: Sequence[Array]) -> Doubles:
        moves, self.heard[:] = moves_and_words(actions[0], NUM_WORDS, self.config.continuous_actions)
        return self._moves(moves)

    def _begin(self, env_ids: Ints, positions: Doubles) -> None:
        self.words[env_ids] = 0.0
        super()._begin(env_ids, positions)

    def _look(self) -> None:
        sheet = self.sights[0]
        sheet[:, 0:2] = self.bodies.velocity.swapaxes(0, 1)
        landmarks = sheet[:, 2:8].reshape(2, NUM_LANDMARKS, 2, self.num_envs)
        landmarks[:] = self.bodies.offset[:, AGENTS, LANDMARKS].transpose(1, 2, 0, 3)
        sheet[:, 8:11] = COLOURS.T.take(self.goals_by_env, axis=1).swapaxes(0, 1)
        sheet[:, 11:] = self.heard[OTHER]

    def _pay(self) -> Floats:
        ratio = self.config.local_ratio
        own = np.empty((2, self.num_envs))
        for agent, other in enumerate(OTHER):
            own[agent] = -self._distance_to_goal(other, goal=agent)
        return np.ascontiguousarray((ratio * own + (1 - ratio) * own.mean(axis=0)).T, np.float32)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent  # all of them alike
        if self.config.continuous_actions:
            return ()
        return names_of_moves_and_words(MOVES, NUM_WORDS)

    def word_of(self, env_id: int, agent: AgentID) -> int:
        return int(self.words[env_id, self.seat_names.index(agent)].argmax())

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """An agent does not see its own goal, which only the other one knows."""
        scene = super().scene(env_id, viewer)
        landmarks = scene["bodies"][LANDMARKS]
        for number, landmark in enumerate(landmarks):
            landmark["colour"] = number
        for agent, name in enumerate(self.seat_names):
            goal = int(self.goals[env_id, agent])
            if viewer in (None, name):
                landmarks[goal]["marked"] = True
                scene["text"] += f" {self.seat_names[OTHER[agent]]} should go to landmark {goal}."
        scene["said"] = sayings(self.seat_names, self.words[env_id], self.config.continuous_actions)
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        rows = np.concatenate([COLOURS[self.goals[env_id, OTHER]], COLOURS])  # agents are painted like their own goals
        return [(red, green, blue) for red, green, blue in rows]

    def _signs(self, env_id: int, reach: float) -> Sequence[Disc]:
        return lamps(self.words[env_id], reach)
