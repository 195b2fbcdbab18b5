"""Equilibria of the empirical game: the game in which each player chooses one of the entrants.

How sure they are is seen by drawing the payoffs anew within their errors: what could be gained by leaving the equilibrium
then, and how often the same entrants are an equilibrium's support again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np

from marl.analysis.report.content import Block, Grid, Section, Words, meaning, number, plural
from marl.gametheory.game import MatrixGame, Profile
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.solve import Solution, all_equilibria, nash
from marl.populations.solvers import without_rounding

ALL_UP_TO = 8  # strategies per player up to which all equilibria of two players are listed
MOST_CELLS = 2_000  # cells up to which one equilibrium of more than two players is looked for
SHOWN = 12
PLAYED = 1e-6
WORK = 40_000  # linear systems that the draws may cost


@dataclass(frozen=True, eq=False)
class Stable:
    """An equilibrium of the means, with what is left of it when payoffs are drawn anew within their errors."""

    found: Solution
    nash_conv_drawn: float  # 95 % of the draws are below
    support_kept: float | None  # share of draws in which the same strategies carry an equilibrium


@dataclass(frozen=True, eq=False)
class EmpiricalEquilibria:
    equilibria: tuple[Stable, ...]
    complete: bool  # all there are, or one
    degenerate: bool
    draws: int
    players: tuple[str, ...]
    names: tuple[tuple[str, ...], ...]
    note: str = ""

    def weights(self, profile: Profile) -> dict[str, dict[str, float]]:
        """Player to the strategies that it plays with their chances."""
        found = {}
        for player, names, mix in zip(self.players, self.names, profile, strict=True):
            found[player] = {name: float(w) for name, w in zip(names, mix, strict=True) if w > PLAYED}
        return found

    def as_json(self) -> dict[str, Any]:
        return {
            "complete": self.complete,
            "degenerate": self.degenerate,
            "draws": self.draws,
            "note": self.note,
            "equilibria": [self._one_as_json(one) for one in self.equilibria],
        }

    def _one_as_json(self, one: Stable) -> dict[str, Any]:
        return {
            "profile": self.weights(one.found.profile),
            "values": dict(zip(self.players, one.found.values.tolist(), strict=True)),
            "nash_conv": one.found.nash_conv,
            "converged": one.found.converged,
            "nash_conv_drawn": one.nash_conv_drawn,
            "support_kept": one.support_kept,
        }


def empirical_equilibria(payoffs: PayoffTensor, draws: int = 100, seed: int = 0) -> EmpiricalEquilibria:
    """The equilibria of the means, and how each fares in ``draws`` games within the errors."""
    # Sums that differ in the last bits would make a zero-sum game a general one, which is far harder to solve.
    game = without_rounding(payoffs.game)
    note = _why_none(payoffs, game)
    if note:
        return EmpiricalEquilibria((), False, False, 0, payoffs.players, payoffs.names, note)
    several = game.num_players == 2 and max(game.shape) <= ALL_UP_TO
    found: tuple[Solution, ...]
    if several:
        listed = all_equilibria(game)
        found, degenerate = listed.solutions, listed.degenerate
    else:
        found, degenerate = (nash(game),), False
    rng = np.random.default_rng(seed)
    count = 1 if payoffs.is_exact else draws  # exact payoffs come out the same every time
    drawn = [without_rounding(payoffs.redrawn(rng).game) for _ in range(count)]
    supports = _supports_of(drawn, several)
    stable = [_stable(one, drawn, supports) for one in found]
    return EmpiricalEquilibria(tuple(stable), several, degenerate, count, payoffs.players, payoffs.names)


def _why_none(payoffs: PayoffTensor, game: MatrixGame) -> str:
    """Why no equilibrium is looked for; empty where one is."""
    if game.num_players == 1:
        best = payoffs.names[0][int(game.payoffs[0].argmax())]
        return f"One player: the best choice is {best}."
    pairings = payoffs.count.size
    if game.num_players > 2 and pairings > MOST_CELLS:
        return f"{pairings} pairings of {game.num_players} players are too many to look for an equilibrium."
    return ""


def _supports_of(drawn: Sequence[MatrixGame], several: bool) -> list[set[str]]:
    """The supports of each drawn game's equilibria; nothing where looking would take too long, or would not be fair.

    Two players' games of up to 8x8 have all their equilibria looked up, and larger ones only if they are zero-sum, where
    equilibria can be exchanged for each other.
    """
    first = drawn[0]
    if several:
        affordable = WORK // comb(sum(first.shape), first.shape[0])
        return [set(map(_support, all_equilibria(game))) for game in drawn[: max(10, affordable)]]
    if first.num_players == 2 and first.is_constant_sum:
        return [{_support(nash(game))} for game in drawn]
    return []


def _support(found: Solution) -> str:
    return str([(mix > PLAYED).tolist() for mix in found.profile])


def _stable(found: Solution, drawn: Sequence[MatrixGame], supports: Sequence[set[str]]) -> Stable:
    gains = [max(0.0, game.nash_conv(found.profile)) for game in drawn]
    kept = None
    if supports:
        mine = _support(found)
        kept = float(np.mean([mine in theirs for theirs in supports]))
    return Stable(found, float(np.quantile(gains, 0.95)), kept)


def equilibria_section(found: EmpiricalEquilibria) -> Section:
    if found.note:
        return Section("equilibria", "Equilibria of the empirical game", [Words(found.note)])
    rows = []
    for place, one in enumerate(found.equilibria[:SHOWN], 1):
        plays = _plays(found.weights(one.found.profile))
        kept = "-" if one.support_kept is None else f"{one.support_kept:.0%}"
        values = ", ".join(map(number, one.found.values))
        rows.append([str(place), plays, values, f"{one.found.nash_conv:.1g}", number(one.nash_conv_drawn), kept])
    head = ["", "who plays whom", "values", "NashConv", "NashConv within errors", "same support"]
    blocks: list[Block] = [Words(_told(found)), Grid("Equilibria of the empirical game", head, rows)]
    if not all(one.found.converged for one in found.equilibria):
        blocks.append(
            Words("No exact equilibrium was found; NashConv says how far the best answer is from one.", "warning")
        )
    blocks.append(
        meaning(
            "Imagine that every player may only choose among the entrants, or throw dice among them. An equilibrium is a "
            "choice that nobody regrets, with the payoffs that were measured. NashConv is what all players together could "
            "gain by leaving it: 0 up to rounding. "
            f"Payoffs have errors, so they were drawn anew {plural(found.draws, 'time')}: 'NashConv within errors' is the "
            "95 % mark of what could be gained then, and 'same support' how often the same entrants are played again. "
            "Equilibria that need exactly the measured payoffs keep little of their support."
        )
    )
    return Section("equilibria", "Equilibria of the empirical game", blocks)


def _plays(weights: Mapping[str, Mapping[str, float]]) -> str:
    """What each player does, or once where all do the same."""
    mixes = {player: mix_in_words(mix) for player, mix in weights.items()}
    first, *others = set(mixes.values())
    if not others:
        return f"all: {first}"
    return "; ".join(f"{player}: {mix}" for player, mix in mixes.items())


def mix_in_words(weights: Mapping[str, float]) -> str:
    """Names with their chances, the most likely first."""
    played = [(name, weight) for name, weight in weights.items() if weight > PLAYED]
    # Rounded: equal chances differ in their last bits, and would come in another order on another machine.
    played.sort(key=lambda pair: (-round(pair[1], 9), pair[0]))
    return ", ".join(f"{name} {weight:.0%}" for name, weight in played)


def _told(found: EmpiricalEquilibria) -> str:
    count = len(found.equilibria)
    if not found.complete:
        return "One equilibrium; there may be others."
    more = f", of which {SHOWN} are shown" if count > SHOWN else ""
    if found.degenerate:
        corners = f"with {plural(count, 'corner')}{more}"
        return f"The game is degenerate: its table has ties, so equilibria come in whole sets; {corners}."
    if count > 1:
        return f"{count} equilibria{more}: all there are."
    return "One equilibrium, and there is no other."
