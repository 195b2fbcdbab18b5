"""The roads of the traffic env from above, for a page to draw.

The avenue runs from left to right, the streets cross it from top to bottom. A cell is one step of a car.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from marl.envs.games.traffic import TrafficGames


def traffic_scene(env: TrafficGames, env_id: int) -> Mapping[str, Any]:
    """All roads, lights and driving cars of one copy."""
    cars = _cars(env, env_id)
    lights = _lights(env, env_id)
    waiting = sum(not car["moved"] for car in cars)
    green = ", ".join(f"{light['name']} lets {_way(light['green'])} go" for light in lights)
    return {
        "kind": "traffic",
        "text": f"Traffic, step {env.clock[env_id]}: {len(cars)} cars, of which {waiting} stand; {green}.",
        "columns": env.block * (env.lights + 1),
        "rows": 2 * env.block,
        "roads": _roads(env),
        "lights": lights,
        "cars": cars,
    }


def _way(heading: str) -> str:
    return "the avenue" if heading == "right" else "the street"


def _roads(env: TrafficGames) -> list[dict[str, Any]]:
    last_column, last_row = env.block * (env.lights + 1) - 1, 2 * env.block - 1
    roads: list[dict[str, Any]] = [{"name": "avenue", "start": [0, env.block], "end": [last_column, env.block]}]
    for street in range(env.lights):
        x = env.block * (street + 1)
        roads.append({"name": f"street {street}", "start": [x, 0], "end": [x, last_row]})
    return roads


def _lights(env: TrafficGames, env_id: int) -> list[dict[str, Any]]:
    lights: list[dict[str, Any]] = []
    for light in range(env.lights):
        green = "down" if env.street_green[env_id, light] else "right"
        lights.append(
            {
                "name": f"traffic_light_{light}",
                "x": env.block * (light + 1),
                "y": env.block,
                "green": green,
                "dark": bool(env.dark[env_id, light]),
            }
        )
    return lights


def _cars(env: TrafficGames, env_id: int) -> list[dict[str, Any]]:
    cars: list[dict[str, Any]] = []
    for seat in np.flatnonzero(env.driving()[env_id]).tolist():
        road, place = int(env.road[env_id, seat]), int(env.place[env_id, seat])
        car: dict[str, Any] = {"name": env.agent_at(env_id, seat), "moved": bool(env.moved[env_id, seat])}
        if road == 0:  # the avenue
            car |= {"x": place, "y": env.block, "heading": "right"}
        else:
            car |= {"x": env.block * road, "y": place, "heading": "down"}
        cars.append(car)
    return cars
