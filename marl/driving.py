"""``marl.drive(env, url)``: an env in this process is played by the policies of a server, and learned from there.

The server says the seed of every episode. So a driver with a ``name`` that was killed in the middle of an episode plays it
again up to the same point, by its seed and the actions that the server remembers, and goes on.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces

from marl.client import PolicyClient, PolicyClientError, plain
from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AnySpace
from marl.envs.adapters.adapt import as_env
from marl.envs.adapters.pettingzoo import is_pettingzoo
from marl.envs.base import ALL, Action, MultiAgentEnv, Obs, StepResult, ending, state_vector
from marl.envs.registry import make_env
from marl.envs.vector.layout import MASK, pattern_of

PROGRESS_S = 0.5  # between two lines of progress
SECONDS_TO_SAY_GOODBYE = 2.0
GONE = ("closing", "unreachable", "closed")  # nobody plays with us any more
FORGOTTEN = (
    "unknown_session",
    "unknown_episode",
)  # the server was started anew and had no journal, or we were too slow
OTHER_THAN_BEFORE = ("conflict", "out_of_order")  # an env that does not repeat itself by its seed


@dataclass
class Driven:
    """What was played: ``returns`` has one dict from agents per episode that ended. ``why`` it stopped."""

    episodes: int = 0
    steps: int = 0
    abandoned: int = 0  # episodes that could not be played to their end
    returns: list[dict[AgentID, float]] = field(default_factory=list)
    why: str = ""

    def __str__(self) -> str:
        told = f"{self.episodes} episodes, {self.steps} steps"
        if self.returns:
            last = ", ".join(f"{agent} {earned:g}" for agent, earned in sorted(self.returns[-1].items()))
            told += f"; last returns: {last}"
        if self.abandoned:
            told += f"; {self.abandoned} not played to their end"
        return told


class RemoteEnv:
    """An env here and a client of the server that plays it: one episode at a time."""

    def __init__(self, env: MultiAgentEnv, client: PolicyClient, training: bool = True) -> None:
        self.env, self.client, self.training = env, client, training
        self.driven = Driven()
        self.episode, self.t = "", 0
        self._alive: set[AgentID] = set()
        self._masked = [name for name, entry in client.greeting["agents"].items() if entry.get(MASK)]
        self._progress = Progress()

    def play(self) -> None:
        """One episode from its beginning."""
        begun = self.client.start(training=self.training)
        self._begin(begun["episode"], begun["seed"])
        self._go_on()

    def rejoin(self, opened: Mapping[str, Any]) -> None:
        """An episode that was begun before this process: everything up to now again, by its seed and actions, and the rest."""
        self._begin(opened["episode"], opened["seed"])
        for actions in opened["actions"]:
            self._step(actions)
        try:
            self._go_on()
        except PolicyClientError as error:
            if error.code not in OTHER_THAN_BEFORE:
                raise
            self.t = error.details.get("expected", opened["t"])
            self.leave()

    def leave(self) -> None:
        """Cut the episode off where it is."""
        self.driven.abandoned += 1
        self.client.end(episode=self.episode, t=self.t, agents={})
        self.episode = ""

    def _begin(self, episode: str, seed: int | None) -> None:
        obs, infos = self.env.reset(seed=seed)
        self.episode, self.t, self._over = episode, 0, False
        self._alive, self._seen = set(obs), obs
        self._agents = {agent: self._shown(agent, seen, infos.get(agent)) for agent, seen in obs.items()}

    def _go_on(self) -> None:
        while not self._over:
            actions = self._actions()
            if actions is None:  # the server, or another party, has ended it
                self.episode = ""
                self.driven.abandoned += 1
                return
            self._step(actions)
            self.driven.steps += 1
            self._progress.tell(self.driven)
        ended = self.client.end(episode=self.episode, t=self.t, agents=self._agents, **self._state())
        self.episode = ""
        self.driven.episodes += 1
        self.driven.returns.append(ended["returns"])

    def _actions(self) -> Mapping[AgentID, Any] | None:
        """What agents do now; None where the episode is over, although nobody here has ended it."""
        message = {"episode": self.episode, "t": self.t, "agents": self._agents, **self._state()}
        if self.client.local is None:
            answer = self.client.act(**message)
            if answer.get("ended"):
                return None
            actions: Mapping[AgentID, Any] = answer["actions"]
            return actions
        own = self.client.local.choose(self.episode, {agent: self._seen[agent] for agent in self._asked}, self._agents)
        self.client.log(**message, **own)
        chosen: Mapping[AgentID, Any] = own["actions"]
        return chosen

    @property
    def _asked(self) -> list[AgentID]:
        return [agent for agent in self._agents if agent in self._alive and "obs" in self._agents[agent]]

    def _state(self) -> dict[str, Any]:
        if not self.client.greeting.get("state_size"):
            return {}
        return {"state": state_vector(self.env).tolist()}

    def _step(self, actions: Mapping[AgentID, Any]) -> None:
        moves = {agent: action_from_json(self.env.action_space(agent), action) for agent, action in actions.items()}
        result = StepResult(*self.env.step(moves))
        self.t += 1
        self._seen = result.obs
        self._alive |= set(result.obs)
        self._agents = self._reports(result)
        for agent, entry in self._agents.items():
            if entry.get("terminated") or entry.get("truncated"):
                self._alive.discard(agent)
        flags = (result.terminated, result.truncated)
        if ALL in result.terminated or ALL in result.truncated:
            self._over = any(ending(ALL, *flags))
        else:  # an env that never says so ends with its last agent
            self._over = not self._alive

    def _reports(self, result: StepResult) -> dict[AgentID, dict[str, Any]]:
        """What the step led to for everybody who saw, earned or ended something."""
        agents: dict[AgentID, dict[str, Any]] = {}
        for agent in [*result.obs, *(agent for agent in result.rewards if agent not in result.obs)]:
            agents[agent] = self._shown(agent, result.obs.get(agent), result.infos.get(agent))
            agents[agent]["reward"] = float(result.rewards.get(agent, 0.0))
        for agent in sorted(self._alive):
            terminated, truncated = ending(agent, result.terminated, result.truncated)
            if terminated or truncated:
                agents.setdefault(agent, {}).update(terminated=terminated, truncated=truncated)
        return agents

    def _shown(self, agent: AgentID, obs: Obs, info: Mapping[str, Any] | None) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if obs is not None and pattern_of(agent, self._masked):
            entry = {"obs": plain(obs["observation"]), MASK: plain(obs[MASK])}
        elif obs is not None:
            entry["obs"] = plain(obs)
        sent = _sendable(info or {})
        if sent:
            entry["info"] = sent
        return entry


class Progress:
    """One line that is written over where somebody watches, and nothing elsewhere."""

    def __init__(self) -> None:
        self.told = time.monotonic()
        self.watched = sys.stderr.isatty()

    def tell(self, driven: Driven) -> None:
        now = time.monotonic()
        if self.watched and now - self.told > PROGRESS_S:
            self.told = now
            print(f"\r\033[K{driven}", end="", file=sys.stderr, flush=True)


def drive(
    env: Any,
    url: str,
    *,
    episodes: int | None = None,
    env_config: Mapping[str, Any] | None = None,
    training: bool = True,
    stop: Callable[[], bool] | None = None,
    patience: float = 60.0,
    **client: Any,
) -> Driven:
    """Let a server play an env of this process: ``marl.drive("CartPole-v1", "http://127.0.0.1:9900", episodes=100)``.

    ``env`` is an env of marl, Gymnasium or PettingZoo, its class, or its name; the last two get the ``env_config``. It ends
    after ``episodes``, when ``stop()`` says so between two episodes, by Ctrl-C, or when the server is closed or has not
    answered for ``patience`` seconds. Further keywords are those of ``PolicyClient``, such as ``token`` and ``name``; a driver
    with a name waits for ``patience`` seconds also for a server that says that it closes.
    """
    built = _built(env, env_config)
    agents, state_size = contract_of(built)
    connection = PolicyClient(url, agents=agents, state_size=state_size, patience=patience, **client)
    if "name" not in client:
        connection.final = ("closing",)
    remote = RemoteEnv(built, connection, training)
    driven = remote.driven
    try:
        opened = connection.hello()["open"]
        for again in opened:
            remote.rejoin(again)
        driven.why = _play(remote, episodes, stop)
    except KeyboardInterrupt:
        driven.why = "interrupted"
        _say_goodbye(remote)
    except PolicyClientError as error:
        if error.code not in GONE or not connection.about:
            raise
        driven.why = f"the server is gone: {error}"
    finally:
        connection.close()
    return driven


def _built(env: Any, env_config: Mapping[str, Any] | None) -> MultiAgentEnv:
    is_object = not isinstance(env, str | type) and (hasattr(env, "reset") or is_pettingzoo(env))
    if is_object:
        return as_env(env, type(env).__name__)
    return make_env(env, env_config)


def _play(remote: RemoteEnv, episodes: int | None, stop: Callable[[], bool] | None) -> str:
    while episodes is None or remote.driven.episodes < episodes:
        if stop is not None and stop():
            return "stopped"
        try:
            remote.play()
        except PolicyClientError as error:
            if error.code not in FORGOTTEN:
                raise
            remote.driven.abandoned += 1
            remote.episode = ""
    return "all episodes are played"


def _say_goodbye(remote: RemoteEnv) -> None:
    """An episode that is left in the middle is cut off, so that nobody waits for it; a server that is gone does not matter."""
    if not remote.episode:
        return
    remote.client.patience = remote.client.timeout = SECONDS_TO_SAY_GOODBYE
    for _ in range(2):  # the step before may be on its way: then the end is one step later
        try:
            remote.leave()
        except PolicyClientError as error:
            if error.code not in OTHER_THAN_BEFORE:
                return
            remote.t += 1
        else:
            return


def contract_of(env: MultiAgentEnv) -> tuple[dict[str, Any], int]:
    """Agents, or patterns of them, with their spaces as JSON, and the size of the global state: what a server is told."""
    counts: dict[str, int] = dict.fromkeys(env.possible_agents, 1)
    if not counts:
        counts = dict(env.max_agents)
    agents: dict[str, Any] = {}
    for name, count in counts.items():
        example = name.replace("*", "0")
        seen, done = env.observation_space(example), env.action_space(example)
        entry: dict[str, Any] = {"max": count, "action_space": space_to_json(done)}
        if _is_masked(seen) and isinstance(done, spaces.Discrete):
            seen = seen["observation"]
            entry["action_mask"] = True
        agents[name] = {**entry, "observation_space": space_to_json(seen)}
    return agents, _state_size(env)


def _is_masked(space: AnySpace) -> TypeGuard[spaces.Dict]:
    return isinstance(space, spaces.Dict) and set(space.spaces) == {"observation", MASK}


def _state_size(env: MultiAgentEnv) -> int:
    try:
        return state_vector(env).size
    except (
        Exception
    ):  # an env may need a reset before it can tell its state; what else is wrong, the first episode tells
        env.reset(seed=0)
        return state_vector(env).size


def _sendable(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of an info can be sent. A mask stands beside the observation already: the adapters have put it there."""
    sent: dict[str, Any] = {}
    for name, value in info.items():
        if name != MASK and _fits_json(plain(value)):
            sent[name] = plain(value)
    return sent


def _fits_json(value: Any) -> bool:
    """Infos may hold anything; what is no finite number, text, list or dict of these stays here."""
    if isinstance(value, dict | list):
        parts: Iterable[Any] = value
        if isinstance(value, dict):
            parts = value.values()
        return all(_fits_json(part) for part in parts)
    if isinstance(value, float):
        return bool(np.isfinite(value))
    return value is None or isinstance(value, bool | int | str)


def action_from_json(space: AnySpace, plain_action: Any) -> Action:
    """An action as it came over the network, as the env takes it."""
    if isinstance(space, spaces.Tuple):
        parts = zip(space.spaces, plain_action, strict=True)
        return tuple(action_from_json(part, value) for part, value in parts)
    if isinstance(space, spaces.Dict):
        return {name: action_from_json(part, plain_action[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return int(plain_action)
    return np.asarray(plain_action, space.dtype).reshape(space.shape)
