"""Episodes of rware, recorded, for machines on which it is not installed.

    python -m tests.envs.games.warehouse_golden

needs rware and writes ``warehouse_golden.npz`` beside this file: starts, actions, what was drawn, rewards and observations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.envs.games.warehouse_pair import Pair

FILE = Path(__file__).with_suffix(".npz")
STEPS = 120
CASES: dict[str, dict[str, Any]] = {
    "tiny": {"id": "rware-tiny-2ag-v2"},
    "four": {"id": "rware-tiny-4ag-v2"},
    "crowd": {
        "shelf_rows": 2,
        "shelf_columns": 1,
        "column_height": 3,
        "n_agents": 9,
        "request_queue_size": 2,
        "reward_type": "two_stage",
    },
}


def originals_arguments(config: dict[str, Any]) -> dict[str, Any]:
    """What rware's Warehouse takes for these keys of ours."""
    from rware.warehouse import RewardType

    from marl.envs.games.warehouse.config import WarehouseConfig

    arguments = WarehouseConfig(**config).model_dump(exclude={"id", "reward_type"})
    reward = RewardType[WarehouseConfig(**config).reward_type.upper()]
    return {**arguments, "reward_type": reward, "msg_bits": 0}


def recorded(config: dict[str, Any]) -> dict[str, Any]:
    from rware.warehouse import Warehouse

    pair = Pair([Warehouse(**originals_arguments(config))], config, seed=1)
    env = pair.envs[0]
    start = {
        "robots": [(agent.y, agent.x, agent.dir.value) for agent in env.agents],
        "wanted": [shelf.id - 1 for shelf in env.request_queue],
        "first": np.stack([env._make_obs(agent) for agent in env.agents]),
    }
    for _ in range(STEPS):
        pair.step()
    assert pair.happened["paid"] > 0
    requests = [-1 if not step["requests"][0] else step["requests"][0][0] for step in pair.log]
    columns = {name: np.stack([step[name][0] for step in pair.log]) for name in ("actions", "rewards", "obs")}
    return {**start, **columns, "requests": requests}


def record() -> None:
    arrays: dict[str, Any] = {}
    for name, config in CASES.items():
        for column, values in recorded(config).items():
            arrays[f"{name}.{column}"] = np.asarray(values).astype(np.float16 if column == "rewards" else np.int8)
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    record()
