"""Noise that is named by its seed, so that a worker and the learner make the same without sending it.

A perturbation of a policy is ``theta + scale * epsilon(seed)`` with ``epsilon ~ N(0, I)`` over all its parameters, one after
the other. The antithetic partner has the negative scale. Nothing is asked of the policy but parameters: no gradient flows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

from marl.data.task import Floats
from marl.policies.policy import Policy


def noise(seed: int, size: int) -> Floats:
    """``size`` draws from a standard normal distribution; the same for the same seed everywhere."""
    return np.random.default_rng(seed).standard_normal(size, np.float32)


def moved_parameters(policy: Policy) -> list[nn.Parameter]:
    """What evolution moves, in a fixed order: all parameters but those that were marked as not to be trained."""
    return [parameter for parameter in policy.parameters() if parameter.requires_grad]


@contextmanager
def perturbed(policy: Policy, seed: int, scale: float) -> Iterator[None]:
    """Within the block the policy's parameters are ``theta + scale * noise(seed)``; afterwards ``theta``, to the last bit."""
    parameters = moved_parameters(policy)
    # A copy, because adding and taking away again would not give back the last bit.
    before = [parameter.detach().clone() for parameter in parameters]
    epsilon = torch.from_numpy(noise(seed, sum(parameter.numel() for parameter in parameters)))
    at = 0
    with torch.no_grad():
        for parameter in parameters:
            part = epsilon[at : at + parameter.numel()].view_as(parameter)
            parameter.add_(part.to(parameter.device, parameter.dtype), alpha=scale)
            at += parameter.numel()
    try:
        yield
    finally:
        with torch.no_grad():
            for parameter, old in zip(parameters, before, strict=True):
                parameter.copy_(old)
