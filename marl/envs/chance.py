"""Chance that an env lists by itself.

A dict env (also a Gymnasium or PettingZoo env) may have a method ``chance_outcomes()``. It gives everything that chance can
do in an episode, with probabilities: pairs ``(outcome, probability)``, or a dict from outcome to probability. An outcome is
whatever the env likes, and ``reset(options={"chance": outcome})`` plays it. Cards that are turned up later belong to the
outcome as well: once it is fixed, nothing in the episode may be random. Game trees are exact then, without any sampling.
An env in which nothing is random lists one outcome of probability 1, such as ``{None: 1.0}``.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from marl.envs.tasks import method_behind
from marl.errors import ChanceError
from marl.failures import line_of_code

Outcome: TypeAlias = Any
"""One way in which chance can go in an episode: what the env itself calls it."""

CHANCE = "chance"
"""Key of the options of ``reset``: the outcome to play."""

METHOD = "chance_outcomes"
ROUNDING = 1e-6
"""How far the sum of the probabilities may be from 1."""

LUCK = 1e-6
"""A sample of seeds that is less likely than this contradicts what is listed."""

EXAMPLE = "[(('J', 'Q'), 1/6), (('J', 'K'), 1/6), ...]"


class Outcomes(NamedTuple):
    """All that chance can do; probabilities are positive and sum to 1."""

    outcomes: tuple[Outcome, ...]
    probabilities: tuple[float, ...]


def nothing_random() -> list[tuple[Outcome, float]]:
    """What an env lists in which nothing is random."""
    return [(None, 1.0)]


def is_no_luck(often: int, total: int, probability: float, starts: int) -> bool:
    """Whether ``often`` of ``total`` seeds cannot be luck if each draws a start with this probability.

    By Chernoff's bound on the tails, P <= 2 exp(-total * KL(share, probability)), for all ``starts`` together below ``LUCK``.
    It holds for rare starts too, where counts of a few are far from normal.
    """
    share = often / total
    rest = max(0.0, 1.0 - probability)  # rounding may leave it a little below 0
    apart = _times_log(share, probability) + _times_log(1.0 - share, rest)
    return total * apart > math.log(2 * starts / LUCK)


def _times_log(share: float, expected: float) -> float:
    """``share * log(share / expected)``, with the limits of the formula at 0."""
    if share == 0.0:
        return 0.0
    if expected <= 0.0:
        return math.inf
    return share * math.log(share / expected)


def lists_chance(env: object) -> bool:
    return callable(getattr(env, METHOD, None))


def hand_on_chance(outer: object, attribute: str) -> None:
    """Give a wrapper the listed chance of the env that it holds under ``attribute``, if that has any."""
    if method_behind(getattr(outer, attribute), METHOD) is not None:
        setattr(outer, METHOD, partial(_ask, outer, attribute))


def _ask(outer: object, attribute: str) -> Any:
    method = method_behind(getattr(outer, attribute), METHOD)
    assert method is not None
    return method()


def listed_chance(env: object, name: str) -> Outcomes | None:
    """What an env lists, checked; None where it lists nothing."""
    if not lists_chance(env):
        return None
    where = f"env {name!r}"
    method = getattr(env, METHOD)
    try:
        given = method()
    except Exception as error:
        raise ChanceError(
            f"{where}: chance_outcomes() raised {type(error).__name__}: {error}{line_of_code(error)}"
        ) from error
    return read_outcomes(given, where)


def read_outcomes(given: object, where: str) -> Outcomes:
    """Outcomes with probabilities; refuses what is not a distribution. ``where`` names the env."""
    pairs = _pairs(given, where)
    probabilities = [_probability(outcome, probability, where) for outcome, probability in pairs]
    total = math.fsum(probabilities)  # exact: a pack of cards has thousands of equal parts
    if abs(total - 1.0) > ROUNDING:
        raise ChanceError(
            f"{where}: the {len(pairs)} probabilities of chance_outcomes() sum to {total:.9g}; expected 1. List every "
            "outcome, and divide each weight by their sum."
        )
    outcomes = tuple(outcome for outcome, _ in pairs)
    return Outcomes(outcomes, tuple(p / total for p in probabilities))


def _pairs(given: object, where: str) -> list[tuple[Outcome, object]]:
    rows = given
    if isinstance(given, Mapping):
        rows = list(given.items())
    if isinstance(rows, str | bytes) or not isinstance(rows, Iterable):
        raise ChanceError(
            f"{where}: chance_outcomes() gave {_short(given)}, a {type(given).__name__}. Expected pairs (outcome, "
            f"probability), for instance {EXAMPLE}."
        )
    pairs: list[tuple[Outcome, object]] = []
    for row in rows:
        parts: tuple[Any, ...] = ()
        # Texts and dicts can be walked over, too, and one of two letters or keys would pass for a pair.
        if isinstance(row, Iterable) and not isinstance(row, str | bytes | Mapping):
            parts = tuple(row)
        if len(parts) != 2:
            raise ChanceError(
                f"{where}: chance_outcomes() holds {_short(row)}. Expected pairs (outcome, probability), for "
                f"instance {EXAMPLE}."
            )
        outcome, probability = parts
        pairs.append((outcome, probability))
    if not pairs:
        raise ChanceError(
            f"{where}: chance_outcomes() is empty. Expected at least one pair (outcome, probability); an env in which "
            "nothing is random lists one outcome: {None: 1.0}."
        )
    return pairs


def _probability(outcome: Outcome, given: object, where: str) -> float:
    if isinstance(given, bool | np.bool_) or not isinstance(given, Real | np.number):
        raise ChanceError(
            f"{where}: chance_outcomes() gives the outcome {_short(outcome)} the probability {_short(given)}, a "
            f"{type(given).__name__}. Expected pairs (outcome, probability) with a number above 0."
        )
    probability = float(given)
    if not math.isfinite(probability) or probability <= 0.0:
        raise ChanceError(
            f"{where}: chance_outcomes() gives the outcome {_short(outcome)} the probability {probability:g}. Expected a "
            "finite number above 0; leave out what cannot happen."
        )
    return probability


def _short(value: object) -> str:
    text = repr(value)
    if len(text) <= 60:
        return text
    return f"{text[:57]}..."
