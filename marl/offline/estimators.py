"""What a policy would earn, told from episodes that others have played (off-policy evaluation).

With ``W_t`` the product of ``pi(a|o) / behaviour(a|o)`` over the first ``t`` steps of an episode, and means over episodes:

    is   mean sum_t gamma^t W_t r_t                              per-decision importance sampling (Precup et al., 2000)
    wis  sum_t gamma^t (mean W_t r_t) / (mean W_t)               the same, weighted: biased, but of less variance
    dr   mean sum_t gamma^t (W_{t-1} V(o_t) + W_t (r_t - Q(o_t, a_t)))   doubly robust (Jiang & Li, 2016)

An estimator gives one number per episode, whose mean is the estimate and whose spread tells how sure it is. For ``wis`` they
are its linearisation: the estimate plus what each episode moves it (the delta method). ``Q`` and ``V`` of ``dr`` are fitted to
the other half of the episodes (``offline/fitted_values.py``), so that they know nothing of the episode that they are used for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as students_t

from marl.data.task import Ints
from marl.errors import ConfigError, DataError, UserError, let_through
from marl.registry import Registry

Doubles: TypeAlias = NDArray[np.float64]
HIGHEST_LOG = 300.0  # of a weight: its square still is a number
CONFIDENCE = 0.95


@dataclass(frozen=True)
class LoggedEpisodes:
    """Recorded episodes as estimators see them: ``S`` env steps, episode after episode.

    ``taken`` and ``expected`` describe each step by ``d`` numbers that are linear in the action: with the action that was
    taken, and on average over the actions of the policy that is judged. Only models of values ask for them.
    """

    lengths: Ints  # [n]
    log_ratios: Doubles  # [S]: log of pi(a|o) / behaviour(a|o), over all judged agents that decided in the step
    rewards: Doubles  # [S]: what the agents of the policy were paid
    gamma: float
    describe: Callable[[], tuple[Doubles, Doubles]]  # taken [S, d], expected [S, d]

    def __len__(self) -> int:
        return len(self.lengths)

    @cached_property
    def starts(self) -> Ints:
        """The first row of each episode."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def steps(self) -> Ints:
        """``[S]``: the step within its episode."""
        return np.arange(len(self.rewards)) - np.repeat(self.starts, self.lengths)

    @cached_property
    def discounts(self) -> Doubles:
        return np.asarray(self.gamma**self.steps, np.float64)

    @cached_property
    def weights(self) -> Doubles:
        """``[S]``: ``W_t``, the product of ratios up to each step, that one included."""
        # An action of no chance stays at a weight of 0 to the end; sums of logarithms would meet inf - inf instead.
        impossible = np.isneginf(self.log_ratios)
        logs = _summed(np.where(impossible, 0.0, self.log_ratios), self.starts, self.lengths)
        gone = _summed(impossible.astype(np.float64), self.starts, self.lengths) > 0
        return np.where(gone, 0.0, np.exp(np.minimum(logs, HIGHEST_LOG)))

    @cached_property
    def before(self) -> Doubles:
        """``[S]``: ``W_{t-1}``, which is 1 at the start of an episode."""
        moved = np.ones_like(self.weights)
        moved[1:] = self.weights[:-1]
        moved[self.starts] = 1.0
        return moved

    @cached_property
    def last(self) -> Ints:
        """The last row of each episode."""
        return self.starts + self.lengths - 1

    @property
    def effective(self) -> float:
        """How many episodes of the policy's own these are worth: ``(sum w)^2 / sum w^2`` of whole episodes."""
        weights = self.weights[self.last]
        if not weights.any():
            return 0.0
        scaled = weights / weights.max()
        return float(scaled.sum() ** 2 / np.square(scaled).sum())

    def summed(self, numbers: Doubles) -> Doubles:
        """``[n]``: the sum over each episode."""
        return np.add.reduceat(numbers, self.starts)

    def by_step(self) -> Iterator[tuple[Ints, Ints]]:
        """For every step: the episodes that have it, and their rows."""
        order = np.argsort(-self.lengths, kind="stable")
        lasting = self.lengths[order]
        for step in range(int(lasting[0])):
            reach = int(np.searchsorted(-lasting, -step, side="left"))  # longer than this step
            chosen = order[:reach]
            yield chosen, self.starts[chosen] + step


def _summed(numbers: Doubles, starts: Ints, lengths: Ints) -> Doubles:
    """Running sums, begun anew in every episode."""
    total = np.cumsum(numbers)
    return np.asarray(total - np.repeat(total[starts] - numbers[starts], lengths))


Estimator: TypeAlias = Callable[[LoggedEpisodes], Doubles]
"""From episodes to one number for each, whose mean is the estimate."""


def importance_sampling(episodes: LoggedEpisodes) -> Doubles:
    """``sum_t gamma^t W_t r_t``: a reward weighs as much as the decisions that led to it, not as those after it."""
    return episodes.summed(episodes.discounts * episodes.weights * episodes.rewards)


def weighted_importance_sampling(episodes: LoggedEpisodes) -> Doubles:
    """Each step's rewards by weights that sum to 1. An episode that has ended keeps its last weight, with rewards of 0."""
    count = len(episodes)
    weight, paid = np.zeros(count), np.zeros(count)
    value, moved = 0.0, np.zeros(count)
    for chosen, rows in episodes.by_step():
        weight[chosen] = episodes.weights[rows]
        paid[:] = 0.0
        paid[chosen] = episodes.rewards[rows]
        total = weight.mean()
        if total <= 0:  # nobody would have come so far
            break
        discount = episodes.discounts[rows[0]]
        mean = (weight * paid).mean() / total
        value += discount * mean
        # d (A / B) = (dA - (A / B) dB) / B
        moved += discount * weight * (paid - mean) / total
    return value + moved


def doubly_robust(episodes: LoggedEpisodes) -> Doubles:
    """``sum_t gamma^t (W_{t-1} V_t + W_t (r_t - Q_t))``: importance sampling of what a model of values does not know yet."""
    from marl.offline.fitted_values import cross_fitted

    if len(episodes) < 2:
        raise DataError("the estimator dr fits its model to the other half of the episodes, but there is only one.")
    q, v = cross_fitted(episodes)
    return episodes.summed(episodes.discounts * (episodes.before * v + episodes.weights * (episodes.rewards - q)))


OWN = " One of your own is registered by marl.register_estimator in a module under imports."
ESTIMATORS: Registry[Estimator] = Registry("off_policy_estimator", OWN)
ESTIMATORS.register("is", importance_sampling)
ESTIMATORS.register("wis", weighted_importance_sampling)
ESTIMATORS.register("dr", doubly_robust)


def register_estimator(name: str, estimator: Estimator) -> None:
    """Let ``off_policy_estimator: [name]`` find this function of ``LoggedEpisodes``: one number per episode, whose mean is the
    estimate."""
    if not callable(estimator):
        raise ConfigError(f"estimator {name!r} is {estimator!r}; expected a function of the logged episodes.")
    ESTIMATORS.add(name, estimator)


class Estimate(NamedTuple):
    """A value and its 95 % interval; None: the episodes do not tell."""

    value: float | None
    low: float | None
    high: float | None


NOTHING = Estimate(None, None, None)


def estimate(name: str, episodes: LoggedEpisodes) -> Estimate:
    """What an estimator makes of these episodes."""
    estimator = ESTIMATORS[name]
    # Where every episode holds something that the policy never does, a mean of zeros would look certain.
    if not episodes.effective:
        return NOTHING
    return interval(_checked(name, _asked(name, estimator, episodes), len(episodes)))


def _asked(name: str, estimator: Estimator, episodes: LoggedEpisodes) -> Doubles:
    """An estimator may be the user's own code: what goes wrong in it is told by its name."""
    try:
        return np.asarray(estimator(episodes), np.float64)
    except UserError:
        raise
    except BaseException as error:
        let_through(error)
        raise ConfigError(f"estimator {name!r} failed: {type(error).__name__}: {error}") from error


def _checked(name: str, numbers: Doubles, episodes: int) -> Doubles:
    if numbers.shape != (episodes,):
        raise ConfigError(
            f"estimator {name!r} returned an array of shape {numbers.shape}; expected one number for each of the {episodes} "
            "episodes."
        )
    if not np.isfinite(numbers).all():
        raise ConfigError(f"estimator {name!r} returned NaN or infinity for some of the {episodes} episodes.")
    return numbers


def interval(numbers: Doubles) -> Estimate:
    """The mean and Student's interval around it; of a single number no interval is known."""
    count, value = len(numbers), float(numbers.mean())
    if count < 2:
        return Estimate(value, None, None)
    half = float(students_t.ppf((1 + CONFIDENCE) / 2, count - 1) * numbers.std(ddof=1) / np.sqrt(count))
    return Estimate(value, value - half, value + half)
