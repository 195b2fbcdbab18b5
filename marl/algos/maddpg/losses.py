"""The arithmetic of deterministic actor-critics: pure functions from tensors to tensors."""

from __future__ import annotations

from torch import Tensor


def td_target(rewards: Tensor, next_q: Tensor, elapsed: Tensor, terminated: Tensor, gamma: float) -> Tensor:
    """``r + gamma ** elapsed * min_i Q'_i``, without the second part where the agent was terminated.

    ``next_q`` is ``[N, critics]``: the smallest of twin critics is the least likely to be overestimated (TD3).
    """
    return rewards + gamma**elapsed * next_q.min(dim=1).values * ~terminated


def smoothed(actions: Tensor, noise: Tensor, limit: float, bounded: Tensor) -> Tensor:
    """Target actions' coordinates plus noise cut to ``+-limit``, kept within -1..1 where they are ``bounded`` (TD3)."""
    # A critic with a narrow peak is not believed: the target is its value around the action, not at it.
    noisy = actions + noise.clamp(-limit, limit)
    return noisy.clamp(-1, 1).where(bounded, noisy)


def critic_loss(q: Tensor, target: Tensor, weights: Tensor) -> Tensor:
    """Weighted mean squared temporal difference, added up over the critics ``[N, critics]``; no gradient into the target."""
    return (weights[:, None] * (q - target.detach()[:, None]).square()).mean(dim=0).sum()


def actor_loss(q: Tensor, outputs: Tensor, reg: float) -> Tensor:
    """``-mean Q(o, mu(o)) + reg * mean outputs^2``: climb the critic without running into the flat ends of tanh or softmax."""
    return reg * outputs.square().mean() - q.mean()
