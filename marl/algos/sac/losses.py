"""The arithmetic of soft values: pure functions from tensors to tensors.

With the entropy counted as reward, the value of a moment is ``V = E_a[min_i Q_i(a) - alpha * log pi(a)]``. Box actions
estimate the expectation by one drawn action; Discrete actions sum it up exactly (Christodoulou, 2019).

Slopes are d loss / d what a loss is given; networks pull their gradients by them (``policies/mlp.py``).
"""

from __future__ import annotations

from torch import Tensor


def soft_value(values: Tensor, logp: Tensor, alpha: Tensor) -> Tensor:
    """``min_i Q_i - alpha * log pi`` of drawn actions; ``values`` ``[critics, N]``, ``logp`` ``[N]``."""
    return values.amin(0) - alpha * logp


def smallest(values: Tensor) -> Tensor:
    """``d min_i Q_i / d Q_i``: 1 for the smaller critic of each row, 0 for the other; equal ones share it."""
    share = (values == values.amin(0)).to(values.dtype)
    return share / share.sum(0)


def expected_soft_value(values: Tensor, logs: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """``V = sum_a pi(a) * f(a)`` with ``f(a) = min_i Q_i(a) - alpha * log pi(a)``, and ``dV/dz_a = pi(a) (f(a) - V)``.

    ``values`` are ``[critics, N, actions]``, ``logs = log_softmax(z)``. An illegal action has the chance 0, so it adds
    nothing whatever its value is. (That ``f`` has ``pi`` in it changes no slope: chances add up to one.)
    """
    p, f = logs.exp(), values.amin(0) - alpha * logs
    value = (p * f).sum(1)
    return value, p * (f - value[:, None])


def critic_loss(chosen: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """``sum_i mean 1/2 w (Q_i - target)^2`` of ``chosen`` ``[critics, N]``, and by each of them ``w (Q_i - target) / N``.

    There is no gradient through the target.
    """
    error = chosen - target.detach()
    weighted = weights * error
    return 0.5 * (weighted * error).mean(1).sum(), weighted / chosen.shape[1]


def temperature_loss(log_alpha: Tensor, entropy: Tensor, target_entropy: Tensor) -> tuple[Tensor, Tensor]:
    """``alpha * mean(entropy - target)``, which is its own slope by ``log alpha``: alpha falls while the policy is more random
    than wanted, and rises else."""
    loss = log_alpha.detach().exp() * (entropy - target_entropy).mean()
    return loss, loss
