"""Learning by playing the game again and again, everybody at the same time, with the NashConv written down on the way.

- fictitious play: best response to how the others have played so far; the answer is how often each action was played
- regret matching: play in proportion to positive regrets ``R_i(a) = sum_t u_i(a, x_-i) - u_i(x)``; the answer is the average.
  With ``plus`` regrets never fall below 0 and round ``t`` counts ``t`` times (Tammelin, 2014)
- replicator dynamics: ``dx_i(a)/dt = x_i(a) (u_i(a, x_-i) - u_i(x))``; the answer is where it ends
- projected replicator dynamics: small steps of it, moved back to where no action falls below a floor; the answer is the
  average
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.solve.rounding import Ties
from marl.gametheory.solve.solution import Solution, is_equilibrium, require_positive, require_whole


@dataclass(frozen=True, eq=False)
class Trajectory(Solution):
    """Where the dynamics led and how. ``profile`` and ``nash_conv`` are the answer; ``last`` is what was played last."""

    last: Profile
    times: Payoffs  # rounds, or time of the differential equation
    curve: Payoffs  # NashConv of the answer up to each of these times
    path: Profile  # what was played at each of these times, per player [times, actions]


@dataclass(frozen=True, eq=False)
class RegretTrajectory(Trajectory):
    """With general payoffs only play over time converges, to the coarse correlated equilibria, not the average strategies."""

    regret: (
        float  # the largest average regret of a player: the gap of play over time to a coarse correlated equilibrium
    )


def fictitious_play(
    game: MatrixGame, iterations: int = 1000, beliefs: Literal["frequencies", "counts"] = "frequencies"
) -> Trajectory:
    """All start with action 0 and then answer the others' past play; ties go to the lowest index.

    ``beliefs``: payoffs are compared against the frequencies of past actions, where rounding decides some ties, or against
    their counts, where payoffs that are whole numbers tie exactly. Both are fictitious play; their paths differ after a tie.
    """
    require_whole("fictitious_play: iterations", iterations)
    if beliefs not in ("frequencies", "counts"):
        raise ConfigError(f"fictitious_play: beliefs are {beliefs!r}; expected 'frequencies' or 'counts'.")
    counts = [np.zeros(n) for n in game.shape]
    actions, log = [0] * game.num_players, _Log(game)
    for t in range(1, iterations + 1):
        played = game.pure(actions)
        for count, strategy in zip(counts, played, strict=True):
            count += strategy
        average = tuple(count / t for count in counts)
        if beliefs == "frequencies":
            believed, unit = average, 1
        else:  # payoffs against counts are larger by t for each of the others
            believed, unit = tuple(counts), t ** (game.num_players - 1)
        actions, gains = [], []
        for i, strategy in enumerate(average):
            earned = game.deviations(believed, i)
            gains.append(float(earned.max() - strategy @ earned))
            actions.append(int(earned.argmax()))
        log.add(t, sum(gains) / unit, played)
    return log.finish(average, "fictitious play", iterations)


def regret_matching(
    game: MatrixGame, iterations: int = 1000, plus: bool = False, start: Profile | None = None
) -> RegretTrajectory:
    """Everybody plays ``start`` (uniformly if it is not given) as long as it regrets nothing."""
    require_whole("regret_matching: iterations", iterations)
    first = game.uniform() if start is None else game.profile(start)
    regrets: list[Payoffs] = []
    sums: list[Payoffs] = []
    suffered: list[Payoffs] = []
    ties: list[Ties] = []
    for n, paid in zip(game.shape, game.payoffs, strict=True):
        regrets.append(np.zeros(n))
        sums.append(np.zeros(n))
        suffered.append(np.zeros(n))
        ties.append(Ties(np.zeros(n, np.int64), np.abs(paid).max()))
    log, rounds = _Log(game), 0  # with plus, later rounds weigh more
    for t in range(1, iterations + 1):
        played = tuple(_match(r, s) for r, s in zip(regrets, first, strict=True))
        weight = t if plus else 1
        rounds += weight
        for i, strategy in enumerate(played):
            earned = game.deviations(played, i)
            missed = earned - strategy @ earned
            regrets[i] += missed
            ties[i].keep(regrets[i])
            if plus:
                np.maximum(regrets[i], 0.0, out=regrets[i])
            suffered[i] += weight * missed
            sums[i] += weight * strategy
        average = tuple(total / total.sum() for total in sums)
        log.add(t, game.nash_conv(average), played)
    method = "regret matching plus" if plus else "regret matching"
    run = log.finish(average, method, iterations)
    largest = float(np.concatenate(suffered).max())
    return RegretTrajectory(**vars(run), regret=largest / rounds)


def _match(regrets: Payoffs, otherwise: Payoffs) -> Payoffs:
    positive = regrets.clip(min=0.0)
    total = positive.sum()
    return positive / total if total > 0 else otherwise


def replicator(game: MatrixGame, start: Profile, duration: float = 10.0, dt: float = 0.01) -> Trajectory:
    """One population per player; a symmetric game from equal starts is the dynamics of a single population.

    Fourth-order Runge-Kutta steps of ``dt`` for the logits, whose derivative is the payoff: shares stay positive and what
    is extinct stays extinct. ``dt`` is divided by the largest payoff where that is above 1.
    """
    require_positive("replicator: duration", duration)
    require_positive("replicator: dt", dt)
    begin = game.profile(start)
    with np.errstate(divide="ignore"):
        logits = [np.log(np.maximum(strategy, 0.0)) for strategy in begin]
    steps = max(1, round(duration * max(1.0, game.scale) / dt))
    size, log = duration / steps, _Log(game)
    log.add(0.0, game.nash_conv(begin), begin)
    for step in range(1, steps + 1):
        logits = _runge_kutta(game, logits, size)
        profile = tuple(map(_shares, logits))
        log.add(step * size, game.nash_conv(profile), profile)
    return log.finish(profile, "replicator dynamics", steps)


def _runge_kutta(game: MatrixGame, logits: list[Payoffs], dt: float) -> list[Payoffs]:
    def slope(at: list[Payoffs]) -> list[Payoffs]:
        profile = tuple(map(_shares, at))
        return [game.deviations(profile, i) for i in range(game.num_players)]

    def moved(by: list[Payoffs], time: float) -> list[Payoffs]:
        return [x + time * k for x, k in zip(logits, by, strict=True)]

    k1 = slope(logits)
    k2 = slope(moved(k1, dt / 2))
    k3 = slope(moved(k2, dt / 2))
    k4 = slope(moved(k3, dt))
    new = [x + dt / 6 * (a + 2 * b + 2 * c + d) for x, a, b, c, d in zip(logits, k1, k2, k3, k4, strict=True)]
    return [x - x.max() for x in new]  # shares do not depend on the level, which would grow for ever


def _shares(logits: Payoffs) -> Payoffs:
    weights = np.exp(logits - logits.max())
    return np.asarray(weights / weights.sum())


def projected_replicator(
    game: MatrixGame, iterations: int = 2000, dt: float = 0.1, floor: float = 1e-6, start: Profile | None = None
) -> Trajectory:
    """Euler steps of ``dt``, each projected to the nearest strategy that plays every action with at least ``floor``.

    The meta-solver of PSRO (Lanctot et al., 2017). ``dt`` is divided by the largest payoff where that is above 1.
    """
    require_whole("projected_replicator: iterations", iterations)
    require_positive("projected_replicator: dt", dt)
    if not 0 <= floor <= 1 / max(game.shape):
        raise ConfigError(
            f"projected_replicator: floor is {floor}; expected a probability from 0 to 1 / {max(game.shape)}, which "
            "all actions of every player can have at once."
        )
    profile = game.uniform() if start is None else game.profile(start)
    sums, log = [np.zeros(n) for n in game.shape], _Log(game)
    for t in range(1, iterations + 1):
        earned = [game.deviations(profile, i) for i in range(game.num_players)]
        profile = tuple(
            project(x + dt / max(1.0, game.scale) * x * (u - x @ u), floor)
            for x, u in zip(profile, earned, strict=True)
        )
        for total, strategy in zip(sums, profile, strict=True):
            total += strategy
        log.add(t, game.nash_conv(tuple(total / t for total in sums)), profile)
    return log.finish(tuple(total / iterations for total in sums), "projected replicator dynamics", iterations)


def project(point: Payoffs, floor: float = 0.0) -> Payoffs:
    """The nearest distribution (Euclidean) in which no entry is below ``floor``."""
    room = 1.0 - floor * len(point)
    free = point - floor
    descending = np.sort(free)[::-1]
    excess = (np.cumsum(descending) - room) / np.arange(1, len(point) + 1)
    # The largest entries keep what is above a water line; the last that still reaches above it decides where it is.
    count = int(np.flatnonzero(descending > excess)[-1]) if room > 0 else 0
    return np.asarray(np.maximum(free - excess[count], 0.0) + floor)


class _Log:
    """NashConv and play over time."""

    def __init__(self, game: MatrixGame) -> None:
        self.game = game
        self.times: list[float] = []
        self.curve: list[float] = []
        self.played: list[Profile] = []

    def add(self, time: float, nash_conv: float, played: Profile) -> None:
        self.times.append(time)
        self.curve.append(max(0.0, nash_conv))
        self.played.append(played)

    def finish(self, profile: Profile, method: str, iterations: int) -> Trajectory:
        conv = max(0.0, self.game.nash_conv(profile))
        path: tuple[NDArray[np.float64], ...] = tuple(np.array(rows) for rows in zip(*self.played, strict=True))
        return Trajectory(
            profile=profile,
            values=self.game.values(profile),
            nash_conv=conv,
            converged=is_equilibrium(self.game, profile),
            iterations=iterations,
            method=method,
            last=self.played[-1],
            times=np.array(self.times),
            curve=np.array(self.curve),
            path=path,
        )
