"""A memory of views: one row stands for all that show the same, and what networks learn from it does not change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import marl
from marl.algos.deep_cfr.learner import DeepCfrLearner
from marl.algos.deep_cfr.losses import average_loss, regret_loss
from marl.algos.deep_cfr.memory import Merged
from marl.data.batch import SampleBatch

RNG = np.random.default_rng(0)
VIEWS = np.eye(5, dtype=np.float32)


def rows(shown: Any, seed: int) -> SampleBatch:
    rng = np.random.default_rng(seed)
    shown = np.asarray(shown)
    target = rng.random((len(shown), 3)).astype(np.float32)
    return SampleBatch(
        {
            "obs": VIEWS[shown], "agent_index": shown % 2, "legal": np.ones((len(shown), 3), bool),
            "target": target / target.sum(axis=1, keepdims=True), "weight": rng.integers(1, 9, len(shown)).astype(np.float32),
        }
    )  # fmt: skip


def by_view(memory: Merged) -> dict[int, tuple[float, list[float]]]:
    kept = memory.sample(len(memory), RNG)
    found = {}
    for i in range(len(kept)):
        found[int(kept["obs"][i].argmax())] = float(kept["weight"][i]), kept["target"][i].tolist()
    return found


def test_a_row_is_the_weighted_mean_of_all_that_showed_the_same() -> None:
    first, second = rows([0, 1, 0, 2, 0], 1), rows([2, 0, 4], 2)
    memory = Merged(100)
    memory.add(first, RNG)
    memory.add(second, RNG)
    found = by_view(memory)
    assert sorted(found) == [0, 1, 2, 4]
    shown = [0, 1, 0, 2, 0, 2, 0, 4]
    weights = np.concatenate([first["weight"], second["weight"]]).astype(np.float64)
    targets = np.concatenate([first["target"], second["target"]]).astype(np.float64)
    for view, (weight, target) in found.items():
        mine = [i for i, one in enumerate(shown) if one == view]
        assert weight == sum(weights[i] for i in mine)
        assert target == pytest.approx((weights[mine, None] * targets[mine]).sum(0) / weights[mine].sum(), abs=1e-6)


def test_agents_and_masks_are_part_of_what_is_shown() -> None:
    one = rows([0, 0, 0], 3)
    columns = {**one.columns, "agent_index": np.array([0, 1, 0]), "legal": one["legal"].copy()}
    columns["legal"][2, 1] = False
    memory = Merged(100)
    memory.add(SampleBatch(columns), RNG)
    assert len(memory) == 3


def test_gradients_are_those_of_all_rows() -> None:
    """Of a network with an output per view and action, so that its gradient is the slope summed up by view."""
    whole = rows([0, 1, 0, 2, 0, 2, 1, 4, 4, 0], 4)
    memory = Merged(100)
    memory.add(whole, RNG)
    merged = memory.sample(100, RNG)
    outputs = torch.from_numpy(np.random.default_rng(5).normal(size=(5, 3)))

    def gradient(given: SampleBatch, loss: Any) -> torch.Tensor:
        view = torch.from_numpy(given["obs"].argmax(axis=1))
        target, weight = torch.from_numpy(given["target"]).double(), torch.from_numpy(given["weight"]).double()
        legal = [torch.from_numpy(given["legal"])] if loss is regret_loss else []
        _, slope = loss(outputs[view], target, *legal, weight)
        return torch.zeros(5, 3, dtype=torch.float64).index_add_(0, view, slope)

    for loss in (regret_loss, average_loss):
        torch.testing.assert_close(gradient(merged, loss), gradient(whole, loss), rtol=0, atol=1e-6)
        assert gradient(whole, loss).abs().max() > 0.01


def test_views_that_there_is_no_room_for_are_left_out_and_known_ones_go_on() -> None:
    memory = Merged(2)
    memory.add(rows([0, 1, 0], 6), RNG)
    before = by_view(memory)
    memory.add(rows([3, 1, 2], 7), RNG)
    after = by_view(memory)
    assert sorted(after) == [0, 1]
    assert after[0] == before[0]
    assert after[1][0] > before[1][0]


def test_more_views_than_asked_for_are_drawn_by_their_weights() -> None:
    memory = Merged(100)
    one = rows([0, 1, 2], 8)
    memory.add(SampleBatch({**one.columns, "weight": np.array([1.0, 2.0, 5.0], np.float32)}), RNG)
    drawn = np.zeros(3)
    for _ in range(4_000):
        some = memory.sample(2, RNG)
        assert (some["weight"] == 1).all()
        drawn += np.bincount(some["obs"].argmax(axis=1), minlength=3)
    assert drawn / drawn.sum() == pytest.approx([0.125, 0.25, 0.625], abs=0.03)


def test_a_memory_that_was_saved_goes_on() -> None:
    memory, again = Merged(100), Merged(100)
    memory.add(rows([0, 1, 0], 9), RNG)
    again.load_state_dict(memory.state_dict())
    again.load_state_dict(memory.state_dict())  # over what was there
    for one in (memory, again):
        one.add(rows([1, 2, 3], 10), RNG)
    assert by_view(memory) == by_view(again)
    assert len(again) == 4


@pytest.mark.parametrize("name", ["deep_cfr", "escher"])
def test_a_run_on_kuhn_poker_keeps_as_many_rows_as_there_are_information_sets(name: str) -> None:
    config = {
        "policy_mapping_fn": "per_agent", "fcnet_hiddens": [8], "timesteps_per_iteration": 1, "evaluation": {"interval": 0},
        "algo": {"traversals": 64, "regret_updates": 2, "average_updates": 2, "memory_of": "views", "take_turns": False},
    }  # fmt: skip
    with marl.Trainer(name, env="kuhn_poker", config=config) as trainer:
        for _ in range(4):
            trainer.train()
        for learner in trainer.learners:
            assert isinstance(learner, DeepCfrLearner)
            for part in learner.parts.values():
                assert len(part.regrets) == len(part.strategies) == 6
