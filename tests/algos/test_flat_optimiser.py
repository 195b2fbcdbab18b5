"""The steps on a flat vector are those of torch's optimiser classes, bit for bit, also after save and load."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from marl.algos.config import OptimizerConfig
from marl.algos.optimiser import FlatOptimiser

CASES: list[tuple[dict[str, Any], Any]] = [
    (
        {"type": "adam", "weight_decay": 0.1},
        lambda p: torch.optim.Adam([p], 0.1, eps=1e-5, weight_decay=0.1, fused=True),
    ),
    ({"type": "sgd"}, lambda p: torch.optim.SGD([p], 0.1)),
    ({"type": "sgd", "momentum": 0.9}, lambda p: torch.optim.SGD([p], 0.1, momentum=0.9)),
    ({"type": "rmsprop", "momentum": 0.5}, lambda p: torch.optim.RMSprop([p], 0.1, eps=1e-5, momentum=0.5)),
    ({"type": "rmsprop"}, lambda p: torch.optim.RMSprop([p], 0.1, eps=1e-5)),
]


@pytest.mark.parametrize(
    ("keys", "torchs"), CASES, ids=lambda part: str(part)[:40] if isinstance(part, dict) else "torch"
)
def test_steps_equal_those_of_torchs_own_classes(keys: dict[str, Any], torchs: Any) -> None:
    drawn = torch.Generator().manual_seed(3)
    start = torch.randn(7, generator=drawn)
    mine, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    config = OptimizerConfig(**keys)
    flat, reference = FlatOptimiser([mine], config, 0.1, "test"), torchs(theirs)
    for step in range(6):
        gradient = torch.randn(7, generator=drawn)
        if step == 3:  # goes on in another object
            saved, mine = flat.state_dict(), nn.Parameter(mine.detach().clone())
            flat = FlatOptimiser([mine], config, 0.1, "test")
            flat.load_state_dict(saved)
        assert mine.grad is not None
        mine.grad.copy_(gradient)
        theirs.grad = gradient.clone()
        flat.step(None, 0.1)
        reference.step()
        assert torch.equal(mine, theirs)
