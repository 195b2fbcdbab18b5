"""What the views ``tree`` and ``dynamics`` ask for: small games as arrays, strategies to begin with, and matrix games.

Solving while somebody drags happens in the page, so that it works in saved files too; hence few routes, all of them GET.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Query
from pydantic import BaseModel

from marl.errors import ConfigError, UserError
from marl.serve.refused import Refused, shortly
from marl.watch.desk import Desk
from marl.watch.replies import Answer

TASKS = "marl.watch.tasks.tree"
STRATEGIES = ("equilibrium", "policies")  # that are worked out here
CHECKPOINTS = "checkpoints"
MOST_RUNS = 500  # to choose from
MOST_ACTIONS = 3  # of a game whose basins are found while somebody waits
BASIN_STARTS = 500
MOST_CONFIG = 20_000  # characters of an env_config in an address


class Asked(BaseModel):
    """Which game: one of those with a name, another env, or that of a run."""

    name: str | None = None
    env: str | None = None
    env_config: str = "{}"
    run: str | None = None
    checkpoint: str | None = None  # of the run; its newest if none is named


def add(api: APIRouter, desk: Desk) -> None:
    @api.get("/tree/games")
    async def games() -> Any:
        """Games by name, and the runs of the folder."""
        named = await asyncio.to_thread(named_games)
        runs = await asyncio.to_thread(runs_in, desk.root)
        return Answer({"games": named, "runs": runs})

    @api.get("/tree/game")
    async def game(asked: Annotated[Asked, Query()]) -> Any:
        """The tree of one of them."""
        return Answer(await desk.ask(f"{TASKS}:game", _arguments(desk, asked)))

    @api.get("/tree/strategy")
    async def strategy(asked: Annotated[Asked, Query()], of: str = STRATEGIES[0]) -> Any:
        """An equilibrium, or what the policies of the run play."""
        if of not in STRATEGIES:
            raise Refused("bad_message", f"of is {shortly(of)}; expected one of {', '.join(STRATEGIES)}.", 400)
        return Answer(await desk.ask(f"{TASKS}:strategy", {**_arguments(desk, asked), "of": of}))

    @api.get("/dynamics/games")
    async def dynamics_games() -> Any:
        """The matrix games of the literature that a phase portrait can show."""
        return Answer(await asyncio.to_thread(classics))

    @api.get("/dynamics/basins")
    async def dynamics_basins(payoffs: str, kind: str = "replicator", populations: int | None = None) -> Any:
        """From which share of all starts play ends where, in a game that was typed in."""
        try:
            return Answer(await asyncio.to_thread(basins_of, payoffs, kind, populations))
        except UserError as error:
            raise Refused("bad_message", str(error), 400) from None


def _arguments(desk: Desk, asked: Asked) -> dict[str, Any]:
    """What the task gets: names of runs are places in the results folder by now."""
    missing = [asked.name, asked.env, asked.run].count(None)
    if missing != 2:
        raise Refused("bad_message", "expected one of name, env and run.", 400)
    arguments: dict[str, Any] = {
        "name": asked.name,
        "env": asked.env,
        "env_config": _config(asked.env_config),
        "allow": sorted(desk.allow),
    }
    if asked.run is not None:
        arguments["run"] = str(_place(desk, asked.run, asked.checkpoint))
        arguments["title"] = asked.run
    return arguments


def _place(desk: Desk, run: str, checkpoint: str | None) -> Path:
    if checkpoint is None:
        return desk.inside(run)
    return desk.inside(f"{run}/{CHECKPOINTS}/{checkpoint}")


def _config(text: str) -> dict[str, Any]:
    """An env_config out of an address."""
    expected = 'expected a JSON object such as {"sides": 3}'
    if len(text) > MOST_CONFIG:
        raise Refused("bad_message", f"env_config has more than {MOST_CONFIG} characters.", 400)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("bad_message", f"env_config is no JSON; {expected}.", 400) from None
    if not isinstance(config, dict):
        raise Refused("bad_message", f"env_config is no JSON object; {expected}.", 400)
    return config


def named_games() -> list[dict[str, Any]]:
    """What can be chosen by name."""
    from marl.watch.tasks.tree_games import GAMES  # which takes half a second the first time

    found = []
    for name, game in GAMES.items():
        told = {
            "name": name,
            "title": game.title,
            "env": game.env,
        }
        found.append(told)
    return found


def classics() -> list[dict[str, Any]]:
    """Matrix games as tables."""
    from marl.watch.tasks.tree_games import matrix_games

    return matrix_games()


def basins_of(payoffs: str, kind: str, populations: int | None) -> dict[str, Any]:
    """Of a small game of two players, ``[[row player's table], [column player's]]`` as JSON."""
    from marl.gametheory.game import MatrixGame
    from marl.gametheory.strategic import basins

    if len(payoffs) > MOST_CONFIG:
        raise ConfigError(f"payoffs have more than {MOST_CONFIG} characters.")
    try:
        table = np.array(json.loads(payoffs), np.float64)
    except (ValueError, TypeError, RecursionError):
        raise ConfigError("payoffs are no JSON lists of numbers: expected two tables, [[...], [...]].") from None
    game = MatrixGame(table, name="own game")
    if game.num_players != 2 or max(game.shape) > MOST_ACTIONS:
        raise ConfigError(f"expected a game of two players with at most {MOST_ACTIONS} actions each.")
    return basins(game, kind, starts=BASIN_STARTS, populations=populations).as_json()


def runs_in(root: Path) -> list[str]:
    """Runs with checkpoints, newest first, by their names in the results folder."""
    found = []
    for place, folders, _ in os.walk(root):
        if CHECKPOINTS not in folders:
            continue
        run = Path(place)
        changed = (run / CHECKPOINTS).stat().st_mtime
        found.append((changed, run.relative_to(root).as_posix()))
        # A run holds no other run, but many files.
        folders.clear()
    found.sort(reverse=True)
    newest = found[:MOST_RUNS]
    return [name for _, name in newest]
