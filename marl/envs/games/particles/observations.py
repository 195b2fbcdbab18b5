"""What agents see of other bodies: all of them in a fixed order, or the nearest few."""

from __future__ import annotations

import numpy as np

from marl.data.task import Floats, Ints
from marl.envs.games.particles.physics import Bodies
from marl.envs.games.particles.seeding import Doubles


class Sight:
    """How some movers see some bodies: mover ``movers[i]`` looks at the bodies ``seen[i]``.

    With ``nearest`` they see at most so many, the nearest first; slots that no body fills stay 0. ``slots`` is the number
    of bodies for which there is room, ``filled`` how many of them are ever filled.
    """

    def __init__(self, bodies: Bodies, movers: Ints, seen: Ints, nearest: int | None) -> None:
        self.bodies = bodies
        self.cells = movers[:, None] * bodies.num_bodies + seen  # [n, K] in the flat [A * M]
        self.seen = seen
        self.slots = seen.shape[1] if nearest is None else nearest
        self.filled = min(self.slots, seen.shape[1])
        self.by_distance = nearest is not None
        self.order: Ints = np.zeros((len(movers), 0, bodies.num_envs), np.int64)

    def look(self) -> Doubles:
        """``[2, n, filled, E]``: where the bodies are, as seen from each mover."""
        width = self.bodies.num_envs
        offset = self.bodies.offset.reshape(2, -1, width)[:, self.cells]
        if not self.by_distance:
            return offset
        distance = self.bodies.distance.reshape(-1, width)[self.cells]
        self.order = np.argsort(distance, axis=1)[:, : self.filled]
        return np.take_along_axis(offset, self.order[None], axis=2)

    def who(self) -> Ints:
        """``[n, filled, E]``: which bodies fill the slots, as of the last ``look``; only where the nearest are seen."""
        return np.take_along_axis(self.seen[..., None], self.order, axis=1)


def others(movers: Ints, among: Ints) -> Ints:
    """``[n, ...]``: for each of the movers, everybody in ``among`` except itself; it has to be in there or in nobody's way."""
    rows: list[list[int]] = []
    for mover in movers:
        rows.append([body for body in among if body != mover])
    return np.array(rows, np.int64).reshape(len(movers), -1)  # also where nobody else is there: [n, 0]


def write_slots(sheet: Floats, column: int, values: Doubles) -> None:
    """Put ``[2, n, slots, E]`` into the columns of ``[n, width, E]`` from ``column`` on: x and y of each slot."""
    _, rows, slots, env_ids = values.shape
    place = sheet[:, column : column + 2 * slots].reshape(rows, slots, 2, env_ids)
    place[:] = values.transpose(1, 2, 0, 3)
