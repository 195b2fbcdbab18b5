"""Sums of rewards over time, on the whole ``[T, E, A]`` grid at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from marl.data.task import Floats

if TYPE_CHECKING:
    from marl.data.batch import MultiAgentBatch


def fold_rewards(batch: MultiAgentBatch, gamma: float, rewards: Floats | None = None) -> Floats:
    """What a decision earned until its agent was asked again: ``sum_k gamma**k * r_k`` over its ``elapsed`` steps.

    The sum ends with the step after which the agent is asked again or in which it ended, that step included: an agent's last
    decision is credited with its last reward, and with nothing that is paid after its end. ``rewards`` replaces the batch's
    own, for instance by a team's. Values where nobody decided are meaningless.
    """
    paid = batch.rewards if rewards is None else rewards
    if batch.elapsed.max(initial=0) <= 1:
        return paid
    return discounted_until(paid, batch.new_present | batch.terminateds | batch.truncateds, gamma)


def discounted_until(rewards: Floats, stop: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], gamma: float) -> Floats:
    """``out[t] = r[t] + gamma * out[t + 1]``, where the sum ends in rows with ``stop``."""
    folded = np.empty_like(rewards)
    running = np.zeros_like(rewards[0])
    for t in range(len(rewards) - 1, -1, -1):
        running = rewards[t] + np.where(stop[t], 0.0, gamma * running)
        folded[t] = running
    return folded.astype(np.float32, copy=False)


def returns_to_go(batch: MultiAgentBatch, rewards: Floats, gamma: float) -> Floats:
    """What came after each decision until the end of its life, ``sum_k gamma**k * r_k``, for batches of whole episodes.

    It counts every step's reward, also those behind a decision that nobody can train on because its agent was cut off
    without a last observation.
    """
    return discounted_until(rewards, batch.terminateds | batch.truncateds, gamma)


def temporal_differences(
    batch: MultiAgentBatch, values: Floats, next_values: Floats, folded: Floats, gamma: float
) -> tuple[Floats, Floats]:
    """``delta = folded + d * next_value * (not terminated) - value`` of every decision, and ``d = gamma ** elapsed``."""
    # A decision's flags stand in the row of its outcome; where there is no decision (elapsed 0), in its own row.
    done = np.arange(len(batch.t))[:, None, None] + np.maximum(batch.elapsed - 1, 0)
    terminated = np.take_along_axis(batch.terminateds, done, axis=0)
    discount = np.float32(gamma) ** batch.elapsed.astype(np.float32)
    return folded + discount * next_values * ~terminated - values, discount


def gae(
    batch: MultiAgentBatch, values: Floats, next_values: Floats, folded: Floats, gamma: float, trace: float
) -> Floats:
    """Advantages by exponentially weighted temporal differences (Schulman et al., 2016).

    All arguments are ``[T, E, A]`` grids; ``next_values`` is the value of what a decision led to, ``folded`` its
    reward. With ``d = gamma ** elapsed``::

        delta = folded + d * next_value * (not terminated) - value
        A[t]  = delta[t] + d * trace * A[next decision]        (0 where the life ended before it)

    Rows where the agent did not decide hand the running sum through, so a manager that decides every tenth step needs
    no treatment of its own. A truncated decision bootstraps, a terminated one does not, and neither looks into the
    next life of its seat. Values on inactive cells are meaningless.
    """
    delta, discount = temporal_differences(batch, values, next_values, folded, gamma)
    carry_on = discount * np.float32(trace)
    ends = batch.terminateds | batch.truncateds
    advantages = np.zeros_like(values)
    running = np.zeros_like(values[0])
    for t in range(len(values) - 1, -1, -1):
        running = np.where(ends[t], 0.0, running)  # a life ended here: nothing of the seat's next life counts
        running = np.where(batch.active[t], delta[t] + carry_on[t] * running, running)
        advantages[t] = running
    return advantages


def vtrace(
    batch: MultiAgentBatch, values: Floats, next_values: Floats, folded: Floats, log_ratios: Floats, gamma: float,
    rho_bar: float = 1.0, c_bar: float = 1.0, trace: float = 1.0,
) -> tuple[Floats, Floats]:  # fmt: skip
    """Corrections of the critic and advantages for data that older weights played (V-trace, Espeholt et al., 2018).

    All grids are ``[T, E, A]`` as in ``gae``; ``log_ratios`` is ``log pi(a) - log mu(a)``, the policy that learns against
    the one that acted. With ``rho = min(rho_bar, pi / mu)``, ``c = trace * min(c_bar, pi / mu)``, ``d = gamma ** elapsed``::

        v[t] - V[t] = rho * (folded + d * next_value * (not terminated) - V[t]) + d * c * (v - V)[next decision]
        A[t]        = rho * (folded + d * (next_value * (not terminated) + (v - V)[next decision]) - V[t])

    Returns ``v - V``, so the critic's target is ``values`` plus the first grid, and ``A``, which weighs ``log pi(a)``. Rows
    without a decision hand the running sum through; truncated decisions bootstrap, terminated ones do not, and neither
    looks into the next life of its seat. Where ``pi`` is ``mu``, both bounds are 1 or more and ``trace`` is 1, ``v`` is the
    n-step return. Values on inactive cells are meaningless.
    """
    delta, discount = temporal_differences(batch, values, next_values, folded, gamma)
    # The bounds are applied before exp, so that an action which became far more likely overflows nothing.
    rho = np.exp(np.minimum(log_ratios, np.log(np.float32(rho_bar))))
    carry_on = discount * np.float32(trace) * np.exp(np.minimum(log_ratios, np.log(np.float32(c_bar))))
    ends = batch.terminateds | batch.truncateds
    corrections, advantages = np.zeros_like(values), np.zeros_like(values)
    running = np.zeros_like(values[0])
    for t in range(len(values) - 1, -1, -1):
        running = np.where(ends[t], 0.0, running)  # a life ended here: nothing of the seat's next life counts
        advantages[t] = rho[t] * (delta[t] + discount[t] * running)
        running = np.where(batch.active[t], rho[t] * delta[t] + carry_on[t] * running, running)
        corrections[t] = running
    return corrections, advantages
