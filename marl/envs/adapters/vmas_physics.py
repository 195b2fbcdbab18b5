"""VMAS's physics in fewer calls, for worlds of round bodies, lines and boxes without joints.

VMAS moves body by body and asks pair by pair who is near: a step of a few bodies is a thousand calls on tensors of a hundred
numbers, and the calls are what it costs. `hasten` puts a step in their place that stacks all bodies and pairs. It gives the
same bits (a test plays all scenarios both ways). A world with something that is not known here (joints, a world class of the
scenario's own, another version of VMAS) keeps VMAS's own step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from itertools import combinations
from operator import attrgetter, is_
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from marl.data.task import Array
from marl.envs.adapters.optional import need
from marl.envs.adapters.vmas_contacts import Contacts, Overlaps, Pair, column, pair_of, planes
from marl.envs.adapters.vmas_geometry import friction, length, with_at_most

PROVEN = ("1.5.2",)
"""Versions of VMAS that were compared, scenario by scenario and bit by bit."""

MOST_CONTACTS = 512
"""So many sets of near pairs are kept prepared."""

facts_of_world = attrgetter(
    "_x_semidim",
    "_y_semidim",
    "_substeps",
    "_sub_dt",
    "_drag",
    "_gravity",
    "_linear_friction",
    "_angular_friction",
    "_collision_force",
    "_contact_margin",
)
facts_of_body = attrgetter(
    "_movable",
    "_rotatable",
    "_collide",
    "_shape",
    "_collision_filter",
    "_mass",
    "_drag",
    "_linear_friction",
    "_angular_friction",
    "_gravity",
    "_max_speed",
    "_v_range",
)
facts_of_agent = attrgetter("_max_f", "_f_range", "_max_t", "_t_range")
place_of, speed_of = attrgetter("state._pos"), attrgetter("state._vel")
rotation_of, spin_of = attrgetter("state._rot"), attrgetter("state._ang_vel")


def is_proven() -> bool:
    """Whether the installed VMAS is one whose inside is known."""
    try:
        return version("vmas") in PROVEN
    except PackageNotFoundError:  # a copy of its sources on the path: it can be imported, but does not tell its version
        return False


def hasten(world: Any) -> bool:
    """Let ``world`` step and look for overlaps by the calls of this module; tell whether that can be."""
    core = need("vmas.simulator.core", "vmas")
    if not is_proven() or type(world) is not core.World or world.device.type != "cpu":
        return False
    physics = Physics(world)
    # On the object, not the class: other envs of the process keep what they have.
    world.step = physics.step
    world.is_overlapping = physics.is_overlapping
    return True


class Physics:
    """Steps one world by a `Plan`, which is made anew when something of the bodies has changed."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self._facts: list[Any] = []
        self._gravity_version = -1
        self._plan: Plan | None = None
        self._overlaps: dict[tuple[Any, Any], Overlaps | None] = {}

    def step(self) -> None:
        plan = self._up_to_date()
        if plan is None or not plan.play():
            type(self.world).step(self.world)

    def _up_to_date(self) -> Plan | None:
        world = self.world
        facts: list[Any] = [*facts_of_world(world), bool(world._joints)]
        for body in world._landmarks:
            facts += (body, *facts_of_body(body))
        for agent in world._agents:
            facts += (agent, *facts_of_body(agent), *facts_of_agent(agent))
        # By identity: numbers of these attributes are replaced, never changed. The gravity alone is a tensor.
        same = len(facts) == len(self._facts) and all(map(is_, facts, self._facts))
        if not same or world._gravity._version != self._gravity_version:
            self._facts, self._gravity_version = facts, world._gravity._version
            self._plan = Plan(world) if can_plan(world) else None
        return self._plan

    def is_overlapping(self, entity_a: Any, entity_b: Any, env_index: int | None = None) -> Tensor:
        """What VMAS's world answers to its scenarios."""
        key = (entity_a, entity_b)
        if key not in self._overlaps:
            pair = pair_of(key, 0, 1)
            self._overlaps[key] = None if pair is None else Overlaps(entity_a, entity_b, pair)
        known = self._overlaps[key]
        if known is None or env_index is not None:
            answer: Tensor = type(self.world).is_overlapping(self.world, entity_a, entity_b, env_index)
            return answer
        with np.errstate(all="ignore"):  # as torch does
            return torch.from_numpy(known.ask())


def can_plan(world: Any) -> bool:
    """Whether all that this world has is known here."""
    if world._joints:
        return False
    bodies = world.entities
    numbers = attrgetter("_mass", "_drag", "_linear_friction", "_angular_friction")
    for body in bodies:
        if body._gravity is not None:
            return False
        if not all(isinstance(number, int | float | None) for number in numbers(body)):
            return False
    return all(pair_of(bodies, a, b) is not None for a, b in may_touch(bodies))


def may_touch(bodies: Sequence[Any]) -> list[tuple[int, int]]:
    """Pairs of which one at least can move; whether they let each other through may still change."""
    pairs = []
    for a, b in combinations(range(len(bodies)), 2):
        if not (bodies[a].collide and bodies[b].collide):
            continue
        if _can_move(bodies[a]) or _can_move(bodies[b]):
            pairs.append((a, b))
    return pairs


def _can_move(body: Any) -> bool:
    return bool(body.movable or body.rotatable)


class Near:
    """Which pairs are near each other in some copy."""

    def __init__(self, bodies: Sequence[Any]) -> None:
        self.bodies = bodies
        self.pairs: list[Pair] = []
        self.fickle: list[int] = []  # pairs with a filter of the scenario's, which has to be asked every time
        always = _filters_of_vmas()
        touching = may_touch(bodies)
        for i, (a, b) in enumerate(touching):
            pair = pair_of(bodies, a, b)
            assert pair is not None, "can_plan was not asked"
            self.pairs.append(pair)
            if bodies[a].collision_filter not in always or bodies[b].collision_filter not in always:
                self.fickle.append(i)
        radius = [body.shape.circumscribed_radius() for body in bodies]
        self.a, self.b = np.array(touching, np.int64).reshape(-1, 2).T
        self.reach = column([radius[a] + radius[b] for a, b in touching])

    def find(self, places: Array) -> tuple[bool, ...]:
        if not self.pairs:
            return ()
        apart = length(places.take(self.a, axis=1) - places.take(self.b, axis=1))
        near: list[bool] = np.any(apart <= self.reach, axis=1).tolist()
        for i in self.fickle:
            one, two = self.bodies[self.pairs[i].a], self.bodies[self.pairs[i].b]
            near[i] = near[i] and one.collides(two) and two.collides(one)
        return tuple(near)


def _filters_of_vmas() -> list[Callable[[Any], bool]]:
    """The filters that let every contact be."""
    core = need("vmas.simulator.core", "vmas")
    classes = (core.Entity, core.Landmark, core.Agent)
    return [inspect.signature(each.__init__).parameters["collision_filter"].default for each in classes]


class Rub(NamedTuple):
    """Friction: rows of those that rub, the most that it can be, and their mass ``[K, 1]``."""

    rows: list[int]
    most: Array
    mass: Array


class Plan:
    """One world's step over stacked bodies: places ``[2, bodies, E]``, rotations ``[bodies, E]``."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.bodies: list[Any] = world.entities
        self.near = Near(self.bodies)
        self.contacts: dict[tuple[bool, ...], Contacts | None] = {}
        self.moving = self._rows_of("movable")
        self.turning = self._rows_of("rotatable")
        self.movers = movers = [self.bodies[row] for row in self.moving]
        self.turners = turners = [self.bodies[row] for row in self.turning]
        self.mass = column([body.mass for body in movers])
        self.inertia = column([body.moment_of_inertia for body in turners])
        self.keep_speed = column(list(map(self._kept, movers)))
        self.keep_spin = column(list(map(self._kept, turners)))
        self.gravity = self._gravity()
        self.rub = self._friction(movers, "linear_friction", self.mass)
        self.rub_spin = self._friction(turners, "angular_friction", self.inertia)

    def _rows_of(self, able: str) -> list[int]:
        return [row for row, body in enumerate(self.bodies) if getattr(body, able)]

    def _kept(self, body: Any) -> float:
        """The share of its speed that a body has left after a step."""
        drag: float = self.world._drag if body.drag is None else body.drag
        return 1 - drag

    def _gravity(self) -> Array | None:
        gravity: Array = self.world._gravity.numpy()
        if not gravity.any():
            return None
        pull: Array = gravity.reshape(2, 1, 1) * column([body.mass for body in self.bodies])
        return pull

    def _friction(self, bodies: Sequence[Any], name: str, mass: Array) -> Rub | None:
        """What rubs among ``bodies``: by a share of their own, or the world's if there is one."""
        everywhere = getattr(self.world, f"_{name}")
        shares: dict[int, float] = {}
        for row, body in enumerate(bodies):
            own = getattr(body, name)
            if own is not None:
                shares[row] = own
            elif everywhere > 0:
                shares[row] = everywhere
        if not shares:
            return None
        rows = list(shares)
        return Rub(rows, column(list(shares.values())) * mass[rows], mass[rows])

    # -- a step ----------------------------------------------------------------------------------------------------

    def play(self) -> bool:
        """One step of the world; False, and nothing done, if its numbers are not of the usual kind."""
        if not self._usual():
            return False
        places, speeds = planes(list(map(place_of, self.bodies))), _stacked(map(speed_of, self.movers))
        rotations, spins = planes(list(map(rotation_of, self.bodies)))[0], _stacked(map(spin_of, self.turners))
        dt = self.world._sub_dt
        with np.errstate(all="ignore"):  # as torch does
            for substep in range(self.world._substeps):
                forces, torques = self._forces(places, rotations, speeds, spins)
                if substep == 0:
                    speeds, spins = speeds * self.keep_speed, spins * self.keep_spin
                speeds = self._hold(speeds + forces / self.mass * dt)
                spins = spins + torques / self.inertia * dt
                places[:, self.moving] = self._moved(places, speeds)
                rotations[self.turning] += spins[0] * dt
        self._write(places, rotations, speeds, spins[0])
        self._speak()
        return True

    def _usual(self) -> bool:
        """Whether all states are of 32 bits."""
        for body in self.bodies:
            state = body.state
            if not state._pos.dtype is state._vel.dtype is state._rot.dtype is state._ang_vel.dtype is torch.float32:
                return False
        return True

    def _forces(self, places: Array, rotations: Array, speeds: Array, spins: Array) -> tuple[Array, Array]:
        """Forces on those that move and torques on those that turn."""
        forces, torques = np.zeros_like(places), np.zeros_like(rotations)
        self._act(forces, torques)
        dt = self.world._sub_dt
        if self.rub is not None:
            rows = [self.moving[row] for row in self.rub.rows]
            forces[:, rows] += friction(speeds[:, self.rub.rows], self.rub.most, self.rub.mass, dt)
        if self.rub_spin is not None:
            rows = [self.turning[row] for row in self.rub_spin.rows]
            torques[rows] += friction(spins[:, self.rub_spin.rows], self.rub_spin.most, self.rub_spin.mass, dt)[0]
        if self.gravity is not None:
            forces += self.gravity
        contacts = self._contacts(self.near.find(places))
        if contacts is not None:
            contacts.add(places, rotations, forces, torques)
        return forces[:, self.moving], torques[None, self.turning]

    def _act(self, forces: Array, torques: Array) -> None:
        """What the agents' actions do, within the limits of each agent."""
        first = len(self.bodies) - len(self.world._agents)
        for row, agent in enumerate(self.world._agents, first):
            state = agent.state
            if agent.movable:
                state._force = _limited(state._force, agent.max_f, agent.f_range)
                forces[:, row] += state._force.numpy().T
            if agent.rotatable:
                state._torque = _limited(state._torque, agent.max_t, agent.t_range)
                torques[row] += state._torque.numpy()[:, 0]

    def _contacts(self, near: tuple[bool, ...]) -> Contacts | None:
        if near not in self.contacts:
            if len(self.contacts) >= MOST_CONTACTS:
                self.contacts.clear()
            pairs = [pair for pair, is_near in zip(self.near.pairs, near, strict=True) if is_near]
            self.contacts[near] = Contacts(self.bodies, pairs, self.world) if pairs else None
        return self.contacts[near]

    def _hold(self, speeds: Array) -> Array:
        for i, body in enumerate(self.movers):
            if body.max_speed is not None:
                speeds[:, i] = with_at_most(speeds[:, i], body.max_speed)
            if body.v_range is not None:
                speeds[:, i] = speeds[:, i].clip(-body.v_range, body.v_range)
        return speeds

    def _moved(self, places: Array, speeds: Array) -> Array:
        moved: Array = places[:, self.moving] + speeds * self.world._sub_dt
        for axis, rim in enumerate((self.world._x_semidim, self.world._y_semidim)):
            if rim is not None:
                moved[axis] = moved[axis].clip(-rim, rim)
        return moved

    def _write(self, places: Array, rotations: Array, speeds: Array, spins: Array) -> None:
        """New tensors for those that move or turn, as VMAS does it: scenarios may keep the old ones."""
        # Contiguous for each body: torch rounds norms over other layouts in another way.
        new_places = torch.from_numpy(np.ascontiguousarray(places.transpose(1, 2, 0))).unbind(0)
        new_speeds = torch.from_numpy(np.ascontiguousarray(speeds.transpose(1, 2, 0))).unbind(0)
        for row, body, speed in zip(self.moving, self.movers, new_speeds, strict=True):
            body.state._pos, body.state._vel = new_places[row], speed
        new_rotations = torch.from_numpy(rotations[:, :, None]).unbind(0)
        new_spins = torch.from_numpy(spins[:, :, None]).unbind(0)
        for row, body, spin in zip(self.turning, self.turners, new_spins, strict=True):
            body.state._rot, body.state._ang_vel = new_rotations[row], spin

    def _speak(self) -> None:
        if self.world._dim_c > 0:
            for agent in self.world._agents:
                self.world._update_comm_state(agent)


def _stacked(tensors: Iterable[Tensor]) -> Array:
    """Planes of vectors, also of none."""
    found = list(tensors)
    return planes(found) if found else np.zeros((1, 0, 1), np.float32)


def _limited(vectors: Tensor, longest: float | None, each: float | None) -> Tensor:
    """Forces ``[E, axes]`` of one agent, not longer than ``longest`` and within ``each`` along every axis."""
    if longest is not None:
        vectors = torch.from_numpy(np.ascontiguousarray(with_at_most(vectors.numpy().T, longest).T))
    if each is not None:
        vectors = vectors.clamp(-each, each)
    return vectors
