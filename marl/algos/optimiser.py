"""One optimiser step on one flat vector: all parameters of a block and their gradients are views of two tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.config import LearnerConfig, OptimizerConfig
from marl.algos.crew import ALONE, Crew
from marl.data.task import PolicyID
from marl.errors import TrainingError
from marl.policies.policy import Policy


class FlatOptimiser:
    """Adam, SGD or RMSprop over a block of parameters (a policy and its critic, or a mixer).

    The flat layout makes the step one fused call and gradient clipping one multiplication.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimizerConfig, lr: float, name: str) -> None:
        params = [p for p in parameters if p.requires_grad]
        self.name = name
        self.flat = torch.cat([p.detach().reshape(-1) for p in params])
        self.grad = torch.zeros_like(self.flat)
        at = 0
        for p in params:  # gradients are zeroed in place, never set to None: the views must stay
            n = p.numel()
            p.data = self.flat[at : at + n].view_as(p)
            p.grad = self.grad[at : at + n].view_as(p)
            at += n
        self.whole = nn.Parameter(self.flat)
        self.whole.grad = self.grad
        self.optimiser = _build(self.whole, config, lr)

    def zero(self) -> None:
        self.grad.zero_()

    def step(self, max_norm: float | None, lr: float, crew: Crew = ALONE) -> Tensor:
        """Sum the gradient over the crew, check, clip and apply it; gives its norm before clipping."""
        crew.sum_(self.grad)
        norm: Tensor = torch.linalg.vector_norm(self.grad)
        if not torch.isfinite(norm):
            raise TrainingError(
                f"the gradient of {self.name} became {float(norm)}, so training stopped before it could spoil the "
                "weights. Usual remedies: a smaller lr, a smaller grad_clip, and a look at the world's rewards and "
                "observations."
            )
        if max_norm is not None:
            self.grad.mul_((max_norm / (norm + 1e-6)).clamp_(max=1.0))
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        self.optimiser.step()
        return norm

    def state_dict(self) -> dict[str, Any]:
        state = self.optimiser.state[self.whole]
        return {name: value.detach().cpu().numpy().copy() for name, value in state.items() if value is not None}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.optimiser.state[self.whole].clear()
        if state:
            tensors = {name: torch.from_numpy(np.array(value)) for name, value in state.items()}
            moved = {n: t if n == "step" else t.to(self.flat.device) for n, t in tensors.items()}
            self.optimiser.state[self.whole].update(moved)


def shared_optimisers(
    policies: Mapping[PolicyID, Policy], configs: Mapping[PolicyID, LearnerConfig]
) -> dict[str, FlatOptimiser]:
    """One optimiser per set of layers that several policies share; they agree on its keys."""
    blocks = {layers: (name, params) for name, policy in policies.items() for layers, params in policy.shared.items()}
    return {
        layers: FlatOptimiser(params, configs[name].optimizer, configs[name].lr, f"layers {layers!r}")
        for layers, (name, params) in blocks.items()
    }


def _build(whole: nn.Parameter, config: OptimizerConfig, lr: float) -> torch.optim.Optimizer:
    if config.type == "adam":
        return torch.optim.Adam([whole], lr, eps=config.eps, weight_decay=config.weight_decay, fused=True)
    if config.type == "sgd":
        return torch.optim.SGD([whole], lr, momentum=config.momentum, weight_decay=config.weight_decay)
    return torch.optim.RMSprop([whole], lr, eps=config.eps, momentum=config.momentum, weight_decay=config.weight_decay)
