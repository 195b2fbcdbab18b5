"""Small programs that play an env of ours at the other end of a server, and runs that learn from them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from marl.data.actions import action_encoder, decoder
from marl.data.space_json import space_to_json
from marl.envs.base import ALL, MultiAgentEnv, ending
from marl.envs.registry import make_env
from marl.envs.vector.layout import inner_space
from marl.serve.hub import Hub
from marl.serve.refused import Refused

Call = Callable[[str, dict[str, Any]], dict[str, Any]]


def agents_of(env: MultiAgentEnv) -> dict[str, dict[str, Any]]:
    """The contract of an env, as JSON."""
    names: Mapping[str, int] = env.max_agents
    if env.possible_agents:
        names = dict.fromkeys(env.possible_agents, 1)
    agents = {}
    for name, most in names.items():
        example = name.replace("*", "0")
        seen, masked = inner_space(env.observation_space(example))
        agents[name] = {
            "observation_space": space_to_json(seen),
            "action_space": space_to_json(env.action_space(example)),
            "action_mask": masked,
            "max": most,
        }
    return agents


def state_size_of(env: MultiAgentEnv) -> int:
    env.reset(seed=0)
    state = env.state()
    return 0 if state is None else np.asarray(state).size


def plain(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list | tuple) else value


class Simulator:
    """One env that is played by a server, episode after episode, until the server closes."""

    def __init__(self, env: MultiAgentEnv, call: Call, name: str, with_state: bool = True) -> None:
        self.env, self.call, self.name, self.with_state = env, call, name, with_state
        self.episodes = 0

    def run(self) -> None:
        try:
            self.session = self.call("hello", {"protocol": "marl/1", "name": self.name})["session"]
            while True:
                self.play()
        except Refused as refused:
            if refused.code != "closing":
                raise

    def play(self) -> None:
        episode = f"{self.name}-{self.episodes}"
        self.episodes += 1
        started = self.call("start", {"session": self.session, "episode": episode})
        obs, _ = self.env.reset(seed=started["seed"])
        alive = set(obs)
        message = self.report(obs, {}, {})
        t = 0
        while True:
            answer = self.call("act", {"session": self.session, "episode": episode, "t": t, **message})
            if answer.get("ended"):
                return
            actions = {}
            for agent, action in answer["actions"].items():
                space = self.env.action_space(agent)
                actions[agent] = decoder(space)(action_encoder(space)(action).tolist())
            result = self.env.step(actions)
            t += 1
            alive |= set(result.obs)
            ends = {}
            for agent in alive:
                flags = ending(agent, result.terminated, result.truncated)
                if any(flags):
                    ends[agent] = flags
            message = self.report(result.obs, result.rewards, ends)
            alive -= set(ends)
            over = not alive
            if ALL in result.terminated or ALL in result.truncated:
                over = any(ending(ALL, result.terminated, result.truncated))
            if over:
                self.call("end", {"session": self.session, "episode": episode, "t": t, **message})
                return

    def report(self, obs: Any, rewards: Any, ends: Any) -> dict[str, Any]:
        agents: dict[str, Any] = {}
        for agent in [*obs, *rewards, *ends]:
            agents.setdefault(agent, {})
        for agent, told in agents.items():
            if agent in obs:
                seen, mask = obs[agent], None
                if isinstance(seen, Mapping) and "action_mask" in seen:
                    mask = seen["action_mask"]
                    seen = seen["observation"] if "observation" in seen else seen["obs"]
                told["obs"] = plain(seen)
                if mask is not None:
                    told["action_mask"] = plain(mask)
            if agent in rewards:
                told["reward"] = float(rewards[agent])
            if agent in ends:
                told["terminated"], told["truncated"] = ends[agent]
        message: dict[str, Any] = {"agents": agents}
        if self.with_state:
            message["state"] = plain(np.asarray(self.env.state(), np.float32).reshape(-1))
        return message


class HubThread:
    """A hub's event loop without a network."""

    def __init__(self, hub: Hub) -> None:
        self.hub, self.loop = hub, asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()

    def call(self, kind: str, message: dict[str, Any]) -> dict[str, Any]:
        return asyncio.run_coroutine_threadsafe(self.hub.answer(kind, message), self.loop).result()

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)


def external_keys(env: str, env_config: Mapping[str, Any], keys: Mapping[str, Any]) -> dict[str, Any]:
    """The same run with the env at the other end."""
    made = make_env(env, env_config)
    return {
        **keys,
        "env": "external",
        "env_config": {"agents": agents_of(made), "state_size": state_size_of(made)},
        "external": {"lock_step": True, "port": 0},
    }
