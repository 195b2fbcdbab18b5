"""Where everybody is asked, rows are copied in stretches instead of being gathered: what is collected is the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from marl.data.batch import ENV_COLUMNS, ROW_COLUMNS, SEAT_COLUMNS, MultiAgentBatch
from marl.rollout.cells import MarkedCells, Seating, WholeColumns
from marl.training.trainer import Trainer

SMALL = {
    "num_envs_per_worker": 4, "train_batch_size": 40, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "seed": 3,
}  # fmt: skip
PAIR = {"policies": {"one": {}, "two": {}}, "policy_mapping_fn": {"agent_1": "two", "*": "one"}}
LOTTERY = {"policies": {"one": {}, "two": {}}, "policy_mapping_fn": {"*": ["one", "two"]}}
RANDOM = {"policies": {"one": {}, "dice": {"scripted": "random"}}, "policy_mapping_fn": {"agent_1": "dice", "*": "one"}}
CASES: dict[str, tuple[str, str, Mapping[str, Any]]] = {
    "one policy for all": ("ppo", "fast:simple_spread", {}),
    "a policy in the middle": ("ppo", "fast:simple_spread", {"multiagent": PAIR}),
    "drawn anew for every episode": ("ppo", "fast:simple_spread", {"multiagent": LOTTERY}),
    "a policy in the env's units": ("ppo", "fast:simple_spread", {"multiagent": RANDOM}),
    "memory": ("ppo", "fast:simple_spread", {"use_lstm": True, "lstm_cell_size": 4}),
    "attention": (
        "ppo",
        "fast:simple_spread",
        {"use_attention": True, "attention_dim": 4, "attention_memory_inference": 3, "attention_use_n_prev_rewards": 2},
    ),
    "several kinds": ("ppo", "fast:simple_tag", {}),
    "values": ("dqn", "fast:simple_spread", {}),
    "turns and masks": ("ppo", "pettingzoo:classic/tictactoe_v3", {}),
}


class OneByOne(Seating):
    """Nothing is known for all copies: every policy's cells are looked for in every step."""

    def whole_columns(self, policy_of: Any, kinds: Any) -> list[list[tuple[int, WholeColumns]]]:
        del policy_of
        return [[] for _ in kinds]


def collected(case: str, seating: Seating | None) -> MultiAgentBatch:
    algo, env, keys = CASES[case]
    with Trainer(algo, env=env, config={**SMALL, **keys}) as trainer:
        worker = trainer.workers.local_worker()
        if seating is not None:
            worker.runner.seating = seating
        batches = [worker.collect(steps).batch for steps in (3, 30)]
    return batches[-1]


def columns_of(batch: MultiAgentBatch) -> dict[str, list[Any]]:
    columns: dict[str, list[Any]] = {}
    for name in ENV_COLUMNS:
        columns[name] = getattr(batch, name)
    for name in (*SEAT_COLUMNS, *ROW_COLUMNS):
        columns[name] = [getattr(batch, name)]
    return columns


@pytest.mark.parametrize("case", CASES)
def test_stretches_of_rows_give_the_same_grid_as_cells_that_are_looked_for(case: str) -> None:
    fast, slow = columns_of(collected(case, None)), columns_of(collected(case, OneByOne()))
    for name, arrays in slow.items():
        for expected, found in zip(arrays, fast[name], strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=name)


@pytest.mark.parametrize("seats", [[0, 1, 2], [1], [0, 2]])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3)])
def test_rows_of_whole_columns_are_those_of_the_same_cells_and_go_back_to_their_places(
    seats: list[int], shape: tuple[int, ...]
) -> None:
    mask = np.zeros((4, 3), bool)
    mask[:, seats] = True
    grid = np.arange(12 * int(np.prod(shape)), dtype=np.float32).reshape(4, 3, *shape)
    whole, marked = WholeColumns(mask), MarkedCells(mask)
    rows = whole.rows(grid)
    np.testing.assert_array_equal(rows, marked.rows(grid))
    assert not np.shares_memory(rows, grid)  # a policy may write into its inputs
    first, second = np.zeros_like(grid), np.zeros_like(grid)
    whole.put(first, rows + 1)
    marked.put(second, rows + 1)
    np.testing.assert_array_equal(first, second)


def test_who_sits_where_is_looked_up_again_when_a_seat_is_given_to_another_policy() -> None:
    with Trainer("ppo", env="fast:simple_spread", config={**SMALL, "multiagent": PAIR}) as trainer:
        runner = trainer.workers.local_worker().runner
        kinds = runner.env.kinds
        before = runner.seating.whole_columns(runner.policy_of, kinds)
        assert [(index, cells.mask[0].tolist()) for index, cells in before[0]] == [
            (0, [True, False, True]), (1, [False, True, False]),
        ]  # fmt: skip
        runner.policy_of[:, 0] = 1
        after = runner.seating.whole_columns(runner.policy_of, kinds)
        assert [(index, cells.mask[0].tolist()) for index, cells in after[0]] == [
            (0, [False, False, True]), (1, [True, True, False]),
        ]  # fmt: skip
        runner.policy_of[1, 0] = 0  # in one copy alone: not known for all
        assert runner.seating.whole_columns(runner.policy_of, kinds) == [[]]
