"""A results folder with runs whose policies are known."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace
from tests.play.runs import Digits, constant, trained


def described(run: Path, env: str, algo: str) -> Path:
    """The file by which a folder with checkpoints is a run."""
    run.mkdir(parents=True, exist_ok=True)
    (run / "params.json").write_text(json.dumps({"env": env, "algo": {"name": algo}}))
    return run


def two_step_run(root: Path, name: str = "two_step") -> Path:
    """Two checkpoints: in the older one both play 0 (the safe branch), in the newer one 1 in the first step."""
    run = described(root / name, "two_step_game", "dqn")
    _two_step(run, 1, {"agent_0": [2.0, 1.0], "agent_1": [3.0, -4.0]})
    _two_step(run, 2, {"agent_0": [1.0, 6.0], "agent_1": [3.0, 5.0]})
    return run


def _two_step(run: Path, number: int, values: Mapping[str, list[float]]) -> None:
    constant(run / f"checkpoints/checkpoint_{number:06d}", "two_step_game", values, algo="dqn", gamma=0.5)


def long_run(root: Path, name: str = "long", env: str = "traffic", **keys: Any) -> Path:
    """A run with agents that come and go, and policies that have opinions."""
    run = described(root / name, env, "ppo")
    trained(run / "checkpoints/checkpoint_000001", env, loud=True, **keys)
    return run


def strange_run(root: Path) -> Path:
    """A run whose folder, agents and actions have markup in their names."""
    run = described(root / "<b>strange</b> & run", "tests.watch.episode_runs:Strange", "ppo")
    trained(run / "checkpoints/checkpoint_000001", "tests.watch.episode_runs:Strange")
    return run


class Strange(Digits):
    """Agents and actions with names that a page must not take for markup; a dict is seen."""

    possible_agents = ("<img src=x onerror=alert(1)>", "a&amp;b'\"")

    def observation_space(self, agent: AgentID) -> AnySpace:
        return spaces.Dict({"<u>near</u>": spaces.Box(-4, 4, (3,), np.float32), "kind": spaces.Discrete(3)})

    def _obs(self) -> dict[AgentID, Any]:
        seen = super()._obs()
        return {agent: {"<u>near</u>": vector, "kind": 1} for agent, vector in seen.items()}

    def action_names(self, agent: AgentID) -> list[str]:
        return ["<i>stay</i>", "go", "<script>alert(2)</script>"]
