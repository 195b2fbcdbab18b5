"""Two sides of ``fast_rivals.py`` that run where marl is: our batched envs, and the originals of mpe2.

    python benchmarks/fast_env_sides.py '{"env": "fast:simple_spread", "copies": 256, "steps": 200}'
    python benchmarks/fast_env_sides.py '{"env": "mpe2.simple_spread_v3", "steps": 2000}'

Actions and seeds are drawn once, before the clock runs; an episode that ended is started anew.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "rivals"))
from clock import answer

Play = Callable[[], dict[str, float]]
"""Plays one round and tells what was done."""
LARGEST_SEED = 2**31 - 1


def ours(work: Mapping[str, Any]) -> Play:
    """Many copies through the array interface."""
    from marl.envs.registry import make_batched_env

    copies, steps, rng = work["copies"], work["steps"], np.random.default_rng(0)
    env = make_batched_env(work["env"], copies, work.get("env_config", {}))
    env.reset(np.arange(copies), np.arange(copies))
    drawn = []
    for kind in env.kinds:
        drawn.append(rng.integers(0, getattr(kind.action_space, "n", 1), (steps, copies, kind.size)))
    actions = [[column[step] for column in drawn] for step in range(steps)]
    seeds = rng.integers(0, LARGEST_SEED, (steps, copies))

    def play() -> dict[str, float]:
        for step in range(steps):
            over = np.flatnonzero(env.step(actions[step]).over)
            if over.size:
                env.reset(over, seeds[step, over])
        return {"count": copies * steps}

    return play


def original(work: Mapping[str, Any]) -> Play:
    """One parallel env of mpe2, through its dicts."""
    env, rng = importlib.import_module(work["env"]).parallel_env(), np.random.default_rng(0)
    env.reset(seed=0)
    agents, steps = list(env.possible_agents), work["steps"]
    sizes = [env.action_space(agent).n for agent in agents]
    drawn = rng.integers(0, sizes, (steps, len(agents))).tolist()
    actions = [dict(zip(agents, chosen, strict=True)) for chosen in drawn]
    seeds = rng.integers(0, LARGEST_SEED, steps).tolist()

    def play() -> dict[str, float]:
        for chosen, seed in zip(actions, seeds, strict=True):
            env.step(chosen)
            if not env.agents:
                env.reset(seed=seed)
        return {"count": steps}

    return play


def main() -> None:
    work = json.loads(sys.argv[1])
    if work["env"].startswith("fast:"):
        answer(ours(work), "numpy")
    else:
        answer(original(work), "mpe2", "numpy")


if __name__ == "__main__":
    main()
