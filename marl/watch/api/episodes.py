"""What the view ``episodes`` asks for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from marl.serve.refused import Refused, shortly
from marl.watch.desk import Desk
from marl.watch.episode_list import checkpoints_of, shown_things
from marl.watch.episode_request import EpisodeRequest, inside
from marl.watch.replies import Answer, body_of

TASKS = "marl.watch.tasks.episodes"


def add(api: APIRouter, desk: Desk) -> None:
    _add_lists(api, desk)
    _add_episodes(api, desk)


def _add_lists(api: APIRouter, desk: Desk) -> None:
    @api.get("/episodes")
    async def things() -> Any:
        return Answer(await asyncio.to_thread(shown_things, desk.root))

    @api.get("/episodes/checkpoints")
    async def checkpoints(run: str) -> Any:
        return Answer({"checkpoints": checkpoints_of(inside(desk.root, run))})

    @api.get("/episodes/about")
    async def about(run: str, checkpoint: str | None = None) -> Any:
        asked = EpisodeRequest.read({"run": run, "checkpoint": checkpoint})
        return Answer(await desk.ask(f"{TASKS}:about", _arguments(desk, asked)))

    @api.get("/episodes/recording")
    async def recording(recording: str) -> Any:
        arguments = {"root": str(desk.root), "recording": recording}
        return Answer(await desk.ask(f"{TASKS}:recorded", arguments))


def _add_episodes(api: APIRouter, desk: Desk) -> None:
    @api.post("/episodes/trace")
    async def trace(request: Request) -> Any:
        asked = EpisodeRequest.read(await body_of(request))
        return Answer({"job": desk.jobs.start(desk.quick, f"{TASKS}:trace", _arguments(desk, asked))})

    @api.post("/episodes/part")
    async def part(request: Request) -> Any:
        body = await body_of(request)
        asked = EpisodeRequest.read(body.get("request") or {})
        arguments = {**_arguments(desk, asked), "first": _step(body, "first"), "last": _step(body, "last")}
        return Answer({"job": desk.jobs.start(desk.quick, f"{TASKS}:part", arguments)})


def _step(body: Mapping[str, Any], key: str) -> int:
    value = body.get(key)
    # A bool is an int in Python, but no step.
    if type(value) is not int or value < 0:
        raise Refused("bad_message", f"{key}: expected the number of a step; got {shortly(value)}.", 400)
    return value


def _arguments(desk: Desk, asked: EpisodeRequest) -> dict[str, Any]:
    return {"request": asked.to_json(), "root": str(desk.root), "allow": sorted(desk.allow)}
