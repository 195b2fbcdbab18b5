"""Recorded answers of the game theory on a handful of games: equilibria, rankings, trees, networks.

``python -m tests.golden.answers``, from the root of the project, records all anew; names behind it pick some. Do so only when an
answer was changed on purpose, and look at the difference before it is committed. That an answer has not moved does not say that
it is right: for that there are the tests in ``tests/gametheory`` and ``tests/truths``.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from marl.gametheory import rank, solve
from marl.gametheory.classics import classic_game, random_game
from marl.gametheory.game import MatrixGame, bimatrix
from marl.gametheory.networks import (
    atomic_prices,
    congestion_equilibrium,
    congestion_nash_conv,
    congestion_of,
    equilibrium_flow,
    graphical_best_responses,
    graphical_nash_conv,
    graphical_of,
    graphical_potential,
    optimal_flow,
    price_of_anarchy,
    pure_equilibria,
    rosenthal_potential,
    social_optimum,
    to_matrix_game,
)  # fmt: skip
from marl.gametheory.payoffs import PayoffTensor
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import VARIANTS, cfr
from marl.gametheory.tree.export import to_networkx
from marl.gametheory.tree.normal import one_shot
from marl.gametheory.tree.psro import exact_psro
from marl.gametheory.tree.response import best_response, expected_values, gains
from marl.gametheory.tree.sampling import sampled_cfr
from marl.gametheory.tree.value import equilibrium

FILE = Path(__file__).with_name("answers.json")
DIGITS, MOST_NUMBERS = 6, 24  # longer arrays are recorded as two means
NOT_COMPARED = ("game", "tree", "graph")


def plain(thing: Any) -> Any:
    """Numbers, texts, lists and maps of what was answered; numbers with six digits."""
    if dataclasses.is_dataclass(thing):
        fields = {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
        told = {"as_json": thing.as_json()} if hasattr(thing, "as_json") else {}
        rows = {"table": thing.table()} if hasattr(thing, "table") else {}
        return plain({**fields, **told, **rows})
    if isinstance(thing, Mapping):
        return {str(key): plain(value) for key, value in thing.items() if key not in NOT_COMPARED}
    if isinstance(thing, nx.Graph):
        edges = sorted(thing.edges(data=True), key=lambda edge: str(edge[:2]))
        return {"nodes": plain(dict(thing.nodes(data=True))), "edges": plain(edges)}
    if isinstance(thing, np.ndarray) and thing.size > MOST_NUMBERS:
        shares = np.linspace(1, 2, thing.size).reshape(thing.shape)
        return {"shape": list(thing.shape), "mean": plain(thing.mean()), "rising": plain((shares * thing).mean())}
    if isinstance(thing, np.ndarray | np.generic):
        return plain(thing.tolist())
    if isinstance(thing, tuple | list):
        return [plain(item) for item in thing]
    if isinstance(thing, float):
        return float(f"{thing:.{DIGITS}g}") if np.isfinite(thing) else str(thing)
    return thing if isinstance(thing, int | str | None) else str(thing)


def games() -> dict[str, MatrixGame]:
    general = random_game((3, 4), np.random.default_rng(1))
    return {
        "general": general,
        "large": MatrixGame(1e3 * general.payoffs),
        "small": MatrixGame(1e-3 * general.payoffs),
        "zero sum": random_game((4, 3), np.random.default_rng(2), zero_sum=True),
        "three players": random_game((2, 3, 2), np.random.default_rng(3)),
        "nothing pure": random_game((2, 2, 3), np.random.default_rng(10)),
        "six by seven": random_game((6, 7), np.random.default_rng(8)),
        "constant sum": MatrixGame(random_game((3, 3), np.random.default_rng(9), zero_sum=True).payoffs + 2.5),
        "ties": bimatrix([[1, 1, 0], [1, 1, 2], [0, 2, 2]], [[1, 1, 1], [0, 1, 1], [2, 1, 1]]),
        "chicken": classic_game("chicken"),
        "dominated": bimatrix([[3, 1, 2], [2, 0, 1], [0, 4, 1]], [[1, 2, 0], [3, 1, 2], [0, 1, 2]]),
    }


def tables() -> dict[str, PayoffTensor]:
    rng = np.random.default_rng(4)
    wins = np.array([[0, 7, 3, 9], [2, 0, 6, 5], [6, 3, 0, 4], [1, 4, 5, 0]])
    draws = np.array([[0, 1, 2, 0], [1, 0, 0, 2], [2, 0, 0, 1], [0, 2, 1, 0]])
    two = rng.normal(size=(2, 3))
    three = rng.normal(size=(3, 2, 2, 2))
    names = [["a", "b"], ["x", "y", "z"]]
    return {
        "tournament": rank.payoffs_from_results(wins, draws, ["ant", "bee", "cat", "dog"]),
        "two populations": PayoffTensor(
            np.stack([two, -two]), np.full((2, 2, 3), 0.2), np.full((2, 3), 30), names, ["row", "column"]
        ),
        "three populations": PayoffTensor(
            three, np.abs(three) * 0.3, np.full((2, 2, 2), 12), [["a", "b"], ["c", "d"], ["e", "f"]], ["p", "q", "r"]
        ),
        "cycle": PayoffTensor.two_player(
            [[0, -1, 1, 0.5], [1, 0, -1, 0.5], [-1, 1, 0, 0.5], [-0.5, -0.5, -0.5, 0]], ["rock", "paper", "scissors", "stone"]
        ),
    }  # fmt: skip


TOWN: dict[str, Any] = {
    "network": [
        {"from": "a", "to": "b", "delay": [1, 0.5]},
        {"from": "a", "to": "c", "delay": [2, 0, 0.3]},
        {"from": "b", "to": "c", "delay": [0.1]},
        {"from": "b", "to": "d", "free_flow_time": 2, "capacity": 2},
        {"from": "c", "to": "d", "free_flow_time": 1, "capacity": 1.5, "bpr_factor": 0.5, "bpr_power": 2.5},
    ],
    "demands": [{"from": "a", "to": "d", "agents": 3}, {"from": "b", "to": "d", "agents": 2}],
    "flow_per_agent": 0.7,
}
SOLVERS: dict[str, Callable[[MatrixGame], Any]] = {
    "nash": solve.nash,
    "pure": solve.pure_equilibria,
    "correlated": solve.correlated,
    "correlated, entropy": lambda game: solve.correlated(game, "entropy"),
    "correlated, egalitarian": lambda game: solve.correlated(game, "egalitarian"),
    "coarse": solve.coarse_correlated,
    "qre": lambda game: solve.logit_qre(game, 2.5 / game.scale),
    # By frequencies rounding decides ties, which machines do differently.
    "fictitious play": lambda game: solve.fictitious_play(game, 30, beliefs="counts"),
    "regret matching": lambda game: solve.regret_matching(game, 30),
    "regret matching plus": lambda game: solve.regret_matching(game, 30, plus=True),
    "replicator": lambda game: solve.replicator(game, game.uniform(), 2 / max(1.0, game.scale), 0.1),
    "projected replicator": lambda game: solve.projected_replicator(game, 20, floor=0.01),
}
TWO_PLAYERS = {"all": solve.all_equilibria, "lemke howson": lambda game: solve.lemke_howson(game, 2)}
RANKINGS: dict[str, Callable[[PayoffTensor], Any]] = {
    "alpha": rank.alpha_rank,
    "alpha, weak selection": lambda table: rank.alpha_rank(table, alpha=0.5, population_size=20),
    "responses": rank.responses,
    "cycles": rank.cycles,
    "shares": lambda table: rank.bootstrap(table, rank.responses, 20, seed=3),
    "bootstrap": lambda table: rank.bootstrap(table, rank.alpha_rank, 12, 0.8, seed=3),
    "itself": lambda table: table,
    "redrawn": lambda table: table.redrawn(np.random.default_rng(0)),
}
TWO_SIDES = {
    "elo": rank.elo,
    "elo, strong prior": lambda table: rank.elo(table, prior=5.0),
    "nash average": rank.nash_average,
}
TREES: dict[str, tuple[str, dict[str, Any]]] = {
    "kuhn": ("kuhn_poker", {}),
    "chicken twice": ("matrix_game", {"game": "chicken", "repetitions": 2}),
    "two steps": ("two_step_game", {}),
}


def tree_answers(env: str, config: dict[str, Any]) -> dict[str, Any]:
    tree = build_tree(env, config)
    rng = np.random.default_rng(6)
    weights = rng.exponential(size=tree.num_choices)
    mixed = weights / np.add.reduceat(weights, tree.sets.first_choice)[tree.sets.owner]
    answers: dict[str, Any] = {
        "size": len(tree), "names": tree.players, "scale": tree.scale, "first": tree.first_action(), "zero sum": tree.is_zero_sum,
        "values": expected_values(tree, mixed), "gains": gains(tree, mixed), "best": best_response(tree, mixed, 1),
        "sampled": sampled_cfr(tree, 20, seed=1), "outcomes": sampled_cfr(tree, 20, "outcome", seed=1),
    }  # fmt: skip
    answers |= {variant: cfr(tree, 15, variant) for variant in VARIANTS}
    if len(tree) < 60:
        answers["drawn"] = to_networkx(tree, mixed)
    if tree.num_players == 2 and tree.is_zero_sum:
        answers |= {
            "equilibrium": equilibrium(tree),
            "psro": exact_psro(tree, 4),
            "psro, first": exact_psro(tree, 4, unreached="first"),
        }
    table = one_shot(tree)
    return answers | ({} if table is None else {"table": table.payoffs})


def network_answers() -> dict[str, Any]:
    town, counts = congestion_of(TOWN), [1, 2, 0, 1, 1]
    graph = graphical_of({"graph": {"generator": "wheel_graph", "n": 5}, "game": "stag_hunt"})
    mixed = [[0.3, 0.7], [0.5, 0.5], [1.0, 0.0], [0.2, 0.8], [0.9, 0.1]]
    return {
        "equilibrium": congestion_equilibrium(town), "optimum": social_optimum(town), "prices": atomic_prices(town),
        "distance": congestion_nash_conv(town, counts), "potential": rosenthal_potential(town, counts),
        "flow": equilibrium_flow(town), "best flow": optimal_flow(town), "price": price_of_anarchy(town),
        "graph": graphical_best_responses(graph, [0, 1, 0, 1, 1]), "graph distance": graphical_nash_conv(graph, mixed),
        "pure": pure_equilibria(graph), "graph potential": graphical_potential(graph), "table": to_matrix_game(graph).payoffs.sum(axis=0),
    }  # fmt: skip


def answer(name: str) -> Any:
    """All answers about one game."""
    if name == "networks":
        return plain(network_answers())
    if name in TREES:
        return plain(tree_answers(*TREES[name]))
    if name in tables():
        table = tables()[name]
        asked = {**RANKINGS, **(TWO_SIDES if len(table.players) == 2 else {})}
        return {what: plain(ask(table)) for what, ask in asked.items()}
    game = games()[name]
    asked = {**SOLVERS, **(TWO_PLAYERS if game.num_players == 2 else {})}
    if game.is_zero_sum:
        asked["zero sum"] = solve.zero_sum
    return {what: plain(ask(game)) for what, ask in asked.items()}


NAMES = (*games(), *tables(), *TREES, "networks")

if __name__ == "__main__":
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if sys.argv[1:] else {}
    recorded |= {name: answer(name) for name in sys.argv[1:] or NAMES}
    FILE.write_text(json.dumps(recorded, indent=0) + "\n", encoding="utf-8")
