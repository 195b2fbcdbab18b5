"""From a payoff table to mixtures: the meta-solvers, and the weights of prioritised play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from marl.failures import call_own
from marl.gametheory.game import MatrixGame, Payoffs, Profile, Strategy
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank.alpha import alpha_rank
from marl.gametheory.solve.dynamics import projected_replicator
from marl.gametheory.solve.nash import nash
from marl.gametheory.solve.zero_sum import zero_sum
from marl.populations.config import PopulationConfig
from marl.populations.meta_solvers import META_SOLVERS

ROUNDING = 1e-5
"""Returns are float32: payoffs of a zero-sum env add up to 0 as far as this, relative to their size."""


def meta_strategy(config: PopulationConfig, payoffs: PayoffTensor) -> Profile:
    """The mixtures of the chosen meta-solver, one per player; the same for all of them in a symmetric population."""
    solve = META_SOLVERS[config.meta_solver].load()
    return tuple(call_own(f"meta_solver {config.meta_solver!r}", solve, payoffs, config))


def among(payoffs: PayoffTensor, counts: Sequence[int]) -> PayoffTensor:
    """The part of a payoff table in which each player has its first so many members."""
    cut = tuple(slice(0, count) for count in counts)
    names = tuple(own[:count] for own, count in zip(payoffs.names, counts, strict=True))
    return replace(
        payoffs, mean=payoffs.mean[:, *cut], stderr=payoffs.stderr[:, *cut], count=payoffs.count[cut], names=names
    )


def uniform(payoffs: PayoffTensor, config: PopulationConfig) -> Profile:
    del config
    return payoffs.game.uniform()


def nash_mixtures(payoffs: PayoffTensor, config: PopulationConfig) -> Profile:
    """A linear program for two players with a constant sum; else the general solver, or replicators where seats are alike."""
    game = without_rounding(payoffs.game)
    if game.num_players == 2 and game.is_constant_sum:
        found = zero_sum(game).profile
        if not payoffs.symmetric:
            return found
        # Both mixtures of a symmetric game are optimal for both players, but a program may find different ones.
        first, _ = found
        return first, first
    if payoffs.symmetric:
        # The general solver may end in an equilibrium in which alike players play differently.
        return replicator_mixtures(payoffs, config)
    return nash(game).profile


def replicator_mixtures(payoffs: PayoffTensor, config: PopulationConfig) -> Profile:
    del config
    game = without_rounding(payoffs.game)
    found = projected_replicator(game).profile
    if not payoffs.symmetric:
        return found
    # From the uniform start a symmetric game keeps its players alike, but for rounding.
    return (found[0],) * game.num_players


def alpha_rank_mixtures(payoffs: PayoffTensor, config: PopulationConfig) -> Profile:
    return _marginals(alpha_rank(payoffs, alpha=config.alpha).mass, payoffs)


def without_rounding(game: MatrixGame) -> MatrixGame:
    """The same game; where payoffs add up to a constant but for rounding, they do so exactly."""
    total = game.payoffs.sum(axis=0)
    # Else the general solver would be asked for what a linear program knows exactly.
    if not 0 < np.ptp(total) <= ROUNDING * game.scale:
        return game
    return MatrixGame(game.payoffs - (total - total.mean()) / game.num_players, game.actions, game.players, game.name)


def _marginals(mass: Payoffs, payoffs: PayoffTensor) -> Profile:
    """Each player's share of a distribution over profiles, or over the strategies of one population."""
    shape = payoffs.mean.shape[1:]
    if mass.size == shape[0] and payoffs.symmetric:
        return (mass.reshape(-1),) * len(shape)
    table = mass.reshape(shape)
    marginals = []
    for player in range(len(shape)):
        others = list(range(len(shape)))
        others.remove(player)
        marginals.append(table.sum(axis=tuple(others)))
    return tuple(marginals)


def facing(payoffs: PayoffTensor, player: int, strategy: int, foe: int) -> Payoffs:
    """What the player's strategy earns against each strategy of ``foe``; everybody else is uniform."""
    table = np.moveaxis(payoffs.mean[player], (player, foe), (0, 1))[strategy]
    earned: Payoffs = table.reshape(len(table), -1).mean(axis=1)
    return earned


def shares(payoffs: PayoffTensor, player: int, earned: Payoffs) -> Payoffs:
    """Payoffs as a share of the player's range over the whole table: 0 the worst, 1 the best, 0.5 where all are equal."""
    low, high = payoffs.mean[player].min(), payoffs.mean[player].max()
    if not high > low:
        return np.full_like(earned, 0.5)
    found: Payoffs = (earned - low) / (high - low)
    return found


def priorities(config: PopulationConfig, share: Payoffs) -> Strategy:
    """The chance to meet each member, by the share of the range that is earned against it."""
    if config.weighting == "hard":
        weights = (1 - share) ** config.power
    else:
        weights = share * (1 - share)
    total = weights.sum()
    if not total > 1e-12:  # nobody is left to learn from, so there is nothing to choose by
        return np.full(len(share), 1 / len(share))
    chances: Strategy = weights / total
    return chances
