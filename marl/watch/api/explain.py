"""What the view ``explain`` asks for: the demo, and the values of runs that are there."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request

from marl.inputs import read_json
from marl.runs.directories import find_runs
from marl.serve.refused import bad_message, shortly
from marl.watch.demo import Demo
from marl.watch.demo_notes import STEPS
from marl.watch.desk import Desk
from marl.watch.replies import Answer, body_of

TASKS = "marl.watch.tasks.explain"
GAME, LEARNERS = "two_step_game", ("qmix", "vdn", "dqn", "apex")
LARGEST_SEED, LEAST_STEPS, MOST_STEPS = 2**31 - 1, 512, 200_000
MOST_RUNS = 200


def add(api: APIRouter, desk: Desk) -> None:
    demo = Demo(desk.root, wanted=desk.demo)
    desk.closing.append(demo.close)
    _add_demo(api, demo)
    _add_runs(api, desk)


def _add_demo(api: APIRouter, demo: Demo) -> None:
    @api.get("/explain/demo")
    async def look() -> Any:
        return Answer(await asyncio.to_thread(demo.to_json))

    @api.post("/explain/demo")
    async def start(request: Request) -> Any:
        body = await body_of(request)
        seed = _whole(body, "seed", 0, 0, LARGEST_SEED)
        steps = _whole(body, "steps", STEPS, LEAST_STEPS, MOST_STEPS)
        demo.start(seed, steps)
        return Answer({"state": "running"})

    @api.delete("/explain/demo")
    async def stop() -> Any:
        demo.stop()
        return Answer({})


def _add_runs(api: APIRouter, desk: Desk) -> None:
    @api.get("/explain/runs")
    async def runs() -> Any:
        return Answer({"runs": await asyncio.to_thread(readable_runs, desk.root)})

    @api.post("/explain/values")
    async def values(request: Request) -> Any:
        run = (await body_of(request)).get("run")
        if not isinstance(run, str) or "\0" in run:
            raise bad_message(f"'run' is the name of a run in the results folder, got {shortly(run)}.")
        arguments = {"folder": str(desk.inside(run)), "run": run, "allow": sorted(desk.allow)}
        return Answer({"job": desk.jobs.start(desk.quick, f"{TASKS}:values", arguments)})


def readable_runs(root: Path) -> list[dict[str, Any]]:
    """Runs of the two-step game by learners of action values, the newest first."""
    found = []
    # The newest first: in a folder with thousands of runs the search ends early.
    for run in reversed(find_runs(root)):
        algo = _algo_of(run)
        if algo in LEARNERS:
            found.append({"run": run.relative_to(root).as_posix(), "algo": algo})
        if len(found) == MOST_RUNS:
            break
    return found


def _algo_of(run: Path) -> str | None:
    """Of a run of the two-step game; None for others, and where nobody can tell."""
    # A folder of results may hold anything: what cannot be read is no run of this game.
    try:
        keys = read_json(run / "params.json")
        if keys["env"] != GAME:
            return None
        return str(keys["algo"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _whole(body: dict[str, Any], key: str, usual: int, least: int, most: int) -> int:
    value = body.get(key, usual)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise bad_message(f"{key!r} is a whole number from {least} to {most}, got {shortly(value)}.")
    return value
