"""A prey for tag that is not learned: it looks a few steps ahead and takes the safest of its five moves.

Each move is held for ``STEPS`` steps by the rules of ``bodies.py``, without a top speed and while nobody else moves. Where
that ends, the danger is

    sum over adversaries of 1 / (gap to it) + CROWDED * sum over obstacles of 1 / (gap to it) + OUTSIDE * (way beyond SAFE)

where a gap is the distance between the rims of two bodies, at least ``NARROW``.
As a policy: ``scripted: marl.envs.games.particles.scripted_prey:flee``. It is a rule for the observation of the only agent of
tag with the usual three adversaries and two obstacles, of ours or of ``mpe2``.
"""

from __future__ import annotations

import numpy as np

from marl.data.rules import batched_rule
from marl.data.task import Floats, Ints
from marl.envs.games.particles.games import DIRECTIONS
from marl.envs.games.particles.physics import DAMPING, DT
from marl.envs.games.particles.tag import ADVERSARY, AGENT, OBSTACLE
from marl.errors import ConfigError

OBSTACLES, ADVERSARIES = 2, 3
WIDTH = 4 + 2 * OBSTACLES + 2 * ADVERSARIES  # velocity, position, and where the others are as seen from here
STEPS = 4
NARROW, CROWDED, OUTSIDE, SAFE = 0.05, 0.1, 10.0, 0.7

# After step k the velocity is KEPT ** k * v + (KEPT ** 0 + ... + KEPT ** (k - 1)) * acceleration * DT.
KEPT = (1 - DAMPING) ** np.arange(1, STEPS + 1)
COASTED = DT * KEPT.sum()  # the way per velocity at the start
DRIVEN = (
    DT * DT * AGENT.acceleration * np.sum((1 - KEPT) / DAMPING) * DIRECTIONS.T
)  # [5, 2]: the way by the move itself
TOUCHING_AT = AGENT.radius + np.repeat([OBSTACLE.radius, ADVERSARY.radius], [OBSTACLES, ADVERSARIES])
WEIGHT = np.repeat([CROWDED, 1.0], [OBSTACLES, ADVERSARIES])


@batched_rule
def flee(obs: Floats) -> Ints:
    """The move (nothing, left, right, down, up) after which the danger is least; of one observation or of many rows."""
    if obs.shape[-1:] != (WIDTH,):
        raise ConfigError(
            f"the fleeing prey got an observation of shape {obs.shape[-1:]}; expected ({WIDTH},): tag with num_good 1, "
            f"num_adversaries {ADVERSARIES}, num_obstacles {OBSTACLES} and everybody in sight."
        )
    numbers = obs.astype(np.float64)
    way = COASTED * numbers[..., None, 0:2] + DRIVEN  # [..., 5, 2]
    others = numbers[..., 4:].reshape(*obs.shape[:-1], 1, OBSTACLES + ADVERSARIES, 2)
    offset = others - way[..., None, :]  # [..., 5, bodies, 2]
    gap = np.maximum(np.sqrt((offset * offset).sum(axis=-1)) - TOUCHING_AT, NARROW)
    beyond = np.maximum(np.abs(numbers[..., None, 2:4] + way) - SAFE, 0.0).sum(axis=-1)
    danger = (WEIGHT / gap).sum(axis=-1) + OUTSIDE * beyond
    return np.asarray(danger.argmin(axis=-1))
