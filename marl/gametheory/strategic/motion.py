"""Dynamics by name: in which direction shares move, and a step along it.

- ``replicator`` (Taylor and Jonker, 1978): ``dx(a)/dt = x(a) (u(a) - u(x))``; what earns more than average grows
- ``best_response`` (Gilboa and Matsui, 1991): ``dx/dt = b(x) - x`` with the best replies ``b``, ties in equal parts; it moves
  as fictitious play does, whose steps become smaller with time
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from marl.gametheory.game import Payoffs
from marl.gametheory.strategic.populations import Earn, Place
from marl.registry import Registry

TIE = 1e-12  # payoffs are at most 1 apart; what is nearer earns the same
BEYOND = 1e-9
RARE = 1e-300  # logarithms of shares stay finite


@dataclass(frozen=True)
class Dynamics:
    """``velocity`` of shares by what strategies earn; ``step`` goes a time ``dt`` from a place.

    ``resting``: play that moves less than this in a unit of time has come to rest. Best replies that change at every step
    keep moving to and fro by as much as a step.
    """

    title: str
    velocity: Callable[[Payoffs, Payoffs], Payoffs]
    step: Callable[[Earn, Place, float], Place]
    dt: float
    resting: float


def velocity_at(dynamics: Dynamics, earn: Earn, place: Place) -> Place:
    """The direction and speed of every population, of the place's shape."""
    return tuple(dynamics.velocity(shares, earned) for shares, earned in zip(place, earn(place), strict=True))


# -- replicator ------------------------------------------------------------------------------------------------------


def replicator_velocity(shares: Payoffs, earned: Payoffs) -> Payoffs:
    mean = (shares * earned).sum(axis=1, keepdims=True)
    return np.asarray(shares * (earned - mean))


def replicator_step(earn: Earn, place: Place, dt: float) -> Place:
    """A fourth-order Runge-Kutta step of the logits, whose derivative is the payoff: shares stay above 0."""
    logits = tuple(np.log(np.maximum(shares, RARE)) for shares in place)
    # The classical weights 1, 2, 2, 1; payoffs depend on the place alone, not on time.
    k1 = earn(place)
    k2 = earn(_moved(logits, k1, dt / 2))
    k3 = earn(_moved(logits, k2, dt / 2))
    k4 = earn(_moved(logits, k3, dt))
    slope = tuple((a + 2 * b + 2 * c + d) / 6 for a, b, c, d in zip(k1, k2, k3, k4, strict=True))
    return _moved(logits, slope, dt)


def _moved(logits: Place, slope: Place, time: float) -> Place:
    return tuple(_softmax(x + time * k) for x, k in zip(logits, slope, strict=True))


def _softmax(logits: Payoffs) -> Payoffs:
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


# -- best response ---------------------------------------------------------------------------------------------------


def best_replies(earned: Payoffs) -> Payoffs:
    """The best strategies in equal parts."""
    best = earned >= earned.max(axis=1, keepdims=True) - TIE
    return np.asarray(best / best.sum(axis=1, keepdims=True))


def best_response_velocity(shares: Payoffs, earned: Payoffs) -> Payoffs:
    return best_replies(earned) - shares


def best_response_step(earn: Earn, place: Place, dt: float) -> Place:
    """Straight towards the best replies, ``x(t) = b + (x(0) - b) e^-t``, and from where another one becomes best to that.

    The first change within the step is found exactly, because payoffs are linear on the way: else play that passes near an
    unstable equilibrium would be drawn into it by steps to and fro.
    """
    kept = np.full((len(place[0]), 1), np.exp(-dt))
    change = np.minimum(1.0, _first_change(earn, place, kept))
    turned = _towards(earn, place, change)
    return _towards(earn, turned, kept / change)


def _towards(earn: Earn, place: Place, kept: Payoffs) -> Place:
    """``kept`` ``[N, 1]`` is what is left of the way, ``e^-t``."""
    moved: list[Payoffs] = []
    for shares, earned in zip(place, earn(place), strict=True):
        replies = best_replies(earned)
        moved.append(replies + (shares - replies) * kept)
    return tuple(moved)


def _first_change(earn: Earn, place: Place, kept: Payoffs) -> Payoffs:
    """``[N, 1]``: what is left of the way when the best reply of some population changes; ``kept`` where none does."""
    after = earn(_towards(earn, place, kept))
    first = kept
    for before, later in zip(earn(place), after, strict=True):
        best = before.argmax(axis=1)[:, None]
        lead = np.take_along_axis(before, best, axis=1) - before
        left = np.take_along_axis(later, best, axis=1) - later
        lost = left < -TIE
        gap = np.where(lost, lead - left, 1.0)
        # A little further than the tie itself, where nobody would be best alone.
        at = (1 - (1 - kept) * lead / gap) * (1 - BEYOND)
        first = np.maximum(first, np.where(lost, at, 0.0).max(axis=1, keepdims=True))
    return first


DYNAMICS: Registry[Dynamics] = Registry("dynamics")
DYNAMICS.register("replicator", Dynamics("replicator", replicator_velocity, replicator_step, dt=0.1, resting=1e-4))
DYNAMICS.register(
    "best_response", Dynamics("best response", best_response_velocity, best_response_step, dt=0.02, resting=0.05)
)
