"""A kitchen from above, for pages and for videos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from marl.data.task import AgentID, Array
from marl.envs.games.overcooked.rules import (
    COUNTER,
    FLOOR,
    GOAL,
    ITEMS,
    NOTHING,
    ONION_PILE,
    PLATE_PILE,
    POT,
    POT_EMPTY,
    POT_FULL,
    POT_READY,
)  # fmt: skip

if TYPE_CHECKING:
    from marl.envs.games.overcooked.kitchens import OvercookedGames

PLACES = {"up": 0, "down": 1, "right": 2, "left": 3, "stay": 4}
ARROWS = "↑↓→←"
LETTERS = " ops"  # what is held or lies about: nothing, onion, plate, soup
PILES = {ONION_PILE: ("onions", "O"), PLATE_PILE: ("plates", "B")}
PIXELS = 32  # per cell of a picture
COLOURS = {
    FLOOR: (240, 236, 226),
    COUNTER: (150, 120, 90),
    ONION_PILE: (215, 170, 60),
    PLATE_PILE: (200, 205, 215),
    GOAL: (90, 160, 100),
    POT: (60, 60, 66),
}
ITEM_COLOURS = ((0, 0, 0), (235, 195, 80), (250, 250, 250), (205, 90, 50))
COOK_COLOURS = ((60, 110, 200), (60, 160, 110))


def kitchen_scene(env: OvercookedGames, env_id: int, viewer: AgentID | None) -> dict[str, Any]:
    codes = env.cells[:, env_id].tolist()
    width = env.layout.width
    floor = "".join(" " if code == FLOOR else "#" for code in codes)
    things = [_thing(code, *divmod(cell, width)) for cell, code in enumerate(codes) if code not in (FLOOR, COUNTER)]
    told = []
    for cook, agent in enumerate(env.seat_names):
        row, column = divmod(int(env.places[cook, env_id]), width)
        held, arrow = int(env.held[cook, env_id]), ARROWS[env.facing[cook, env_id]]
        things.append({"name": agent, "row": row, "column": column, "text": (arrow + LETTERS[held]).strip()})
        told.append(f"{agent} in row {row}, column {column} holds {ITEMS[held]}")
    when = f"step {env.clock[env_id]} of {env.config.max_steps}, {env.soups[env_id]} soups delivered"
    return {
        "kind": "maze",
        "text": f"Overcooked, {when}: {'; '.join(told)}.",
        "lines": [floor[start : start + width] for start in range(0, len(floor), width)],
        "things": things,
        "actions": {} if viewer is None else PLACES,
    }


def _thing(code: int, row: int, column: int) -> dict[str, Any]:
    """What stands or lies in a cell; its name is shown where the pointer rests."""
    place = {"row": row, "column": column}
    if code >= POT:
        name, text = _pot(code - POT)
        return {"name": name, "text": text, "sort": "goal", **place}
    if code == GOAL:
        return {"name": "delivery", "sort": "exit", **place}
    name, text = PILES.get(code) or (ITEMS[code - COUNTER], LETTERS[code - COUNTER])
    return {"name": name, "text": text, "sort": "food", **place}


def _pot(status: int) -> tuple[str, str]:
    if status > POT_FULL:
        onions = POT_EMPTY - status
        return f"pot with {onions} onions", "+" * onions
    if status == POT_READY:
        return "pot, soup is ready", "s"
    return f"pot, cooks for {status} steps", str(status)


def kitchen_picture(env: OvercookedGames, env_id: int) -> Array:
    """Height x width x 3, uint8. Cooks are squares with a dark edge where they face; what they hold is in their middle."""
    height, width = env.layout.height, env.layout.width
    codes = env.cells[:, env_id]
    ground = np.minimum(codes, POT)
    lying = (codes > COUNTER) & (codes < ONION_PILE)
    ground[lying] = COUNTER
    colours = np.array([COLOURS.get(code, (0, 0, 0)) for code in range(POT + 1)], np.uint8)
    picture = colours[ground].reshape(height, width, 3).repeat(PIXELS, axis=0).repeat(PIXELS, axis=1)
    for cell in np.flatnonzero(lying).tolist():
        _square(picture, cell, width, 10, ITEM_COLOURS[codes[cell] - COUNTER])
    for cell in env.layout.pots.tolist():
        _fill_pot(picture, cell, width, int(codes[cell]) - POT)
    for cook, colour in enumerate(COOK_COLOURS):
        cell, held = int(env.places[cook, env_id]), int(env.held[cook, env_id])
        body = _square(picture, cell, width, 4, colour)
        edges = (body[:4], body[-4:], body[:, -4:], body[:, :4])
        edges[env.facing[cook, env_id]][:] = 30
        if held != NOTHING:
            _square(picture, cell, width, 11, ITEM_COLOURS[held])
    return picture


def _fill_pot(picture: Array, cell: int, width: int, status: int) -> None:
    """A bar per onion; a soup that is ready fills the pot."""
    soup = ITEM_COLOURS[3]
    if status == POT_READY:
        _square(picture, cell, width, 6, soup)
        return
    inside = _square(picture, cell, width, 6, COLOURS[POT])
    for onion in range(min(POT_EMPTY - status, 3)):
        inside[:, 7 * onion : 7 * onion + 5] = ITEM_COLOURS[1] if status >= POT_FULL else soup


def _square(picture: Array, cell: int, width: int, margin: int, colour: tuple[int, int, int]) -> Array:
    """Paint a square within a cell; returns that part of the picture."""
    row, column = divmod(cell, width)
    top, left = row * PIXELS + margin, column * PIXELS + margin
    size = PIXELS - 2 * margin
    part = picture[top : top + size, left : left + size]
    part[:] = colour
    return part
