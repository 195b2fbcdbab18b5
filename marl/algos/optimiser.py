"""One optimiser step on one flat vector: all parameters of a block and their gradients are views of two tensors.

The steps are torch's own functions. Its optimiser classes would do the same, but building the first one imports torch's
compiler, which takes nearly as long as importing torch itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.rmsprop import rmsprop
from torch.optim.sgd import sgd

from marl.algos.config import LearnerConfig, OptimizerConfig
from marl.algos.learner_group import ALONE, LearnerGroup
from marl.data.task import PolicyID
from marl.errors import TrainingError
from marl.policies.policy import Policy


class FlatOptimiser:
    """Adam, SGD or RMSprop over a block of parameters (a policy and its critic, or a mixer).

    The flat layout makes the step one fused call and gradient clipping one multiplication.
    """

    def __init__(self, parameters: Iterable[nn.Parameter], config: OptimizerConfig, lr: float, name: str) -> None:
        self.params = [p for p in parameters if p.requires_grad]
        self.name = name
        self.flat = torch.cat([p.detach().reshape(-1) for p in self.params])
        self.grad = torch.zeros_like(self.flat)
        self.move_to(self.flat, self.grad)
        self.stack: object = None  # of which the two are rows, see stack.py
        self.config, self.lr = config, lr
        self.state = _begin(config, self.flat)

    def move_to(self, flat: Tensor, grad: Tensor) -> None:
        """Parameters and gradients are views of these two from now on, which hold the same numbers and may be longer."""
        at = 0
        for p in self.params:  # gradients are zeroed in place, never set to None: the views must stay
            n = p.numel()
            p.data = flat[at : at + n].view_as(p)
            p.grad = grad[at : at + n].view_as(p)
            at += n
        self.flat, self.grad = flat[:at], grad[:at]

    def zero(self) -> None:
        self.grad.zero_()

    def step(self, max_norm: float | None, lr: float, learner_group: LearnerGroup = ALONE) -> Tensor:
        """Sum the gradient over the learner group, check, clip and apply it; returns its norm before clipping."""
        if learner_group.size > 1:
            learner_group.sum_(self.grad)
        norm: Tensor = torch.linalg.vector_norm(self.grad)
        size = norm.item()
        if not math.isfinite(size):
            raise too_large(self.name, size)
        if (
            max_norm is not None and size > max_norm
        ):  # as torch's clip_grad_norm_: one multiplication of the flat vector
            self.grad.mul_(max_norm / (size + 1e-6))
        self.lr = lr
        STEPS[self.config.type]([(self.flat, self.grad, self.state)], self.config, lr)
        return norm

    def state_dict(self) -> dict[str, Any]:
        return {name: value.detach().cpu().numpy().copy() for name, value in self.state.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Of a checkpoint; an empty one is that of an optimiser that has not stepped yet."""
        self.state = _begin(self.config, self.flat)
        for name, value in state.items():
            self.state[name].copy_(torch.from_numpy(np.array(value)))


def shared_optimisers(
    policies: Mapping[PolicyID, Policy], configs: Mapping[PolicyID, LearnerConfig]
) -> dict[str, FlatOptimiser]:
    """One optimiser per set of layers that several policies share; they agree on its keys."""
    blocks = {layers: (name, params) for name, policy in policies.items() for layers, params in policy.shared.items()}
    return {
        layers: FlatOptimiser(params, configs[name].optimizer, configs[name].lr, f"layers {layers!r}")
        for layers, (name, params) in blocks.items()
    }


def too_large(name: str, size: float) -> TrainingError:
    """A gradient that is not finite."""
    return TrainingError(
        f"the gradient of {name} became {size}, so training stopped before it could spoil the weights. Usual remedies: a "
        "smaller lr, a smaller grad_clip, and a look at the env's rewards and observations."
    )


@torch.no_grad()
def step_together(optimisers: Sequence[FlatOptimiser], lr: float) -> None:
    """Steps of several optimisers with one configuration, each by its own gradient as it is."""
    config = optimisers[0].config
    STEPS[config.type]([(one.flat, one.grad, one.state) for one in optimisers], config, lr)
    for one in optimisers:
        one.lr = lr


State: TypeAlias = dict[str, Tensor]
Block: TypeAlias = tuple[Tensor, Tensor, State]
"""A flat vector, its gradient, and what its optimiser remembers."""
_FUSED_ADAM: Callable[..., None] | None = getattr(torch, "_fused_adam_", None)  # private: a later torch may not have it


def _begin(config: OptimizerConfig, flat: Tensor) -> State:
    """What an optimiser remembers before its first step."""
    state: State = {}
    if config.type == "adam":
        state["step"] = torch.zeros((), device=flat.device)  # fused Adam counts where it computes
        state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(flat), torch.zeros_like(flat)
    if config.type == "rmsprop":
        state["step"] = torch.zeros(())
        state["square_avg"] = torch.zeros_like(flat)
    if config.momentum:
        state["momentum_buffer"] = torch.zeros_like(flat)
    return state


def _adam(blocks: Sequence[Block], config: OptimizerConfig, lr: float) -> None:
    """By the kernel of ``torch.optim.Adam(fused=True)``; the checks on the way to it cost three times as much as it."""
    flats, grads, states = zip(*blocks, strict=True)
    means, squares = [state["exp_avg"] for state in states], [state["exp_avg_sq"] for state in states]
    steps = [state["step"] for state in states]
    keys = {
        "amsgrad": False, "beta1": 0.9, "beta2": 0.999, "lr": lr, "weight_decay": config.weight_decay, "eps": config.eps,
        "maximize": False,
    }  # fmt: skip
    if _FUSED_ADAM is None:
        adam(list(flats), list(grads), means, squares, [], steps, fused=True, **keys)  # type: ignore[arg-type]
        return
    for step in steps:
        step += 1
    _FUSED_ADAM(flats, grads, means, squares, [], steps, grad_scale=None, found_inf=None, **keys)


def _sgd(blocks: Sequence[Block], config: OptimizerConfig, lr: float) -> None:
    for flat, grad, state in blocks:
        sgd(
            [flat], [grad], [state.get("momentum_buffer")], foreach=False, weight_decay=config.weight_decay,
            momentum=config.momentum, lr=lr, dampening=0.0, nesterov=False, maximize=False,
        )  # fmt: skip


def _rmsprop(blocks: Sequence[Block], config: OptimizerConfig, lr: float) -> None:
    for flat, grad, state in blocks:
        momentum = [state["momentum_buffer"]] if config.momentum else []
        rmsprop(
            [flat], [grad], [state["square_avg"]], [], momentum, [state["step"]], foreach=False, lr=lr, alpha=0.99,
            eps=config.eps, weight_decay=config.weight_decay, momentum=config.momentum, centered=False,
        )  # fmt: skip


STEPS: dict[str, Callable[[Sequence[Block], OptimizerConfig, float], None]] = {
    "adam": _adam, "sgd": _sgd, "rmsprop": _rmsprop,
}  # fmt: skip
