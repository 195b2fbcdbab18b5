"""What the views ``tree`` and ``dynamics`` ask for: small games as arrays, strategies to begin with, and matrix games.

Solving while somebody drags happens in the page, so that it works in saved files too; hence few routes, all of them GET.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from pydantic import BaseModel

from marl.serve.refused import Refused
from marl.watch.desk import Desk
from marl.watch.replies import Answer

TASKS = "marl.watch.tasks.tree"
CHECKPOINTS = "checkpoints"
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
        return Answer(await desk.quick.call(f"{TASKS}:game", _arguments(desk, asked)))

    @api.get("/tree/strategy")
    async def strategy(asked: Annotated[Asked, Query()], of: Literal["equilibrium", "policies"]) -> Any:
        """An equilibrium, or what the policies of the run play."""
        return Answer(await desk.quick.call(f"{TASKS}:strategy", {**_arguments(desk, asked), "of": of}))

    @api.get("/dynamics/games")
    async def dynamics_games() -> Any:
        """The matrix games of the literature that a phase portrait can show."""
        return Answer(await asyncio.to_thread(matrix_games))


def _arguments(desk: Desk, asked: Asked) -> dict[str, Any]:
    """What the task gets: names of runs are places in the results folder by now."""
    given = [word for word in (asked.name, asked.env, asked.run) if word is not None]
    if len(given) != 1:
        raise Refused("bad_message", "expected one of name, env and run.", 400)
    allow = sorted(desk.allow)
    if asked.run is None:
        return {"name": asked.name, "env": asked.env, "env_config": _config(asked.env_config), "allow": allow}
    place = desk.inside(asked.run)
    if asked.checkpoint is not None:
        place = desk.inside(f"{asked.run}/{CHECKPOINTS}/{asked.checkpoint}")
    return {"run": str(place), "title": asked.run, "allow": allow}


def _config(text: str) -> dict[str, Any]:
    if len(text) > MOST_CONFIG:
        raise Refused("bad_message", f"env_config has more than {MOST_CONFIG} characters.", 400)
    try:
        config = json.loads(text)
    except (ValueError, RecursionError):
        raise Refused("bad_message", 'env_config is no JSON; expected an object such as {"sides": 3}.', 400) from None
    if not isinstance(config, dict):
        raise Refused("bad_message", 'env_config is no JSON object; expected one such as {"sides": 3}.', 400)
    return config


def named_games() -> list[dict[str, Any]]:
    from marl.watch.tasks.tree_games import GAMES  # which takes half a second the first time

    return [{"name": name, "title": game.title, "env": game.env} for name, game in GAMES.items()]


def matrix_games() -> list[dict[str, Any]]:
    from marl.watch.tasks.tree_games import matrix_games

    return matrix_games()


def runs_in(root: Path, most: int = 500) -> list[str]:
    """Runs with checkpoints, newest first, by their names in the results folder."""
    found = []
    for place, folders, _ in os.walk(root):
        if CHECKPOINTS in folders:
            folder = Path(place)
            found.append(((folder / CHECKPOINTS).stat().st_mtime, folder.relative_to(root).as_posix()))
            folders.clear()  # a run holds no other run, but many files
    found.sort(reverse=True)
    return [name for _, name in found[:most]]
