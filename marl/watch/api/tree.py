"""What the views ``tree`` and ``dynamics`` ask for: small games as arrays, strategies to begin with, and matrix games.

Solving while somebody drags happens in the page, so that it works in saved files too; hence few routes, all of them GET.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from fastapi import APIRouter

from marl.serve.refused import Refused
from marl.watch.desk import Desk
from marl.watch.replies import Answer

TASKS = "marl.watch.tasks.tree"
CHECKPOINTS = "checkpoints"
MOST_CONFIG = 20_000  # characters of an env_config in an address


def add(api: APIRouter, desk: Desk) -> None:
    @api.get("/tree/games")
    async def games() -> Any:
        """Games by name, and the runs of the folder."""
        named = await asyncio.to_thread(named_games)
        runs = await asyncio.to_thread(runs_in, desk.root)
        return Answer({"games": named, "runs": runs})

    @api.get("/tree/game")
    async def game(
        name: str | None = None, env: str | None = None, env_config: str = "{}", run: str | None = None
    ) -> Any:
        """The tree of one of them."""
        return Answer(await desk.quick.call(f"{TASKS}:game", _asked(desk, name, env, env_config, run)))

    @api.get("/tree/strategy")
    async def strategy(
        of: str, name: str | None = None, env: str | None = None, env_config: str = "{}", run: str | None = None
    ) -> Any:
        """An equilibrium, or what the policies of the run play."""
        asked = {**_asked(desk, name, env, env_config, run), "of": of}
        return Answer(await desk.quick.call(f"{TASKS}:strategy", asked))

    @api.get("/dynamics/games")
    async def dynamics_games() -> Any:
        """The matrix games of the literature that a phase portrait can show."""
        return Answer(await asyncio.to_thread(matrix_games))


def _asked(desk: Desk, name: str | None, env: str | None, env_config: str, run: str | None) -> dict[str, Any]:
    given = [word for word in (name, env, run) if word is not None]
    if len(given) != 1:
        raise Refused("bad_message", "expected one of name, env and run.", 400)
    allow = sorted(desk.allow)
    if run is not None:
        return {"run": str(desk.inside(run)), "title": run, "allow": allow}
    return {"name": name, "env": env, "env_config": _config(env_config), "allow": allow}


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
