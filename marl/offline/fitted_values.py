"""A model of what a policy's decisions are worth, fitted to recorded episodes: ``Q(o, a) = w . x(o, a)``.

Fitted Q evaluation: the least squares of ``r + gamma V(o')``, again and again until nothing moves. ``x`` is linear in the
actions, so ``V``, the mean of ``Q`` over the policy's actions, is ``w`` times the mean of ``x``, exactly, also for many agents
at once. A doubly robust estimator stays unbiased however bad the model is; a good one makes its interval narrow.
"""

from __future__ import annotations

import numpy as np

from marl.data.task import Bools, Ints
from marl.offline.estimators import Doubles, LoggedEpisodes

ROUNDS = 100  # of the iteration, unless the longest episode is shorter
RIDGE = 1e-3  # per row, on columns of about one: keeps weights of what was hardly seen small
STILL = 1e-6  # of the largest target: where the iteration ends


def cross_fitted(episodes: LoggedEpisodes) -> tuple[Doubles, Doubles]:
    """``Q`` of what was done and ``V`` ``[S]``, for each half of the episodes by the model of the other half."""
    # Drawn, with numbers that never change: copies of an env may take turns, so every second episode would be one copy.
    halves = np.random.default_rng(len(episodes)).permutation(len(episodes)) % 2
    of_step = np.repeat(halves, episodes.lengths).astype(bool)
    taken, expected = episodes.describe()
    q, v = np.zeros(len(of_step)), np.zeros(len(of_step))
    for half in (of_step, ~of_step):
        weights = _fitted(episodes, taken, expected, half)
        q[~half], v[~half] = taken[~half] @ weights, expected[~half] @ weights
    return q, v


def _fitted(episodes: LoggedEpisodes, taken: Doubles, expected: Doubles, chosen: Bools) -> Doubles:
    """The weights ``w`` by these rows, which are whole episodes."""
    x, rewards = taken[chosen], episodes.rewards[chosen]
    following, ends = _following(episodes, expected, chosen)
    # The normal equations are solved once; the targets alone change.
    solve = np.linalg.inv(x.T @ x + RIDGE * len(x) * np.eye(x.shape[1])) @ x.T
    low, high = _bounds(episodes, chosen)
    weights = np.zeros(x.shape[1])
    longest = int(episodes.lengths.max())
    for _ in range(min(longest, ROUNDS)):
        # Cut to returns that were seen: an iteration on data of another policy may run away otherwise.
        ahead = np.where(ends, 0.0, np.clip(following @ weights, low, high))
        before, weights = weights, solve @ (rewards + episodes.gamma * ahead)
        if np.abs(weights - before).max() <= STILL * max(abs(low), abs(high), 1e-12):
            break
    return weights


def _following(episodes: LoggedEpisodes, expected: Doubles, chosen: Bools) -> tuple[Doubles, Bools]:
    """``expected`` of the step after each chosen one, and where there is none."""
    rows = np.flatnonzero(chosen)
    ends = np.isin(rows, episodes.last)
    after: Ints = np.where(ends, rows, rows + 1)
    return expected[after], ends


def _bounds(episodes: LoggedEpisodes, chosen: Bools) -> tuple[float, float]:
    """The least and the most that was earned from any step on."""
    returns = np.zeros(len(episodes.rewards))
    ahead = np.zeros(len(episodes))
    for some, rows in reversed(list(episodes.by_step())):
        ahead[some] = episodes.rewards[rows] + episodes.gamma * ahead[some]
        returns[rows] = ahead[some]
    seen = returns[chosen]
    return float(seen.min()), float(seen.max())
