"""Who pushes whom: the forces between touching bodies of a VMAS world, for all pairs and copies at once.

The order of sums is VMAS's: round bodies, then lines with round ones, boxes with round ones, boxes with lines, each in
the order of the bodies. So the bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

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


def planes(tensors: Sequence[Tensor]) -> Tensor:
    """Vectors of bodies ``[E, 2]`` as ``[2, bodies, E]``."""
    return torch.stack(tuple(tensors)).permute(2, 0, 1).contiguous()


def column(values: Sequence[float], device: Any) -> Tensor:
    """One number per body or pair, ``[K, 1]``."""
    return torch.tensor(list(values), dtype=torch.float32, device=device).unsqueeze(1)


class Boxes:
    """Some boxes and their sides, which are worked out again only when a box has moved."""

    def __init__(self, bodies: Sequence[Any], device: Any) -> None:
        self.bodies = bodies
        self.half_length = column([body.shape.length for body in bodies], device) / 2
        self.half_width = column([body.shape.width for body in bodies], device) / 2
        self.rest = not any(body.movable or body.rotatable for body in bodies)
        self._tensors: list[Tensor] = []
        self._versions: list[int] = []
        self._rims: Rims | None = None

    def at(self, centre: Tensor, rotation: Tensor) -> Rims:
        return sides(centre, rotation, self.half_length, self.half_width)

    def now(self) -> Rims:
        """Where VMAS has them: tensors that are the same objects and were not written to mean that nothing moved."""
        places = list(map(place_of, self.bodies))
        rotations = list(map(rotation_of, self.bodies))
        tensors = [*places, *rotations]
        versions = list(map(version_of, tensors))
        at_rest = versions == self._versions and all(map(is_, tensors, self._tensors))
        if self._rims is None or not at_rest:
            self._rims = self.at(planes(places), torch.stack(rotations).squeeze(-1))
            self._tensors, self._versions = tensors, versions
        return self._rims


class Pushed(NamedTuple):
    """The row of a force and the body that it acts on."""

    row: int
    body: int


class Touch(NamedTuple):
    """Nearest points of pairs: the force acts between ``first`` and ``second``, at ``contacts`` on the long bodies."""

    first: list[Tensor]
    second: list[Tensor]
    contacts: list[Tensor]


class Contacts:
    """The forces of one set of pairs that are near in some copy; all that does not change is prepared."""

    def __init__(self, bodies: Sequence[Any], pairs: Sequence[Pair], world: Any) -> None:
        self.bodies = bodies
        self.pairs = sorted(pairs, key=lambda pair: pair.kind)  # stable: within a kind as VMAS meets them
        self.device = world.device
        zero = torch.tensor(0.0, device=self.device)
        self.hardness = Hardness(world._collision_force, world._contact_margin, zero)
        self.count = [sum(pair.kind == kind for pair in pairs) for kind in Kind]
        self._prepare_rows()
        self._prepare_sizes()
        self._prepare_sums()

    def of_kind(self, kind: Kind) -> list[Pair]:
        return [pair for pair in self.pairs if pair.kind == kind]

    def _rows(self, rows: Sequence[int]) -> Tensor:
        return torch.tensor(list(rows), dtype=torch.long, device=self.device)

    def _prepare_rows(self) -> None:
        self.rows = self._rows([*_firsts(self.pairs), *_seconds(self.pairs)])
        lines = [*_firsts(self.of_kind(Kind.LINE_ROUND)), *_seconds(self.of_kind(Kind.BOX_LINE))]
        self.line_rows = self._rows(lines)
        self.half_line = column([self.bodies[row].shape.length for row in lines], self.device) / 2
        boxes = [*_firsts(self.of_kind(Kind.BOX_ROUND)), *_firsts(self.of_kind(Kind.BOX_LINE))]
        self.box_rows = self._rows(boxes)
        bodies = [self.bodies[row] for row in boxes]
        split = self.count[Kind.BOX_ROUND]
        self.boxes_of_round = Boxes(bodies[:split], self.device)
        self.boxes_of_lines = Boxes(bodies[split:], self.device)
        solid = [not box.shape.hollow for box in bodies]
        self.solid = torch.tensor(solid, dtype=torch.bool, device=self.device).unsqueeze(1)
        self.any_solid, self.all_solid = any(solid), all(solid)

    def _prepare_sizes(self) -> None:
        """How near is touching: the radii, and half the thickness that VMAS gives to lines and rims."""
        thickness = need("vmas.simulator.utils", "vmas").LINE_MIN_DIST
        parts = []
        for kind in Kind:
            pairs = self.of_kind(kind)
            # In float32 from the first sum on, as VMAS adds them: of two radii that of b is always there but for lines.
            size = torch.zeros(len(pairs), 1, device=self.device)
            if kind is not Kind.BOX_LINE:
                size = column([self.bodies[pair.b].shape.radius for pair in pairs], self.device)
            if kind is Kind.ROUND:
                size = column([self.bodies[pair.a].shape.radius for pair in pairs], self.device) + size
            else:
                size = size + thickness
            parts.append(size)
        self.reach = torch.cat(parts)

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
        _, self.moving_rows, self.moved = self._columns(moved, "movable")
        self.kept, self.turning_rows, self.turned = self._columns(levers, "rotatable")

    def _columns(self, pushed: Sequence[Pushed], able: str) -> tuple[Tensor, Tensor, Tensor]:
        """Of those that can move or turn: which they are, the rows of their forces, and the bodies."""
        kept = [i for i, each in enumerate(pushed) if getattr(self.bodies[each.body], able)]
        rows = [pushed[i].row for i in kept]
        bodies = [pushed[i].body for i in kept]
        return self._rows(kept), self._rows(rows), self._rows(bodies)

    def _pushed(self, row: int, pair: Pair) -> tuple[Pushed, Pushed]:
        """A line or box pushes a round body, which is "first"; of two round bodies, or a box and a line, a is."""
        first, second = row, len(self.pairs) + row
        if pair.kind in PUSHES_ROUND:
            return Pushed(second, pair.a), Pushed(first, pair.b)
        return Pushed(first, pair.a), Pushed(second, pair.b)

    def add(self, places: Tensor, rotations: Tensor, forces: Tensor, torques: Tensor) -> None:
        """Add the forces ``[2, bodies, E]`` and torques ``[bodies, E]`` of all contacts."""
        touch, depth = self._touch(places, rotations)
        first, second = torch.cat(touch.first, dim=1), torch.cat(touch.second, dim=1)
        reach = self.reach if depth is None else self.reach + depth
        force = push(first, second, reach, self.hardness, self.count)
        both = torch.cat((force, -force), dim=1)
        forces.index_add_(1, self.moved, both.index_select(1, self.moving_rows))
        if len(self.turned):
            contacts = torch.cat(touch.contacts, dim=1).index_select(1, self.kept)
            arms = contacts - places.index_select(1, self.turned)
            torques.index_add_(0, self.turned, cross(arms, both.index_select(1, self.turning_rows)))

    def _touch(self, places: Tensor, rotations: Tensor) -> tuple[Touch, Tensor | None]:
        """The nearest points of all pairs, and how deep below the rim solid boxes push from."""
        chosen = places.index_select(1, self.rows)
        a = torch.split_with_sizes(chosen[:, : len(self.pairs)], self.count, dim=1)
        b = torch.split_with_sizes(chosen[:, len(self.pairs) :], self.count, dim=1)
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

    def _lines(self, of_round: Tensor, of_boxes: Tensor, rotations: Tensor) -> tuple[Segments, Segments]:
        """Lines that meet round bodies and lines that meet boxes."""
        split = self.count[Kind.LINE_ROUND]
        along = direction(rotations.index_select(0, self.line_rows))
        return (
            Segments(of_round, along[:, :split], self.half_line[:split]),
            Segments(of_boxes, along[:, split:], self.half_line[split:]),
        )

    def _touch_boxes(
        self, touch: Touch, a: Sequence[Tensor], b: Sequence[Tensor], lines: Segments, rotations: Tensor
    ) -> Tensor:
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
        centres = torch.cat((a[2], a[3]), dim=1)
        surface, outside = torch.cat(rim, dim=1), torch.cat(other, dim=1)
        inner, depth = self._inner(outside, surface, centres)
        touch.first.extend((outside[:, :split], inner[:, split:]))
        touch.second.extend((inner[:, :split], outside[:, split:]))
        touch.contacts.extend((surface, outside[:, split:]))
        shallow = depth.new_zeros(len(self.pairs) - depth.shape[0], depth.shape[1])
        return torch.cat((shallow, depth))

    def _rims(self, boxes: Boxes, centres: Tensor, rotations: Tensor, rows: slice) -> Rims:
        """Boxes at rest (walls, the ground) keep their sides until a reset places them anew."""
        if boxes.rest:
            return boxes.now()
        return boxes.at(centres, rotations.index_select(0, self.box_rows[rows]))

    def _inner(self, outside: Tensor, surface: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
        if not self.any_solid:
            return surface, surface.new_zeros(surface.shape[1:])
        inner, depth = inner_point(outside, surface, centres)
        if self.all_solid:
            return inner, depth
        return torch.where(self.solid, inner, surface), depth.masked_fill_(~self.solid, 0.0)


class Overlaps:
    """Whether two bodies overlap, copy by copy, as VMAS tells it to rewards and ends."""

    def __init__(self, a: Any, b: Any, pair: Pair, device: Any) -> None:
        longer, shorter = (a, b) if pair.a == 0 else (b, a)
        self.longer, self.shorter, self.kind = longer, shorter, pair.kind
        self.thickness = need("vmas.simulator.utils", "vmas").LINE_MIN_DIST
        if pair.kind >= Kind.BOX_ROUND:
            self.boxes = Boxes([longer], device)
        line = {Kind.LINE_ROUND: longer, Kind.BOX_LINE: shorter}.get(pair.kind)
        if line is not None:
            self.half = column([line.shape.length], device) / 2

    def ask(self) -> Tensor:
        longer, shorter = _place(self.longer), _place(self.shorter)
        if self.kind is Kind.BOX_ROUND:
            return self._in_box(longer, shorter)
        if self.kind is Kind.ROUND:
            gap = length(longer - shorter) - self.longer.shape.radius - self.shorter.shape.radius
        elif self.kind is Kind.LINE_ROUND:
            line = Segments(longer, direction(self.longer.state.rot.t()), self.half)
            gap = length(shorter - nearest_on(line, shorter)) - self.thickness - self.shorter.shape.radius
        else:
            line = Segments(shorter, direction(self.shorter.state.rot.t()), self.half)
            on_box, on_line = nearest_of_box_and_line(self.boxes.now(), line)
            gap = length(on_box - on_line) - self.thickness
        overlaps: Tensor = gap[0] < 0
        return overlaps

    def _in_box(self, box: Tensor, body: Tensor) -> Tensor:
        """A round body overlaps a box that it touches, and one that it is nearer to than the rim is."""
        rim = nearest_on_box(self.boxes.now(), body)
        inside = length(body - box) < length(box - rim)
        touches = length(body - rim) < self.shorter.shape.radius + self.thickness
        overlaps: Tensor = (inside | touches)[0]
        return overlaps


def _place(body: Any) -> Tensor:
    place: Tensor = body.state.pos.t().unsqueeze(1)
    return place
