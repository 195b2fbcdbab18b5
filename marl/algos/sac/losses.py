"""The arithmetic of soft values: pure functions from tensors to tensors.

With the entropy counted as reward, the value of a moment is ``V = E_a[min_i Q_i(a) - alpha * log pi(a)]``. Box actions
estimate the expectation by one drawn action; Discrete actions sum it up exactly (Christodoulou, 2019).
"""

from __future__ import annotations

from torch import Tensor


def soft_value(values: Tensor, logp: Tensor, alpha: Tensor) -> Tensor:
    """``min_i Q_i - alpha * log pi`` of drawn actions; ``values`` ``[critics, N]``, ``logp`` ``[N]``."""
    return values.amin(0) - alpha * logp


def expected_soft_value(values: Tensor, logs: Tensor, alpha: Tensor) -> Tensor:
    """``sum_a pi(a) * (min_i Q_i(a) - alpha * log pi(a))``; ``values`` ``[critics, N, actions]``, ``logs`` = log chances.

    An illegal action has the chance 0, so it adds nothing whatever its value is.
    """
    return (logs.exp() * (values.amin(0) - alpha * logs)).sum(1)


def critic_loss(chosen: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """``sum_i mean 1/2 (Q_i - target)^2``, rows weighted; ``chosen`` ``[critics, N]``; no gradient through the target."""
    return (0.5 * weights * (chosen - target.detach()).square()).mean(1).sum()


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: Tensor) -> Tensor:
    """``alpha * mean(entropy - target)``: alpha falls while the policy is more random than wanted, and rises else."""
    return log_alpha.exp() * (entropy - target_entropy).detach().mean()
