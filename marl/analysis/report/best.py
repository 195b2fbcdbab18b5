"""What a reader wants to know first: who is best, and how sure that is.

The answer is that of the first ranking that the game allows, in the order below, with the chance to be first when payoffs are
drawn anew within their errors. Where better replies end in a cycle nobody is best, whatever a ranking says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from marl.analysis.report.content import Block, Section, Words, joined, meaning, number, plural, warning
from marl.analysis.report.ranking import Rankings
from marl.gametheory.rank import RANKINGS, Bootstrap

# The plainest first; Elo only where it does not warn of itself.
PREFERRED = ("payoff", "elo", "nash_average", "alpha_rank")
EQUAL = 1e-9  # in chances to be first
SURE = 0.975  # of first places: two standard errors on the one side that counts, as elsewhere in a report


@dataclass(frozen=True)
class Leader:
    """The first of a population; several where they are equal."""

    names: tuple[str, ...]
    score: float
    low: float
    high: float
    first: float  # the chance that one of them is first
    next: str  # the likeliest first among the others; empty: there are no others
    next_first: float
    sure: bool


@dataclass(frozen=True)
class Best:
    """The leaders of all populations by one ranking, and the cycles that make any leader arbitrary."""

    method: str  # empty: no ranking fits
    leaders: tuple[Leader, ...]
    cycles: tuple[tuple[str, float], ...]  # in which better replies end, with their share of redrawn tables
    confidence: float
    draws: int

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def find_best(found: Rankings) -> Best:
    cycles: list[tuple[str, float]] = []
    for cycle, share in found.shares.cycles:
        # A cycle that better replies leave again is no reason against a leader.
        if cycle.in_sink:
            cycles.append((str(cycle), share))
    method = _chosen(found)
    if method is None:
        return Best("", (), tuple(cycles), 0.0, found.shares.draws)
    table = found.scores[method]
    leaders = [_leader(table, population) for population in np.unique(table.population)]
    return Best(method, tuple(leaders), tuple(cycles), table.confidence, table.draws)


def _chosen(found: Rankings) -> str | None:
    """The ranking that answers; None where none fits the game."""
    usable = dict(found.scores)
    if found.warning:
        usable.pop("elo", None)
    for method in (*PREFERRED, *usable):
        if usable.get(method) is not None:
            return method
    return None


def _leader(table: Bootstrap, population: int) -> Leader:
    members = np.flatnonzero(table.population == population)
    ordered = members[np.argsort(-table.scores[members], kind="stable")]
    top = ordered[0]
    # Equal scores share their ranks evenly, so equal chances tell ties from near misses.
    equal = [i for i in ordered if _ties(table, top, i)]
    others = [i for i in ordered if i not in equal]
    chance = float(table.first[equal].sum())
    rival, rival_first = "", 0.0
    if others:
        follower = max(others, key=lambda i: float(table.first[i]))
        rival = table.names[follower]
        rival_first = float(table.first[follower])
    return Leader(
        names=tuple(table.names[i] for i in equal),
        score=float(table.scores[top]),
        low=float(table.low[top]),
        high=float(table.high[top]),
        first=chance,
        next=rival,
        next_first=rival_first,
        sure=chance >= SURE,
    )


def _ties(table: Bootstrap, one: int, other: int) -> bool:
    same_score = np.isclose(table.scores[one], table.scores[other], rtol=EQUAL, atol=EQUAL)
    difference = float(table.first[one] - table.first[other])
    return bool(same_score) and abs(difference) < EQUAL


# -- the section ---------------------------------------------------------------------------------------------------


def best_section(best: Best, entrants: Sequence[str]) -> Section:
    blocks: list[Block] = []
    if len(entrants) == 1:
        blocks.append(Words(f"{entrants[0]} is the only entrant, so there is nobody to compare it with."))
    elif best.cycles:
        cycle, share = best.cycles[0]
        how_sure = f"in {share:.0%} of redrawn tables"
        if best.draws == 1:  # nothing to draw anew
            how_sure = "for sure, as the payoffs are exact"
        blocks.append(warning(f"Nobody is best: {cycle} is a cycle, {how_sure}. Below, any order is arbitrary."))
    elif not best.leaders:
        blocks.append(Words("Nobody can be called best: no ranking fits this game. The reasons stand under Ranking."))
    else:
        blocks += [Words(_sentence(leader, best)) for leader in best.leaders]
    blocks.append(
        meaning(
            "How sure: payoffs are drawn anew within their errors, and everybody is ranked again. Whoever is first less often "
            f"than in {SURE:.1%} of these tables may be so by luck; more episodes make it clearer."
        )
    )
    return Section("best", "Who is best", blocks)


def _sentence(leader: Leader, best: Best) -> str:
    ranking = RANKINGS[best.method]
    shown = "{:.1%}".format if ranking.as_share else number
    names = joined(list(leader.names))
    several = len(leader.names) > 1
    by = f"by {ranking.title}: {shown(leader.score)}"
    if not leader.next:
        if several:
            return f"{names} are equal {by}."
        return f"{names} has no rival, {by}."
    if best.draws == 1:  # nothing to draw anew
        verb = "is the best"
        if several:
            verb = "are the best, and equal,"
        return f"{names} {verb} {by}, for sure, as the payoffs are exact."
    interval = f"{best.confidence:.0%} interval {shown(leader.low)} to {shown(leader.high)}"
    first = f"first in {leader.first:.0%} of {plural(best.draws, 'redrawn table')}"
    if leader.sure:
        verb = "are" if several else "is"
        return f"{names} {verb} the best {by} ({interval}), {first}."
    verb = "lead" if several else "leads"
    rival = f"{leader.next} is first in {leader.next_first:.0%}"
    return f"{names} {verb} {by} ({interval}), but that is not sure: {first}; {rival}."
