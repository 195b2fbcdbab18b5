"""The arithmetic of deterministic actor-critics: pure functions from tensors to tensors.

A loss comes with its slopes, d loss / d what it is given; networks pull their gradients by them (``policies/mlp.py``).
"""

from __future__ import annotations

import torch
from torch import Tensor


def td_target(rewards: Tensor, next_q: Tensor, elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """``r + gamma ** elapsed * min_i Q'_i``, without the second part where the agent was terminated.

    ``next_q`` is ``[N, critics]``: the smallest of twin critics is the least likely to be overestimated (TD3).
    """
    return rewards + gamma**elapsed * next_q.amin(dim=1) * ~terminated


def smoothed(actions: Tensor, noise: Tensor, limit: float, bounded: Tensor) -> Tensor:
    """Target actions' coordinates plus noise cut to ``+-limit``, kept within -1..1 where they are ``bounded`` (TD3)."""
    # A critic with a narrow peak is not believed: the target is its value around the action, not at it.
    noisy = actions + noise.clamp(-limit, limit)
    return noisy.clamp(-1, 1).where(bounded, noisy)


def critic_loss(q: Tensor, target: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """``sum_i mean w (Q_i - y)^2`` over the critics ``[N, critics]``, and by each of them ``2 w (Q_i - y) / N``.

    There is no gradient into the target ``y``.
    """
    error = q - target.detach()[:, None]
    weighted = weights[:, None] * error
    return (weighted * error).mean(dim=0).sum(), weighted * (2 / len(q))


def actor_loss(q: Tensor, outputs: Tensor, reg: float) -> tuple[Tensor, Tensor, Tensor]:
    """``-mean Q(o, mu(o)) + reg * mean outputs^2``: climb the critic without running into the flat ends of tanh or softmax.

    Its slopes by ``q`` are ``-1 / N``, those by ``outputs`` ``2 reg outputs / their number``.
    """
    loss = reg * outputs.square().mean() - q.mean()
    return loss, torch.full_like(q, -1 / len(q)), outputs * (2 * reg / outputs.numel())
