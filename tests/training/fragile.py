"""A sound env that breaks in step 37 of its second episode when it is told to."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from marl.envs.base import EnvContext, MultiAgentEnv, StepResult

FAULT: dict[str, str] = {}
"""``{"kind": ...}`` breaks the envs of this process."""

BAD_STEP, BAD_EPISODE, LENGTH = 37, 2, 50


class Fragile(MultiAgentEnv):
    """Two agents, fifty steps; a state of its own, so that a run resumes in the middle of an episode."""

    possible_agents = ("a_0", "a_1")
    sight = spaces.Box(-100, 100, (2,), np.float32)
    moves = spaces.Discrete(2)

    def __init__(self, config: EnvContext) -> None:
        broken = config.get("broken_worker", config.worker_index) == config.worker_index
        self.fault = config.get("fault") if broken else None
        self.episodes = self.t = 0

    def observation_space(self, agent: str) -> Any:
        return self.sight

    def action_space(self, agent: str) -> Any:
        return self.moves

    def obs(self) -> dict[str, Any]:
        return {agent: np.array([self.t, self.luck], np.float32) for agent in self.possible_agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.rng = np.random.default_rng(seed)
        self.luck, self.t, self.episodes = float(self.rng.random()), 0, self.episodes + 1
        return self.obs(), {}

    def step(self, actions: Any) -> Any:
        self.t += 1
        self.luck = float(self.rng.random())
        rewards = {agent: self.luck * action for agent, action in actions.items()}
        result = StepResult(self.obs(), rewards, {}, {"__all__": self.t == LENGTH}, {})
        fault = FAULT.get("kind", self.fault)
        if fault is not None and self.episodes >= BAD_EPISODE and self.t >= BAD_STEP:
            return break_it(fault, result, self.t)
        return result

    def get_state(self) -> Any:
        return {"t": self.t, "luck": self.luck, "episodes": self.episodes, "rng": self.rng.bit_generator.state}

    def set_state(self, state: Any) -> None:
        self.t, self.luck, self.episodes, self.rng = (
            state["t"],
            state["luck"],
            state["episodes"],
            np.random.default_rng(),
        )
        self.rng.bit_generator.state = state["rng"]


def break_it(fault: str, result: StepResult, t: int) -> Any:
    obs, rewards = result.obs, result.rewards
    seen: dict[str, Any] = {
        "shape": np.zeros(3, np.float32),
        "type": np.array(["left", "right"]),
        "bounds": np.array([t, 101], np.float32),
        "nan": np.array([t, np.nan], np.float32),
        "infinite": np.array([t, np.inf], np.float32),
    }
    if fault in seen:
        return result._replace(obs={**obs, "a_1": seen[fault]})
    if fault == "nan reward":
        return result._replace(rewards={**rewards, "a_1": float("nan")})
    if fault == "text reward":
        return result._replace(rewards={**rewards, "a_1": "much"})
    if fault == "crash":
        raise RuntimeError("the dice fell off the table")
    if fault == "four values":
        return tuple(result)[:4]
    if fault == "no dict":
        return result._replace(rewards=[1.0, 2.0])  # type: ignore[arg-type]
    if fault == "stranger seen":
        return result._replace(obs={**obs, "a_9": obs["a_0"]})
    if fault == "stranger paid":
        return result._replace(rewards={**rewards, "a_9": 1.0})
    if fault == "stranger ended":
        return result._replace(terminated={"a_9": True})
    assert fault == "absent agent"
    if t == BAD_STEP:  # ends a_1, but goes on to show it something
        return result._replace(terminated={"a_1": True})
    raise KeyError("there is no a_1 to act for")
