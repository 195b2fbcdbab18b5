"""The front door of the game theory: ``from marl import games``.

    >>> from marl import games
    >>> games.solve(games.matrix([[3, 0], [5, 1]], [[3, 5], [0, 1]])).profile     # a table of payoffs
    >>> kuhn = games.tree("kuhn_poker")                                           # an env as a tree
    >>> games.solve(kuhn).values, games.cfr(kuhn, 1000).nash_conv
    >>> games.merged("phantom_ttt").measure(policies).nash_conv                   # too large for a tree
    >>> games.perfect_play("tic_tac_toe").values                                  # positions instead of a tree
    >>> games.exploitability("results/my_run")                                    # a trained run
    >>> table = games.cross_play(["results/a", "results/b", "random"])            # who beats whom
    >>> games.rank(table), games.rank(table, "elo")
    >>> games.gamescape(table).cyclic_share                                       # how much of it is a cycle
    >>> games.basins(games.classic("stag_hunt")).basins                           # where learning leads, from how many starts
    >>> games.report("kuhn_poker", ["results/a"]).text                            # all of it in one page

Everything here is a short way to a function of ``marl.gametheory`` or ``marl.analysis``, where the details are; docs/games
has a chapter for each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from marl.analysis.crossplay import cross_play as cross_play
from marl.analysis.exploit import exploitability_of
from marl.analysis.report.build import Report, ReportOptions, build_report
from marl.config import explain
from marl.errors import ConfigError
from marl.gametheory.classics import classic_game as classic
from marl.gametheory.game import MatrixGame, Profile
from marl.gametheory.game import bimatrix as matrix
from marl.gametheory.merged.dynamics import view_descent as view_descent
from marl.gametheory.merged.game import MergedGame as MergedGame
from marl.gametheory.merged.game import merge_game as merged
from marl.gametheory.merged.perfect import PerfectPlay, perfect_play, solve_positions
from marl.gametheory.merged.positions import Positions
from marl.gametheory.merged.positions import positions_of as positions
from marl.gametheory.payoffs import PayoffTensor as PayoffTensor
from marl.gametheory.rank import Ranked
from marl.gametheory.rank.methods import RANKINGS
from marl.gametheory.solve import Solution, nash
from marl.gametheory.strategic import basins as basins
from marl.gametheory.strategic import gamescape as gamescape
from marl.gametheory.strategic import vector_field as vector_field
from marl.gametheory.teams import team_maxmin as team_maxmin
from marl.gametheory.tree.build import build_tree as tree
from marl.gametheory.tree.cfr import cfr
from marl.gametheory.tree.mirror import mirror_descent as mirror_descent
from marl.gametheory.tree.response import Solved
from marl.gametheory.tree.response import nash_conv as tree_nash_conv
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.gametheory.tree.value import equilibrium
from marl.policies.mixture import mixture as mixture
from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examiner import Exploitability

__all__ = [
    "MatrixGame", "MergedGame", "PayoffTensor", "Positions", "Tree", "basins", "cfr", "classic", "cross_play",
    "exploitability", "gamescape", "matrix", "merged", "mirror_descent", "nash_conv", "perfect_play", "positions",
    "rank", "report", "solve", "team_maxmin", "tree", "vector_field", "view_descent",
]  # fmt: skip

Game: TypeAlias = MatrixGame | Tree


def solve(game: Game | Positions) -> Solution | Solved | PerfectPlay:
    """A Nash equilibrium: of a table of payoffs, of the tree of a two-player constant-sum game, or, of the positions of a game
    of perfect information, perfect play."""
    if isinstance(game, Tree):
        return equilibrium(game)
    if isinstance(game, Positions):
        return solve_positions(game)
    return nash(_table(game))


def nash_conv(game: Game, strategy: Profile | Behaviour) -> float:
    """How much all players together could earn more by best responses to ``strategy``; 0: an equilibrium."""
    if isinstance(game, Tree):
        return tree_nash_conv(game, strategy)  # type: ignore[arg-type]
    return _table(game).nash_conv(_table(game).profile(strategy))  # type: ignore[arg-type]


def exploitability(
    checkpoint: Path | str,
    *,
    num_workers: int = 0,
    allow: Collection[str] = (),
    changes: Mapping[str, Any] | None = None,
    **keys: Any,
) -> Exploitability:
    """NashConv of a trained run or checkpoint; ``keys`` are those of the section ``exploitability:``, method for instance."""
    try:
        config = ExploitabilityConfig(**keys)
    except ValidationError as error:
        raise explain(error, "games.exploitability", ExploitabilityConfig.model_fields) from None
    return exploitability_of(checkpoint, config, num_workers, allow, changes=changes)


def rank(payoffs: PayoffTensor, method: str = "alpha_rank", **keys: Any) -> Ranked:
    """Strategies in order of strength, by a registered ranking (alpha_rank, nash_average, elo); ``keys`` are the method's."""
    rank_by: Callable[..., Ranked] = RANKINGS[method].rank
    return rank_by(payoffs, **keys)


def report(
    env: str,
    checkpoints: Sequence[str | Path] = (),
    env_config: Mapping[str, Any] | None = None,
    directory: Path | str | None = None,
    **options: Any,
) -> Report:
    """What ``marl report`` writes, as an object; ``options`` are fields of ``ReportOptions``."""
    folder = None
    if directory is not None:
        folder = Path(directory)
    found = build_report(env, checkpoints, env_config, wishes=ReportOptions(**options), directory=folder)
    if folder is not None:
        found.write(folder)
    return found


def _table(game: object) -> MatrixGame:
    if isinstance(game, MatrixGame):
        return game
    raise ConfigError(
        f"expected a game, got a {type(game).__name__}. Make one by games.matrix(row, column), games.classic(name), "
        "games.tree(env) or games.positions(env)."
    )
