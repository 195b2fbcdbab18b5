"""What is in a cell, what a cook holds, and what happens when the one reaches for the other: small numbers and tables.

A cell's whole content is one *code*: floor, a counter and what lies there, a pile, the place of delivery, or a pot and its
status. The status of a pot counts down: 23 empty, 22 and 21 with one and two onions, 20 full, then the steps that it still
has to cook, 0 when the soup is ready. These are the rules of JaxMARL's Overcooked; rewards as there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# What a cook holds or what lies on a counter.
NOTHING, ONION, PLATE, SOUP = range(4)
ITEMS = ("nothing", "an onion", "a plate", "a soup")

# Codes of cells. Four of counters, by what lies there; 24 of pots, by their status.
FLOOR, COUNTER, ONION_PILE, PLATE_PILE, GOAL, POT = 0, 1, 5, 6, 7, 8
POT_EMPTY, POT_FULL, POT_READY = 23, 20, 0
NUM_CODES = POT + POT_EMPTY + 1
PLATE_ON_COUNTER = COUNTER + PLATE

ACTIONS = ("up", "down", "right", "left", "stay", "interact")
STAY, INTERACT = 4, 5

DELIVERY = 20.0
ONION_INTO_POT, PLATE_TAKEN, SOUP_TAKEN = 3.0, 3.0, 5.0
"""Shaped rewards. A plate from the pile pays only while it is useful, which is not for a table to know."""


class Outcome(NamedTuple):
    """What is in the cell and in the cook's hands afterwards, and what is paid: to both, and to the cook as shaped reward."""

    code: int
    held: int
    reward: float = 0.0
    shaped: float = 0.0


def reach(code: int, held: int) -> Outcome:
    """A cook who holds this reaches for a cell with this content."""
    if code >= POT:
        return _reach_for_pot(code, held)
    if (code, held) == (ONION_PILE, NOTHING):
        return Outcome(code, ONION)
    if (code, held) == (PLATE_PILE, NOTHING):
        return Outcome(code, PLATE)
    if (code, held) == (GOAL, SOUP):
        return Outcome(code, NOTHING, reward=DELIVERY)
    if COUNTER <= code < COUNTER + len(ITEMS):
        lying = code - COUNTER
        if NOTHING in (lying, held):  # put down, or take up
            return Outcome(COUNTER + held, lying) if lying != held else Outcome(code, held)
    return Outcome(code, held)


def _reach_for_pot(code: int, held: int) -> Outcome:
    status = code - POT
    if held == ONION and status > POT_FULL:
        return Outcome(code - 1, NOTHING, shaped=ONION_INTO_POT)
    if held == PLATE and status == POT_READY:
        return Outcome(POT + POT_EMPTY, SOUP, shaped=SOUP_TAKEN)
    return Outcome(code, held)


# The same as tables by ``code * 4 + held``; those of cooks who do something else are ``IDLE`` further, where nothing happens.
IDLE = NUM_CODES * len(ITEMS)
TAKES_PLATE = PLATE_PILE * len(ITEMS) + NOTHING
_OUTCOMES = [reach(code, held) for code in range(NUM_CODES) for held in range(len(ITEMS))]
_OUTCOMES += [Outcome(code, held) for code in range(NUM_CODES) for held in range(len(ITEMS))]
CODE_AFTER = np.array([outcome.code for outcome in _OUTCOMES])
HELD_AFTER = np.array([outcome.held for outcome in _OUTCOMES])
REWARD = np.array([outcome.reward for outcome in _OUTCOMES], np.float32)
SHAPED = np.array([outcome.shaped for outcome in _OUTCOMES], np.float32)
CHANGES_CELL = np.arange(len(_OUTCOMES)) % IDLE // len(ITEMS) != CODE_AFTER

# By code, what a step of time makes of it: full pots cook until they are ready.
COOKED = np.arange(NUM_CODES)
COOKED[POT + POT_READY + 1 : POT + POT_FULL + 1] -= 1
