"""The geometry of contacts between round bodies, lines and boxes, for many pairs and copies in a few tensor calls.

It gives the same bits as VMAS, which asks for the same operations on every number in the same order; only the number of calls
is smaller. Vectors are planes, ``[2, ...]``: x and y of all pairs and copies lie apart, so a sum over the two axes is one
addition. A length is the exception: torch rounds a norm over a contiguous last axis in a way of its own, so `length` asks
for exactly that.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

TINY = 1e-6
"""Bodies nearer than this do not push each other: they have no direction."""
NO_SPEED = 1e-8
"""Stands for a length of 0 where it divides."""


class Segments(NamedTuple):
    """Straight lines: centre and unit direction ``[2, ...]``, half the length ``[..., 1]``."""

    centre: Tensor
    direction: Tensor
    half: Tensor

    def ends(self) -> tuple[Tensor, Tensor]:
        along = self.half * self.direction
        return self.centre + along, self.centre - along


class Hardness(NamedTuple):
    """How bodies push each other: the force per overlap, the softness of its beginning, and a 0 on their device."""

    strength: float
    margin: float
    zero: Tensor


def length(vectors: Tensor) -> Tensor:
    """Euclidean lengths of ``[2, ...]``."""
    norm: Tensor = torch.linalg.vector_norm(vectors.movedim(0, -1).contiguous(), dim=-1)
    return norm


def dot(a: Tensor, b: Tensor) -> Tensor:
    x, y = (a * b).unbind(0)
    return x + y


def cross(a: Tensor, b: Tensor) -> Tensor:
    (ax, ay), (bx, by) = a.unbind(0), b.unbind(0)
    return ax * by - ay * bx


def direction(rotation: Tensor) -> Tensor:
    return torch.stack((rotation.cos(), rotation.sin()))


class Rims:
    """The four sides of boxes, ``[2, 4, K, E]``, and what only lines ask of them."""

    def __init__(self, walls: Segments) -> None:
        self.walls = walls

    @cached_property
    def ends(self) -> Tensor:
        """``[2, 2 ends, 4, K, E]``."""
        return torch.stack(self.walls.ends(), dim=1)

    @cached_property
    def along(self) -> Tensor:
        """From the one end of each side to the other."""
        return self.ends[:, 1] - self.ends[:, 0]


def sides(centre: Tensor, rotation: Tensor, half_length: Tensor, half_width: Tensor) -> Rims:
    """The four sides of boxes: the two ends first, then the two long sides."""
    along = direction(rotation)
    across = direction(rotation + math.pi / 2)
    to_end = along * half_length
    to_side = across * half_width
    centres = torch.stack((centre + to_end, centre - to_end, centre + to_side, centre - to_side), dim=1)
    directions = torch.stack((across, across, along, along), dim=1)
    halves = torch.stack((half_width, half_width, half_length, half_length))
    return Rims(Segments(centres, directions, halves))


def nearest_on(lines: Segments, point: Tensor) -> Tensor:
    """The point of each line that is nearest to ``point``."""
    shift = dot(lines.centre - point, lines.direction)
    reach = torch.minimum(shift.abs(), lines.half)
    return lines.centre - shift.sign().mul_(reach) * lines.direction


def nearest_on_box(rims: Rims, point: Tensor) -> Tensor:
    """The point of the rim of each box that is nearest to ``point`` ``[2, K, E]``."""
    point = point.unsqueeze(1)
    found = nearest_on(rims.walls, point)
    return _nearest(length(point - found), found)[1]


def nearest_of_box_and_line(rims: Rims, lines: Segments) -> tuple[Tensor, Tensor]:
    """The two points, one on the rim of each box and one on each line, that are nearest to each other; ``[2, K, E]``."""
    one_end, other_end = lines.ends()
    # Candidates are the ends of each side with what is nearest on the line, and the ends of the line with what is nearest
    # on each side: [2, 4 candidates, 4 sides, K, E].
    from_wall = rims.ends
    from_line = torch.stack((one_end, other_end), dim=1).unsqueeze(2)
    on_line = nearest_on(_with_axes(lines, 2), from_wall)
    on_wall = nearest_on(_with_axes(rims.walls, 1), from_line)
    of_box = torch.cat((from_wall, on_wall), dim=1)
    of_line = torch.cat((on_line, from_line.expand_as(on_wall)), dim=1)
    distance, both = _nearest(length(of_box - of_line), torch.cat((of_box, of_line)))
    meets, where = _crossing(rims, one_end.unsqueeze(1), (other_end - one_end).unsqueeze(1))
    both = torch.where(meets, where.repeat(2, 1, 1, 1), both)
    _, both = _nearest(distance.masked_fill_(meets, 0.0), both)
    on_box, on_line = both.split_with_sizes((2, 2))
    return on_box, on_line


def _with_axes(lines: Segments, count: int) -> Segments:
    """With axes of length 1 in front of the pairs."""
    shape = (2, *(1,) * count, *lines.centre.shape[1:])
    return Segments(lines.centre.view(shape), lines.direction.view(shape), lines.half)


def _crossing(rims: Rims, begin: Tensor, line: Tensor) -> tuple[Tensor, Tensor]:
    """Whether each side and the line cross, and where; parallel ones divide by 0, which is in no range."""
    corner = rims.ends[:, 0]
    between = begin - corner
    shares = torch.stack((cross(between, line), cross(between, rims.along))) / cross(rims.along, line)
    of_wall, of_line = ((shares >= 0) & (shares <= 1)).unbind(0)
    return of_wall & of_line, corner + shares[0] * rims.along


def _nearest(distance: Tensor, points: Tensor) -> tuple[Tensor, Tensor]:
    """The nearest along the first axis of ``distance``, which is the second of ``points``; the first of equals."""
    (least, *others), (found, *places) = distance.unbind(0), points.unbind(1)
    for other, place in zip(others, places, strict=True):
        nearer = other < least
        found = torch.where(nearer, place, found)
        least = torch.where(nearer, other, least)
    return least, found


def inner_point(outside: Tensor, surface: Tensor, centre: Tensor) -> tuple[Tensor, Tensor]:
    """Where a solid box pushes from, and how far that is below its surface: it lies behind the point of contact."""
    inwards = surface - outside
    gap = length(inwards)
    depth = dot(inwards, centre - surface) / gap
    behind = inwards / gap * depth
    touching = gap == 0
    behind = torch.where(touching, surface, behind)
    return surface + behind, depth.masked_fill_(touching, 0.0).abs_()


def push(first: Tensor, second: Tensor, reach: Tensor, hardness: Hardness, kinds: list[int]) -> Tensor:
    """The force on ``first`` away from ``second`` where they are nearer than ``reach``: soft, as deep as they overlap.

    ``kinds`` are the numbers of pairs that VMAS works out in one call."""
    apart = first - second
    distance = length(apart)
    overlap = (reach - distance) / hardness.margin
    # torch takes the last few numbers of a call one by one, which rounds logarithms otherwise: the same calls, the same bits.
    parts = []
    for part in torch.split_with_sizes(overlap, kinds):
        parts.append(torch.logaddexp(hardness.zero, part.t().contiguous()))
    depth = torch.cat(parts, dim=1).mul_(hardness.margin).t()
    divisor = torch.where(distance > 0, distance, NO_SPEED)
    force = apart.mul_(hardness.strength).div_(divisor).mul_(depth)
    return force.masked_fill_((distance < TINY) | (distance > reach), 0.0)


def friction(velocity: Tensor, most: Tensor, mass: Tensor, dt: float) -> Tensor:
    """The force against a movement ``[axes, K, E]``; it never turns the movement round."""
    speed = length(velocity)
    resting = speed == 0
    stopping = velocity.abs().div_(dt).mul_(mass)
    force = -(velocity / speed.masked_fill_(resting, NO_SPEED)) * torch.minimum(most, stopping)
    return force.masked_fill_(resting, 0.0)


def with_at_most(vectors: Tensor, longest: float) -> Tensor:
    """Vectors ``[axes, E]``, those that are longer than ``longest`` shortened to it."""
    norm = length(vectors)
    return torch.where(norm > longest, vectors / norm * longest, vectors)
