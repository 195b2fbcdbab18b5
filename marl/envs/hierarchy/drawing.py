"""The scene of an env under command: the base env's own, with the goals that its agents were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marl.data.task import AgentID
from marl.envs.branching import scene_inside
from marl.envs.hierarchy.goals import Changes
from marl.envs.hierarchy.positions import Post


def commanded_scene(base: object, posts: Sequence[Post], viewer: AgentID | None) -> dict[str, Any] | None:
    """None where the base env has no scene. A post sees what the first base agent below it sees."""
    post = next((post for post in posts if viewer == post.agent), None)
    inner = viewer if post is None else post.members[0]
    found = scene_inside(base, inner)
    if found is None:
        return None
    scene = dict(found)
    is_commander = post is not None and not post.is_worker
    if is_commander:
        scene["actions"] = {}  # it sets goals: the places of the base env are not its actions
    told: list[str] = []
    for commanded in posts:
        if commanded.life is not None and commanded.commander is not None:
            told.append(f"{commanded.agent} was given goal {commanded.life.choice}")
            _mark_goals(scene, base, commanded)
    if told:
        scene["text"] = f"{scene['text']} {'; '.join(told)}."
    return scene


def _mark_goals(scene: dict[str, Any], base: object, post: Post) -> None:
    """Where a goal is a place of a maze, it is drawn there."""
    find = getattr(base, "goal_place", None)
    if find is None or post.life is None or not isinstance(post.goals, Changes):
        return
    for start in post.life.start:
        place = find(post.goals.wanted_values(post.life.choice, start))
        if place is not None:
            row, column = place
            goal = {"name": f"goal of {post.agent}", "row": row, "column": column, "text": post.name[0], "sort": "goal"}
            scene["things"] = [*scene["things"], goal]
