"""Logit quantal response equilibrium: players who err, the less the more it costs (McKelvey and Palfrey, 1995).

    x_i(a)  proportional to  exp(rationality * u_i(a, x_-i))

At rationality (lambda) 0 all play uniformly; as it grows the principal branch leads to a Nash equilibrium of almost every
game. The branch is a curve of zeros of ``G(v, s) = v - u(softmax(lambda(s) v))`` with ``lambda = exp(s) - 1``, where ``v``
are the payoffs of all actions. It may turn back in lambda, so it is followed by its length: a step along the tangent, then
Newton's method at right angles to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from marl.errors import ConfigError
from marl.gametheory.game import MatrixGame, Payoffs, Profile
from marl.gametheory.solve.polish import interactions
from marl.gametheory.solve.solution import Solution

MAX_STEPS = 5_000
PRECISE = 1e-12
"""Largest error of v on the curve, in units of the game's spread of payoffs."""
MOST_RESIDUAL = 1e-3
LONGEST, SHORTEST = 0.5, 1e-7
"""Steps along the curve; s counts as length too, so 0.5 multiplies lambda by at most 1.65."""


@dataclass(frozen=True, eq=False)
class QuantalResponse(Solution):
    """A logit equilibrium; ``nash_conv`` is not 0 here, since players err."""

    rationality: float  # lambda, per unit of payoff
    residual: float  # largest difference between a probability and the logit response to the profile


class Point(NamedTuple):
    """One point of the branch."""

    rationality: float  # in units of the scaled game's payoffs
    profile: Profile
    steps: int


def logit_qre(game: MatrixGame, rationality: float) -> QuantalResponse:
    """The logit equilibrium on the principal branch where it first reaches this rationality (lambda)."""
    if not isinstance(rationality, int | float | np.number) or not rationality >= 0 or not np.isfinite(rationality):
        raise ConfigError(f"logit_qre: rationality is {rationality!r}; expected a finite number, 0 or more.")
    spread, scaled = unit_game(game)
    last = Point(0.0, game.uniform(), 0)
    for point in branch(scaled, until=rationality * spread):
        last = point
    response = _softmax(game, rationality * _payoffs(game, last.profile))
    residual = max(float(np.abs(a - b).max()) for a, b in zip(response, last.profile, strict=True))
    reached = bool(np.isclose(last.rationality, rationality * spread, rtol=1e-9, atol=1e-12))
    return QuantalResponse(
        profile=last.profile,
        values=game.values(last.profile),
        nash_conv=game.nash_conv(last.profile),
        # A response moves by lambda times the rounding of payoffs, so the last digits are lost where lambda is large.
        converged=reached and residual < min(MOST_RESIDUAL, 1e-6 + 10 * PRECISE * rationality * spread),
        iterations=last.steps,
        method="logit branch",
        rationality=last.rationality / spread,
        residual=residual,
    )


def unit_game(game: MatrixGame) -> tuple[float, MatrixGame]:
    """The largest spread of a player's payoffs, and the game divided by it and moved to start at 0."""
    flat = game.payoffs.reshape(game.num_players, -1)
    spread = float(np.ptp(flat, axis=1).max()) or 1.0
    low = flat.min(axis=1).reshape(-1, *[1] * game.num_players)
    return spread, replace(game, payoffs=(game.payoffs - low) / spread)


def branch(game: MatrixGame, until: float, bias: Payoffs | None = None) -> Iterator[Point]:
    """Points on the branch of a game with payoffs in [0, 1], from rationality 0 to ``until``; ends early if it is lost.

    ``bias`` are logits added to every action: another start, and with it another branch.
    """
    curve = _Curve(game, np.zeros(sum(game.shape)) if bias is None else bias)
    z = curve.start()
    tangent = curve.tangent(z, np.r_[np.zeros(len(z) - 1), 1.0])
    length, end = 0.05, np.log1p(until)
    yield Point(0.0, curve.profile(z), 0)
    for step in range(1, MAX_STEPS + 1):
        if z[-1] >= end or length < SHORTEST:
            return
        moved, newton = curve.follow(z, tangent, length)
        if newton and moved[-1] >= end:
            moved, newton = curve.land(z, moved, end)
        if not newton:  # the step left the branch, or another branch was nearer
            length /= 2
            continue
        z, tangent = moved, curve.tangent(moved, tangent)
        length = min(LONGEST, length * (1.5 if newton <= 3 else 1.0))
        yield Point(float(np.expm1(z[-1])), curve.profile(z), step)


class _Curve:
    def __init__(self, game: MatrixGame, bias: Payoffs) -> None:
        self.game, self.bias = game, bias

    def start(self) -> Payoffs:
        profile = _softmax(self.game, self.bias)
        return np.append(_payoffs(self.game, profile), 0.0)

    def profile(self, z: Payoffs) -> Profile:
        return _softmax(self.game, np.expm1(z[-1]) * z[:-1] + self.bias)

    def error_and_slope(self, z: Payoffs) -> tuple[Payoffs, Payoffs]:
        """G, and its derivative by v and s."""
        rationality, profile = np.expm1(z[-1]), self.profile(z)
        stacked = np.concatenate(profile)
        owner = np.repeat(np.arange(len(profile)), self.game.shape)
        # d softmax / d logits = diag(x) - x x' within each player
        spread = np.diag(stacked) - np.outer(stacked, stacked) * (owner[:, None] == owner)
        response = interactions(self.game, profile) @ spread
        by_v = np.eye(len(stacked)) - rationality * response
        by_s = -(rationality + 1.0) * (response @ z[:-1])
        return z[:-1] - _payoffs(self.game, profile), np.column_stack([by_v, by_s])

    def tangent(self, z: Payoffs, like: Payoffs) -> Payoffs:
        """Direction of the curve, on the same way as ``like``."""
        slope = self.error_and_slope(z)[1]
        direction = _solved(np.vstack([slope, like]), np.r_[np.zeros(len(slope)), 1.0])
        return np.asarray(direction / max(float(np.linalg.norm(direction)), 1e-300))

    def follow(self, z: Payoffs, tangent: Payoffs, length: float) -> tuple[Payoffs, int]:
        """A point further along and the Newton steps that it took; 0 if the step was too long to stay on this branch."""
        moved, newton = self.correct(z + length * tangent, tangent)
        if newton and (self.tangent(moved, tangent) @ tangent < 0.9 or np.linalg.norm(moved - z) > 1.5 * length):
            return z, 0
        return moved, newton

    def land(self, before: Payoffs, after: Payoffs, s: float) -> tuple[Payoffs, int]:
        """The point of the curve at ``s`` between two others, and the Newton steps, 0 if there was none."""
        share = (s - before[-1]) / (after[-1] - before[-1])
        guess = before + share * (after - before)
        guess[-1] = s
        return self.correct(guess, np.r_[np.zeros(len(guess) - 1), 1.0])

    def correct(self, z: Payoffs, normal: Payoffs) -> tuple[Payoffs, int]:
        """Newton's method within the plane through ``z``; the point and the steps taken, 0 if it was lost."""
        for newton in range(1, 9):
            error, slope = self.error_and_slope(z)
            step = _solved(np.vstack([slope, normal]), np.r_[-error, 0.0])
            z = z + step
            if not np.isfinite(z).all() or z[-1] < -1e-9:
                return z, 0
            if np.abs(step).max() < PRECISE * 10:
                return z, newton
        return z, 0


def _solved(system: Payoffs, wanted: Payoffs) -> Payoffs:
    try:
        return np.asarray(np.linalg.solve(system, wanted))
    except np.linalg.LinAlgError:
        return np.full(len(wanted), np.nan)


def _payoffs(game: MatrixGame, profile: Profile) -> Payoffs:
    return np.concatenate([game.deviations(profile, i) for i in range(game.num_players)])


def _softmax(game: MatrixGame, logits: Payoffs) -> Profile:
    parts = np.split(logits, np.cumsum(game.shape)[:-1])
    weights = [np.exp(part - part.max()) for part in parts]
    return tuple(w / w.sum() for w in weights)
