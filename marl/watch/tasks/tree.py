"""The trees of small games for the page: flat arrays that it solves again while somebody drags a probability.

A game is one of ``GAMES``, another env by its name, or the env of a run in the results folder. A strategy is an equilibrium
that is solved here, or how the policies of a run's checkpoint play. The page does the rest (``js/solve``).
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from marl.data.task import AgentID, PolicyID
from marl.envs.batched import BatchedEnv
from marl.envs.games.cards.dealt import DealtEnv
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, UnknownNameError, did_you_mean
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import CFR
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.gametheory.tree.response import Solved, gains
from marl.gametheory.tree.size import walks_in
from marl.gametheory.tree.tree import Behaviour, Tree
from marl.gametheory.tree.value import equilibrium
from marl.populations.exploit_config import ExploitabilityConfig
from marl.runs.manifest import MANIFEST
from marl.runs.saved import SavedRun
from marl.serve.refused import Refused
from marl.training.examiner import Examiner
from marl.trust import only_modules
from marl.watch.tasks.tree_games import GAMES, Game
from marl.watch.tasks.tree_words import json_of
from marl.watch.workers import Tell

MOST_NODES = 60_000  # of a tree that a page shows: its arrays are some megabytes, and a solve takes some milliseconds
KEPT = 6  # trees of this process, so that strategies of a game do not build it again
PATIENCE_S = 5.0  # of CFR+ where no linear program gives the equilibrium
ROUNDS = 50  # iterations of CFR+ between two looks at the clock
GOOD_ENOUGH = 1e-6  # NashConv, relative to the largest payoff


@dataclass
class Opened:
    """A game whose tree is here, and the policies of its run where it has one."""

    tree: Tree
    env: BatchedEnv  # one copy, for names
    title: str
    policies: dict[PolicyID, Any] = field(default_factory=dict)
    seating: dict[AgentID, PolicyID] = field(default_factory=dict)
    where: str = ""  # the checkpoint


_opened: OrderedDict[str, Opened] = OrderedDict()


def game(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """The tree of a game as JSON."""
    tell(0, None, "building the tree")
    opened = _open(arguments)
    told = json_of(opened.tree, opened.env, opened.title)
    told["has_policies"] = bool(opened.policies)
    told["checkpoint"] = opened.where
    told["checkpoints"] = _checkpoints(arguments.get("run"))
    return told


def _checkpoints(run: str | None) -> list[str]:
    """Names of all checkpoints of a run, to choose from."""
    if run is None:
        return []
    folder = Path(run) / "checkpoints"
    if Path(run).parent.name == "checkpoints":  # one of them was asked for
        folder = Path(run).parent
    return sorted(entry.name for entry in folder.iterdir() if (entry / MANIFEST).is_file())


def strategy(arguments: dict[str, Any], tell: Tell) -> dict[str, Any]:
    """A strategy of all players: ``of`` is ``equilibrium`` or ``policies`` (of the run)."""
    opened = _open(arguments)
    if arguments.get("of") == "policies":
        return _as_played(opened)
    tell(0, None, "solving for an equilibrium")
    solved, method = _solve(opened.tree)
    return _told(opened.tree, solved.strategy, method, solved.iterations)


def _as_played(opened: Opened) -> dict[str, Any]:
    if not opened.policies:
        raise Refused(
            "no_policies", "this game is not of a run, so there is no checkpoint whose policies could be read."
        )
    players = {agent: opened.policies[opened.seating[agent]] for agent in opened.tree.players}
    return _told(opened.tree, strategy_of(opened.tree, players), f"policies of {opened.where}", 0)


def _told(tree: Tree, found: Behaviour, method: str, iterations: int) -> dict[str, Any]:
    could_gain = gains(tree, found)
    return {
        "strategy": found.tolist(),
        "gains": could_gain.tolist(),
        "nash_conv": float(could_gain.sum()),
        "method": method,
        "iterations": iterations,
    }


def _solve(tree: Tree) -> tuple[Solved, str]:
    """Exactly where a linear program does, else by CFR+ for some seconds: its NashConv says how far it came."""
    if tree.num_players == 2 and tree.is_constant_sum:
        return equilibrium(tree), "linear program over sequences"
    solver = CFR(tree)
    end = monotonic() + PATIENCE_S
    found = solver.run(ROUNDS).solved()
    while found.nash_conv > GOOD_ENOUGH * tree.scale and monotonic() < end:
        found = solver.run(ROUNDS).solved()
    return found, "CFR+"


# -- opening a game ----------------------------------------------------------------------------------------------------


def _open(arguments: dict[str, Any]) -> Opened:
    """The game behind ``{name}``, ``{env, env_config}`` or ``{run}``, built once."""
    of_run = arguments.get("run") is not None
    # A run that goes on has newer policies: when its folder last changed belongs to the key.
    stamp = 0.0
    if of_run:
        stamp = _newest(Path(arguments["run"]))
    key = json.dumps(
        [arguments.get("name"), arguments.get("env"), arguments.get("env_config"), arguments.get("run"), stamp]
    )
    if key not in _opened:
        opening = _of_run if of_run else _of_env
        with only_modules(frozenset(arguments.get("allow", ()))):
            _opened[key] = opening(arguments)
    _opened.move_to_end(key)
    while len(_opened) > KEPT:
        _opened.popitem(last=False)
    return _opened[key]


def _newest(place: Path) -> float:
    checkpoints = place / "checkpoints"
    if checkpoints.is_dir():
        place = checkpoints
    return place.stat().st_mtime


def _of_env(arguments: dict[str, Any]) -> Opened:
    env = arguments.get("env")
    if env is None:
        game = _named(arguments.get("name"))
    else:
        game = Game(str(env), env, arguments.get("env_config", {}))
    copy = make_batched_env(game.env, 1, game.env_config, with_state=False)
    _check_size(game.env, game.env_config, copy)
    tree = build_tree(game.env, game.env_config, max_nodes=MOST_NODES)
    return Opened(tree, copy, game.title)


def _named(name: str | None) -> Game:
    if name not in GAMES:
        known = ", ".join(GAMES)
        hint = did_you_mean(str(name), GAMES)
        raise UnknownNameError(f"no game is called {name!r}.{hint} Known: {known}.")
    return GAMES[name]


def _of_run(arguments: dict[str, Any]) -> Opened:
    """As ``marl exploit`` reads a checkpoint: its env, and who plays whom."""
    run = SavedRun.open(arguments["run"], arguments.get("allow", ()), remedy="")
    setup = run.resolve()
    scenario = setup.scenario
    with run.trusted():
        copy = make_batched_env(scenario.env, 1, scenario.env_config, with_state=False)
        _check_size(scenario.env, scenario.env_config, copy)
        examiner = Examiner(setup, ExploitabilityConfig(method="tree", max_nodes=MOST_NODES))
    assert examiner.tree is not None  # tree: else it refuses
    return Opened(
        tree=examiner.tree,
        env=copy,
        title=arguments["title"],
        policies=run.policies(setup),
        seating=examiner.seating,
        where=run.folder.name,
    )


def _check_size(env: Any, env_config: Mapping[str, Any], copy: BatchedEnv) -> None:
    """Refuse before anything is built: a tree that is too large takes minutes to find out."""
    walks = walks_in(env, env_config)
    nodes = walks.nodes * _starts(copy)
    if walks.discrete and nodes <= MOST_NODES:
        return
    size = "infinitely many"
    if walks.discrete:
        size = _about(nodes)
    raise ConfigError(
        f"the tree of {copy.name!r} has {size} nodes (estimated from random play, before building it), more than the "
        f"{MOST_NODES:,} that this page draws and solves. Take a smaller version of the game by its env_config; `marl "
        "exploit` measures policies in larger games."
    )


def _starts(copy: BatchedEnv) -> int:
    """What chance may deal: random walks estimate the tree below one of these."""
    if not isinstance(copy, DealtEnv):
        return 1
    return int(np.count_nonzero(copy.deal_probabilities))


def _about(nodes: float) -> str:
    if nodes >= 1e9:
        return "billions of"
    rounded = float(f"{nodes:.2g}")
    return f"about {rounded:,.0f}"
