"""Crypto: Alice tells Bob which of two landmarks is the goal, and Eve, who hears every word, must not understand it.

Alice and Bob know a key that Eve does not. All three say one of four words in every step; nobody moves. Bob's and Eve's
words are their guesses. A guess is off by the squared difference between the word and the goal's word (word 0 for landmark
0, word 1 for landmark 1), or 0 for one who says nothing. Eve pays by how far her guess is off; Alice and Bob pay for Bob's
and get Eve's. Alice sees the goal and the key, Bob the key and the word that Alice said last (0 at first), Eve that word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from marl.data.task import AgentID, AgentType, Array, Floats, Ints
from marl.envs.games.particles.drawing import Colour, Disc
from marl.envs.games.particles.games import ParticleConfig, chooses, sees
from marl.envs.games.particles.hidden_goals import HiddenGoalGames
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.seeding import Doubles
from marl.envs.games.particles.words import lamps, said, sayings

EVE, BOB, ALICE = 0, 1, 2
GOAL = 0  # of what is drawn; the second landmark is only a number, the key that Alice and Bob share
NUM_LANDMARKS, NUM_WORDS = 2, 4
WORD_OF = np.eye(NUM_WORDS)[:NUM_LANDMARKS]  # [landmarks, words]
RED, GREY = (0.75, 0.25, 0.25), (0.25, 0.25, 0.25)
COLOURS: tuple[Colour, ...] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))  # of the landmarks


class CryptoConfig(ParticleConfig):
    """Keys of ``env_config``."""


class CryptoGames(HiddenGoalGames):
    """``num_envs`` games of crypto. ``words`` ``[E, 3, 4]`` is what Eve, Bob and Alice said last."""

    config_class = CryptoConfig

    name = "fast:simple_crypto"
    state_arrays = (*HiddenGoalGames.state_arrays, "words")
    num_goals = 2

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        config = CryptoConfig(**env_config)
        bodies = Bodies(num_envs, [Body(0.05)] * 3, [Body(0.05)] * NUM_LANDMARKS)
        kinds: list[AgentType] = []
        for name, width in (("eve", NUM_WORDS), ("bob", 2 * NUM_WORDS), ("alice", 2 * NUM_WORDS)):
            kinds.append(AgentType(name, (f"{name}_0",), sees(width), chooses(NUM_WORDS, config.continuous_actions)))
        super().__init__(num_envs, config, bodies, kinds)
        self.heard = np.zeros((3, NUM_WORDS, num_envs), np.float32)
        self.words = self.heard.transpose(2, 0, 1)
        self._nowhere = np.zeros_like(bodies.velocity)

    def _directions(self, actions: Sequence[Array]) -> Doubles:
        self.heard[:] = said(np.concatenate(actions, axis=1), NUM_WORDS, self.config.continuous_actions)
        return self._nowhere

    def _begin(self, env_ids: Ints, positions: Doubles) -> None:
        self.words[env_ids] = 0.0
        super()._begin(env_ids, positions)

    def _look(self) -> None:
        eve, bob, alice = (sheet[0] for sheet in self.sights)
        goal, key = (WORD_OF.T.take(number, axis=1) for number in self.goals_by_env)
        heard = self.heard[ALICE]
        eve[:] = heard
        bob[:NUM_WORDS] = key
        bob[NUM_WORDS:] = heard
        alice[:NUM_WORDS] = goal
        alice[NUM_WORDS:] = key

    def _pay(self) -> Floats:
        guesses = self.heard[:ALICE]
        off = np.square(guesses - WORD_OF.T.take(self.goals_by_env[GOAL], axis=1)).sum(axis=1)  # [2, E]
        off *= guesses.any(axis=1)  # silence costs nothing
        rewards = np.empty((self.num_envs, 3), np.float32)
        rewards[:, EVE] = -off[EVE]
        rewards[:, BOB] = rewards[:, ALICE] = off[EVE] - off[BOB]
        return rewards

    @property
    def movers(self) -> tuple[AgentID, ...]:
        return ()

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent  # all of them alike
        if self.config.continuous_actions:
            return ()
        return tuple(f"say {word}" for word in range(NUM_WORDS))

    def scene(self, env_id: int, viewer: AgentID | None = None) -> dict[str, Any]:
        """Eve sees neither the goal nor the key, Bob only the key; Alice's word is heard by all, guesses by nobody."""
        scene = super().scene(env_id, viewer)
        goal, key = (int(number) for number in self.goals[env_id])
        landmarks = scene["bodies"][3:]
        for number, landmark in enumerate(landmarks):
            landmark["colour"] = number
        if viewer in (None, "alice_0"):
            landmarks[goal]["marked"] = True
            scene["text"] += f" The goal is landmark {goal}."
        if viewer != "eve_0":
            scene["text"] += f" The key is {key}."
        spoken = sayings(self.seat_names, self.words[env_id], self.config.continuous_actions)
        scene["said"] = [saying for saying in spoken if viewer is None or saying["name"] in ("alice_0", viewer)]
        return scene

    def colours(self, env_id: int) -> Sequence[Colour]:
        return [RED, COLOURS[self.goals[env_id, GOAL]], GREY, *COLOURS]

    def _signs(self, env_id: int, reach: float) -> Sequence[Disc]:
        return lamps(self.words[env_id], reach)
