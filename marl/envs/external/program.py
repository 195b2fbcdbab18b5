"""A program that plays by itself and asks for actions: ``marl.ExternalEnv``, as RLlib's documents have it.

Its ``run()`` is called once, in a thread of its own. There it plays episode after episode by five calls, or lets other
programs play them: ``PolicyServer(self, address, port).serve_forever()``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, Protocol

from gymnasium import spaces
from pydantic import ValidationError

from marl.config import explain
from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, Info, MultiAgentEnv, Obs, StepResult
from marl.envs.external.server_config import ServerConfig
from marl.errors import EnvError

ONLY_AGENT = "agent_0"  # what a single agent is called everywhere


class Calls(Protocol):
    """The five calls, of a client over the network or of one in this process."""

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str: ...

    def get_action(self, episode_id: str, observation: Any) -> Any: ...

    def log_action(self, episode_id: str, observation: Any, action: Any) -> None: ...

    def log_returns(self, episode_id: str, reward: Any, info: Any = None, multiagent_done_dict: Any = None) -> None: ...

    def end_episode(self, episode_id: str, observation: Any = None, truncated: bool = False) -> dict[str, float]: ...


class PlayedRun(Protocol):
    """The run that learns from a program."""

    @property
    def calls(self) -> Calls: ...

    def serve(self, config: ServerConfig) -> None:
        """Let other programs play over the network, until the run is stopped."""
        ...


class ExternalEnv(MultiAgentEnv):
    """An env that is not stepped but asks: write ``run()``, and give the spaces to ``__init__``, actions first.

    A run has one such object. ``get_action`` waits for the policy; when the run is stopped it raises, which ends ``run()``.
    Episodes that are open at once, of threads for instance, are at most ``num_envs_per_worker``.
    """

    possible_agents = (ONLY_AGENT,)
    played_by: PlayedRun | None = None

    def __init__(self, action_space: AnySpace, observation_space: AnySpace, max_concurrent: int | None = None) -> None:
        if max_concurrent is not None:
            raise EnvError(
                f"{type(self).__name__}: max_concurrent={max_concurrent} is said to the trainer: num_envs_per_worker is the "
                "number of episodes that are open at once. Drop it here."
            )
        self._take_spaces(action_space, observation_space)

    def _take_spaces(self, action_space: Any, observation_space: Any) -> None:
        for name, space in (("action_space", action_space), ("observation_space", observation_space)):
            if not isinstance(space, spaces.Space):
                raise EnvError(f"{type(self).__name__}: its {name} is {space!r}; expected a space of gymnasium.spaces.")
        # As attributes, because run() may say self.action_space.sample(); without them the methods below tell what to do.
        vars(self).update(action_space=action_space, observation_space=observation_space)

    def observation_space(self, agent: AgentID) -> AnySpace:
        del agent
        raise self._without_spaces()

    def action_space(self, agent: AgentID) -> AnySpace:
        del agent
        raise self._without_spaces()

    def _without_spaces(self) -> EnvError:
        return EnvError(
            f"{type(self).__name__} has no spaces. Begin its __init__ with {self._how()}"
            "(self, action_space, observation_space)."
        )

    def _how(self) -> str:
        return "ExternalEnv.__init__"

    @abstractmethod
    def run(self) -> None:
        """Play until the end of the run: an endless loop of episodes, or a server."""

    # -- what run() calls ----------------------------------------------------------------------------------------------

    def start_episode(self, episode_id: str | None = None, training_enabled: bool = True) -> str:
        """Begin an episode, which is learned from unless ``training_enabled`` is false; returns its id."""
        return self.played().calls.start_episode(episode_id, training_enabled)

    def get_action(self, episode_id: str, observation: Obs) -> Action:
        """What to do now, by the policy of the run."""
        return self.played().calls.get_action(episode_id, observation)

    def log_action(self, episode_id: str, observation: Obs, action: Action) -> None:
        """An action that you chose yourself."""
        self.played().calls.log_action(episode_id, observation, action)

    def log_returns(self, episode_id: str, reward: Any, info: Any = None) -> None:
        """What was earned; rewards until the next call add up."""
        self.played().calls.log_returns(episode_id, reward, info)

    def end_episode(self, episode_id: str, observation: Obs, truncated: bool = False) -> None:
        """The last observation. ``truncated``: cut off by a time limit, so what might have followed counts."""
        self.played().calls.end_episode(episode_id, observation, truncated)

    def played(self) -> PlayedRun:
        """The run that plays this very object."""
        if self.played_by is None:
            raise EnvError(
                f"no run plays this {type(self).__name__}. Its run() is called by the trainer, which makes an object of its "
                f'own: marl.register_env("mine", lambda _: {type(self).__name__}()), then marl.Trainer("dqn", env="mine") '
                "and train()."
            )
        return self.played_by

    # -- what nobody can call ------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[AgentID, Obs], dict[AgentID, Info]]:
        del seed, options
        raise self._plays_by_itself()

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        del actions
        raise self._plays_by_itself()

    def _plays_by_itself(self) -> EnvError:
        return EnvError(
            f"{type(self).__name__} plays by itself in its run(), so it cannot be reset and stepped. Train with it, or give "
            "an env with the same spaces that can: evaluation: {env: ...}."
        )

    def contract(self) -> dict[str, Any]:
        """Its agents and their spaces, as the keys of ``env: external`` have them."""
        agents = {}
        for agent in self.possible_agents:
            agents[agent] = {
                "observation_space": space_to_json(self._space("observation_space", agent)),
                "action_space": space_to_json(self._space("action_space", agent)),
            }
        return {"agents": agents}

    def _space(self, name: str, agent: AgentID) -> AnySpace:
        del agent
        space: AnySpace = vars(self)[name]
        return space


class ExternalMultiAgentEnv(ExternalEnv):
    """The same with several agents: both spaces are dicts from agents, and so are observations, actions and rewards."""

    def _take_spaces(self, action_space: Any, observation_space: Any) -> None:
        for name, by_agent in (("action_space", action_space), ("observation_space", observation_space)):
            if not isinstance(by_agent, Mapping) or not by_agent:
                raise EnvError(
                    f"{type(self).__name__}: its {name} is {by_agent!r}; expected a dict from every agent to its space."
                )
        if set(action_space) != set(observation_space):
            raise EnvError(
                f"{type(self).__name__}: action_space names {', '.join(map(str, action_space))}, observation_space "
                f"{', '.join(map(str, observation_space))}; expected the same agents in both."
            )
        for agent in action_space:  # each pair is looked at as if it were alone
            super()._take_spaces(action_space[agent], observation_space[agent])
        self.possible_agents = tuple(action_space)
        vars(self).update(action_space=dict(action_space), observation_space=dict(observation_space))

    def _how(self) -> str:
        return "ExternalMultiAgentEnv.__init__"

    def _space(self, name: str, agent: AgentID) -> AnySpace:
        space: AnySpace = vars(self)[name][agent]
        return space

    def log_returns(
        self,
        episode_id: str,
        reward: Any,
        info: Any = None,
        multiagent_done_dict: Mapping[AgentID, bool] | None = None,
    ) -> None:
        """What agents earned, and who of them is done."""
        self.played().calls.log_returns(episode_id, reward, info, multiagent_done_dict)


class PolicyServer:
    """Lets other programs play an ``ExternalEnv``: made in its ``run()``.

    Further keys say who may talk to it, as those of ``external:`` do: ``token_file``, ``tls_cert``, ``tls_key``, ``origins``.
    """

    def __init__(self, external_env: ExternalEnv, address: str, port: int, **keys: Any) -> None:
        if not isinstance(external_env, ExternalEnv):
            raise EnvError(
                f"PolicyServer was given a {type(external_env).__name__}; expected the marl.ExternalEnv whose run() makes "
                "it: PolicyServer(self, address, port)."
            )
        self.env = external_env
        try:
            self.config = ServerConfig(host=address, port=port, **keys)
        except ValidationError as error:
            raise explain(error, "PolicyServer", ServerConfig.model_fields) from None
        self.config.check()  # refuses what would let strangers in

    def serve_forever(self) -> None:
        """Serve until the run is stopped."""
        self.env.played().serve(self.config)
