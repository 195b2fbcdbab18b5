"""What an env in this process tells a server: who plays, with which spaces, and what its agents see, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces

from marl.client import plain
from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, Obs, state_vector
from marl.envs.vector.layout import MASK
from marl.serve.space_codec import Codec, codec

OBSERVATION = "observation"


def contract_of(env: MultiAgentEnv) -> tuple[dict[str, Any], int]:
    """Agents, or patterns of them, with their spaces as JSON, and the size of the global state: what a server is told."""
    counts: dict[str, int] = dict.fromkeys(env.possible_agents, 1)
    if not counts:
        counts = dict(env.max_agents)
    agents: dict[str, Any] = {}
    for name, count in counts.items():
        agents[name] = {**_entry(env, name.replace("*", "0")), "max": count}
    return agents, _state_size(env)


def _entry(env: MultiAgentEnv, agent: AgentID) -> dict[str, Any]:
    seen, done = env.observation_space(agent), env.action_space(agent)
    entry: dict[str, Any] = {"action_space": space_to_json(done)}
    if is_masked(seen, done):
        entry[MASK] = True
        seen = seen[OBSERVATION]
    entry["observation_space"] = space_to_json(seen)
    return entry


def is_masked(seen: AnySpace, done: AnySpace) -> TypeGuard[spaces.Dict]:
    """Whether a mask of a choice stands beside the observation: then it is sent beside it as well."""
    is_envelope = isinstance(seen, spaces.Dict) and set(seen.spaces) == {OBSERVATION, MASK}
    return is_envelope and isinstance(done, spaces.Discrete)


def _state_size(env: MultiAgentEnv) -> int:
    try:
        return state_vector(env).size
    except Exception:
        # An env may need a reset before it can tell its state. What else is wrong, its first episode will tell.
        env.reset(seed=0)
        return state_vector(env).size


class Translator:
    """Observations of an env as messages have them, and actions of messages as the env takes them."""

    def __init__(self, env: MultiAgentEnv) -> None:
        self.env = env
        self._codecs: dict[int, Codec] = {}  # by the id of the space, which an env gives as the same object each time

    def _codec(self, space: AnySpace) -> Codec:
        found = self._codecs.get(id(space))
        if found is None:
            found = self._codecs[id(space)] = codec(space)
        return found

    def shown(self, agent: AgentID, obs: Obs) -> dict[str, Any]:
        """The part of an agent's report that says what it sees."""
        space = self.env.observation_space(agent)
        seen = self._codec(space).write(obs)
        if is_masked(space, self.env.action_space(agent)):
            return {"obs": seen[OBSERVATION], MASK: seen[MASK]}
        return {"obs": seen}

    def moves(self, actions: Mapping[AgentID, Any]) -> dict[AgentID, Action]:
        found: dict[AgentID, Action] = {}
        for agent, action in actions.items():
            found[agent] = action_from_json(self.env.action_space(agent), action)
        return found


def action_from_json(space: AnySpace, written: Any) -> Action:
    """An action as the env takes it; not held against the bounds, because a run may say that actions are not clipped."""
    if isinstance(space, spaces.Tuple):
        parts = [action_from_json(part, item) for part, item in zip(space.spaces, written, strict=True)]
        return tuple(parts)
    if isinstance(space, spaces.Dict):
        named: dict[str, Action] = {}
        for name, part in space.spaces.items():
            named[name] = action_from_json(part, written[name])
        return named
    if isinstance(space, spaces.Discrete):
        return int(written)
    row = np.asarray(written, space.dtype)
    return row.reshape(space.shape)


def sendable(info: Mapping[str, Any]) -> dict[str, Any]:
    """What of an info can be sent. A mask stands beside the observation already: the adapters have put it there."""
    sent: dict[str, Any] = {}
    for name, value in info.items():
        written = plain(value)
        if name != MASK and _fits_json(written):
            sent[name] = written
    return sent


def _fits_json(value: Any) -> bool:
    """Infos may hold anything; what is no finite number, text, list or dict of these stays here."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return False
    return True
