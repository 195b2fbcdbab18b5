"""An env that writes down all it showed, was told and paid, so that a second implementation can learn from the same experience
without our grids, batches and replays.

Nothing in it makes sense; everything that is hard for an update happens in it: agents end one by one while others go on, some
arrive late, whole episodes are terminated or cut off, in one step one agent may be terminated and another one truncated, and
not every action is legal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Array
from marl.envs.base import MultiAgentEnv, StepResult

WIDTH, OPTIONS, LIMIT = 3, 4, 6
JUNK = 7.0  # what stands in a log where an agent is absent
Record = dict[str, Array]


class Witnessed(MultiAgentEnv):
    """Keys: ``agents`` (how many), ``masked``, ``box`` (actions are two coordinates), ``together`` (nobody is ever absent)."""

    logs: ClassVar[list[list[Record]]] = []  # of every copy that was ever built

    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config, self.rng = dict(config), np.random.default_rng(0)
        self.possible_agents = tuple(f"agent_{i}" for i in range(config["agents"]))
        observed: Any = spaces.Box(-np.inf, np.inf, (WIDTH,), np.float32)
        if self.config.get("masked"):
            observed = spaces.Dict({"observation": observed, "action_mask": spaces.MultiBinary(OPTIONS)})
        acts: Any = spaces.Box(-1.0, 1.0, (2,), np.float32) if self.config.get("box") else spaces.Discrete(OPTIONS)
        self.spaces = observed, acts
        self.log: list[Record] = []
        self.logs.append(self.log)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.spaces[0]

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.spaces[1]

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        self.rng, self.t = np.random.default_rng(seed), 0
        agents = len(self.possible_agents)
        self.there = np.ones(agents, bool)
        self.late = not self.config.get("together") and agents > 2 and self.rng.random() < 0.5
        self.there[-1] = not self.late
        self._draw()
        return self._obs(self.there), {}

    def _draw(self) -> None:
        """What is to be seen now."""
        agents = len(self.possible_agents)
        self.seen = self.rng.normal(size=(agents, WIDTH)).astype(np.float32)
        self.legal = self.rng.random((agents, OPTIONS)) < 0.5
        self.legal[np.arange(agents), self.rng.integers(0, OPTIONS, agents)] = True

    def _obs(self, shown: Array) -> dict[AgentID, Any]:
        found: dict[AgentID, Any] = {}
        for i in np.flatnonzero(shown):
            masked = {"observation": self.seen[i], "action_mask": self.legal[i].astype(np.int8)}
            found[self.possible_agents[i]] = masked if self.config.get("masked") else self.seen[i]
        return found

    def state(self) -> Array:
        """Different from every observation, also when nobody is left."""
        return np.concatenate([np.tanh(self.seen).reshape(-1), [self.t / LIMIT]]).astype(np.float32)

    def _view(self, shown: Array) -> Record:
        seen = np.where(shown[:, None], self.seen, np.float32(JUNK))
        legal = self.legal if self.config.get("masked") else np.ones_like(self.legal)
        return {"obs": seen, "legal": legal.copy(), "there": shown.copy(), "state": self.state()}

    def step(self, actions: dict[AgentID, Any]) -> StepResult:
        agents, before = self.possible_agents, self._view(self.there)
        sample = next(iter(actions.values()))
        played = np.stack([np.asarray(actions.get(name, np.zeros_like(sample))) for name in agents])
        paid = self.rng.normal(size=len(agents)) + np.sin(played.reshape(len(agents), -1).sum(axis=1))
        rewards = np.where(self.there, paid, 0.0).astype(np.float32)
        terminated, truncated = self._ends()
        self.t += 1
        self._draw()
        shown, arrives = self.there.copy(), np.zeros_like(self.there)
        self.there = self.there & ~terminated & ~truncated
        arrives[-1] = self.late and self.t == 2 and self.there.any()
        self.there |= arrives
        shown |= arrives
        after = {f"next_{name}": column for name, column in self._view(shown & ~terminated).items()}
        ends = {"actions": played, "rewards": rewards, "terminated": terminated, "truncated": truncated}
        self.log.append({**before, **ends, **after})
        names = np.asarray(agents)
        return StepResult(
            self._obs(shown),
            {name: float(rewards[i]) for i, name in enumerate(agents) if before["there"][i]},
            dict.fromkeys(names[terminated].tolist(), True),
            dict.fromkeys(names[truncated].tolist(), True),
            {},
        )

    def _ends(self) -> tuple[Array, Array]:
        """Who of those who are there is terminated, and who is cut off."""
        luck = self.rng.random(len(self.possible_agents))
        falls = luck < (0.0 if self.config.get("together") else 0.15)
        all_fall = self.rng.random() < 0.15
        terminated = self.there & (falls | all_fall)
        over = self.t + 1 == LIMIT
        return terminated, self.there & ~terminated & over


def witnessed_rounds(steps: int) -> Record:
    """The newest ``steps`` of all copies that were played, as ``[T, E, A, ...]``."""
    played = [log[-steps:] for log in Witnessed.logs if log]
    return {name: np.stack([np.stack([log[t][name] for log in played]) for t in range(steps)]) for name in played[0][0]}
