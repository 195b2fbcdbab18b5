"""VMAS's physics in fewer tensor calls, for worlds of round bodies, lines and boxes without joints.

VMAS moves body by body and asks pair by pair who is near: a step of a few bodies is a thousand calls on tensors of a hundred
numbers, and the calls are what it costs. `hasten` puts a step in their place that stacks all bodies and pairs. It gives the
same bits (a test plays all scenarios both ways). A world with something that is not known here (joints, a world class of the
scenario's own, another version of VMAS) keeps VMAS's own step.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from importlib.metadata import version
from itertools import combinations
from operator import attrgetter, is_
from typing import Any, NamedTuple

import torch
from torch import Tensor

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
    return version("vmas") in PROVEN


def hasten(world: Any) -> bool:
    """Let ``world`` step and look for overlaps by the calls of this module; tell whether that can be."""
    core = need("vmas.simulator.core", "vmas")
    if not is_proven() or type(world) is not core.World:
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
            self._overlaps[key] = None if pair is None else Overlaps(entity_a, entity_b, pair, self.world.device)
        known = self._overlaps[key]
        if known is None or env_index is not None:
            answer: Tensor = type(self.world).is_overlapping(self.world, entity_a, entity_b, env_index)
            return answer
        return known.ask()


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

    def __init__(self, bodies: Sequence[Any], device: Any) -> None:
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
        self.a = torch.tensor([a for a, _ in touching], dtype=torch.long, device=device)
        self.b = torch.tensor([b for _, b in touching], dtype=torch.long, device=device)
        self.reach = column([radius[a] + radius[b] for a, b in touching], device)

    def find(self, places: Tensor) -> tuple[bool, ...]:
        if not self.pairs:
            return ()
        apart = length(places.index_select(1, self.a) - places.index_select(1, self.b))
        near = (apart <= self.reach).any(dim=1).tolist()
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

    rows: Tensor
    most: Tensor
    mass: Tensor


class Plan:
    """One world's step over stacked bodies: places ``[2, bodies, E]``, rotations ``[bodies, E]``."""

    def __init__(self, world: Any) -> None:
        self.world = world
        self.bodies: list[Any] = world.entities
        self.device = world.device
        self.near = Near(self.bodies, self.device)
        self.contacts: dict[tuple[bool, ...], Contacts | None] = {}
        self.moving = self._rows_of("movable")
        self.turning = self._rows_of("rotatable")
        self.movers = movers = [self.bodies[row] for row in self.moving]
        self.turners = turners = [self.bodies[row] for row in self.turning]
        self.moving_rows = torch.tensor(self.moving, dtype=torch.long, device=self.device)
        self.turning_rows = torch.tensor(self.turning, dtype=torch.long, device=self.device)
        self.mass = column([body.mass for body in movers], self.device)
        self.inertia = column([body.moment_of_inertia for body in turners], self.device)
        self.keep_speed = column(list(map(self._kept, movers)), self.device)
        self.keep_spin = column(list(map(self._kept, turners)), self.device)
        self.gravity = self._gravity()
        self.rub = self._friction(movers, "linear_friction", self.mass)
        self.rub_spin = self._friction(turners, "angular_friction", self.inertia)

    def _rows_of(self, able: str) -> list[int]:
        return [row for row, body in enumerate(self.bodies) if getattr(body, able)]

    def _kept(self, body: Any) -> float:
        """The share of its speed that a body has left after a step."""
        drag: float = self.world._drag if body.drag is None else body.drag
        return 1 - drag

    def _gravity(self) -> Tensor | None:
        gravity: Tensor = self.world._gravity
        if bool((gravity == 0.0).all()):
            return None
        return gravity.view(2, 1, 1) * column([body.mass for body in self.bodies], self.device)

    def _friction(self, bodies: Sequence[Any], name: str, mass: Tensor) -> Rub | None:
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
        rows = torch.tensor(list(shares), dtype=torch.long, device=self.device)
        masses = mass.index_select(0, rows)
        return Rub(rows, column(list(shares.values()), self.device) * masses, masses)

    # -- a step ----------------------------------------------------------------------------------------------------

    def play(self) -> bool:
        """One step of the world; False, and nothing done, if its numbers are not of the usual kind."""
        now = self._read()
        if any(tensor.dtype != torch.float32 for tensor in now):
            return False
        places, rotations, speeds, spins = now
        dt = self.world._sub_dt
        for substep in range(self.world._substeps):
            forces, torques = self._forces(places, rotations, speeds, spins)
            if substep == 0:
                speeds, spins = speeds * self.keep_speed, spins * self.keep_spin
            speeds = self._hold(speeds + forces / self.mass * dt)
            spins = spins + torques / self.inertia * dt
            places = places.index_copy(1, self.moving_rows, self._moved(places, speeds))
            turned = rotations.index_select(0, self.turning_rows) + spins * dt
            rotations = rotations.index_copy(0, self.turning_rows, turned)
        self._write(places, rotations, speeds, spins)
        self._speak()
        return True

    def _read(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Places and rotations of all bodies, speeds of those that move, spins of those that turn."""
        places = planes(list(map(place_of, self.bodies)))
        rotations = torch.stack(list(map(rotation_of, self.bodies))).squeeze(-1)
        speeds, spins = places[:, :0], rotations[:0]
        if self.movers:
            speeds = planes(list(map(speed_of, self.movers)))
        if self.turners:
            spins = torch.stack(list(map(spin_of, self.turners))).squeeze(-1)
        return places, rotations, speeds, spins

    def _forces(self, places: Tensor, rotations: Tensor, speeds: Tensor, spins: Tensor) -> tuple[Tensor, Tensor]:
        """Forces on those that move and torques on those that turn."""
        forces = torch.zeros_like(places)
        torques = torch.zeros_like(rotations)
        self._act(forces, torques)
        if self.rub is not None:
            rubbing = friction(speeds.index_select(1, self.rub.rows), self.rub.most, self.rub.mass, self.world._sub_dt)
            forces.index_add_(1, self.moving_rows.index_select(0, self.rub.rows), rubbing)
        if self.rub_spin is not None:
            turning = spins.index_select(0, self.rub_spin.rows).unsqueeze(0)
            rubbing = friction(turning, self.rub_spin.most, self.rub_spin.mass, self.world._sub_dt)
            torques.index_add_(0, self.turning_rows.index_select(0, self.rub_spin.rows), rubbing[0])
        if self.gravity is not None:
            forces += self.gravity
        contacts = self._contacts(self.near.find(places))
        if contacts is not None:
            contacts.add(places, rotations, forces, torques)
        return forces.index_select(1, self.moving_rows), torques.index_select(0, self.turning_rows)

    def _act(self, forces: Tensor, torques: Tensor) -> None:
        """What the agents' actions do, within the limits of each agent."""
        agents = self.world._agents
        if not agents:
            return
        for agent in agents:
            state = agent.state
            if agent.movable:
                state._force = _limited(state._force, agent.max_f, agent.f_range)
            if agent.rotatable:
                state._torque = _limited(state._torque, agent.max_t, agent.t_range)
        first = len(self.bodies) - len(agents)
        forces[:, first:] += planes([agent.state._force for agent in agents])
        torques[first:] += torch.stack([agent.state._torque for agent in agents]).squeeze(-1)

    def _contacts(self, near: tuple[bool, ...]) -> Contacts | None:
        if near not in self.contacts:
            if len(self.contacts) >= MOST_CONTACTS:
                self.contacts.clear()
            pairs = [pair for pair, is_near in zip(self.near.pairs, near, strict=True) if is_near]
            self.contacts[near] = Contacts(self.bodies, pairs, self.world) if pairs else None
        return self.contacts[near]

    def _hold(self, speeds: Tensor) -> Tensor:
        for i, body in enumerate(self.movers):
            if body.max_speed is not None:
                speeds[:, i] = with_at_most(speeds[:, i], body.max_speed)
            if body.v_range is not None:
                speeds[:, i].clamp_(-body.v_range, body.v_range)
        return speeds

    def _moved(self, places: Tensor, speeds: Tensor) -> Tensor:
        moved: Tensor = places.index_select(1, self.moving_rows) + speeds * self.world._sub_dt
        for axis, rim in enumerate((self.world._x_semidim, self.world._y_semidim)):
            if rim is not None:
                moved[axis].clamp_(-rim, rim)
        return moved

    def _write(self, places: Tensor, rotations: Tensor, speeds: Tensor, spins: Tensor) -> None:
        """New tensors for those that move or turn, as VMAS does it: scenarios may keep the old ones."""
        # Contiguous for each body: torch rounds norms over other layouts in another way.
        new_places = places.permute(1, 2, 0).contiguous().unbind(0)
        new_speeds = speeds.permute(1, 2, 0).contiguous().unbind(0)
        for row, body, speed in zip(self.moving, self.movers, new_speeds, strict=True):
            body.state._pos, body.state._vel = new_places[row], speed
        new_rotations, new_spins = rotations.unsqueeze(-1).unbind(0), spins.unsqueeze(-1).unbind(0)
        for row, body, spin in zip(self.turning, self.turners, new_spins, strict=True):
            body.state._rot, body.state._ang_vel = new_rotations[row], spin

    def _speak(self) -> None:
        if self.world._dim_c > 0:
            for agent in self.world._agents:
                self.world._update_comm_state(agent)


def _limited(vectors: Tensor, longest: float | None, each: float | None) -> Tensor:
    """Forces ``[E, axes]`` of one agent, not longer than ``longest`` and within ``each`` along every axis."""
    if longest is not None:
        vectors = with_at_most(vectors.t(), longest).t().contiguous()
    if each is not None:
        vectors = vectors.clamp(-each, each)
    return vectors
