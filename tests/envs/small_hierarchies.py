"""Small hierarchies, and a way to play them by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace
from marl.envs.base import Action, MultiAgentEnv, StepResult
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.hierarchy.env import HierarchicalEnv

STAY, EAST, WEST = 0, 2, 4
FORWARD, BACK = 0, 1
ALL = "__all__"


def corridor(cells: int = 5, limit: int = 50) -> WindyMaze:
    """The walker starts in column 1 and leaves in column ``cells``."""
    line = f"#S{'.' * (cells - 2)}E#"
    return WindyMaze({"map": ["#" * len(line), line, "#" * len(line)], "wind": 0, "turn": 0, "limit": limit})


def goals(cells: int, **keys: Any) -> dict[str, Any]:
    """Move so many cells on, or back."""
    return {"changes": [[cells / 10], [-cells / 10]], "tolerance": 0.02, **keys}


def two_levels(base: MultiAgentEnv, horizon: int = 3, cells: int = 2, **keys: Any) -> HierarchicalEnv:
    levels = [{"name": "top_level", "horizon": horizon, "goals": goals(cells)}, {"name": "low_level", **keys}]
    return HierarchicalEnv(base, levels=levels, features=[1])


def three_levels(base: MultiAgentEnv, top_cells: int = 4, mid_cells: int = 2) -> HierarchicalEnv:
    levels = [
        {"name": "top_level", "horizon": 2, "goals": goals(top_cells)},
        {"name": "mid_level", "horizon": 3, "goals": goals(mid_cells)},
        {"name": "low_level"},
    ]
    return HierarchicalEnv(base, levels=levels, features=[1])


def play(env: HierarchicalEnv, choices: Sequence[Action | Mapping[AgentID, Action]]) -> list[StepResult]:
    """Play an episode; a plain action is played by everybody who is asked."""
    obs, _ = env.reset(seed=0)
    results = [StepResult(obs, {}, {}, {}, {})]
    for choice in choices:
        asked = who_is_asked(results[-1])
        results.append(env.step(dict(choice) if isinstance(choice, Mapping) else dict.fromkeys(asked, choice)))
    return results


def who_is_asked(result: StepResult) -> list[AgentID]:
    return [a for a in result.obs if not (result.terminated.get(a) or result.truncated.get(a))]


def asked(results: Sequence[StepResult]) -> list[list[AgentID]]:
    return [who_is_asked(result) for result in results]


def ended(flags: Mapping[AgentID, bool]) -> list[AgentID]:
    return sorted(agent for agent, flag in flags.items() if flag)


def paid(results: Sequence[StepResult], level: str) -> list[float]:
    return [round(sum(r for a, r in result.rewards.items() if a.startswith(level)), 6) for result in results[1:]]


class Line(MultiAgentEnv):
    """Agents on a line of their own; action 1 moves one cell on. Agent ``x`` leaves after ``lengths[x]`` steps of play,
    paid 1; ``late`` ones appear after two steps. Masks forbid to move where ``blocked``."""

    def __init__(
        self, lengths: Mapping[AgentID, int], late: Sequence[AgentID] = (), blocked: Sequence[int] = ()
    ) -> None:
        self.lengths, self.late, self.blocked = lengths, late, blocked
        self.possible_agents = tuple(lengths)
        self.box = spaces.Box(0, 10, (2,), np.float32)
        self.masked = spaces.Dict({"observation": self.box, "action_mask": spaces.MultiBinary(2)})
        self.moves = spaces.Discrete(2)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.masked if self.blocked else self.box

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.moves

    def state(self) -> Any:
        return np.array(list(self.at.values()), np.float32)

    def _see(self, agent: AgentID) -> Any:
        seen = np.array([self.clock / 10, self.at[agent] / 10], np.float32)
        mask = np.array([1, self.at[agent] not in self.blocked], np.int8)
        return {"observation": seen, "action_mask": mask} if self.blocked else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.clock, self.at = 0, dict.fromkeys(self.lengths, 0)
        self.left = [a for a in self.lengths if a not in self.late]
        return {a: self._see(a) for a in self.left}, {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        assert sorted(actions) == sorted(self.left)
        self.clock += 1
        for agent, move in actions.items():
            self.at[agent] += move
        gone = [a for a in self.left if self.at[a] >= self.lengths[a]]
        shown = [*self.left, *(self.late if self.clock == 2 else ())]
        self.left = [a for a in shown if a not in gone]
        rewards, flags = {a: float(a in gone) for a in actions}, {a: a in gone for a in shown}
        waits = self.clock < 2 and bool(self.late)
        if waits:
            flags[ALL] = False
        return StepResult(
            {a: self._see(a) for a in shown}, rewards, flags, {}, {a: {"clock": self.clock} for a in shown}
        )
