"""All routes of the page's server, whichever there are, with the words that they take."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from fastapi.routing import APIRoute

import marl.watch
from marl.watch.server import WatchServer

PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
KEY = re.compile(r"""(?:\[|\bget\(|\bpop\()"(\w+)"[\]),]""")


@dataclass(frozen=True)
class Route:
    """One method of one address below ``/api``."""

    method: str
    path: str
    words: tuple[str, ...]  # of its query

    def at(self, value: str = "1") -> str:
        """The address with this value for every parameter."""
        return PARAMETER.sub(lambda _: value, self.path)


def routes(app: Any) -> Iterator[Route]:
    """Those of the app behind its wrappers."""
    while not hasattr(app, "routes"):
        app = app.app
    for route in _flat(app.routes):
        if route.path.startswith("/api"):
            words = tuple(sorted(_queries(route.dependant)))
            for method in sorted(route.methods):
                yield Route(method, route.path, words)


def _flat(found: list[Any]) -> Iterator[APIRoute]:
    """Newer versions of FastAPI keep a router that was included as one entry."""
    for route in found:
        if isinstance(route, APIRoute):
            yield route
        elif hasattr(route, "original_router"):
            yield from _flat(route.original_router.routes)


def _queries(dependant: Any) -> set[str]:
    found = {one.name for one in dependant.query_params}
    for inner in dependant.dependencies:
        found |= _queries(inner)
    return found


def keys() -> list[str]:
    """Words that the code of the views looks up in what it is sent."""
    found: set[str] = set()
    for file in Path(marl.watch.__path__[0]).rglob("*.py"):
        found |= set(KEY.findall(file.read_text()))
    return sorted(found)


def client(server: WatchServer, *, token: bool = True) -> httpx.Client:
    headers = {"authorization": f"Bearer {server.desk.secret}"} if token else {}
    return httpx.Client(base_url=server.url, headers=headers, timeout=120, trust_env=False)


ODD = (
    None, True, False, 0, -1, 7, 1e308, -0.5, 2**63, 10**30, "", "x", "0", "..", "../..", "/etc/passwd", "a/../../..",
    "\x00", "\ud800", "a" * 5000, "<img src=x onerror=hacked=1>", "%2e%2e", "best", "nan", [], {}, [1, "a", None],
    {"a": {"b": []}}, [[0.5, 0.5], [0.5]], {"action": -1}, {"policy": "random"}, {"action": [1, {}]},
)  # fmt: skip


def strange_value(chance: random.Random, names: tuple[str, ...], depth: int = 2) -> Any:
    """Any JSON value; names of runs and the like among them, so that some requests come far."""
    kind = chance.random()
    if kind < 0.35:
        return chance.choice(names)
    if kind < 0.85 or depth == 0:
        return chance.choice(ODD)
    if kind < 0.92:
        return [strange_value(chance, names, depth - 1) for _ in range(chance.randrange(4))]
    return strange_object(chance, names, depth - 1)


_KEYS: list[str] = []


def strange_object(chance: random.Random, names: tuple[str, ...], depth: int = 2) -> dict[str, Any]:
    if not _KEYS:
        _KEYS.extend(keys() or ["view"])
    chosen = chance.sample(_KEYS, min(len(_KEYS), chance.randrange(1, 12)))
    return {key: strange_value(chance, names, depth) for key in chosen}
