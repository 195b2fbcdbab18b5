"""What the panel "what if" of the view ``episodes`` asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter, Request

from marl.serve.refused import bad_message, shortly
from marl.watch.desk import Desk
from marl.watch.episode_request import EpisodeRequest
from marl.watch.replies import Answer, body_of

TASKS = "marl.watch.tasks.what_if"
MOST_CONTINUATIONS = 100_000
LONGEST_ACTION = 10_000  # characters


def add(api: APIRouter, desk: Desk) -> None:
    @api.post("/whatif/branch")
    async def branch(request: Request) -> Any:
        arguments = _arguments(desk, await body_of(request))
        return Answer({"job": desk.jobs.start(desk.quick, f"{TASKS}:branch", arguments)})

    @api.post("/whatif/effect")
    async def effect(request: Request) -> Any:
        body = await body_of(request)
        continuations = _whole(body.get("continuations", 1_000), "continuations", 1, MOST_CONTINUATIONS)
        arguments = {**_arguments(desk, body), "continuations": continuations}
        return Answer({"job": desk.jobs.start(desk.slow, f"{TASKS}:effect", arguments)})


def _arguments(desk: Desk, body: Mapping[str, Any]) -> dict[str, Any]:
    """What both tasks get: the episode, and the question about it."""
    request, agent = body.get("request"), body.get("agent")
    if not isinstance(request, dict):
        raise bad_message("'request' says which episode it is about.")
    if not isinstance(agent, str):
        raise bad_message(f"'agent' is a text, got {shortly(agent)}.")
    return {
        "request": EpisodeRequest.read(request).to_json(),
        "root": str(desk.root),
        "allow": sorted(desk.allow),
        "agent": agent,
        "step": _whole(body.get("step"), "step", 0, 2**31),
        **_instead(body.get("instead")),
    }


def _instead(given: object) -> dict[str, str | None]:
    """``{"action": ...}`` as the env takes it or by its name, ``{"policy": "source"}``, or both."""
    if not isinstance(given, dict) or not given or set(given) - {"action", "policy"}:
        raise bad_message(f"'instead' is {{action}} or {{policy}}, got {shortly(given)}.")
    policy = given.get("policy")
    if not isinstance(policy, str | None) or "\0" in (policy or ""):
        raise bad_message(f"'policy' is a text, got {shortly(policy)}.")
    return {"action": _as_typed(given.get("action")), "policy": policy}


def _as_typed(action: object) -> str | None:
    """An action as it would be typed behind --instead."""
    if action is None:
        return None
    typed = action if isinstance(action, str) else json.dumps(action)
    if len(typed) > LONGEST_ACTION:
        raise bad_message(f"'action' has more than {LONGEST_ACTION} characters.")
    return typed


def _whole(value: object, key: str, least: int, most: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise bad_message(f"{key!r} is a whole number from {least} to {most}, got {shortly(value)}.")
    return value
