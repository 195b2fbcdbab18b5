"""Particle games as scenes: every body with its place, size, role and velocity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.task import AgentID
from marl.envs.games.particles.drawing import camera_range

if TYPE_CHECKING:
    from marl.envs.games.particles.games import ParticleGames

PLACES = {"stay": 0, "left": 1, "right": 2, "down": 3, "up": 4}  # the moves, by where they lead


def particle_scene(env: ParticleGames, env_id: int, viewer: AgentID | None) -> dict[str, Any]:
    """Everything but what a game hides or says besides."""
    hidden = env.hidden_from(env_id, viewer)
    bodies = [body for body in _bodies(env, env_id) if body["name"] not in hidden]
    places = np.array([(body["x"], body["y"]) for body in bodies])
    where = _where_agents_are(env, env_id, hidden)
    return {
        "kind": "particles",
        "text": f"{_title(env)}, step {env.clock[env_id]} of {env.config.max_cycles}. {where}",
        "reach": round(camera_range(places), 4),
        "bodies": bodies,
        "actions": _arrows(env, env_id, viewer),
    }


def _arrows(env: ParticleGames, env_id: int, viewer: AgentID | None) -> Mapping[str, int]:
    """Moves by where they lead. Who speaks in the same action goes on saying its last word."""
    if viewer not in env.movers or env.config.continuous_actions:
        return {}
    word = env.word_of(env_id, viewer)
    return {place: move + len(PLACES) * word for place, move in PLACES.items()}


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


def _where_agents_are(env: ParticleGames, env_id: int, hidden: set[AgentID]) -> str:
    told: list[str] = []
    for name, (x, y) in zip(env.seat_names, env.position[env_id].tolist(), strict=False):  # agents are the first bodies
        if name not in hidden:
            told.append(f"{name} at {x:.2f}, {y:.2f}")
    return f"{'; '.join(told)}."
