"""Work of the view ``games`` that takes its time: rankings drawn anew, and who sits where in a match."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from marl.analysis.report.ranking import methods_for
from marl.analysis.report.shown import shown_ranking, shown_responses
from marl.gametheory.payoffs import PayoffTensor
from marl.serve.refused import Refused, shortly
from marl.watch.games.found import kind_of
from marl.watch.games.matches import sources_of
from marl.watch.games.reading import at_round, file_of, members_at, payoffs_of, rounds_of_members
from marl.watch.workers import Tell

GRAPH = "graph"  # what is asked for first; everything else is the name of a ranking


def rank(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The response graph, or one ranking with its intervals, of a table as it was after a round where one is given."""
    folder, kind, part = Path(arguments["folder"]), kind_of(arguments["kind"]), arguments["part"]
    payoffs = payoffs_of(folder, kind)
    if payoffs is None:
        raise Refused("no_payoffs", "nobody has met anybody here, so there is no payoff table to rank by.", 400)
    content = file_of(folder, kind)
    last_round = arguments.get("round")
    if kind == "population" and last_round is not None:
        payoffs = _at_round(payoffs, content, last_round)
    seed = _seed(content)
    tell(0, None, "Payoffs are drawn anew within their errors")
    if part == GRAPH:
        return shown_responses(payoffs, seed)
    if part not in methods_for(payoffs):
        raise Refused("not_found", f"there is no ranking {shortly(part)} of this table.", 404)
    return shown_ranking(payoffs, part, seed)


def _seed(content: dict[str, Any]) -> int:
    """That of the report, so that its numbers are these numbers."""
    seed = content.get("seed")
    if type(seed) is int and seed >= 0:
        return seed
    return 0


def _at_round(payoffs: PayoffTensor, population: dict[str, Any], last_round: int) -> PayoffTensor:
    places = members_at(rounds_of_members(population), payoffs, last_round)
    if not all(places):
        raise Refused("not_found", f"nobody was there after round {last_round}.", 404)
    return at_round(payoffs, places)


def seats(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """For every strategy of every player the policies that play it, as the episodes view takes them."""
    tell(0, None, "Looking for the policies")
    root, folder, kind = Path(arguments["root"]), Path(arguments["folder"]), kind_of(arguments["kind"])
    return sources_of(root, folder, kind, frozenset(arguments["allow"]))
