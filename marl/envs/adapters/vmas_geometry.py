"""The geometry of contacts between round bodies, lines and boxes, for many pairs and copies in a few array calls.

It gives the same bits as VMAS, which asks for the same operations on every number in the same order; only the calls are fewer
and, in numpy, half as dear as torch's. What torch rounds in a way of its own (norms, sines, logarithms) is asked from torch.
Vectors are planes, ``[2, ...]``: x and y of all pairs and copies lie apart, so a sum over the two axes is one addition.
Callers switch numpy's warnings off: lines that are parallel divide by 0, and the answer is not used.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch

from marl.data.task import Array

TINY = 1e-6
"""Bodies nearer than this do not push each other: they have no direction."""
NO_LENGTH = np.float32(1e-8)
"""Stands for a length of 0 where it divides."""


class Segments(NamedTuple):
    """Straight lines: centre and unit direction ``[2, ...]``, half the length ``[..., 1]``."""

    centre: Array
    direction: Array
    half: Array

    def ends(self) -> tuple[Array, Array]:
        along = self.half * self.direction
        return self.centre + along, self.centre - along


class Hardness(NamedTuple):
    """How bodies push each other: the force per overlap, and the softness of its beginning."""

    strength: float
    margin: float


def length(vectors: Array) -> Array:
    """Euclidean lengths of ``[2, ...]``; torch rounds norms over a contiguous last axis in a way of its own."""
    side_by_side = torch.from_numpy(np.ascontiguousarray(np.moveaxis(vectors, 0, -1)))
    norm: Array = torch.linalg.vector_norm(side_by_side, dim=-1).numpy()
    return norm


def dot(a: Array, b: Array) -> Array:
    x, y = a * b
    total: Array = x + y
    return total


def cross(a: Array, b: Array) -> Array:
    product: Array = a[0] * b[1] - a[1] * b[0]
    return product


def direction(rotation: Array) -> Array:
    angles = torch.from_numpy(rotation)
    return torch.stack((angles.cos(), angles.sin())).numpy()


class Rims:
    """The four sides of boxes, ``[2, 4, K, E]``, and what only lines ask of them."""

    def __init__(self, walls: Segments) -> None:
        self.walls = walls

    @cached_property
    def ends(self) -> Array:
        """``[2, 2 ends, 4, K, E]``."""
        return np.stack(self.walls.ends(), axis=1)

    @cached_property
    def along(self) -> Array:
        """From the one end of each side to the other."""
        difference: Array = self.ends[:, 1] - self.ends[:, 0]
        return difference


def sides(centre: Array, rotation: Array, half_length: Array, half_width: Array) -> Rims:
    """The four sides of boxes: the two ends first, then the two long sides."""
    along = direction(rotation)
    across = direction(rotation + np.float32(math.pi / 2))
    to_end = along * half_length
    to_side = across * half_width
    centres = np.stack((centre + to_end, centre - to_end, centre + to_side, centre - to_side), axis=1)
    directions = np.stack((across, across, along, along), axis=1)
    halves = np.stack((half_width, half_width, half_length, half_length))
    return Rims(Segments(centres, directions, halves))


def nearest_on(lines: Segments, point: Array) -> Array:
    """The point of each line that is nearest to ``point``."""
    shift = dot(lines.centre - point, lines.direction)
    reach = np.minimum(np.abs(shift), lines.half)
    reach *= np.sign(shift)
    found: Array = lines.centre - reach * lines.direction
    return found


def nearest_on_box(rims: Rims, point: Array) -> Array:
    """The point of the rim of each box that is nearest to ``point`` ``[2, K, E]``."""
    point = point[:, None]
    found = nearest_on(rims.walls, point)
    return _nearest(length(point - found), found)[1]


def nearest_of_box_and_line(rims: Rims, lines: Segments) -> tuple[Array, Array]:
    """The two points, one on the rim of each box and one on each line, that are nearest to each other; ``[2, K, E]``."""
    one_end, other_end = lines.ends()
    # Candidates are the ends of each side with what is nearest on the line, and the ends of the line with what is nearest
    # on each side: [2 of the box, 2 of the line; 4 candidates; 4 sides; K; E].
    both = np.empty((4, 4, *rims.ends.shape[2:]), np.float32)
    of_box, of_line = both[:2], both[2:]
    of_box[:, :2] = rims.ends
    of_line[:, :2] = nearest_on(_with_axes(lines, 2), rims.ends)
    of_line[:, 2], of_line[:, 3] = one_end[:, None], other_end[:, None]
    of_box[:, 2:] = nearest_on(_with_axes(rims.walls, 1), of_line[:, 2:])
    distance, chosen = _nearest(length(of_box - of_line), both)
    meets, where = _crossing(rims, one_end[:, None], (other_end - one_end)[:, None])
    np.copyto(chosen[:2], where, where=meets)
    np.copyto(chosen[2:], where, where=meets)
    distance[meets] = 0.0
    _, chosen = _nearest(distance, chosen)
    return chosen[:2], chosen[2:]


def _with_axes(lines: Segments, count: int) -> Segments:
    """With axes of length 1 in front of the pairs."""
    shape = (2, *(1,) * count, *lines.centre.shape[1:])
    return Segments(lines.centre.reshape(shape), lines.direction.reshape(shape), lines.half)


def _crossing(rims: Rims, begin: Array, line: Array) -> tuple[Array, Array]:
    """Whether each side and the line cross, and where; parallel ones divide by 0, which is in no range."""
    corner = rims.ends[:, 0]
    between = begin - corner
    turn = cross(rims.along, line)
    of_wall = cross(between, line) / turn
    of_line = cross(between, rims.along) / turn
    meets = (of_wall >= 0) & (of_wall <= 1) & (of_line >= 0) & (of_line <= 1)
    return meets, corner + of_wall * rims.along


def _nearest(distance: Array, points: Array) -> tuple[Array, Array]:
    """The nearest along the first axis of ``distance``, which is the second of ``points``; the first of equals."""
    least, found = distance[0], points[:, 0]
    for i in range(1, len(distance)):
        nearer = distance[i] < least
        found = np.where(nearer, points[:, i], found)
        least = np.where(nearer, distance[i], least)
    return least, found


def inner_point(outside: Array, surface: Array, centre: Array) -> tuple[Array, Array]:
    """Where a solid box pushes from, and how far that is below its surface: it lies behind the point of contact."""
    inwards = surface - outside
    gap = length(inwards)
    depth = dot(inwards, centre - surface) / gap
    behind = inwards / gap * depth
    touching = gap == 0
    np.copyto(behind, surface, where=touching)
    depth[touching] = 0.0
    return surface + behind, np.abs(depth)


def push(first: Array, second: Array, reach: Array, hardness: Hardness, kinds: list[int]) -> Array:
    """The force on ``first`` away from ``second`` where they are nearer than ``reach``: soft, as deep as they overlap.

    ``kinds`` are the numbers of pairs that VMAS works out in one call."""
    force: Array = first - second
    distance = length(force)
    depth = _soft((reach - distance) / hardness.margin, kinds)
    depth *= hardness.margin
    force *= hardness.strength
    force /= np.where(distance > 0, distance, NO_LENGTH)
    force *= depth
    np.copyto(force, 0.0, where=(distance < TINY) | (distance > reach))
    return force


def _soft(overlap: Array, kinds: list[int]) -> Array:
    """log(1 + exp(overlap)) of ``[pairs, E]``."""
    # torch takes the last few numbers of a call one by one, which rounds logarithms otherwise: the same calls, the same bits.
    soft, zero, first = np.empty_like(overlap), torch.zeros(()), 0
    for count in filter(None, kinds):
        part = np.ascontiguousarray(overlap[first : first + count].T)
        soft[first : first + count] = torch.logaddexp(zero, torch.from_numpy(part)).numpy().T
        first += count
    return soft


def friction(velocity: Array, most: Array, mass: Array, dt: float) -> Array:
    """The force against a movement ``[axes, K, E]``; it never turns the movement round."""
    speed = length(velocity)
    resting = speed == 0
    stopping = np.abs(velocity) / dt * mass
    force: Array = -(velocity / np.where(resting, NO_LENGTH, speed)) * np.minimum(most, stopping)
    np.copyto(force, 0.0, where=resting)
    return force


def with_at_most(vectors: Array, longest: float) -> Array:
    """Vectors ``[axes, E]``, those that are longer than ``longest`` shortened to it."""
    norm = length(vectors)
    return np.where(norm > longest, vectors / norm * longest, vectors)
