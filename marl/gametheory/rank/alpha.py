"""alpha-Rank (Omidshafiei et al., 2019): how much of the time evolution would spend with each strategy.

Every population has ``m`` members who all play alike; rarely a mutant appears, and it takes over with the fixation probability

    rho(u) = (1 - exp(-u)) / (1 - exp(-m u)),    rho(0) = 1 / m,    u = alpha * gain,

``gain`` being what the mutant earns more than the members. That is a Markov chain over profiles (over strategies, where there
is one population), in which each single deviation is proposed with probability ``eta = 1 / sum_k (strategies of k - 1)``; its
stationary distribution ranks. In one population ``gain = A[r, s] - A[s, r]`` when mutant ``r`` meets member ``s``; without
``local_selection`` both also meet their own kind, as often as it occurs, and the fixation probability is the sum over the
numbers of mutants ``1 / (1 + sum_l exp(-alpha sum_{p <= l} gain_p))``.

With ``alpha = inf`` only the direction of a deviation counts: ``1 - epsilon`` if it is better, 1/2 if equal, ``epsilon`` if
worse. Several closed classes then share the mass as the limit of small ``epsilon`` says. ``epsilon`` can be tiny,
because the elimination in :mod:`chain` loses no digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import EXACT, ULP, Payoffs
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.chain import stationary
from marl.gametheory.rank.result import (
    Row,
    face_off,
    labels,
    one_population,
    populations,
    refuse_incomplete,
    table_rows,
)

POPULATION = 50
MOST_STATES = 6000
STEEPEST = 1e10
"""Larger selection strengths ``alpha * m * payoff range`` are cut to this: the mass no longer moves, rounding would."""


@dataclass(frozen=True, eq=False)
class AlphaRank:
    """``mass`` is the share of time per profile ``[s_0, s_1, ...]``, or per strategy in one population; ``scores`` sum it."""

    names: tuple[str, ...]
    scores: Payoffs  # per strategy of each population; sum to 1 within a population
    population: NDArray[np.int64]
    mass: Payoffs
    profiles: tuple[tuple[str, ...], ...]  # names of the strategies, per axis of mass
    alpha: float
    population_size: int

    def table(self) -> list[Row]:
        return table_rows(self.names, self.scores, self.scores, self.scores)

    def top_profiles(self, count: int = 10) -> list[tuple[tuple[str, ...], float]]:
        """The profiles that evolution visits most, with their mass."""
        found = []
        for place in np.argsort(-self.mass, axis=None, kind="stable")[:count]:
            profile = np.unravel_index(place, self.mass.shape)
            names = tuple(own[i] for own, i in zip(self.profiles, profile, strict=True))
            found.append((names, float(self.mass[profile])))
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "method": "alpha_rank",
            "alpha": "inf" if math.isinf(self.alpha) else self.alpha,
            "population_size": self.population_size,
            "scores": dict(zip(self.names, self.scores.tolist(), strict=True)),
            "top_profiles": [{"profile": list(profile), "mass": mass} for profile, mass in self.top_profiles()],
        }


def alpha_rank(
    payoffs: PayoffTensor,
    alpha: float = math.inf,
    population_size: int = POPULATION,
    local_selection: bool = True,
    epsilon: float = 1e-10,
) -> AlphaRank:
    """The stationary distribution of the evolutionary chain. It exists and is found for every ``alpha >= 0``."""
    _refuse_mistakes(payoffs, alpha, population_size, epsilon)
    if not local_selection:
        _refuse_global(payoffs, alpha)
    names = labels(payoffs)
    finite = alpha
    if math.isfinite(alpha):
        # Beyond this the chain is as good as deterministic, and its logarithms would overflow.
        finite = min(alpha, STEEPEST / (population_size * _payoff_range(payoffs.mean)))
    chain = _Chain(finite, population_size, epsilon)
    if one_population(payoffs):
        mass = _single_population(payoffs, chain, local_selection)
        profiles = payoffs.names[:1]
    else:
        # A player at a time changes, so a profile is as many steps away as there are players.
        log_rates = _profile_rates(payoffs.mean, chain)
        mass = stationary(log_rates, len(payoffs.players)).reshape(payoffs.mean.shape[1:])
        profiles = payoffs.names
    scores = []
    for player in range(mass.ndim):
        others = tuple(axis for axis in range(mass.ndim) if axis != player)
        scores.append(mass.sum(axis=others))
    return AlphaRank(names, np.concatenate(scores), populations(payoffs), mass, profiles, alpha, population_size)


def _single_population(payoffs: PayoffTensor, chain: _Chain, local_selection: bool) -> Payoffs:
    """The mass of every strategy, where all compete with each other."""
    table, _ = face_off(payoffs)
    chain = replace(chain, rounding=_rounding(table))
    if local_selection:
        log_rates = chain.log_rates(table - table.T)
    else:
        log_rates = chain.global_rates(table)
    return stationary(log_rates, 1).reshape(table.shape[:1])


def _refuse_global(payoffs: PayoffTensor, alpha: float) -> None:
    if math.isinf(alpha):
        got = "alpha = inf"
    elif not one_population(payoffs):
        got = "one population per player"
    else:
        return
    raise ConfigError(
        "alpha-Rank: local_selection=False is for one population and a finite alpha; got "
        f"{got}. Leave it out, or give a finite alpha."
    )


@dataclass(frozen=True)
class _Chain:
    alpha: float
    m: int
    epsilon: float
    rounding: float = 0.0  # gains up to this are none

    def log_rates(self, gain: Payoffs) -> Payoffs:
        """``log rho`` where ``gain[..., r, s]`` is what a mutant ``r`` earns more than a member ``s``; as ``[..., s, r]``."""
        gain = np.swapaxes(gain, -1, -2)
        if math.isinf(self.alpha):
            tie = np.abs(gain) <= self.rounding
            rates = np.where(tie, 0.5, np.where(gain > 0, 1 - self.epsilon, self.epsilon))
            logs: Payoffs = np.log(rates)
            return logs
        return log_fixation(self.alpha * gain, self.m)

    def global_rates(self, table: Payoffs) -> Payoffs:
        """One population in which mutants meet mutants and members as often as they occur."""
        own = np.diag(table)
        drift = np.zeros_like(table)  # -alpha * sum of gains while the mutants grow from 1 to p, as [s, r]
        total = np.zeros_like(table)
        for p in range(1, self.m):
            mutant = (p - 1) * own[None, :] + (self.m - p) * table.T
            member = p * table + (self.m - p - 1) * own[:, None]
            drift -= self.alpha * (mutant - member) / (self.m - 1)
            total = np.logaddexp(total, drift)
        return -total


def log_fixation(strength: Payoffs, population_size: int) -> Payoffs:
    """``log rho(u)``, to full precision for every finite ``u``.

    For ``u < 0`` it is ``-(m - 1)|u| + log rho(|u|)``, so that no exponential of a positive number is ever taken.
    """
    size = np.abs(strength)
    neutral = size < 1e-14  # rho differs from 1 / m by less than m * 1e-14 relative
    safe = np.where(neutral, 1.0, size)
    upward = np.log(-np.expm1(-safe)) - np.log(-np.expm1(-population_size * safe))
    downward = np.where(strength < 0, (population_size - 1) * size, 0.0)
    logs: Payoffs = np.where(neutral, -math.log(population_size), upward - downward)
    return logs


def _profile_rates(mean: Payoffs, chain: _Chain) -> Payoffs:
    """Log rates between profiles in which one player differs; ``-inf`` between all others."""
    shape = mean.shape[1:]
    states = math.prod(shape)
    index = np.arange(states).reshape(shape)
    log_rates = np.full((states, states), -np.inf)
    for player, count in enumerate(shape):
        earned = np.moveaxis(mean[player], player, -1).reshape(-1, count)
        place = np.moveaxis(index, player, -1).reshape(-1, count)
        gain = earned[:, :, None] - earned[:, None, :]
        own = replace(chain, rounding=_rounding(mean[player]))
        log_rates[place[:, :, None], place[:, None, :]] = own.log_rates(gain)
    return log_rates


def _rounding(payoffs: Payoffs) -> float:
    """Differences of one player's payoffs up to this are none."""
    return EXACT * float(np.ptp(payoffs)) + ULP * float(np.abs(payoffs).max())


def _payoff_range(mean: Payoffs) -> float:
    return float(max(np.ptp(mean), np.finfo(float).tiny / EXACT))


def _refuse_mistakes(payoffs: PayoffTensor, alpha: float, population_size: int, epsilon: float) -> None:
    refuse_incomplete(payoffs, "alpha-Rank")
    if not isinstance(alpha, int | float | np.number) or not alpha >= 0:
        raise ConfigError(
            f"alpha-Rank: alpha is {alpha}; expected a number from 0 (drift) to inf (only better replies)."
        )
    if not isinstance(population_size, int | np.integer) or population_size < 2:
        raise ConfigError(
            f"alpha-Rank: population_size is {population_size}; expected a whole number, at least 2. The usual one is 50."
        )
    if not 0 < epsilon < 0.5:
        raise ConfigError(f"alpha-Rank: epsilon is {epsilon}; expected a small number above 0 and below 0.5.")
    states = len(payoffs.names[0]) if one_population(payoffs) else math.prod(payoffs.mean.shape[1:])
    if states > MOST_STATES:
        raise ConfigError(
            f"alpha-Rank: {states} profiles are more than the {MOST_STATES} that fit. Rank fewer strategies per player."
        )
