"""A tree in which every player decides at one information set only is a table of payoffs."""

from __future__ import annotations

from itertools import product

import numpy as np

from marl.gametheory.game import MatrixGame
from marl.gametheory.tree.response import expected_values
from marl.gametheory.tree.tree import Tree

MOST_CELLS = 4_096


def one_shot(tree: Tree) -> MatrixGame | None:
    """The table of such a game, up to 4,096 cells; None for any other."""
    # A player who never decides has no axis in a table, and one who decides twice needs plans instead of actions.
    if any(form.num_sets != 1 for form in tree.form.players):
        return None
    choices = [tree.choices(player) for player in range(tree.num_players)]
    counts = [own.stop - own.start for own in choices]
    if np.prod(counts) > MOST_CELLS:
        return None
    cells = []
    for cell in product(*map(range, counts)):
        strategy = np.zeros(tree.num_choices)
        for own, action in zip(choices, cell, strict=True):
            strategy[own.start + action] = 1.0
        cells.append(expected_values(tree, strategy))
    payoffs = np.array(cells).T.reshape(tree.num_players, *counts)
    names = tuple(tuple(tree.sets.labels[own]) for own in choices)
    return MatrixGame(payoffs, names, tree.players, tree.name)
