"""An env in this process that a server plays: what it shows is sent, what comes back is done, one episode at a time."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from marl.client import PolicyClient, PolicyClientError
from marl.data.task import AgentID
from marl.envs.base import ALL, MultiAgentEnv, Obs, StepResult, ending, state_vector
from marl.serve.env_contract import Translator, sendable

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
        self._translator = Translator(env)
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
        self._agents = self._reports(obs, infos)

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
            answer = self._act_here(message)
        if answer.get("ended"):
            raise PolicyClientError("ended", "the server, or another party, has ended the episode.")
        actions: Mapping[AgentID, Any] = answer["actions"]
        return actions

    def _act_here(self, message: dict[str, Any]) -> dict[str, Any]:
        """Local inference: the client's own copies of the policies choose, and the server is told."""
        asked: dict[AgentID, Obs] = {}
        for agent, seen in self._seen.items():
            if agent in self._alive:
                asked[agent] = seen
        own: dict[str, Any] = self.client.local.choose(self.episode, asked, self._agents)
        return {**own, **self.client.log(**message, **own)}

    def _state(self) -> dict[str, Any]:
        if not self.client.hello()["state_size"]:
            return {}
        return {"state": state_vector(self.env).tolist()}

    def _step(self, actions: Mapping[AgentID, Any]) -> None:
        self.t += 1  # first: also where the env is interrupted, the step has been answered
        result = StepResult(*self.env.step(self._translator.moves(actions)))
        terminated, truncated = result.terminated, result.truncated
        self._seen = result.obs
        self._alive |= set(result.obs)
        self._agents = self._earned(result)
        for agent in sorted(self._alive):
            flags = ending(agent, terminated, truncated)
            if any(flags):
                self._report_end(agent, flags)
        says_itself = ALL in terminated or ALL in truncated
        if says_itself:
            self._over = any(ending(ALL, terminated, truncated))
        else:  # such an env ends with its last agent
            self._over = not self._alive

    def _earned(self, result: StepResult) -> dict[AgentID, dict[str, Any]]:
        """Reports of everybody who saw or earned something."""
        agents = self._reports(result.obs, result.infos)
        for agent, reward in result.rewards.items():
            entry = agents.setdefault(agent, {})
            entry["reward"] = float(reward)
        return agents

    def _report_end(self, agent: AgentID, flags: tuple[bool, bool]) -> None:
        entry = self._agents.setdefault(agent, {})
        entry["terminated"], entry["truncated"] = flags
        self._alive.discard(agent)

    def _reports(self, obs: Mapping[AgentID, Obs], infos: Mapping[AgentID, Any]) -> dict[AgentID, dict[str, Any]]:
        agents: dict[AgentID, dict[str, Any]] = {}
        for agent, seen in obs.items():
            entry = agents[agent] = self._translator.shown(agent, seen)
            sent = sendable(infos.get(agent) or {})
            if sent:
                entry["info"] = sent
        return agents


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
