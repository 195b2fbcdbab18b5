"""How often a walker who moves at random finds the exit of a maze without wind, computed and not drawn."""

from __future__ import annotations

import numpy as np

from marl.envs.games.windy_maze import WindyMaze


def luck(maze: WindyMaze) -> float:
    """The share of episodes that end at the exit where all moves are equally likely in every step."""
    assert maze.config.wind == 0
    out, cells = maze.cell_of[maze.exit], len(maze.places)
    moves = np.zeros((cells, cells))  # from cell to cell, in one step
    for cell, leads in enumerate(maze.leads):
        for other in leads:
            moves[cell, other] += 1 / len(leads)
    moves[out] = 0
    moves[out, out] = 1  # who is there stays there
    chances = np.zeros(cells)
    chances[maze.cell_of[maze.start]] = 1
    for _ in range(maze.config.limit):
        chances = chances @ moves
    return float(chances[out])
