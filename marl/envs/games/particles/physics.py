"""Round bodies on a plane: they accelerate, are slowed down, and push each other away where they touch.

One step of a body with velocity v, driven by the force f (all bodies have mass 1)::

    position += v * DT
    v         = v * (1 - DAMPING) + f * DT, then cut to the body's top speed

Two solid bodies at distance d, whose radii add up to r, push each other apart along the line between them with the force
``STIFFNESS * SOFTNESS * log(1 + exp((r - d) / SOFTNESS))``: nearly 0 apart, nearly ``STIFFNESS * (r - d)`` overlapping.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from marl.data.task import Ints
from marl.envs.games.particles.seeding import Doubles

DT, DAMPING = 0.1, 0.25
STIFFNESS, SOFTNESS = 100.0, 1e-3
# Beyond so many SOFTNESS of free space the push is below 1e-18: nothing that a double of the size of a velocity can hold.
FELT_WITHIN = 40


@dataclass(frozen=True)
class Body:
    """What one body is like. ``acceleration`` is the force of a full move; it means nothing for things that stand still."""

    radius: float
    solid: bool = False
    acceleration: float = 5.0
    top_speed: float = np.inf


class Bodies:
    """The bodies of ``E`` copies: first ``A`` movers, then things that stand still, ``M`` in all.

    Arrays end with the axis of the copies, so that every operation runs through long stretches of memory. They are doubles:
    touching bodies magnify rounding errors, and singles would part from the original within an episode.
    ``offset[:, a, m]`` is where body ``m`` is as seen from mover ``a``, ``distance[a, m]`` how far away.
    """

    def __init__(self, num_envs: int, movers: list[Body], standing: list[Body]) -> None:
        bodies = [*movers, *standing]
        self.num_movers, self.num_bodies, self.num_envs = len(movers), len(bodies), num_envs
        self.position: Doubles = np.zeros((2, len(bodies), num_envs))
        self.velocity: Doubles = np.zeros((2, len(movers), num_envs))
        self.acceleration = _per_lane([body.acceleration for body in movers], num_envs)  # [A, E]
        self.top_speed = _per_lane([body.top_speed for body in movers], num_envs)  # [A, E]
        self.radius = np.array([body.radius for body in bodies])
        self.touching_at = self.radius[: len(movers), None] + self.radius  # [A, M]
        solid = np.array([body.solid for body in bodies])
        pushes = solid[: len(movers), None] & solid & ~np.eye(len(movers), len(bodies), dtype=bool)
        self._touching_at = _per_lane(self.touching_at, num_envs).reshape(-1)
        self._felt_at = _per_lane(np.where(pushes, self.touching_at + FELT_WITHIN * SOFTNESS, -np.inf), num_envs)
        self._pushing = bool(pushes.any())
        self._limited = bool(np.isfinite(self.top_speed).any())
        self._mover_and_lane = self._cells()
        self.offset: Doubles = np.zeros((2, len(movers), len(bodies), num_envs))
        self.distance: Doubles = np.zeros((len(movers), len(bodies), num_envs))
        self._squares: Doubles = np.zeros_like(self.offset)

    def _cells(self) -> Ints:
        """For each cell of ``distance``: the cell of its mover in an array ``[A, E]``."""
        cells = np.arange(self.num_movers * self.num_envs).reshape(self.num_movers, 1, self.num_envs)
        return np.repeat(cells, self.num_bodies, axis=1).reshape(-1)

    def measure(self) -> None:
        """Bring ``offset`` and ``distance`` up to date with the positions."""
        position = self.position
        np.subtract(position[:, None], position[:, : self.num_movers, None], out=self.offset)
        np.multiply(self.offset, self.offset, out=self._squares)
        np.add(self._squares[0], self._squares[1], out=self.distance)
        np.sqrt(self.distance, out=self.distance)

    def move(self, direction: Doubles) -> None:
        """One step. ``direction`` ``[2, A, E]`` is overwritten; its length is the share of the full acceleration."""
        force = direction
        force *= self.acceleration
        if self._pushing:
            self._add_pushes(force)
        self.position[:, : self.num_movers] += self.velocity * DT
        self.velocity *= 1 - DAMPING
        force *= DT
        self.velocity += force
        if self._limited:
            self._cut_to_top_speed()
        self.measure()

    def _add_pushes(self, force: Doubles) -> None:
        """Few pairs touch, so only these are computed. Each pair of movers is there twice, once from either side."""
        pairs = np.flatnonzero(self.distance < self._felt_at)
        if not pairs.size:
            return
        distance = self.distance.reshape(-1)[pairs]
        overlap = np.logaddexp(0.0, (self._touching_at[pairs] - distance) / SOFTNESS) * SOFTNESS
        # Bodies in exactly the same place have no direction in which to push: none is pushed.
        strength = STIFFNESS * overlap / np.where(distance > 0, distance, 1.0)
        movers, shape = self._mover_and_lane[pairs], force.shape[1:]
        for axis in (0, 1):
            push = strength * self.offset[axis].reshape(-1)[pairs]
            force[axis] -= np.bincount(movers, push, minlength=shape[0] * shape[1]).reshape(shape)

    def _cut_to_top_speed(self) -> None:
        speed = np.sqrt(self.velocity[0] ** 2 + self.velocity[1] ** 2)
        too_fast = speed > self.top_speed
        if too_fast.any():
            self.velocity *= np.where(too_fast, self.top_speed / np.where(too_fast, speed, 1.0), 1.0)


def _per_lane(values: Doubles | list[float], num_envs: int) -> Doubles:
    """The same values for every copy: ``[..., E]``."""
    return np.repeat(np.asarray(values, np.float64)[..., None], num_envs, axis=-1)
