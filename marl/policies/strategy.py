"""What a policy has learned to do, as numbers: how likely it is to do what was done, and what it does on average.

Exploration is no part of it: a policy with chances draws by them, a policy by action values takes the highest. ``greedy`` is
the likeliest option instead of a draw.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from marl.data.task import Array, Floats
from marl.policies.distributions import ILLEGAL
from marl.policies.policy import Inputs, Insight, Policy


class Strategy(NamedTuple):
    """Of ``N`` decisions. ``chances``: of every option, all choices side by side; ``mean``: of every coordinate."""

    logp: Floats  # [N], of the actions that were taken
    chances: Floats  # [N, options]
    mean: Floats  # [N, numbers]


def strategy_of(policy: Policy, inputs: Inputs, carry: Floats, actions: Array, greedy: bool = False) -> Strategy | None:
    """What the policy makes of these decisions; None where it does not know how likely they are."""
    insight = policy.insight(inputs, carry, explore=False)
    columns, rows = policy.kind.columns, len(inputs)
    chances: Floats | None = np.zeros((rows, 0), np.float32)
    mean = np.zeros((rows, 0), np.float32)
    if columns.choices:
        chances = _chances(policy, insight, inputs, greedy)
    if chances is None:
        return None
    if not columns.numbers:
        return Strategy(_logp(policy, chances, actions), chances, mean)
    density = policy.log_density(inputs, carry, actions)
    if density is None or insight.mean is None or greedy:
        return None
    return Strategy(density, chances, insight.mean)


def _chances(policy: Policy, insight: Insight, inputs: Inputs, greedy: bool) -> Floats | None:
    if insight.probabilities is not None:
        if not greedy:
            return insight.probabilities
        parts = [_one_hot(part) for _, part in policy.kind.columns.options_of(insight.probabilities)]
        return np.concatenate(parts, axis=1)
    if insight.q_values is None:
        return None
    values = insight.q_values
    if inputs.legal.shape[1]:
        values = np.where(inputs.legal, values, np.float32(ILLEGAL))
    return _one_hot(values)


def _one_hot(scores: Floats) -> Floats:
    """The highest of each row."""
    return np.asarray(np.eye(scores.shape[1], dtype=np.float32)[scores.argmax(axis=1)])


def _logp(policy: Policy, chances: Floats, actions: Array) -> Floats:
    """Independent choices: their logarithms add up. What is never done has ``-inf``."""
    table = actions.reshape(len(actions), -1).astype(np.int64)
    total = np.zeros(len(actions))
    for column, options in policy.kind.columns.options_of(chances):
        chosen = np.take_along_axis(options, table[:, [column]], axis=1)[:, 0]
        with np.errstate(divide="ignore"):
            total += np.log(chosen)
    return np.asarray(total)
