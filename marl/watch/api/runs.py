"""What the views ``runs`` and ``run`` ask for: the table, curves, one run's details; starting, stopping and resuming runs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from marl.serve.refused import Refused, shortly
from marl.watch.desk import Desk
from marl.watch.replies import Answer, as_json, body_of
from marl.watch.runs.curves import STEPS, curves_json
from marl.watch.runs.detail import Details
from marl.watch.runs.fields import fields_of
from marl.watch.runs.index import Index, RunEntry
from marl.watch.runs.processes import Processes

MOST_CURVES = 200  # runs times fields in one chart
LONGEST = 1_000  # letters of a scenario's path, of a change, ...
MOST_CHANGES = 50
FIRST_FIELD = "episode_reward_mean"
NUMBERS = {"seed": 0, "stop_iters": 1, "stop_timesteps": 1}  # options of marl run, and the least that each takes


class RunsDesk:
    """What these routes share: the index of the results folder and the processes that the page started."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.index = Index(desk.root)
        self.details = Details()
        self.processes = Processes(desk.root, desk.allow)
        self._table: tuple[Any, bytes] = (None, b"")

    def table(self) -> bytes:
        """All summaries as JSON, kept until something changes: most of the time nothing does."""
        version = (self.index.refresh(), self.index.glances)
        if version != self._table[0]:
            runs = [entry.to_json() for entry in self.index.entries()]
            content = {"folder": self.index.root.name, "version": version[0], "reading": version[1], "runs": runs}
            self._table = (version, as_json(content))
        return self._table[1]

    def fields(self) -> dict[str, Any]:
        self.index.refresh()
        return {"fields": fields_of(self.index.entries())}

    def chosen(self, names: Sequence[str]) -> list[RunEntry]:
        self.index.refresh()
        return [self.entry(name) for name in names]

    def entry(self, name: str) -> RunEntry:
        found = self.index.get(name)
        if found is None or found.summary is None:
            raise Refused("not_found", f"there is no run {shortly(name)} in the results folder (any more).", 404)
        return found

    def directory(self, name: str) -> Path:
        return self.chosen([name])[0].directory.resolve()

    def stop(self, name: str) -> None:
        self.processes.stop(self.directory(name))

    def curves(self, names: Sequence[str], fields: Sequence[str], over: str, together: bool) -> dict[str, Any]:
        if over not in STEPS:
            raise Refused("bad_message", f"curves go over one of {', '.join(STEPS)}, not {shortly(over)}.", 400)
        if len(names) * len(fields) > MOST_CURVES:
            raise Refused("too_many", f"at most {MOST_CURVES} curves are drawn at once; choose fewer runs.", 400)
        entries = self.chosen(names)
        charts = [curves_json(self.index, entries, field, over, together) for field in fields]
        return {"over": over, "charts": charts}

    def detail(self, name: str) -> dict[str, Any]:
        [entry] = self.chosen([name])
        return {**self.details.get(entry), "log": self.processes.log_of(name)}


def add(api: APIRouter, desk: Desk) -> None:
    shared = RunsDesk(desk)
    _add_looks(api, shared)
    _add_acts(api, shared)


def _add_looks(api: APIRouter, shared: RunsDesk) -> None:
    # Reading files takes its time on a slow disk: in threads, so that other requests do not wait.
    @api.get("/runs")
    async def table() -> Response:
        content = await asyncio.to_thread(shared.table)
        return Answer(content)

    @api.get("/runs/fields")
    async def fields() -> Response:
        return Answer(await asyncio.to_thread(shared.fields))

    @api.get("/runs/curves")
    async def curves(request: Request) -> Response:
        asked = request.query_params
        fields = asked.getlist("field") or [FIRST_FIELD]
        together = asked.get("together") == "true"
        over = asked.get("over", STEPS[0])
        return Answer(await asyncio.to_thread(shared.curves, asked.getlist("run"), fields, over, together))

    @api.get("/runs/detail")
    async def detail(request: Request) -> Response:
        return Answer(await asyncio.to_thread(shared.detail, request.query_params.get("run", "")))

    @api.get("/runs/started")
    async def started() -> Response:
        return Answer({"started": await asyncio.to_thread(shared.processes.to_json)})

    @api.get("/runs/scenarios")
    async def scenarios() -> Response:
        return Answer({"scenarios": await shared.desk.ask("marl.watch.runs.check:scenarios", {})})


def _add_acts(api: APIRouter, shared: RunsDesk) -> None:
    @api.post("/runs/start")
    async def start(request: Request) -> Response:
        body = await body_of(request)
        scenario = _text(body, "scenario")
        changes = _changes(body)
        asked = {**changes, "scenario": scenario, "allow": sorted(shared.desk.allow)}
        await shared.desk.ask("marl.watch.runs.check:check_start", asked)
        started = await asyncio.to_thread(shared.processes.start, scenario, _options(changes))
        return Answer({"started": started.number, "command": started.command})

    @api.post("/runs/resume")
    async def resume(request: Request) -> Response:
        body = await body_of(request)
        directory = await asyncio.to_thread(shared.directory, _text(body, "run"))
        changes = _changes(body)
        asked = {**changes, "directory": str(directory), "allow": sorted(shared.desk.allow)}
        await shared.desk.ask("marl.watch.runs.check:check_resume", asked)
        started = await asyncio.to_thread(shared.processes.resume, directory, _options(changes))
        return Answer({"started": started.number, "command": started.command})

    @api.post("/runs/stop")
    async def stop(request: Request) -> Response:
        body = await body_of(request)
        number = body.get("started")
        if isinstance(number, int):
            shared.processes.stop_started(number)
        else:
            await asyncio.to_thread(shared.stop, _text(body, "run"))
        return Answer({})


# -- what a request asks for -----------------------------------------------------------------------------------------------


def _text(body: Mapping[str, Any], key: str) -> str:
    value = body.get(key)
    if not isinstance(value, str) or not value.strip() or len(value) > LONGEST or "\0" in value:
        raise Refused("bad_message", f"{key}: expected a text of at most {LONGEST} letters, got {shortly(value)}.", 400)
    return value.strip()


def _changes(body: Mapping[str, Any]) -> dict[str, Any]:
    """The keys that differ from the scenario: ``sets`` as behind ``--set``, and numbers with options of their own."""
    sets = body.get("sets", [])
    if not isinstance(sets, list) or len(sets) > MOST_CHANGES:
        raise Refused("bad_message", f"sets: expected at most {MOST_CHANGES} texts such as algo.lr=0.001.", 400)
    found: dict[str, Any] = {"sets": []}
    for one in sets:
        text = _text({"sets": one}, "sets")
        found["sets"].append(text)
    for key, least in NUMBERS.items():
        found[key] = _whole(body, key, least)
    return found


def _whole(body: Mapping[str, Any], key: str, least: int) -> int | None:
    """A whole number that may be missing."""
    value = body.get(key)
    if value is None:
        return None
    # A bool is an int to Python, but no number to people.
    is_whole = type(value) is int
    if not is_whole or value < least:
        raise Refused("bad_message", f"{key}: expected a whole number from {least}, got {shortly(value)}.", 400)
    return int(value)


def _options(changes: Mapping[str, Any]) -> list[str]:
    """The same as words of the command line. With "=", so that a value that begins with a dash stays a value."""
    options = [f"--set={text}" for text in changes["sets"]]
    for key in NUMBERS:
        if changes[key] is not None:
            options.append(f"--{key.replace('_', '-')}={changes[key]}")
    return options
