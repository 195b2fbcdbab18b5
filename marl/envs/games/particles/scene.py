"""Particle games as scenes: every body with its place, size, role and velocity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from marl.data.task import AgentID
from marl.envs.games.particles.drawing import camera_range

if TYPE_CHECKING:
    from marl.envs.games.particles.games import ParticleGames

PLACES = {"stay": 0, "left": 1, "right": 2, "down": 3, "up": 4}  # the moves, by where they lead


def particle_scene(env: ParticleGames, env_id: int, viewer: AgentID | None) -> dict[str, Any]:
    """Everything but what a game hides or says besides."""
    places: Mapping[str, int] = {}
    if viewer in env.movers and not env.config.continuous_actions:
        places = PLACES
    return {
        "kind": "particles",
        "text": f"{_title(env)}, step {env.clock[env_id]} of {env.config.max_cycles}. {_where_agents_are(env, env_id)}",
        "reach": round(camera_range(env.position[env_id]), 4),
        "bodies": _bodies(env, env_id),
        "actions": places,
    }


def _title(env: ParticleGames) -> str:
    return env.name.removeprefix("fast:").replace("_", " ").capitalize()


def _bodies(env: ParticleGames, env_id: int) -> list[dict[str, Any]]:
    """Agents first, then what stands still; four digits are finer than any screen."""
    bodies: list[dict[str, Any]] = []
    for number, (name, role) in enumerate(env.bodies_named()):
        x, y = env.position[env_id, number].tolist()
        vx, vy = 0.0, 0.0
        if number < env.bodies.num_movers:
            vx, vy = env.velocity[env_id, number].tolist()
        radius = float(env.bodies.radius[number])
        body: dict[str, Any] = {"name": name, "role": role, "radius": radius}
        bodies.append(body | {"x": round(x, 4), "y": round(y, 4), "vx": round(vx, 4), "vy": round(vy, 4)})
    return bodies


def _where_agents_are(env: ParticleGames, env_id: int) -> str:
    told: list[str] = []
    for name, (x, y) in zip(env.seat_names, env.position[env_id].tolist(), strict=False):  # agents are the first bodies
        told.append(f"{name} at {x:.2f}, {y:.2f}")
    return f"{'; '.join(told)}."
