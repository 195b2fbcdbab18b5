"""Speaker and listener: one knows which of three landmarks is the goal and speaks, the other one hears it and moves.

Both pay the squared distance between the listener and the goal. The speaker sees the goal's colour and cannot move. The
listener sees its own velocity, the landmarks as seen from itself, and the word that the speaker said last (0 at first).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from marl.data.task import AgentID, AgentType, Array, Floats, Ints
from marl.envs.batched import StepOutput
from marl.envs.games.particles.drawing import Colour, Disc
from marl.envs.games.particles.games import NUM_MOVES, ParticleConfig, ParticleGames, chooses, sees
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles
from marl.envs.games.particles.words import lamps, said, sayings
from marl.errors import EnvError

SPEAKER, LISTENER = 0, 1
COLOURS = np.array([[0.65, 0.15, 0.15], [0.15, 0.65, 0.15], [0.15, 0.15, 0.65]])  # of the landmarks
GREY = (0.25, 0.25, 0.25)
BRIGHTER = 0.45  # the listener is painted like the goal, only brighter
NUM_LANDMARKS = NUM_WORDS = 3


class SpeakerListenerConfig(ParticleConfig):
    """Keys of ``env_config``."""


class SpeakerListenerGames(ParticleGames):
    """``num_envs`` games of speaker and listener. ``goal`` ``[E]`` is the number of the landmark to go to."""

    config_class = SpeakerListenerConfig

    name = "fast:simple_speaker_listener"
    state_arrays = (*ParticleGames.state_arrays, "goal", "word")

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = SpeakerListenerConfig(**env_config)
        bodies = Bodies(num_envs, [Body(0.075)] * 2, [Body(0.04)] * NUM_LANDMARKS)
        continuous = config.continuous_actions
        kinds = [
            AgentType("speaker", ("speaker_0",), sees(3), chooses(NUM_WORDS, continuous)),
            AgentType(
                "listener", ("listener_0",), sees(2 + 2 * NUM_LANDMARKS + NUM_WORDS), chooses(NUM_MOVES, continuous)
            ),
        ]
        super().__init__(num_envs, config, bodies, kinds)
        self.goal = np.zeros(num_envs, np.int64)
        self.heard = np.zeros((1, NUM_WORDS, num_envs), np.float32)
        self.word = self.heard[0].T

    def _directions(self, actions: Sequence[Array]) -> Doubles:
        self.heard[:] = said(actions[SPEAKER], NUM_WORDS, self.config.continuous_actions)
        directions = np.zeros_like(self.bodies.velocity)
        directions[:, LISTENER:] = self._moves(actions[LISTENER])
        return directions

    def _begin(self, env_ids: Ints, positions: Doubles) -> None:
        self.word[env_ids] = 0.0
        super()._begin(env_ids, positions)

    def _draw_secret(self, env_ids: Ints, luck: Doubles) -> None:
        self.goal[env_ids] = (luck * NUM_LANDMARKS).astype(np.int64)

    def place(self, env_id: int, agents: ArrayLike, landmarks: ArrayLike, goal: int = 0) -> StepOutput:
        """As in all particle games (agents: speaker, listener), with the landmark ``goal`` to go to."""
        if goal not in range(NUM_LANDMARKS):
            raise EnvError(f"{self.name}: goal {goal!r} to place; expected a landmark, 0 to {NUM_LANDMARKS - 1}.")
        self.goal[env_id] = goal
        return super().place(env_id, agents, landmarks)

    def _look(self) -> None:
        speaker, listener = self.sights[SPEAKER][0], self.sights[LISTENER][0]
        speaker[:] = COLOURS[self.goal].T
        listener[0:2] = self.bodies.velocity[:, LISTENER]
        landmarks = listener[2 : 2 + 2 * NUM_LANDMARKS].reshape(NUM_LANDMARKS, 2, self.num_envs)
        landmarks[:] = self.bodies.offset[:, LISTENER, 2:].swapaxes(0, 1)
        listener[2 + 2 * NUM_LANDMARKS :] = self.heard[0]

    def _pay(self) -> Floats:
        distance = self.bodies.distance[LISTENER, 2 + self.goal, np.arange(self.num_envs)]
        return np.repeat(-(distance**2)[:, None], 2, axis=1).astype(np.float32)

    @property
    def movers(self) -> tuple[AgentID, ...]:
        return self.kinds[LISTENER].agents

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        if self.config.continuous_actions or agent in self.movers:
            return super().action_names(agent)
        return tuple(f"say {word}" for word in range(NUM_WORDS))

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """Which landmark is the goal is hidden from the listener."""
        scene = super().scene(env_id, viewer)
        landmarks = scene["bodies"][2:]
        for number, landmark in enumerate(landmarks):
            landmark["colour"] = number
        if viewer not in self.movers:
            goal = int(self.goal[env_id])
            landmarks[goal]["marked"] = True
            scene["text"] += f" The goal is landmark {goal}."
        speakers = self.kinds[SPEAKER].agents
        scene["said"] = sayings(speakers, self.word[env_id : env_id + 1], self.config.continuous_actions)
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        red, green, blue = np.minimum(COLOURS[self.goal[env_id]] + BRIGHTER, 1.0)
        return [GREY, (red, green, blue), *((r, g, b) for r, g, b in COLOURS)]

    def _signs(self, env_id: int, reach: float) -> Sequence[Disc]:
        return lamps(self.word[env_id : env_id + 1], reach)
