"""Level-based foraging as an env: ``env: lbforaging:Foraging-8x8-2p-2f-v3``.

Agents ``agent_0``, ``agent_1``, ... walk over a grid and load food together, which takes levels that add up to the food's.
The name is any id that the package registers; ``env_config`` goes to the env and overrides what the id says (``players``,
``sight``, ``max_episode_steps``, ``penalty``, ...). Moves that are not possible are allowed and do nothing, so there are no
masks.

Two things differ from the bare env. It calls an episode that ran out of time *terminated*; here it is truncated, and
terminated means that all food is gone. And in the bare env nobody starts where somebody stood when the episode before ended,
so a start depends on more than its seed; here everybody leaves the grid first.

The global state is the food on every cell, followed by row, column and level of each agent, whatever the agents can see.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.optional import need, undrawable
from marl.envs.adapters.permits import check_places
from marl.envs.base import ALL, Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.games.foraging.scene import Walker, foraging_scene
from marl.errors import ConfigError, UnknownNameError, did_you_mean, let_through


def foraging_env(env_id: str) -> Callable[[Mapping[str, Any]], ForagingEnv]:
    """What builds the env of a registered id."""
    need("lbforaging", "lbforaging")
    known = [name for name in gym.registry if name.startswith("Foraging")]
    if env_id not in known:
        raise UnknownNameError(
            f"unknown foraging env {env_id!r}.{did_you_mean(env_id, known)} Expected Foraging[-2s]-SxS-Pp-Ff[-coop]-v3 with S "
            "from 5 to 19, P from 2 to 9 and F from 1 to 4, for instance Foraging-8x8-2p-2f-v3."
        )
    return partial(ForagingEnv, env_id)


class ForagingEnv(MultiAgentEnv):
    """The env's lists of agents as dicts."""

    def __init__(self, env_id: str, env_config: Mapping[str, Any]) -> None:
        self.name = f"lbforaging:{env_id}"
        check_places(self.name, env_config)
        keys = {**gym.spec(env_id).kwargs, **env_config}  # not gym.make: it keeps max_episode_steps to itself
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*precision lowered by casting to float32.*")
                self.env = need("lbforaging.foraging", "lbforaging").ForagingEnv(**keys)
        except (TypeError, AssertionError, ValueError) as error:
            raise ConfigError(
                f"env {self.name!r} does not take env_config {dict(env_config)}: {error}. Expected arguments of lbforaging's "
                "ForagingEnv."
            ) from error
        self.possible_agents = tuple(f"agent_{i}" for i in range(len(self.env.players)))
        self._observation_spaces: dict[AgentID, AnySpace] = self._by_agent(self.env.observation_space)
        self._action_spaces: dict[AgentID, AnySpace] = self._by_agent(self.env.action_space)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self._observation_spaces[agent]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self._action_spaces[agent]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        for player in self.env.players:  # the bare env takes the old places for occupied
            player.position = None
        given = dict(options) if options else None
        seen, _ = self.env.reset(seed=seed, options=given)
        return self._by_agent(seen), self._no_infos()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        moves = [int(actions[agent]) for agent in self.possible_agents]
        seen, rewards, over, _, _ = self.env.step(moves)
        all_eaten = not self.env.field.any()
        return StepResult(
            self._by_agent(seen),
            self._by_agent(map(float, rewards)),
            {ALL: bool(over and all_eaten)},
            {ALL: bool(over and not all_eaten)},
            self._no_infos(),
        )

    def _no_infos(self) -> dict[AgentID, Info]:
        return {agent: {} for agent in self.possible_agents}

    def _by_agent(self, values: Any) -> dict[AgentID, Any]:
        return dict(zip(self.possible_agents, values, strict=True))

    def state(self) -> Array:
        agents = [(*player.position, player.level) for player in self.env.players]
        return np.concatenate([self.env.field.ravel(), np.ravel(agents)]).astype(np.float32)

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        del agent
        return ("nothing", "north", "south", "west", "east", "load")

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any]:
        """The field from above: food and agents with their levels; a viewer sees as far as its sight goes."""
        food = [(row, column, int(self.env.field[row, column])) for row, column in np.argwhere(self.env.field).tolist()]
        walkers: list[Walker] = []
        for agent, player in zip(self.possible_agents, self.env.players, strict=True):
            row, column = map(int, player.position)
            walkers.append((agent, row, column, int(player.level)))
        return foraging_scene(self.env.field.shape, walkers, food, self.env.sight, viewer)

    def render(self) -> Array:
        """A picture; the env draws it with OpenGL, without a display through EGL."""
        if sys.platform == "linux" and not os.environ.get("DISPLAY"):
            need("pyglet", "lbforaging").options["headless"] = True  # is read when the first picture is drawn
        try:
            picture: Array = self.env.render(mode="rgb_array")
        except BaseException as error:
            let_through(error)
            raise undrawable(self.name, error) from error
        return picture

    def close(self) -> None:
        self.env.close()
