"""What an exact measurement costs, known before it is made.

How many information sets a group has follows from how many the groups before it have, so a recursion on whole numbers over
the blocks counts them all, level by level, without a single one being walked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from marl.gametheory.merged.blocks import Blocks
from marl.gametheory.merged.walk import BUDGET, check_budget
from marl.gametheory.tree.tree import Reals

REAL = 8  # bytes of a number
MOST = 1e18  # information sets of a group that are counted: long games have more than any number holds
ENTRY = 7 * REAL  # of an entry of the kernel, with its places
# CPU seconds on one core of a common machine, measured by benchmarks/exploitability.py: an order of magnitude, no promise.
PER_POSITION, PER_ENTRY = 4e-7, 2e-7
PER_PAIR, PER_PRODUCT, PER_PART = 8e-9, 5e-11, 1e-5


@dataclass(frozen=True)
class Cost:
    """Of one player's best response, or of several, one after the other."""

    positions: int  # where the game goes on
    information_sets: int
    pairs: int  # of an information set and a position that it may be in
    memory_bytes: int
    seconds: float

    @property
    def text(self) -> str:
        """In words."""
        return (
            f"{in_words(self.positions)} positions, {in_words(self.information_sets)} information sets, about "
            f"{self.seconds:.2g} s and "
            f"{self.memory_bytes / 1e6:,.0f} MB"
        )


def in_words(count: int) -> str:
    """All digits where somebody may read them, else how many there are."""
    if count < 10**12:
        return f"{count:,}"
    return f"{count:.1e}" if count < MOST else f"more than {MOST:.0e}"


def total(costs: Sequence[Cost]) -> Cost:
    """Of several best responses, one after the other."""
    return Cost(
        max(cost.positions for cost in costs),
        sum(cost.information_sets for cost in costs),
        sum(cost.pairs for cost in costs),
        max(cost.memory_bytes for cost in costs),
        sum(cost.seconds for cost in costs),
    )


def cost_of(blocks: Blocks, positions: int, budget: int = BUDGET) -> Cost:
    """What the walk over these blocks costs."""
    check_budget(budget)
    sizes, width = blocks.sizes.astype(np.float64), blocks.width.astype(np.float64)
    sets, pairs, products, held, parts = 0.0, 0.0, 0.0, 0.0, 0.0
    for rows in _levels(blocks):
        cells = float(rows @ sizes)
        sets, pairs = sets + float(rows.sum()), pairs + cells
        products += float(rows @ (sizes * width))
        # A level waits, cut to the budget, while those below it are walked; every piece begins its groups anew.
        held += min(cells, budget)
        pieces = max(1.0, float(rows @ width) / budget)
        parts += min(float(rows.sum()), pieces * int(np.count_nonzero(rows)))
    entries = len(blocks.layers.moves.chance)
    widest = float((sizes * width).max(initial=0))
    memory = REAL * (held + 2 * min(budget, pairs) + widest) + ENTRY * entries
    seconds = (
        PER_POSITION * positions + PER_ENTRY * entries + PER_PAIR * pairs + PER_PRODUCT * products + PER_PART * parts
    )
    return Cost(positions, int(sets), int(pairs), int(memory), float(seconds))


def _levels(blocks: Blocks) -> list[Reals]:
    """Per own decision: how many information sets each group has ``[G]``."""
    layers = blocks.layers
    rows = np.zeros(blocks.groups)
    rows[layers.group[layers.start > 0]] = 1.0
    # Entries of the same two groups add up: one for each action that joins them.
    entries = (np.ones(len(blocks.group)), (blocks.next, blocks.group))
    follows = sparse.csr_array(sparse.coo_array(entries, shape=(blocks.groups, blocks.groups)))
    found = []
    while rows.any():
        found.append(rows)
        rows = np.minimum(follows @ rows, MOST)
    return found
