"""Small envs whose every number is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult
from marl.envs.vector.vector_env import DictVector
from marl.mappers.mapper import Mapper, Patterns
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.rollout.worker import RolloutWorker

OBS = spaces.Box(-np.inf, np.inf, (2,), np.float32)
ACT = spaces.Discrete(3)


class Step:
    """What a scripted env says in one step: who is asked next, who is paid, who ends."""

    def __init__(
        self,
        asked: Sequence[AgentID] = (),
        rewards: Mapping[AgentID, float] | None = None,
        terminated: Sequence[AgentID] = (),
        truncated: Sequence[AgentID] = (),
        last: Sequence[AgentID] | None = None,
    ) -> None:
        self.asked, self.rewards = asked, dict(rewards or {})
        self.terminated, self.truncated = terminated, truncated
        ended = [a for a in (*terminated, *truncated) if a != "__all__"]
        self.last = ended if last is None else last  # agents that get a last observation


class Scripted(MultiAgentEnv):
    """Plays a fixed script over and over. An observation is (number of the agent, step in the episode)."""

    def __init__(
        self,
        first: Sequence[AgentID],
        steps: Sequence[Step],
        agents: Sequence[AgentID] = (),
        patterns: Mapping[str, int] | None = None,
    ) -> None:
        self.first, self.steps = first, steps
        self.possible_agents = tuple(agents)
        self.max_agents = dict(patterns or {})
        self.t = 0
        self.seen: list[dict[AgentID, Action]] = []

    def observation_space(self, agent: AgentID) -> AnySpace:
        return OBS

    def action_space(self, agent: AgentID) -> AnySpace:
        return ACT

    def _obs(self, agents: Sequence[AgentID]) -> dict[AgentID, Any]:
        return {a: np.array([float(a.rsplit("_", 1)[-1]), self.t], np.float32) for a in agents}

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.t = 0
        return self._obs(self.first), {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        self.seen.append(actions)
        step = self.steps[self.t]
        self.t += 1
        flags = [dict.fromkeys(ended, True) for ended in (step.terminated, step.truncated)]
        return StepResult(self._obs([*step.asked, *step.last]), step.rewards, flags[0], flags[1], {})

    def get_state(self) -> Any:
        return {"t": self.t}

    def set_state(self, state: Any) -> None:
        self.t = state["t"]


def worker_for(
    env: Any,
    copies: int = 1,
    mapper: Mapper | None = None,
    policies: Sequence[str] = ("p",),
    complete: bool = False,
    **config: Any,
) -> RolloutWorker:
    """A worker whose policies play at random."""
    from marl.data.task import Task
    from marl.envs.registry import make_batched_env

    batched_env = make_batched_env(env, 1, {})
    mapper = mapper or Patterns({"*": policies[0]})
    specs = {
        name: PolicySpec("scripted", k, scripted=ScriptedConfig(name="random"))
        for name, k in zip(
            policies, range(len(policies)) if len(batched_env.kinds) > 1 else [0] * len(policies), strict=True
        )
    }
    spec = RolloutSpec(
        env=env,
        env_config={},
        task=Task(batched_env.kinds, batched_env.state_size),
        policies=specs,
        mapper=mapper,
        seed=0,
        config=RolloutConfig(num_envs_per_worker=copies, **config),
        complete_episodes=complete,
    )
    return RolloutWorker(spec, 0)


def decisions(batches: Sequence[MultiAgentBatch]) -> list[tuple[Any, ...]]:
    """Every trained decision: (episode, step, seat, obs, reward per step, outcome obs, flags, elapsed), sorted."""
    found = []
    for batch in batches:
        rows = batch.for_policy("p", gamma=0.5)
        found += [
            (
                int(rows["eps_id"][i]),
                int(rows["t"][i]),
                int(rows["seat"][i]),
                tuple(rows["obs"][i].tolist()),
                int(rows["actions"][i]),
                float(rows["rewards"][i]),
                tuple(rows["new_obs"][i].tolist()),
                bool(rows["terminateds"][i]),
                bool(rows["truncateds"][i]),
                int(rows["elapsed"][i]),
            )
            for i in range(len(rows))
        ]
    return sorted(found)


def vector(env: MultiAgentEnv) -> DictVector:
    return DictVector([env], "scripted")
