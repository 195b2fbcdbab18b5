"""The floor from above: shelves, goals and robots."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from marl.data.task import AgentID

if TYPE_CHECKING:
    from marl.envs.games.warehouse.games import WarehouseGames

ARROWS = "^v<>"
PLACES = {"stay": 0, "up": 1, "left": 2, "right": 3, "load": 4}  # up drives forward, left and right turn


def warehouse_scene(env: WarehouseGames, env_id: int, viewer: AgentID | None) -> dict[str, Any]:
    """Wanted shelves are ``!``, others ``s``; robots are arrows, with a ``+`` when they carry a shelf. A viewer sees as far
    as its sensors reach, and the goals."""
    things = _shelves(env, env_id) + _robots(env, env_id)
    if viewer is not None:
        things = _within_reach(things, viewer, env.config.sensor_range)
    rows, columns = env.floor.place(env.floor.goals)
    goals: list[dict[str, Any]] = []
    for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
        goals.append({"name": "goal", "row": row, "column": column, "text": "", "sort": "goal"})
    return {
        "kind": "maze",
        "text": f"Warehouse, step {env.clock[env_id]}: {_told(env, env_id)}.",
        "lines": ["." * env.floor.columns] * env.floor.rows,
        "things": goals + things,
        "actions": PLACES,
    }


def _shelves(env: WarehouseGames, env_id: int) -> list[dict[str, Any]]:
    """All of them; one that is carried is drawn below its robot."""
    rows, columns = env.floor.place(env.shelf_cell[env_id])
    things: list[dict[str, Any]] = []
    for number, (row, column) in enumerate(zip(rows.tolist(), columns.tolist(), strict=True)):
        wanted = bool(env.wanted[env_id, number])
        name = f"wanted shelf {number}" if wanted else f"shelf {number}"
        things.append({"name": name, "row": row, "column": column, "text": "!" if wanted else "s", "sort": "food"})
    return things


def _robots(env: WarehouseGames, env_id: int) -> list[dict[str, Any]]:
    rows, columns = env.floor.place(env.robot_cell[env_id])
    things: list[dict[str, Any]] = []
    for number, name in enumerate(env.seat_names):
        text = ARROWS[int(env.direction[env_id, number])]
        if env.carried[env_id, number] >= 0:
            text += "+"
        place = {"row": int(rows[number]), "column": int(columns[number])}
        things.append({"name": name, **place, "text": text, "sort": "walker"})
    return things


def _within_reach(things: list[dict[str, Any]], viewer: AgentID, reach: int) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = []
    for own in [thing for thing in things if thing["name"] == viewer]:
        for thing in things:
            if max(abs(thing["row"] - own["row"]), abs(thing["column"] - own["column"])) <= reach:
                seen.append(thing)
    return seen


def _told(env: WarehouseGames, env_id: int) -> str:
    loaded = int((env.carried[env_id] >= 0).sum())
    return f"{env.config.n_agents} robots, {loaded} with a shelf; {int(env.wanted[env_id].sum())} shelves are wanted"


def warehouse_text(env: WarehouseGames, env_id: int) -> str:
    """A line per row: ``g`` goal, ``s`` shelf, ``!`` a wanted one, robots as arrows, and what they carry below."""
    lines = [["."] * env.floor.columns for _ in range(env.floor.rows)]
    for thing in warehouse_scene(env, env_id, None)["things"]:
        lines[thing["row"]][thing["column"]] = thing["text"][:1] or "g"
    return "\n".join(["".join(line) for line in lines] + [_told(env, env_id)])
