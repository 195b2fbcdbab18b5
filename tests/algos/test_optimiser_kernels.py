"""The optimiser's short way to torch's kernel against torch's public function."""

from __future__ import annotations

import pytest
import torch

from marl.algos import optimiser
from marl.algos.config import OptimizerConfig
from marl.algos.optimiser import FlatOptimiser


def stepped(weight_decay: float) -> torch.Tensor:
    weight = torch.nn.Parameter(torch.linspace(-1, 1, 1001))
    flat = FlatOptimiser([weight], OptimizerConfig(weight_decay=weight_decay), 0.01, "weights")
    for step in range(1, 6):
        flat.grad.copy_((weight.detach() * step).sin())
        flat.step(0.5 if step % 2 else None, 0.01 / step)
    return weight.detach().clone()


@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_the_short_way_to_fused_adam_gives_the_bits_of_the_public_one(
    weight_decay: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert optimiser._FUSED_ADAM is not None, "torch has dropped the private function: the public one is used"
    short = stepped(weight_decay)
    monkeypatch.setattr(optimiser, "_FUSED_ADAM", None)
    assert torch.equal(short, stepped(weight_decay))
