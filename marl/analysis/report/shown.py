"""Rankings and responses of a payoff table as the page's drawings take them: the same in a report and on ``marl watch``.

All texts that explain a number are made here, so that the drawings know nothing about rankings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.analysis.payoff_table import caption, is_zero_sum
from marl.analysis.report.ranking import Rankings, methods_for, rank_by, response_shares
from marl.errors import ConfigError
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.rank import RANKINGS, Bootstrap, Responses, elo, responses
from marl.gametheory.rank.response import node_name
from marl.gametheory.rank.result import one_population
from marl.gametheory.rank.shares import ResponseShares

MOST_NODES = 400  # of a response graph whose arrows are told: more of them cannot be seen


def shown_game(payoffs: PayoffTensor, found: Rankings) -> dict[str, Any]:
    """All of a report's rankings."""
    ranks = []
    for method in methods_for(payoffs):
        if method in found.refused:
            ranks.append(_refused(method, found.refused[method]))
        else:
            ranks.append(_ranks(method, found.scores[method], found.warning))
    return {**_table(payoffs), "graph": _graph(payoffs, found.responses, found.shares), "ranks": ranks}


def shown_responses(payoffs: PayoffTensor, seed: int = 0) -> dict[str, Any]:
    """What is known of a table at once; its rankings take longer, and are asked for one by one."""
    graph = _graph(payoffs, responses(payoffs), response_shares(payoffs, seed))
    return {**_table(payoffs), "graph": graph}


def shown_ranking(payoffs: PayoffTensor, method: str, seed: int = 0) -> dict[str, Any]:
    """One ranking; a table that it cannot rank is told with the reason."""
    try:
        warning = elo(payoffs).warning if method == "elo" else None
        return _ranks(method, rank_by(payoffs, method, seed), warning)
    except ConfigError as error:
        return _refused(method, str(error))


def _table(payoffs: PayoffTensor) -> dict[str, Any]:
    return {
        "caption": caption(payoffs),
        "zero_sum": is_zero_sum(payoffs),
        "players": list(payoffs.players),
        "methods": methods_for(payoffs),
    }


def _refused(method: str, why: str) -> dict[str, Any]:
    return {"method": method, "title": RANKINGS[method].title, "refused": why}


def _ranks(method: str, table: Bootstrap, elo_warning: str | None) -> dict[str, Any]:
    ranking = RANKINGS[method]
    columns = (table.names, table.population, table.scores, table.low, table.high, table.first)
    rows = []
    for name, population, score, low, high, first in zip(*columns, strict=True):
        numbers = {"score": float(score), "low": float(low), "high": float(high), "first": float(first)}
        rows.append({"name": name, "population": int(population), **numbers})
    return {
        "method": method,
        "title": ranking.title,
        "meaning": ranking.meaning,
        "as_share": ranking.as_share,
        "confidence": table.confidence,
        "draws": table.draws,
        "warning": elo_warning if method == "elo" else None,
        "rows": rows,
    }


def _graph(payoffs: PayoffTensor, found: Responses, shares: ResponseShares) -> dict[str, Any]:
    """Nodes and, by their numbers, arrows from each to what earns more; shares are those of redrawn tables."""
    graph = found.graph
    place = {node: number for number, node in enumerate(graph)}
    cells = _cells(payoffs)
    nodes = [{"name": node_name(node), "cell": cells[number]} for node, number in place.items()]
    edges = []
    if len(nodes) <= MOST_NODES:
        for start, end, share in shares.edges:
            arrow = graph.edges[start, end]
            numbers = {"gain": arrow["weight"], "stderr": arrow["stderr"], "share": share}
            edges.append({"from": place[start], "to": place[end], **numbers})
    cycles = []
    for cycle, share in shares.cycles:
        numbered = [place[node] for node in cycle.nodes]
        cycles.append({**cycle.as_json(), "nodes": numbered, "share": share})
    return {
        "one_population": one_population(payoffs),
        "nodes": nodes,
        "edges": edges,
        "arrows": graph.number_of_edges(),
        "sinks": [{"nodes": [place[node] for node in sink], "share": share} for sink, share in shares.sinks],
        "cycles": cycles,
        "significance": found.significance,
        "draws": shares.draws,
    }


def _cells(payoffs: PayoffTensor) -> list[list[int]]:
    """What each node of the response graph is, by the number of each player's strategy."""
    if one_population(payoffs):
        return [[number] for number in range(len(payoffs.names[0]))]
    return [list(cell) for cell in np.ndindex(payoffs.count.shape)]
