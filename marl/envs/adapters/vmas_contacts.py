"""Who pushes whom: the forces between touching bodies of a VMAS world, for all pairs and copies at once.

The order of sums is VMAS's: round bodies, then lines with round ones, boxes with round ones, boxes with lines, each in
the order of the bodies. So the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from operator import attrgetter, is_
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from marl.data.task import Array, Ints
from marl.envs.adapters.optional import need
from marl.envs.adapters.vmas_geometry import (
    Hardness,
    Rims,
    Segments,
    cross,
    direction,
    inner_point,
    length,
    nearest_of_box_and_line,
    nearest_on,
    nearest_on_box,
    push,
    sides,
)


class Kind(IntEnum):
    """Kinds of pairs, in the order in which VMAS adds their forces."""

    ROUND = 0
    LINE_ROUND = 1
    BOX_ROUND = 2
    BOX_LINE = 3


place_of, rotation_of, version_of = attrgetter("state._pos"), attrgetter("state._rot"), attrgetter("_version")
PUSHES_ROUND = (Kind.LINE_ROUND, Kind.BOX_ROUND)


class Pair(NamedTuple):
    """Two bodies by their rows: what is longer comes first (a box, a line, a round body)."""

    kind: Kind
    a: int
    b: int


def pair_of(bodies: Sequence[Any], a: int, b: int) -> Pair | None:
    """Two bodies as a pair, or None if contacts between such shapes are not known here."""
    core = need("vmas.simulator.core", "vmas")
    shapes = {type(bodies[a].shape): a, type(bodies[b].shape): b}
    if set(shapes) == {core.Sphere}:
        return Pair(Kind.ROUND, a, b)
    known = {
        Kind.LINE_ROUND: (core.Line, core.Sphere),
        Kind.BOX_ROUND: (core.Box, core.Sphere),
        Kind.BOX_LINE: (core.Box, core.Line),
    }
    for kind, (longer, shorter) in known.items():
        if set(shapes) == {longer, shorter}:
            return Pair(kind, shapes[longer], shapes[shorter])
    return None


def _firsts(pairs: Sequence[Pair]) -> list[int]:
    return [pair.a for pair in pairs]


def _seconds(pairs: Sequence[Pair]) -> list[int]:
    return [pair.b for pair in pairs]


def planes(tensors: Sequence[Tensor]) -> Array:
    """Vectors of bodies ``[E, axes]`` as ``[axes, bodies, E]``."""
    copies, axes = tensors[0].shape
    stacked = np.empty((axes, len(tensors), copies), np.float32)
    for i, tensor in enumerate(tensors):
        stacked[:, i] = tensor.numpy().T
    return stacked


def column(values: Sequence[float]) -> Array:
    """One number per body or pair, ``[K, 1]``."""
    return np.array(values, np.float32).reshape(-1, 1)


class Boxes:
    """Some boxes and their sides, which are worked out again only when a box has moved."""

    def __init__(self, bodies: Sequence[Any]) -> None:
        self.bodies = bodies
        self.half_length = column([body.shape.length for body in bodies]) / 2
        self.half_width = column([body.shape.width for body in bodies]) / 2
        self.rest = not any(body.movable or body.rotatable for body in bodies)
        self._tensors: list[Tensor] = []
        self._versions: list[int] = []
        self._rims: Rims | None = None

    def at(self, centre: Array, rotation: Array) -> Rims:
        return sides(centre, rotation, self.half_length, self.half_width)

    def now(self) -> Rims:
        """Where VMAS has them: tensors that are the same objects and were not written to mean that nothing moved."""
        places = list(map(place_of, self.bodies))
        rotations = list(map(rotation_of, self.bodies))
        tensors = [*places, *rotations]
        versions = list(map(version_of, tensors))
        at_rest = versions == self._versions and all(map(is_, tensors, self._tensors))
        if self._rims is None or not at_rest:
            self._rims = self.at(planes(places), planes(rotations)[0])
            self._tensors, self._versions = tensors, versions
        return self._rims


class Pushed(NamedTuple):
    """The row of a force and the body that it acts on."""

    row: int
    body: int


class Touch(NamedTuple):
    """Nearest points of pairs: the force acts between ``first`` and ``second``, at ``contacts`` on the long bodies."""

    first: list[Array]
    second: list[Array]
    contacts: list[Array]


class Contacts:
    """The forces of one set of pairs that are near in some copy; all that does not change is prepared."""

    def __init__(self, bodies: Sequence[Any], pairs: Sequence[Pair], world: Any) -> None:
        self.bodies = bodies
        self.pairs = sorted(pairs, key=lambda pair: pair.kind)  # stable: within a kind as VMAS meets them
        self.hardness = Hardness(world._collision_force, world._contact_margin)
        self.count = [sum(pair.kind == kind for pair in pairs) for kind in Kind]
        self.cuts = np.cumsum(self.count)[:-1]
        self._prepare_rows()
        self._prepare_sizes()
        self._prepare_sums()

    def of_kind(self, kind: Kind) -> list[Pair]:
        return [pair for pair in self.pairs if pair.kind == kind]

    def _prepare_rows(self) -> None:
        self.rows = _rows([*_firsts(self.pairs), *_seconds(self.pairs)])
        lines = [*_firsts(self.of_kind(Kind.LINE_ROUND)), *_seconds(self.of_kind(Kind.BOX_LINE))]
        self.line_rows = _rows(lines)
        self.half_line = column([self.bodies[row].shape.length for row in lines]) / 2
        boxes = [*_firsts(self.of_kind(Kind.BOX_ROUND)), *_firsts(self.of_kind(Kind.BOX_LINE))]
        self.box_rows = _rows(boxes)
        bodies = [self.bodies[row] for row in boxes]
        split = self.count[Kind.BOX_ROUND]
        self.boxes_of_round = Boxes(bodies[:split])
        self.boxes_of_lines = Boxes(bodies[split:])
        solid = [not box.shape.hollow for box in bodies]
        self.hollow = ~np.array(solid, bool).reshape(-1, 1)
        self.any_solid, self.all_solid = any(solid), all(solid)

    def _prepare_sizes(self) -> None:
        """How near is touching: the radii, and half the thickness that VMAS gives to lines and rims."""
        thickness = need("vmas.simulator.utils", "vmas").LINE_MIN_DIST
        parts = []
        for kind in Kind:
            pairs = self.of_kind(kind)
            # In float32 from the first sum on, as VMAS adds them: of two radii that of b is always there but for lines.
            size = np.zeros((len(pairs), 1), np.float32)
            if kind is not Kind.BOX_LINE:
                size = column([self.bodies[pair.b].shape.radius for pair in pairs])
            if kind is Kind.ROUND:
                size = column([self.bodies[pair.a].shape.radius for pair in pairs]) + size
            else:
                size = size + np.float32(thickness)
            parts.append(size)
        self.reach = np.concatenate(parts)

    def _prepare_sums(self) -> None:
        """Rows of the forces on first and second, pair by pair, and the bodies that they move or turn."""
        moved: list[Pushed] = []
        levers: list[Pushed] = []
        lines: list[Pushed] = []
        for row, pair in enumerate(self.pairs):
            on_a, on_b = self._pushed(row, pair)
            moved += [on_a, on_b]
            if pair.kind is not Kind.ROUND:
                levers.append(on_a)
            if pair.kind is Kind.BOX_LINE:
                lines.append(on_b)
        levers += lines  # contacts come in this order, too: on what is longer, then on lines that meet boxes
        self.moved = [moved[i] for i in self._able(moved, "movable")]
        self.kept = self._able(levers, "rotatable")
        self.turned = [levers[i] for i in self.kept]

    def _able(self, pushed: Sequence[Pushed], able: str) -> list[int]:
        """Which of them act on a body that can move or turn."""
        return [i for i, each in enumerate(pushed) if getattr(self.bodies[each.body], able)]

    def _pushed(self, row: int, pair: Pair) -> tuple[Pushed, Pushed]:
        """A line or box pushes a round body, which is "first"; of two round bodies, or a box and a line, a is."""
        first, second = row, len(self.pairs) + row
        if pair.kind in PUSHES_ROUND:
            return Pushed(second, pair.a), Pushed(first, pair.b)
        return Pushed(first, pair.a), Pushed(second, pair.b)

    def add(self, places: Array, rotations: Array, forces: Array, torques: Array) -> None:
        """Add the forces ``[2, bodies, E]`` and torques ``[bodies, E]`` of all contacts."""
        touch, depth = self._touch(places, rotations)
        first, second = np.concatenate(touch.first, axis=1), np.concatenate(touch.second, axis=1)
        reach = self.reach if depth is None else self.reach + depth
        force = push(first, second, reach, self.hardness, self.count)
        both = np.concatenate((force, -force), axis=1)
        # One after the other: sums of three numbers and more depend on their order.
        for row, body in self.moved:
            forces[:, body] += both[:, row]
        if self.turned:
            contacts = np.concatenate(touch.contacts, axis=1)
            for contact, (row, body) in zip(self.kept, self.turned, strict=True):
                torques[body] += cross(contacts[:, contact] - places[:, body], both[:, row])

    def _touch(self, places: Array, rotations: Array) -> tuple[Touch, Array | None]:
        """The nearest points of all pairs, and how deep below the rim solid boxes push from."""
        chosen = places.take(self.rows, axis=1)
        a = np.split(chosen[:, : len(self.pairs)], self.cuts, axis=1)
        b = np.split(chosen[:, len(self.pairs) :], self.cuts, axis=1)
        touch = Touch([a[0]], [b[0]], [])
        with_round, with_box = self._lines(a[1], b[3], rotations)
        if self.count[Kind.LINE_ROUND]:
            nearest = nearest_on(with_round, b[1])
            touch.first.append(b[1])
            touch.second.append(nearest)
            touch.contacts.append(nearest)
        if not len(self.box_rows):
            return touch, None
        return touch, self._touch_boxes(touch, a, b, with_box, rotations)

    def _lines(self, of_round: Array, of_boxes: Array, rotations: Array) -> tuple[Segments, Segments]:
        """Lines that meet round bodies and lines that meet boxes."""
        split = self.count[Kind.LINE_ROUND]
        along = direction(rotations.take(self.line_rows, axis=0))
        return (
            Segments(of_round, along[:, :split], self.half_line[:split]),
            Segments(of_boxes, along[:, split:], self.half_line[split:]),
        )

    def _touch_boxes(
        self, touch: Touch, a: Sequence[Array], b: Sequence[Array], lines: Segments, rotations: Array
    ) -> Array:
        split = self.count[Kind.BOX_ROUND]
        rim, other = [], []
        if split:
            rim.append(nearest_on_box(self._rims(self.boxes_of_round, a[2], rotations, slice(0, split)), b[2]))
            other.append(b[2])
        if self.count[Kind.BOX_LINE]:
            rims = self._rims(self.boxes_of_lines, a[3], rotations, slice(split, None))
            on_box, on_line = nearest_of_box_and_line(rims, lines)
            rim.append(on_box)
            other.append(on_line)
        centres = np.concatenate((a[2], a[3]), axis=1)
        surface, outside = np.concatenate(rim, axis=1), np.concatenate(other, axis=1)
        inner, depth = self._inner(outside, surface, centres)
        touch.first.extend((outside[:, :split], inner[:, split:]))
        touch.second.extend((inner[:, :split], outside[:, split:]))
        touch.contacts.extend((surface, outside[:, split:]))
        shallow = np.zeros((len(self.pairs) - len(depth), depth.shape[1]), np.float32)
        return np.concatenate((shallow, depth))

    def _rims(self, boxes: Boxes, centres: Array, rotations: Array, rows: slice) -> Rims:
        """Boxes at rest (walls, the ground) keep their sides until a reset places them anew."""
        if boxes.rest:
            return boxes.now()
        return boxes.at(centres, rotations.take(self.box_rows[rows], axis=0))

    def _inner(self, outside: Array, surface: Array, centres: Array) -> tuple[Array, Array]:
        if not self.any_solid:
            return surface, np.zeros(surface.shape[1:], np.float32)
        inner, depth = inner_point(outside, surface, centres)
        if not self.all_solid:
            np.copyto(inner, surface, where=self.hollow)
            np.copyto(depth, 0.0, where=self.hollow)
        return inner, depth


def _rows(rows: Sequence[int]) -> Ints:
    return np.array(rows, np.int64)


class Overlaps:
    """Whether two bodies overlap, copy by copy, as VMAS tells it to rewards and ends."""

    def __init__(self, a: Any, b: Any, pair: Pair) -> None:
        longer, shorter = (a, b) if pair.a == 0 else (b, a)
        self.longer, self.shorter, self.kind = longer, shorter, pair.kind
        self.thickness = need("vmas.simulator.utils", "vmas").LINE_MIN_DIST
        if pair.kind >= Kind.BOX_ROUND:
            self.boxes = Boxes([longer])
        line = {Kind.LINE_ROUND: longer, Kind.BOX_LINE: shorter}.get(pair.kind)
        if line is not None:
            self.half = column([line.shape.length]) / 2

    def ask(self) -> Array:
        longer, shorter = planes([self.longer.state.pos]), planes([self.shorter.state.pos])
        if self.kind is Kind.BOX_ROUND:
            return self._in_box(longer, shorter)
        if self.kind is Kind.ROUND:
            gap = length(longer - shorter) - self.longer.shape.radius - self.shorter.shape.radius
        elif self.kind is Kind.LINE_ROUND:
            line = Segments(longer, direction(planes([self.longer.state.rot])[0]), self.half)
            gap = length(shorter - nearest_on(line, shorter)) - self.thickness - self.shorter.shape.radius
        else:
            line = Segments(shorter, direction(planes([self.shorter.state.rot])[0]), self.half)
            on_box, on_line = nearest_of_box_and_line(self.boxes.now(), line)
            gap = length(on_box - on_line) - self.thickness
        overlaps: Array = gap[0] < 0
        return overlaps

    def _in_box(self, box: Array, body: Array) -> Array:
        """A round body overlaps a box that it touches, and one that it is nearer to than the rim is."""
        rim = nearest_on_box(self.boxes.now(), body)
        inside = length(body - box) < length(box - rim)
        touches = length(body - rim) < self.shorter.shape.radius + self.thickness
        overlaps: Array = (inside | touches)[0]
        return overlaps
