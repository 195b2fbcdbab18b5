"""OpenSpiel games as envs: ``env: openspiel:kuhn_poker``, with the game's parameters in ``env_config``.

Players are ``player_0``, ``player_1``, ... In a sequential game one player is asked per step; in a simultaneous one all
players that have a legal action are asked at once. Chance moves are drawn from the generator of the episode's seed as soon
as they come up. A player sees its information-state tensor where the game has one, else its observation tensor, flat, with
its legal actions as the mask. Rewards are what ``state.rewards()`` pays after each step; most games pay at the end only.
Games end by themselves, so nobody is ever truncated. The global state joins the tensors of all players.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.adapters.openspiel_scenes import openspiel_scene
from marl.envs.adapters.optional import need
from marl.envs.adapters.permits import check_places
from marl.envs.base import ALL, Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.batched import State
from marl.envs.vector.layout import MASK
from marl.errors import ConfigError, EnvError, UnknownNameError, did_you_mean


def openspiel_env(game: str) -> Callable[[Mapping[str, Any]], OpenSpielEnv]:
    """What builds the env of a game, from its parameters."""
    pyspiel = need("pyspiel", "openspiel")
    known = pyspiel.registered_names()
    if game.split("(")[0] not in known:
        raise UnknownNameError(
            f"unknown OpenSpiel game {game!r}.{did_you_mean(game, known)} Known: {', '.join(known)}."
        )
    return partial(OpenSpielEnv, game)


class OpenSpielEnv(MultiAgentEnv):
    """One game, played over and over."""

    def __init__(self, name: str, parameters: Mapping[str, Any]) -> None:
        self.name = f"openspiel:{name}"
        check_places(self.name, parameters)
        self.game = self._load(name, dict(parameters))
        self.possible_agents = tuple(f"player_{i}" for i in range(self.game.num_players()))
        self.informed = self._check_type()
        if self.informed:
            width = self.game.information_state_tensor_size()
        else:
            width = self.game.observation_tensor_size()
        seen = spaces.Box(-np.inf, np.inf, (width,), np.float32)
        self._actions = spaces.Discrete(self.game.num_distinct_actions())
        self._sight = spaces.Dict({"observation": seen, MASK: spaces.MultiBinary(int(self._actions.n))})
        self._rng = np.random.default_rng()
        self._state = self.game.new_initial_state()

    def _load(self, name: str, parameters: dict[str, Any]) -> Any:
        pyspiel = need("pyspiel", "openspiel")
        try:
            if not parameters:  # they may stand in the name: repeated_game(stage_game=...)
                return pyspiel.load_game(name)
            return pyspiel.load_game(name, parameters)
        except (pyspiel.SpielError, TypeError) as error:
            raise ConfigError(
                f"env {self.name!r} cannot be loaded with env_config {parameters}. OpenSpiel says: {error} Give parameters of "
                "the game as keys of env_config."
            ) from error

    def _check_type(self) -> bool:
        """Whether players see information states; refuses games that cannot be played here."""
        pyspiel = need("pyspiel", "openspiel")
        kind = self.game.get_type()
        if kind.dynamics == pyspiel.GameType.Dynamics.MEAN_FIELD:
            raise ConfigError(
                f"env {self.name!r} is a mean-field game, which has no players that meet. Take another game."
            )
        if kind.chance_mode == pyspiel.GameType.ChanceMode.SAMPLED_STOCHASTIC:
            raise ConfigError(
                f"env {self.name!r} draws its chance moves inside the game, where no seed reaches, so no run could be "
                "repeated. Take a game with explicit chance."
            )
        if not (kind.provides_information_state_tensor or kind.provides_observation_tensor):
            raise ConfigError(
                f"env {self.name!r} gives neither information states nor observations as tensors, so there is nothing to "
                "learn from. Take another game."
            )
        return bool(kind.provides_information_state_tensor)

    # -- the dict API ----------------------------------------------------------------------------------------------

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._sight

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        return self._actions

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        del options
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._state = self.game.new_initial_state()
        self._play_chance()
        obs = {agent: self._observe(player) for player, agent in self._asked()}
        return obs, {agent: {} for agent in obs}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        asked = dict(self._asked())
        if set(actions) != set(asked.values()):
            raise EnvError(
                f"env {self.name!r}: got actions of {sorted(actions)}, expected those of {sorted(asked.values())}, whose turn "
                "it is."
            )
        chosen = {player: self._legal(player, agent, actions[agent]) for player, agent in asked.items()}
        if self._state.is_simultaneous_node():  # OpenSpiel wants an action of all players, also of those without one
            self._state.apply_actions([chosen.get(player, 0) for player in range(self.game.num_players())])
        else:
            self._state.apply_action(*chosen.values())
        self._play_chance()
        over = bool(self._state.is_terminal())
        seen = self._asked()
        if over:  # all of them see how it ended
            seen = list(enumerate(self.possible_agents))
        obs = {agent: self._observe(player) for player, agent in seen}
        rewards = dict(zip(self.possible_agents, map(float, self._state.rewards()), strict=True))
        return StepResult(obs, rewards, {ALL: over}, {ALL: False}, {agent: {} for agent in obs})

    def state(self) -> Array:
        return np.concatenate([self._tensor(player) for player in range(self.game.num_players())])

    def render(self) -> str:
        return str(self._state)

    def scene(self, viewer: AgentID | None = None) -> Mapping[str, Any]:
        return openspiel_scene(self.game, self._state, self.possible_agents, viewer)

    def get_state(self) -> State:
        return {"game": self._state.serialize(), "rng": self._rng.bit_generator.state}

    def set_state(self, state: State) -> None:
        self._state = self.game.deserialize_state(state["game"])
        self._rng.bit_generator.state = state["rng"]

    # -- players and chance ----------------------------------------------------------------------------------------

    def _asked(self) -> list[tuple[int, AgentID]]:
        """Players who decide now, by number and id."""
        if self._state.is_terminal():
            return []
        if not self._state.is_simultaneous_node():
            player = self._state.current_player()
            return [(player, self.possible_agents[player])]
        return [(p, agent) for p, agent in enumerate(self.possible_agents) if self._state.legal_actions(p)]

    def _observe(self, player: int) -> Obs:
        mask = np.zeros(int(self._actions.n), np.int8)
        if not self._state.is_terminal():
            mask[self._state.legal_actions(player)] = 1
        return {"observation": self._tensor(player), MASK: mask}

    def _tensor(self, player: int) -> Array:
        if self.informed:
            numbers = self._state.information_state_tensor(player)
        else:
            numbers = self._state.observation_tensor(player)
        return np.array(numbers, np.float32)

    def _legal(self, player: int, agent: AgentID, action: Action) -> int:
        legal = self._state.legal_actions(player)
        if int(action) not in legal:
            names = [f"{a} ({self._state.action_to_string(player, a)})" for a in legal]
            raise EnvError(
                f"env {self.name!r}: {agent} played {int(action)}, which is not legal here. Legal: {', '.join(names)}. Use "
                "the action_mask of its observation."
            )
        return int(action)

    def _play_chance(self) -> None:
        """Draw chance moves until a player is asked or the game is over."""
        while self._state.is_chance_node():
            outcomes, chances = zip(*self._state.chance_outcomes(), strict=True)
            ladder = np.cumsum(chances)
            # A point below the top step: rounding may leave the sum a little beside 1.
            drawn = np.searchsorted(ladder, self._rng.random() * ladder[-1], side="right")
            self._state.apply_action(outcomes[min(int(drawn), len(outcomes) - 1)])
