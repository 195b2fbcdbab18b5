"""Who is best: every registered ranking with bootstrap intervals, the response graph, and cycles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from marl.analysis.report.content import (
    Block,
    Grid,
    Live,
    Section,
    Words,
    meaning,
    number,
    picture,
    plural,
    warning,
    with_error,
)
from marl.analysis.report.figures import draw_intervals, draw_responses
from marl.analysis.report.names import ReportParticipant
from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import RANKINGS, Bootstrap, Elo, Responses, bootstrap, elo, responses
from marl.gametheory.rank.shares import ResponseShares, sink_name

RESPONSE_DRAWS = 200  # tables of which the response graph is drawn anew
MANY_STATES = 100  # profiles from which on tables are drawn less often
MOST_SINKS = 10  # that are named
MOST_DRAWN = 36  # nodes of a response graph that is still readable


@dataclass(frozen=True)
class Order:
    """Of two checkpoints of one run: how often does the later one rank above the earlier one?"""

    run: str
    method: str
    right: int
    pairs: int

    def as_json(self) -> dict[str, Any]:
        return {"run": self.run, "method": self.method, "later_above_earlier": self.right, "pairs": self.pairs}


@dataclass(frozen=True, eq=False)
class Rankings:
    scores: dict[str, Bootstrap]  # by method
    refused: dict[str, str]  # methods that this game does not allow, and why
    warning: str | None  # of Elo
    misfit: float | None
    responses: Responses
    shares: ResponseShares  # of tables drawn anew in which the response graph looks the same
    orders: tuple[Order, ...]

    def as_json(self) -> dict[str, Any]:
        return {
            "methods": {method: found.as_json() for method, found in self.scores.items()},
            "not_ranked": self.refused,
            "elo_warning": self.warning,
            "elo_misfit": self.misfit,
            "cycles": [cycle.as_json() for cycle in self.responses.cycles],
            "response_graph": self.responses.as_json(),
            "response_shares": self.shares.as_json(),
            "order_of_checkpoints": [order.as_json() for order in self.orders],
        }


def rankings(payoffs: PayoffTensor, who: Sequence[ReportParticipant], seed: int = 0) -> Rankings:
    found: dict[str, Bootstrap] = {}
    refused: dict[str, str] = {}
    rated: Elo | None = None
    for method in methods_for(payoffs):
        try:
            if method == "elo":
                rated = elo(payoffs)
            found[method] = rank_by(payoffs, method, seed)
        except ConfigError as error:
            refused[method] = str(error)
    orders: list[Order] = []
    for method, table in found.items():
        orders += _orders(method, table, who)
    warned, misfit = None, None
    if rated is not None:
        warned, misfit = rated.warning, rated.misfit
    graph = responses(payoffs)
    return Rankings(found, refused, warned, misfit, graph, response_shares(payoffs, seed), tuple(orders))


def methods_for(payoffs: PayoffTensor) -> list[str]:
    """The rankings that make sense here: a single player, or team, has nobody to beat."""
    alone = len(payoffs.players) == 1
    return [method for method in RANKINGS.names if RANKINGS[method].alone == alone]


def rank_by(payoffs: PayoffTensor, method: str, seed: int = 0) -> Bootstrap:
    """One ranking with its intervals. With one seed all methods rank the same redrawn tables."""
    ranking = RANKINGS[method]
    return bootstrap(payoffs, ranking.rank, _draws(ranking.draws, payoffs), seed=seed)


def response_shares(payoffs: PayoffTensor, seed: int = 0) -> ResponseShares:
    """How sure the response graph is."""
    return bootstrap(payoffs, responses, _draws(RESPONSE_DRAWS, payoffs), seed=seed)


def _draws(usual: int, payoffs: PayoffTensor) -> int:
    """Large tables are drawn less often: each of them takes longer."""
    states = len(payoffs.names[0]) if payoffs.symmetric else payoffs.count.size
    if states <= MANY_STATES:
        return usual
    return max(1, usual // 5)


def _orders(method: str, table: Bootstrap, who: Sequence[ReportParticipant]) -> list[Order]:
    """For each run with several whole checkpoints; only where all entrants are one population."""
    if not RANKINGS[method].orders_all:
        return []
    found = []
    for run, points in _scores_by_run(table, who).items():
        if len(points) > 1:
            scores = [score for _, score in sorted(points)]
            later_above = [earlier < later for earlier, later in combinations(scores, 2)]
            found.append(Order(run, method, sum(later_above), len(later_above)))
    return found


def _scores_by_run(table: Bootstrap, who: Sequence[ReportParticipant]) -> dict[str, list[tuple[int, float]]]:
    """Iterations and scores of each run's whole checkpoints."""
    score = dict(zip(table.names, table.scores.tolist(), strict=True))
    runs: dict[str, list[tuple[int, float]]] = {}
    for one in who:
        if not one.whole or one.name not in score:
            continue
        if one.run is not None and one.iteration is not None:
            runs.setdefault(one.run.name, []).append((one.iteration, score[one.name]))
    return runs


# -- the section ---------------------------------------------------------------------------------------------------


def ranking_section(found: Rankings) -> Section:
    blocks: list[Block] = []
    for cycle, share in found.shares.cycles:
        where = "better replies end here" if cycle.in_sink else "better replies lead away from it"
        margins = ", ".join(map(with_error, cycle.margins, cycle.stderrs))
        blocks.append(warning(f"Cycle: {cycle}, {_again(share, found.shares)}. Margins: {margins}; {where}."))
    if found.responses.cycles:
        blocks.append(
            meaning(
                "Read A > B as: A earns more than B when the two meet (or: whoever is in B gains by changing to A). In a "
                "cycle nobody is the best, as in rock, paper, scissors, and any order from first to last is arbitrary."
            )
        )
    elif found.responses.graph.number_of_edges():
        blocks.append(Words(f"No cycle beyond {found.responses.significance:g} standard errors."))
    for method, table in found.scores.items():
        blocks += _method_blocks(method, table, found)
    blocks += [Words(f"Not ranked by {RANKINGS[method].title}. {reason}") for method, reason in found.refused.items()]
    return Section("ranking", "Ranking", [*blocks, *_graph_blocks(found.responses, found.shares)])


def _method_blocks(method: str, table: Bootstrap, found: Rankings) -> list[Block]:
    ranking = RANKINGS[method]
    title = ranking.title
    first = dict(zip(table.names, table.first.tolist(), strict=True))
    shown = "{:.1%}".format if ranking.as_share else number
    place = dict(zip(table.names, table.population.tolist(), strict=True))
    ordered = sorted(table.table(), key=lambda row: place[row.name])  # stable: the best of each population first
    rows, scores = [], []
    for row in ordered:
        score = shown(row.score)
        rows.append([row.name, score, f"{shown(row.low)} to {shown(row.high)}", f"{first[row.name]:.0%}"])
        scores.append(f"{row.name} {score}")
    interval = f"{table.confidence:.0%} interval"
    alt = f"{title}: {', '.join(scores)}"
    grid = Grid(title, ["entrant", "score", interval, "chance to be first"], rows)
    drawing = picture(lambda: draw_intervals(ordered, title), alt, f"{title} with {interval}s")
    blocks: list[Block] = [Live("rank", [grid, drawing], method)]
    if method == "elo" and found.warning:
        blocks.append(warning(f"Do not trust Elo here: {found.warning}"))
    for order in found.orders:
        if order.method == method:
            told = (
                f"{title}: of two checkpoints of {order.run}, the later one ranks above the earlier one in {order.right} of "
                f"{order.pairs} pairs."
            )
            blocks.append(Words(told))
    again = f"Intervals come from {table.draws} tables with payoffs drawn anew within their errors."
    return [*blocks, meaning(f"{title}: {ranking.meaning} {again}")]


def _again(share: float, shares: ResponseShares) -> str:
    """How often something was there in tables drawn anew."""
    if shares.draws == 1:
        return "for sure, as the payoffs are exact"
    return f"in {100 * share:.0f} % of redrawn tables"


def _graph_blocks(found: Responses, shares: ResponseShares) -> list[Block]:
    if not found.graph.number_of_edges():
        apart = f"{found.significance:g} standard errors"
        return [
            Words(
                f"Better replies: no difference is clearer than {apart}, so nothing is better than anything else yet."
            )
        ]
    sinks = [f"{sink_name(sink)} ({_again(share, shares)})" for sink, share in shares.sinks]
    shown = "; ".join(sinks[:MOST_SINKS])
    if len(sinks) > MOST_SINKS:
        shown += f"; and {len(sinks) - MOST_SINKS} more"
    told = f"Better replies end in {plural(len(sinks), 'place')}: {shown}."
    note = meaning(
        "An arrow leads from an entrant to one that earns more against it, where the difference is clearer than "
        f"{found.significance:g} standard errors. Coloured circles are where arrows end: once there, better replies do not "
        "lead away. A single coloured circle is a clear winner; several that are joined by arrows are a cycle. How sure is "
        f"that? Payoffs were drawn anew within their errors in {plural(shares.draws, 'table')}, in which arrows had to be as "
        "clear again: the share of them in which the same place, no entrant more or less, was an end."
    )
    count = found.graph.number_of_nodes()
    if count > MOST_DRAWN:
        return [Words(f"{told} The response graph has {count} nodes, too many to draw."), note]
    alt = f"Response graph. {told}"
    drawing = picture(lambda: draw_responses(found), alt, "Response graph: who would switch to whom")
    return [Live("graph", [drawing]), Words(told), note]
