"""Layers that keys of ``model:`` add or share, counted by hand."""

from __future__ import annotations

from typing import Any

import pytest

from marl.training.trainer import Trainer

# CartPole: 4 numbers seen, 2 actions; a layer of n units over m has m * n weights and n biases.
FIRST, SECOND = 4 * 6 + 6, 6 * 5 + 5


@pytest.mark.parametrize(
    ("keys", "count"),
    [
        ({}, FIRST + (6 * 2 + 2)),
        ({"post_fcnet_hiddens": [5]}, FIRST + SECOND + (5 * 2 + 2)),
        ({"vf_share_layers": True}, FIRST + (6 * 3 + 3)),  # one output more: the value
        ({"post_fcnet_hiddens": [5], "vf_share_layers": True}, FIRST + SECOND + (5 * 3 + 3)),
        ({"post_fcnet_hiddens": [5], "post_fcnet_activation": "tanh"}, FIRST + SECOND + (5 * 2 + 2)),
    ],
)
def test_a_policy_has_as_many_parameters_as_its_layers(keys: dict[str, Any], count: int) -> None:
    with Trainer("ppo", env="CartPole-v1", config={"fcnet_hiddens": [6], **keys}) as trainer:
        model = trainer.get_policy().model
        assert sum(parameter.numel() for parameter in model.parameters()) == count  # type: ignore[union-attr]
