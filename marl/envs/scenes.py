"""What an env looks like now, as a *scene*: a small dict that a page draws, by its ``kind``.

An env may have a method ``scene``: ``scene(env_id, viewer=None)`` of a native env, ``scene(viewer=None)`` of a dict env or of
an env inside of it. ``viewer`` is an agent that may only see what the rules show it; None sees everything. Without the method
a scene is what ``render`` gives: a picture or a text, which knows no viewer.

Asking for a scene changes nothing in the env and draws no random numbers. It never raises: whatever goes wrong is a scene of
its own, a text that says so.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from marl.data.task import AgentID
from marl.envs.batched import BatchedEnv
from marl.envs.branching import scene_inside
from marl.envs.scene_forms import BrokenScene, checked
from marl.envs.scene_pictures import picture_scene
from marl.envs.vector.vector_env import DictVector

Scene: TypeAlias = dict[str, Any]
"""JSON: ``kind``, ``text`` (one sentence for people who cannot see the drawing), and what the kind needs."""
LONGEST_TEXT = 20_000  # characters of what render gives
LONGEST_HISTORY = 60  # rounds of a repeated game that are drawn


def scene_of(env: BatchedEnv, env_id: int, viewer: AgentID | None = None) -> Scene | None:
    """What this copy of the env shows now, to everybody or to one agent; None where it draws nothing."""
    try:
        found = _asked(env, env_id, viewer)
        if found is None:
            return _rendered(env, env_id)
        return checked(found)
    except BrokenScene as error:
        return text_scene(f"The scene of env {env.name!r} cannot be drawn: {error}")
    except Exception as error:  # a user's env may do anything, and a drawing is no reason to end an episode
        return text_scene(f"Env {env.name!r} could not be drawn: {type(error).__name__}: {error}")


def text_scene(text: str) -> Scene:
    """A scene that is only read."""
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT]} …"
    return {"kind": "text", "text": text}


def _asked(env: BatchedEnv, env_id: int, viewer: AgentID | None) -> Any:
    """What the env's own method says; None where there is none."""
    if not isinstance(env, DictVector):
        return env.scene(env_id, viewer)
    return scene_inside(env.envs[env_id], viewer)


def _rendered(env: BatchedEnv, env_id: int) -> Scene | None:
    drawn = env.render(env_id)
    if drawn is None:
        return None
    if isinstance(drawn, str):
        return text_scene(drawn)
    return picture_scene(np.asarray(drawn), f"A picture that env {env.name!r} has drawn of itself.")


def remembering(before: Scene | None, scene: Scene | None) -> Scene | None:
    """The scene after ``before``, with what it takes two moments to know.

    An env keeps only what it needs to go on, so its scene alone cannot tell the rounds of a repeated game that were played
    until then, nor which cells of a board the last move has changed.
    """
    if scene is None:
        return None
    kind = scene["kind"]
    earlier = before or {}
    if earlier.get("kind") != kind:
        earlier = {}
    learned = {"matrix": _history, "board": _last_move}.get(kind)
    if learned is None:
        return scene
    return {**scene, **learned(earlier, scene)}


def _history(before: Scene, scene: Scene) -> Scene:
    """The rounds so far; none where nothing has been played."""
    played = scene.get("played")
    if played is None:
        return {}
    history = [*before.get("history", []), played]
    return {"history": history[-LONGEST_HISTORY:]}


def _last_move(before: Scene, scene: Scene) -> Scene:
    """Cells that have changed, unless the env itself knows them."""
    old, new = np.array(before.get("cells", []), object), np.array(scene["cells"], object)
    if scene.get("last") or old.shape != new.shape:
        return {}
    return {"last": np.argwhere(old != new).tolist()}
