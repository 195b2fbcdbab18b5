"""Rankings of strategies from measured payoffs: each with its error, and honest about cycles."""

from marl.gametheory.rank.alpha import AlphaRank, alpha_rank
from marl.gametheory.rank.average import NashAverage, nash_average
from marl.gametheory.rank.bootstrap import Bootstrap, bootstrap
from marl.gametheory.rank.elo import Elo, elo, elo_from_results, payoffs_from_results
from marl.gametheory.rank.methods import RANKINGS, Ranking, Scores, register_ranking, scored
from marl.gametheory.rank.response import Cycle, Cycles, Responses, cycles, response_graph, responses, sinks
from marl.gametheory.rank.result import Ranked, Row
from marl.gametheory.rank.shares import ResponseShares

__all__ = [
    "RANKINGS",
    "AlphaRank",
    "Bootstrap",
    "Cycle",
    "Cycles",
    "Elo",
    "NashAverage",
    "Ranked",
    "Ranking",
    "ResponseShares",
    "Responses",
    "Row",
    "Scores",
    "alpha_rank",
    "bootstrap",
    "cycles",
    "elo",
    "elo_from_results",
    "nash_average",
    "payoffs_from_results",
    "register_ranking",
    "response_graph",
    "responses",
    "scored",
    "sinks",
]
