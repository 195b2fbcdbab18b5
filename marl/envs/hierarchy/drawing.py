"""The scene of an env under command: the base env's own, with the goals that its agents were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from marl.data.task import AgentID
from marl.envs.branching import scene_inside
from marl.envs.hierarchy.goals import FeatureGoals
from marl.envs.hierarchy.positions import Post


def commanded_scene(base: object, posts: Sequence[Post], viewer: AgentID | None) -> dict[str, Any] | None:
    """None where the base env has no scene. A post sees what the first base agent below it sees."""
    watching = [post for post in posts if post.agent == viewer]
    inner = viewer
    if watching:
        inner = watching[0].members[0]
    found = scene_inside(base, inner)
    if found is None:
        return None
    scene = dict(found)
    if watching and not watching[0].is_worker:
        scene["actions"] = {}  # it sets goals: the places of the base env are not its actions
    for post in posts:
        _tell_goal(scene, base, post)
    return scene


def _tell_goal(scene: dict[str, Any], base: object, post: Post) -> None:
    """In words; where a goal is a place of a maze, it is also drawn there."""
    if post.life is None or post.commander is None:
        return  # nobody has set it a goal
    scene["text"] += f" {post.agent} was given goal {post.life.choice}."
    find = getattr(base, "goal_place", None)
    if find is None or not isinstance(post.goals, FeatureGoals):
        return
    for start in post.life.start:
        place = find(post.goals.wanted_values(post.life.choice, start))
        if place is not None:
            row, column = place
            goal = {"name": f"goal of {post.agent}", "row": row, "column": column, "text": post.name[0], "sort": "goal"}
            scene["things"] = [*scene["things"], goal]
