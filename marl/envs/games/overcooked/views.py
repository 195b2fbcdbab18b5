"""What both cooks see: 26 numbers per cell, held in arrays that stay and are painted only where something has changed.

Channels, as in JaxMARL: 0 the cook itself, 1 the other; 2-5 where it faces (up, down, right, left), 6-9 where the other does;
10 pots, 11 empty counters, 12 onion piles, 14 plate piles, 15 delivery; 16 onions in a pot that does not cook yet, 18 onions
in a soup, 20 steps a pot still cooks, 21 soups that are ready, 22 plates, 23 onions (on counters or in hands); 25 everywhere 1
in the last steps of an episode. 13, 17, 19 and 24 are for tomatoes, of which there are none.

What stands in a cell is one of ``NUM_LOOKS`` *looks*: a code of ``rules.py``, or a cook who faces somewhere and holds
something; each of them once more for the last steps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from marl.data.task import Floats, Ints
from marl.envs.games.overcooked.rules import (
    COUNTER,
    GOAL,
    ITEMS,
    NUM_CODES,
    ONION,
    ONION_PILE,
    PLATE,
    PLATE_PILE,
    POT,
    POT_EMPTY,
    POT_FULL,
    POT_READY,
    SOUP,
)  # fmt: skip

CHANNELS = 26
MOST_ONIONS = 3
HOW_URGENT = 40
"""The last channel is 1 while fewer steps than this remain."""

COOK = NUM_CODES  # first look of the cook itself; that of the other is 16 further
OTHER = 4 * len(ITEMS)
URGENT = COOK + 2 * OTHER  # added to a look in the last steps
NUM_LOOKS = 2 * URGENT

BOUNDS = np.ones(CHANNELS, np.uint8)
"""The largest number of each channel."""
BOUNDS[[16, 18, 20]] = MOST_ONIONS, MOST_ONIONS, POT_FULL - 1


def _with_item(row: NDArray[np.uint8], item: int) -> NDArray[np.uint8]:
    if item == SOUP:
        row[[18, 21]] = MOST_ONIONS, 1
    elif item in (PLATE, ONION):
        row[22 if item == PLATE else 23] = 1
    return row


def _pot_row(row: NDArray[np.uint8], status: int) -> NDArray[np.uint8]:
    row[10] = 1
    if status >= POT_FULL:
        row[16] = POT_EMPTY - status
    else:
        row[[18, 20, 21]] = MOST_ONIONS, status, status == POT_READY
    return row


def _cell_row(code: int) -> NDArray[np.uint8]:
    """What a cell without a cook shows."""
    row = np.zeros(CHANNELS, np.uint8)
    if code >= POT:
        return _pot_row(row, code - POT)
    channel = {COUNTER: 11, ONION_PILE: 12, PLATE_PILE: 14, GOAL: 15}.get(code)
    if channel is not None:
        row[channel] = 1
    elif code > COUNTER:
        _with_item(row, code - COUNTER)
    return row


def _cook_row(other: int, facing: int, item: int) -> NDArray[np.uint8]:
    row = np.zeros(CHANNELS, np.uint8)
    row[[other, 2 + 4 * other + facing]] = 1
    return _with_item(row, item)


def _all_rows() -> NDArray[np.uint8]:
    """``[NUM_LOOKS, 26]``."""
    rows = [_cell_row(code) for code in range(NUM_CODES)]
    for other in range(2):
        for facing in range(4):
            rows += [_cook_row(other, facing, item) for item in range(len(ITEMS))]
    calm = np.array(rows)
    urgent = calm.copy()
    urgent[:, 25] = 1
    return np.concatenate([calm, urgent])


ROWS = _all_rows()
SCALED_ROWS = (ROWS / BOUNDS).astype(np.float32)


def _in_one_piece(rows: NDArray[np.uint8] | Floats) -> NDArray[np.void]:
    """``[n, 26]`` as n things that numpy moves whole: several times faster than 26 numbers each."""
    return rows.view(f"V{rows.itemsize * CHANNELS}")[:, 0]


class Views:
    """``obs`` ``[E, 2, C, 26]`` of both cooks; ``state`` ``[E, C, 26]``, the first cook's with numbers from 0 to 1."""

    def __init__(self, num_envs: int, num_cells: int) -> None:
        self.num_cells = num_cells
        self.obs = np.zeros((num_envs, 2, num_cells, CHANNELS), np.uint8)
        self.state = np.zeros((num_envs, num_cells, CHANNELS), np.float32)
        self._obs_rows = _in_one_piece(self.obs.reshape(-1, CHANNELS))
        self._state_rows = _in_one_piece(self.state.reshape(-1, CHANNELS))
        self._looks = _in_one_piece(ROWS)
        self._scaled_looks = _in_one_piece(SCALED_ROWS)

    def paint(self, firsts: Ints, cells: Ints, looks: Ints, second: Ints) -> None:
        """Show ``looks[i]`` to the first cook and ``second[i]`` to the other one, in the cell ``cells[i]`` of an env.

        ``firsts`` are the envs, each times the number of cells.
        """
        state_rows = firsts + cells
        obs_rows = state_rows + firsts
        self._obs_rows[obs_rows] = self._looks.take(looks)
        self._obs_rows[obs_rows + self.num_cells] = self._looks.take(second)
        self._state_rows[state_rows] = self._scaled_looks.take(looks)

    def hurry(self, env_ids: Ints) -> None:
        """The last steps of these envs' episodes begin."""
        self.obs[env_ids, :, :, 25] = 1
        self.state[env_ids, :, 25] = 1.0
