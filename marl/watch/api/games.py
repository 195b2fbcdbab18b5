"""What the view ``games`` asks for: the games of the results folder, one of them, its rankings, and who sits where."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request

from marl.serve.refused import Refused, shortly
from marl.watch.desk import Desk
from marl.watch.games.found import Kind, games_in, kind_of
from marl.watch.games.reading import game_of
from marl.watch.replies import Answer, body_of

TASKS = "marl.watch.tasks.games"


def add(api: APIRouter, desk: Desk) -> None:
    @api.get("/games")
    async def games() -> Any:
        return Answer({"games": await asyncio.to_thread(games_in, desk.root)})

    @api.get("/games/one")
    async def one(path: str, kind: str) -> Any:
        folder = desk.inside(path)
        return Answer(await asyncio.to_thread(game_of, folder, kind_of(kind)))

    @api.post("/games/ranks")
    async def ranks(request: Request) -> Any:
        body = await body_of(request)
        folder, kind = _named(desk, body)
        arguments = {"folder": str(folder), "kind": kind, "part": _part(body), "round": _round(body)}
        return Answer({"job": desk.jobs.start(desk.slow, f"{TASKS}:rank", arguments)})

    @api.post("/games/seats")
    async def seats(request: Request) -> Any:
        folder, kind = _named(desk, await body_of(request))
        arguments = {"root": str(desk.root), "folder": str(folder), "kind": kind, "allow": sorted(desk.allow)}
        return Answer({"job": desk.jobs.start(desk.quick, f"{TASKS}:seats", arguments)})


def _named(desk: Desk, body: dict[str, Any]) -> tuple[Path, Kind]:
    path = body.get("path")
    if not isinstance(path, str):
        raise Refused("bad_message", f"path is {shortly(path)}; expected a folder of the results.", 400)
    return desk.inside(path), kind_of(body.get("kind"))


def _part(body: dict[str, Any]) -> str:
    given = body.get("part", "graph")
    if not isinstance(given, str):
        raise Refused("bad_message", f"part is {shortly(given)}; expected graph, or the name of a ranking.", 400)
    return given


def _round(body: dict[str, Any]) -> int | None:
    given = body.get("round")
    if given is None:
        return None
    if type(given) is not int or given < 0:
        raise Refused("bad_message", f"round is {shortly(given)}; expected a whole number from 0.", 400)
    return given
