"""What an agent sees as plain text: the rules, the present position as the agent knows it, and what it may do.

A text is made of the scene that the agent itself would be drawn (``marl.envs.scenes``), so what the rules hide stays hidden.
It works for all envs with scenes; cards, tables of payoffs and boards are told in full.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from marl.data.task import AgentID
from marl.envs.batched import BatchedEnv
from marl.envs.games.boards.drawing import PIECES
from marl.envs.rules import rules_of
from marl.envs.scenes import Scene, scene_of

MOST_PAYOFFS = 100  # combinations of actions that are listed


@dataclass(frozen=True)
class TextView:
    """Everything that a reading player needs for one decision."""

    rules: str
    seen: str
    actions: dict[str, int]  # legal ones, by name


def text_of(env: BatchedEnv, env_id: int, viewer: AgentID, legal: Sequence[int]) -> TextView:
    """What ``viewer`` sees in one copy of the env, with these legal actions."""
    scene = scene_of(env, env_id, viewer) or {"kind": "text", "text": ""}
    tell = TOLD.get(scene["kind"], _sentence)
    seen = f"You are {viewer}.\n{tell(scene, viewer)}"
    names = env.action_names(viewer)
    actions: dict[str, int] = {}
    for action in map(int, legal):
        name = names[action] if names else str(action)
        if name in actions:  # of an own table, whose names need not be different
            name = f"{name} ({action})"
        actions[name] = action
    return TextView(rules_of(env), seen, actions)


def _sentence(scene: Scene, viewer: AgentID) -> str:
    del viewer
    return str(scene["text"])


def _cards(scene: Scene, viewer: AgentID) -> str:
    """The sentence of the table, and who has paid how much."""
    del viewer
    lines = [str(scene["text"])]
    for player in scene["players"]:
        if player["paid"] is not None:
            lines.append(f"{player['name']} has paid {player['paid']:g} into the pot.")
    return "\n".join(lines)


def _board(scene: Scene, viewer: AgentID) -> str:
    """A line per row, a dot for a cell without a piece that the viewer knows of."""
    lines = [str(scene["text"])]
    if viewer == scene["turn"] and scene["piece"] is not None and _of_players(scene["cells"]):
        lines.append(
            f"Your pieces are {scene['piece']}. Columns are named a, b, ... from the left, rows 1, 2, ... from the top."
        )
    for row in scene["cells"]:
        lines.append(" ".join(piece or "." for piece in row))
    return "\n".join(lines)


def _of_players(cells: Sequence[Sequence[str | None]]) -> bool:
    """Whether all pieces are somebody's: the matches of nim are not."""
    return all(piece in (None, *PIECES) for row in cells for piece in row)


def _matrix(scene: Scene, viewer: AgentID) -> str:
    """The payoffs of every combination of actions, as far as they can be listed."""
    del viewer
    players, moves = scene["players"], scene["moves"]
    payoffs = np.array(scene["payoffs"], np.float64)  # by player, then by everybody's action
    lines = [str(scene["text"])]
    for played in list(np.ndindex(payoffs.shape[1:]))[:MOST_PAYOFFS]:
        choices = ", ".join(f"{name} {moves[i][played[i]]}" for i, name in enumerate(players))
        paid = ", ".join(f"{name} {payoffs[(i, *played)]:g}" for i, name in enumerate(players))
        lines.append(f"{choices}: {paid}")
    return "\n".join(lines)


TOLD: dict[str, Callable[[Scene, AgentID], str]] = {"cards": _cards, "board": _board, "matrix": _matrix}
"""How scenes are told, by their kind; others by their sentence."""
