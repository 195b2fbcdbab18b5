"""The network of a congestion game with its loads, delays and the ways that drivers took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.task import AgentID
from marl.envs.games.networks.layout import MOST_EDGES, MOST_NODES, layered

if TYPE_CHECKING:
    from marl.envs.games.networks.congestion import CongestionGames


def congestion_scene(env: CongestionGames, env_id: int, viewer: AgentID | None) -> Mapping[str, Any] | None:
    """None where it is too large to be drawn. A viewer sees its own way, and the loads where the game shows them."""
    game = env.game
    if len(game.nodes) > MOST_NODES or len(game.edges) > MOST_EDGES:
        return None
    rounds = int(env.rounds[env_id])
    over = rounds >= env.config.repetitions
    shows_loads = rounds > 0 and (viewer is None or env.shows_last or over)
    driver = _driver(env, viewer)
    taken = -1
    if rounds and driver is not None:
        taken = int(env.last[env_id, driver])
    told = ""
    if shows_loads:
        mean = float(game.path_delays(env.edge_loads())[env_id][env.last[env_id]].mean())
        told = f" A drive took {mean:.3g} on average."
    return {
        "kind": "network",
        "text": f"Congestion game with {game.num_agents} drivers, round {rounds} of {env.config.repetitions}.{told}",
        "directed": True,
        "nodes": _nodes(env),
        "edges": _edges(env, env_id, shows_loads, taken),
        "choices": _choices(env, env_id, driver, shows_loads),
        "actions": _places(env, driver),
    }


def _driver(env: CongestionGames, viewer: AgentID | None) -> int | None:
    """The viewer's number among the agents of all trips."""
    if viewer not in env.seat_names:
        return None
    return int(str(viewer).removeprefix("driver_"))


def _nodes(env: CongestionGames) -> list[dict[str, Any]]:
    game = env.game
    origins = {trip.origin for trip in game.trips}
    ends = {trip.destination for trip in game.trips}
    nodes: list[dict[str, Any]] = []
    for name, (x, y) in zip(game.nodes, layered(game.nodes, game.edges, tuple(sorted(origins))), strict=True):
        nodes.append({"name": name, "x": x, "y": y, "marked": name in origins | ends})
    return nodes


def _edges(env: CongestionGames, env_id: int, shows_loads: bool, taken: int) -> list[dict[str, Any]]:
    game = env.game
    loads = env.edge_loads()[env_id]
    delays = game.edge_delays(loads)
    whole = float(game.demands.sum())
    number = {name: i for i, name in enumerate(game.nodes)}
    own = game.incidence[taken] > 0 if taken >= 0 else np.zeros(len(game.edges), bool)
    edges: list[dict[str, Any]] = []
    for i, (start, end) in enumerate(game.edges):
        edge: dict[str, Any] = {"start": number[start], "end": number[end], "marked": bool(own[i])}
        if shows_loads:
            edge |= {"text": f"load {loads[i]:.3g}, delay {delays[i]:.3g}", "share": round(float(loads[i]) / whole, 4)}
        edges.append(edge)
    return edges


def _choices(env: CongestionGames, env_id: int, driver: int | None, shows_loads: bool) -> list[dict[str, Any]]:
    """All paths, or those of the viewer's own trip, by their numbers over all trips."""
    game = env.game
    counts = np.bincount(env.last[env_id], minlength=len(game.path_names))
    shown = slice(None) if driver is None else game.path_slices[env.trip_of[driver]]
    choices: list[dict[str, Any]] = []
    for path in range(len(game.path_names))[shown]:
        edges = np.flatnonzero(game.incidence[path]).tolist()
        choice: dict[str, Any] = {"key": f"path {path}", "text": game.path_names[path], "edges": edges}
        if shows_loads:
            choice["count"] = int(counts[path])
        if driver is not None and env.rounds[env_id]:
            choice["taken"] = bool(env.last[env_id, driver] == path)
        choices.append(choice)
    return choices


def _places(env: CongestionGames, driver: int | None) -> dict[str, int]:
    """A click on a path takes it: an agent's actions count the paths of its own trip."""
    if driver is None:
        return {}
    own = env.game.path_slices[env.trip_of[driver]]
    return {f"path {path}": path - own.start for path in range(own.start, own.stop)}
