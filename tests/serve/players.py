"""A plain client of a real server, and the same episodes played without a network."""

from __future__ import annotations

import itertools
import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from websockets.sync.client import connect

from marl import Trainer
from marl.data.space_json import space_to_json
from marl.data.task import AgentID
from marl.envs.base import ALL, Action, MultiAgentEnv, StepResult
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrapper import EnvWrapper
from marl.envs.wrappers import wrap
from marl.rollout.env_runner import EnvRunner
from marl.serve.config import ServerConfig
from marl.serve.limits import Limits
from marl.serve.play_server import PlayServer
from marl.serve.served import Served

ANY_PORT = ServerConfig(port=0)
_NAMES = itertools.count()


def trained(folder: Path, algo: str, env: str, updates: int = 0, **config: Any) -> Path:
    """A run that has learned a little, or nothing."""
    with Trainer(algo, env=env, config={"seed": 3, "evaluation": {"interval": 0}, **config}) as trainer:
        for _ in range(updates):
            trainer.train()
        trainer.save(folder)
    return folder


def server(served: Served, limits: Limits | None = None, **keys: Any) -> PlayServer:
    return PlayServer(served, ANY_PORT, limits, **keys)


class Refusal(Exception):
    def __init__(self, told: Mapping[str, Any]) -> None:
        super().__init__(told["message"])
        self.told = told


class SocketClient:
    """One socket, one session."""

    def __init__(self, url: str, **hello: Any) -> None:
        self.socket = connect(url.replace("http", "ws", 1) + "/v1/session", compression=None, open_timeout=60)
        self.hello = self.say("hello", protocol="marl/1", **hello)
        self.session = self.hello["session"]

    def say(self, kind: str, **message: Any) -> dict[str, Any]:
        self.send(kind, **message)
        return self.hear()

    def send(self, kind: str, **message: Any) -> None:
        self.socket.send(json.dumps({"type": kind, **message}))

    def hear(self) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self.socket.recv(timeout=30))
        if answer["type"] == "error":
            raise Refusal(answer["error"])
        return answer

    def close(self) -> None:
        self.socket.close()


class PostClient:
    """The same by requests."""

    def __init__(self, url: str, **hello: Any) -> None:
        self.url = url
        self.hello = self.say("hello", protocol="marl/1", **hello)
        self.session = self.hello["session"]

    def say(self, kind: str, **message: Any) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.url}/v1/{kind}", json.dumps(message).encode(), {"content-type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise Refusal(json.load(error)["error"]) from None
        return found


def plain(value: Any) -> Any:
    """An observation or an action as JSON has it."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, tuple | list):
        return [plain(part) for part in value]
    return value


def shown(agent: AgentID, obs: Any) -> dict[str, Any]:
    if isinstance(obs, Mapping) and "action_mask" in obs:
        return {"obs": plain(obs["observation"]), "action_mask": plain(obs["action_mask"])}
    return {"obs": plain(obs)}


class Driven:
    """One episode of an env, played by a server step by step."""

    def __init__(self, client: SocketClient | PostClient, env: MultiAgentEnv, **want: Any) -> None:
        self.client, self.env, self.want = client, env, want
        self.started = client.say("start", session=client.session, episode=f"e{next(_NAMES)}")
        self.name, self.seed = self.started["episode"], self.started["seed"]
        obs, _ = env.reset(seed=self.seed)
        self.t, self.report, self.over = 0, {agent: shown(agent, seen) for agent, seen in obs.items()}, False
        self.actions: list[dict[AgentID, Any]] = []
        self.answers: list[dict[str, Any]] = []

    def message(self) -> dict[str, Any]:
        return {"session": self.client.session, "episode": self.name, "t": self.t, "agents": self.report}

    def step(self) -> None:
        """Ask, act, and note what came of it."""
        self.take(self.client.say("act", **self.message(), **self.want))

    def take(self, answer: dict[str, Any]) -> None:
        self.answers.append(answer)
        self.actions.append(answer["actions"])
        result = self.env.step(dict(answer["actions"]))
        self.t += 1
        self.report = {agent: shown(agent, seen) for agent, seen in result.obs.items()}
        for key, values in (
            ("reward", result.rewards),
            ("terminated", result.terminated),
            ("truncated", result.truncated),
        ):
            for agent, value in values.items():
                if agent != ALL and (value or key == "reward"):
                    self.report.setdefault(agent, {})[key] = plain(value)
        self.over = is_over(result, self.report)

    def end(self) -> dict[str, Any]:
        return self.client.say("end", **self.message())

    def play(self, most: int = 40) -> Driven:
        while not self.over and self.t < most:
            self.step()
        self.ended = self.end()
        return self


def is_over(result: StepResult, report: Mapping[str, Any]) -> bool:
    if ALL in result.terminated or ALL in result.truncated:
        return bool(result.terminated.get(ALL)) or bool(result.truncated.get(ALL))
    return not any(not told.get("terminated") and not told.get("truncated") for told in report.values())


class Noted(EnvWrapper):
    """Writes down the actions that an env is given."""

    def __init__(self, env: MultiAgentEnv) -> None:
        super().__init__(env)
        self.actions: list[dict[AgentID, Any]] = []

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        self.actions.append({agent: plain(action) for agent, action in actions.items()})
        return super().step(actions)


def played_alone(served: Served, env: MultiAgentEnv, seed: int, steps: int) -> list[dict[AgentID, Any]]:
    """The actions of the same policies in the same env, greedily and without a network."""
    noted = Noted(env)
    inside = wrap(noted, served.wrappers, "alone")
    vector = DictVector([inside], "alone", with_state=False, kinds=served.agent_types)
    runner = EnvRunner(vector, served.policies, served.kinds, served.mapper, served.config, teams=served.teams)
    runner.begin(np.array([0]), np.array([seed]))
    rng = np.random.default_rng(0)
    while len(noted.actions) < steps:
        output = runner.advance(runner.decide(rng, explore=False))
        if runner.settle(output).size:
            break
    return noted.actions


def same_space(told: Mapping[str, Any], space: Any) -> bool:
    return dict(told) == space_to_json(space)
