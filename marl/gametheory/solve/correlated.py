"""Correlated and coarse correlated equilibria: a mediator draws joint actions ``a`` with probabilities ``p(a)``.

Correlated (Aumann): nobody who is told its action gains by playing another one,

    sum_{a_-i} p(a_i, a_-i) (u_i(b, a_-i) - u_i(a_i, a_-i)) <= 0     for all i, a_i, b

Coarse correlated: nobody gains by committing to one action before it is told, which is the sum of these over ``a_i``. Both
sets are polytopes, so any linear objective is a linear program, for any number of players. The one of largest entropy is
found through its dual: ``p`` proportional to ``exp(-G'm)`` with prices ``m >= 0`` that minimise the log of the sum.

Where a deviation never loses, joint actions in which it wins have the probability 0. They are taken out first, again and
again, because a linear program cannot tell 0 from 1e-10.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.game import MatrixGame, Payoffs
from marl.gametheory.solve.entropy import largest_entropy
from marl.gametheory.solve.solution import TOLERANCE
from marl.gametheory.solve.zero_sum import TIGHT

RESIDUE = 1e-9
"""Probabilities below this are tried without: they may be what a linear program leaves behind."""
OBJECTIVES = ("welfare", "egalitarian", "entropy", "any")
"""Besides ``player:i``."""


@dataclass(frozen=True, eq=False)
class CorrelatedSolution:
    """A distribution over joint actions and what deviating from it would bring."""

    distribution: Payoffs  # [actions of player 0, actions of player 1, ...]
    values: Payoffs  # what each player earns
    gains: Payoffs  # what each player could gain by its best deviation (of the kind that the concept forbids)
    nash_conv: float  # the sum of the gains: 0 in equilibrium
    max_gain: float  # the largest of the gains
    welfare: float  # what all earn together
    entropy: float  # of the distribution, in nats
    converged: bool
    iterations: int
    concept: str  # correlated or coarse correlated
    objective: str


def correlated(game: MatrixGame, objective: str = "welfare") -> CorrelatedSolution:
    """The correlated equilibrium that is best for ``welfare`` (the sum), ``egalitarian`` (the least), ``player:i``,
    or has the largest ``entropy``; ``any`` takes the first that the solver meets."""
    return _solve(game, objective, coarse=False)


def coarse_correlated(game: MatrixGame, objective: str = "welfare") -> CorrelatedSolution:
    """Like `correlated`, for the larger set of coarse correlated equilibria."""
    return _solve(game, objective, coarse=True)


def deviation_gains(game: MatrixGame, distribution: Payoffs, coarse: bool = False) -> Payoffs:
    """What each player gains by its best deviation from a distribution over joint actions."""
    if distribution.shape != game.shape:
        raise ConfigError(
            f"game {game.name!r}: the distribution has shape {distribution.shape}; expected {game.shape}, a probability per "
            "joint action."
        )
    return _gains_and_stakes(game, distribution, coarse)[0]


def _gains_and_stakes(game: MatrixGame, distribution: Payoffs, coarse: bool) -> tuple[Payoffs, Payoffs]:
    """Per player: the gain by the best deviation, and the same sum over absolute differences of payoffs (see `solution`)."""
    gains, stakes = [], []
    for i, count in enumerate(game.shape):
        told = np.moveaxis(distribution, i, 0).reshape(count, -1)
        paid = np.moveaxis(game.payoffs[i], i, 0).reshape(count, -1)
        gains = [(told * (paid[b] - paid)).sum(axis=1) for b in range(count)]
        swaps = np.stack(gains, axis=1)  # [told, played instead]
        best = np.full(count, swaps.sum(axis=0).argmax()) if coarse else swaps.argmax(axis=1)
        gained = swaps[np.arange(count), best]
        gains.append(max(0.0, gained.sum()) if coarse else gained.clip(min=0).sum())
        stakes.append((told * np.abs(paid[best] - paid)).sum())
    return np.array(gains), np.array(stakes)


def _missed(game: MatrixGame, distribution: Payoffs, coarse: bool) -> float:
    """The largest gain in units of what counts as rounding: an equilibrium has 1 or less."""
    gains, stakes = _gains_and_stakes(game, distribution, coarse)
    return float((gains / np.maximum(TOLERANCE * stakes + game.noise, np.finfo(float).tiny)).max())


def _solve(game: MatrixGame, objective: str, coarse: bool) -> CorrelatedSolution:
    weights = _weights(game, objective)
    constraints, alive = _without_losers(_constraints(game, coarse))
    if objective == "entropy":
        found, iterations = largest_entropy(constraints, int(alive.sum()))
    elif objective == "egalitarian":
        found, iterations = _best_worst(game.payoffs.reshape(game.num_players, -1)[:, alive], constraints)
    else:
        found, iterations = _best(weights[alive], constraints)
    flat = np.zeros(alive.size)
    flat[alive] = found
    return _report(game, flat.reshape(game.shape), objective, coarse, iterations)


def _report(
    game: MatrixGame, distribution: Payoffs, objective: str, coarse: bool, iterations: int
) -> CorrelatedSolution:
    rounded = [np.where(distribution > least, distribution, 0.0) for least in (0.0, RESIDUE)]
    distribution = min((p / p.sum() for p in rounded), key=lambda p: _missed(game, p, coarse))
    values = (game.payoffs * distribution).reshape(game.num_players, -1).sum(axis=1)
    gains = deviation_gains(game, distribution, coarse)
    used = distribution[distribution > 0]
    return CorrelatedSolution(
        distribution=distribution,
        values=values,
        gains=gains,
        nash_conv=float(gains.sum()),
        max_gain=float(gains.max()),
        welfare=float(values.sum()),
        entropy=max(0.0, float(-(used * np.log(used)).sum())),
        converged=_missed(game, distribution, coarse) <= 1,
        iterations=iterations,
        concept="coarse correlated" if coarse else "correlated",
        objective=objective,
    )


def _weights(game: MatrixGame, objective: str) -> Payoffs:
    """What a joint action is worth to the objective; refuses unknown objectives."""
    seats = [f"player:{i}" for i in range(game.num_players)]
    if objective not in (*OBJECTIVES, *seats):
        known = (*OBJECTIVES, *seats)
        raise UnknownNameError(
            f"no objective is called {objective!r}.{did_you_mean(objective, known)} Known for game {game.name!r}: "
            f"{', '.join(known)}."
        )
    if objective == "welfare":
        return np.asarray(game.payoffs.sum(axis=0).ravel())
    return game.payoffs[seats.index(objective)].ravel() if objective in seats else np.zeros(int(np.prod(game.shape)))


def _constraints(game: MatrixGame, coarse: bool) -> sparse.csr_matrix:
    """One row per deviation: its gain is the row times the distribution, in units of the most that it can win or lose."""
    cells = np.arange(int(np.prod(game.shape))).reshape(game.shape)
    blocks = []
    for i, count in enumerate(game.shape):
        paid = np.moveaxis(game.payoffs[i], i, 0).reshape(count, -1)
        cell = np.moveaxis(cells, i, 0).reshape(count, -1)
        gain = paid[None] - paid[:, None]  # [told, played instead, others]
        gain[np.abs(gain) <= game.noise[i]] = 0.0
        told, instead = np.indices((count, count))
        row = instead if coarse else told * count + instead
        where = (
            np.broadcast_to(row[..., None], gain.shape).ravel(),
            np.broadcast_to(cell[:, None], gain.shape).ravel(),
        )
        block = sparse.csr_matrix((gain.ravel(), where), shape=(count if coarse else count**2, cells.size))
        block.eliminate_zeros()
        block = block[np.diff(block.indptr) > 0]  # to do as told gains nothing
        blocks.append(sparse.diags(1 / abs(block).max(axis=1).toarray().ravel()) @ block if block.shape[0] else block)
    return sparse.vstack(blocks, format="csr")


def _without_losers(constraints: sparse.csr_matrix) -> tuple[sparse.csr_matrix, NDArray[np.bool_]]:
    """The constraints that are left, and which joint actions can have a probability above 0 as far as this shows."""
    alive = np.ones(constraints.shape[1], bool)
    while constraints.shape[0]:
        left = constraints[:, alive]
        sure = np.asarray(left.min(axis=1).todense()).ravel() >= 0  # never loses
        beaten = np.asarray((left[sure] > 0).sum(axis=0)).ravel() > 0
        if not beaten.any():
            break
        alive[np.flatnonzero(alive)[beaten]] = False
    left = constraints[:, alive]
    return left[np.asarray(abs(left).max(axis=1).todense()).ravel() > 0] if left.shape[0] else left, alive


def _best(weights: Payoffs, constraints: sparse.csr_matrix) -> tuple[Payoffs, int]:
    answer = linprog(
        (weights.min() - weights) / (np.ptp(weights) or 1.0),
        A_ub=constraints if constraints.shape[0] else None,
        b_ub=np.zeros(constraints.shape[0]) if constraints.shape[0] else None,
        A_eq=np.ones((1, len(weights))),
        b_eq=[1.0],
        method="highs",
        options=TIGHT,
    )
    return _point(answer, len(weights))


def _best_worst(payoffs: Payoffs, constraints: sparse.csr_matrix) -> tuple[Payoffs, int]:
    """Maximise t subject to everybody earning at least t; payoffs ``[players, joint actions]``."""
    paid = (payoffs - payoffs.min()) / (np.ptp(payoffs) or 1.0)
    players, count = paid.shape
    least = sparse.hstack([sparse.csr_matrix(-paid), np.ones((players, 1))])
    deviations = sparse.hstack([constraints, sparse.csr_matrix((constraints.shape[0], 1))])
    answer = linprog(
        np.r_[np.zeros(count), -1.0],
        A_ub=sparse.vstack([deviations, least], format="csr"),
        b_ub=np.zeros(constraints.shape[0] + players),
        A_eq=np.r_[np.ones(count), 0.0][None],
        b_eq=[1.0],
        bounds=[(0, None)] * count + [(None, None)],
        method="highs",
        options=TIGHT,
    )
    return _point(answer, count)


def _point(answer: object, count: int) -> tuple[Payoffs, int]:
    status, found = getattr(answer, "status", 4), getattr(answer, "x", None)
    if status != 0 or found is None:  # every game has a correlated equilibrium: only numbers beyond floats get here
        raise ConfigError(f"correlated: the linear program was not solved ({getattr(answer, 'message', '')}).")
    return np.asarray(found)[:count], int(getattr(answer, "nit", 0))
