"""An env in this process that a server plays: what it shows is sent, what comes back is done, one episode at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces

from marl.client import PolicyClient, PolicyClientError, plain
from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AnySpace
from marl.envs.base import ALL, Action, MultiAgentEnv, Obs, StepResult, ending, state_vector
from marl.envs.vector.layout import MASK, pattern_of

PROGRESS_S = 0.5  # between two lines of progress
POLL_S = 0.1


@dataclass
class Driven:
    """What was played: ``returns`` has one dict from agents per episode that ended. ``why`` it stopped."""

    episodes: int = 0
    steps: int = 0
    abandoned: int = 0  # episodes that could not be played to their end
    returns: list[dict[AgentID, float]] = field(default_factory=list)
    why: str = ""

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

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
        self.episode, self.t, self._asking = "", 0, False
        self._alive: set[AgentID] = set()
        self._masked = [name for name, entry in client.greeting["agents"].items() if entry.get(MASK)]
        self._progress = Progress()

    def play(self, episode: str | None = None) -> None:
        """One episode from its beginning."""
        begun = self.client.start(episode, training=self.training)
        self._begin(begun["episode"], begun["seed"])
        self._go_on()

    def rejoin(self, opened: Mapping[str, Any]) -> None:
        """An episode that was begun before this process: everything up to now again, by its seed and actions, and the rest."""
        self.episode, self.t = opened["episode"], opened["t"]
        if not opened["begun"]:
            self.play(self.episode)
        elif opened["actions"] is None:  # too long for the server to remember
            self.leave()
        else:
            self._replay(opened)

    def _replay(self, opened: Mapping[str, Any]) -> None:
        self._begin(opened["episode"], opened["seed"])
        for actions in opened["actions"]:
            self._step(actions)
        try:
            self._go_on()
        except PolicyClientError as error:
            if error.code != "conflict" or self.t != opened["t"]:
                raise
            # An env that does not repeat itself by its seed: the step that was on its way is another one now, and what
            # came of its answer will never be known.
            self.t, self._asking = self.t + 1, False
            self._leave_when_answered()

    def _leave_when_answered(self) -> None:
        """Cut the episode off as soon as the server has answered what nobody here waits for any more."""
        deadline = time.monotonic() + self.client.patience
        while self.episode:
            try:
                self.leave()
            except PolicyClientError as error:
                if error.code != "out_of_order" or time.monotonic() > deadline:
                    raise
                time.sleep(POLL_S)

    def leave(self) -> None:
        """Cut the episode off where it is. A step that has not been answered yet has to be first."""
        if self._asking:
            self._actions()
            self.t += 1
        self.client.end(episode=self.episode, t=self.t, agents={})
        self.driven.abandoned += 1
        self.episode = ""

    def _begin(self, episode: str, seed: int | None) -> None:
        obs, infos = self.env.reset(seed=seed)
        self.episode, self.t, self._over = episode, 0, False
        self._alive, self._seen = set(obs), obs
        self._agents = {agent: self._shown(agent, seen, infos.get(agent)) for agent, seen in obs.items()}

    def _go_on(self) -> None:
        while not self._over:
            self._step(self._actions())
            self.driven.steps += 1
            self._progress.tell(self.driven)
        ended = self.client.end(episode=self.episode, t=self.t, agents=self._agents, **self._state())
        self.episode = ""
        self.driven.episodes += 1
        self.driven.returns.append(ended["returns"])

    def _actions(self) -> Mapping[AgentID, Any]:
        self._asking = True
        actions = self._chosen({"episode": self.episode, "t": self.t, "agents": self._agents, **self._state()})
        self._asking = False
        return actions

    def _chosen(self, message: dict[str, Any]) -> Mapping[AgentID, Any]:
        if self.client.local is None:
            answer: dict[str, Any] = self.client.act(**message)
        else:
            seen = {agent: self._seen[agent] for agent in self._asked}
            answer = {**self.client.local.choose(self.episode, seen, self._agents)}
            answer |= self.client.log(**message, **answer)
        if answer.get("ended"):
            raise PolicyClientError("ended", "the server, or another party, has ended the episode.")
        actions: Mapping[AgentID, Any] = answer["actions"]
        return actions

    @property
    def _asked(self) -> list[AgentID]:
        return [agent for agent in self._agents if agent in self._alive and "obs" in self._agents[agent]]

    def _state(self) -> dict[str, Any]:
        if not self.client.hello()["state_size"]:
            return {}
        return {"state": state_vector(self.env).tolist()}

    def _step(self, actions: Mapping[AgentID, Any]) -> None:
        self.t += 1  # first: also where the env is interrupted, the step has been answered
        moves = {agent: action_from_json(self.env.action_space(agent), action) for agent, action in actions.items()}
        result = StepResult(*self.env.step(moves))
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
        if obs is not None:
            seen = value_to_json(self.env.observation_space(agent), obs)
            entry["obs"] = seen
            if pattern_of(agent, self._masked):
                entry = {"obs": seen["observation"], MASK: seen[MASK]}
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


def value_to_json(space: AnySpace, value: Any) -> Any:
    """An observation as the network takes it: in the type of its space, also where the env is not strict about it."""
    if isinstance(space, spaces.Tuple):
        return [value_to_json(part, item) for part, item in zip(space.spaces, value, strict=True)]
    if isinstance(space, spaces.Dict):
        return {name: value_to_json(part, value[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Discrete):
        return int(value)
    return np.asarray(value, space.dtype).tolist()


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
