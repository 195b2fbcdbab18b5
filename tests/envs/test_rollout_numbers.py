"""Numbers of native envs are looked at rollout by rollout: wherever one is wrong, the error names the copy and the step."""

from __future__ import annotations

import numpy as np
import pytest

from marl.errors import EnvError
from marl.training.trainer import Trainer

KEYS = {
    "num_envs_per_worker": 3,
    "train_batch_size": 30,
    "fcnet_hiddens": [4],
    "seed": 1,
    "env_config": {"max_cycles": 4},
}


@pytest.mark.parametrize(
    ("column", "row", "step"),
    [("obs", 0, 0), ("obs", 4, 0), ("new_obs", 2, 3), ("new_obs", 3, 4), ("state", 8, 0), ("new_state", 5, 2)],
)
def test_a_wrong_number_is_found_in_views_before_and_after_steps(column: str, row: int, step: int) -> None:
    with Trainer("ppo", env="fast:simple_spread", config=KEYS) as trainer:
        worker = trainer.workers.local_worker()
        batch = worker.collect(10).batch
        check = worker.runner.check
        check.look_at_rollout(batch)
        shown = getattr(batch, column)
        grid = shown[0] if isinstance(shown, list) else shown
        grid[row, 2, ..., 1] = np.nan
        with pytest.raises(EnvError, match=rf"copy 2, step {step}\b.*nan"):
            check.look_at_rollout(batch)
