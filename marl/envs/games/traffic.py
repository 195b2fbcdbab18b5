"""Traffic: cars and traffic lights that appear, leave and come back under ids that nobody knows in advance.

One avenue crosses ``lights`` one-way streets, ``block_length`` cells apart. Cars enter at random at the
beginning of every road, choose *wait* (0) or *go* (1, one cell) at every step and leave at the end of their
road. Two cars in one cell crash, and both are out. A car sees whether a junction lies ahead, how far it is,
whether it is green, the free cells ahead and whether it has just moved. A car that left may come back later
in the episode under the same id.

A light gives green to its avenue (0) or its street (1). It decides every ``light_period`` steps only, sees
the cars and the waiting cars of both approaches and its own colour, and is paid at every step. Lights fail
at times: the light is terminated, the avenue has green, and after ``dark_periods`` decisions it comes back
as a new agent with the old id.

Cars see the colours, everybody moves, then the lights switch: where all go only on green and into a free
cell, nobody crashes. Rewards per step: a car 0.1 for going, -0.02 for waiting, 1 at the end of its road, -1
for running a red light, -2 for a crash; a light -0.1 per waiting car. After ``episode_length`` steps all are
truncated.

Mean reward of an episode of the default config, over 1,000 episodes::

    cars            lights          cars  lights
    random          random           -31     -13
    always go       random            26       0
    green and free  random            58     -26
    green and free  longer queue      72     -10
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from pydantic import Field, NonNegativeInt, PositiveInt

from marl.config import Config
from marl.data.task import AgentID, AgentType, Array, Bools, Floats, Ints, number_seats
from marl.envs.batched import NativeEnv, State, StepOutput
from marl.envs.games.traffic_scene import traffic_scene

EMPTY, ALIVE, ENDED = 0, 1, 2  # of a seat; ENDED: in the last step, so its last observation is still shown
AVENUE = 0  # the road; street j is road j + 1 and meets the avenue at junction j
GO, WAIT, ARRIVED, RAN_RED, CRASHED, CAR_WAITS = 0.1, -0.02, 1.0, -1.0, -2.0, -0.1


class TrafficConfig(Config):
    """Keys of ``env_config``."""

    max_cars: PositiveInt = Field(10, description="Cars on the roads at once.")
    spare_names: NonNegativeInt = Field(10, description="Car ids beyond max_cars from which arrivals are drawn.")
    lights: PositiveInt = Field(2, description="Junctions along the avenue, each with a light and a street.")
    block_length: int = Field(4, ge=2, description="Cells from a road's beginning, or a junction, to the next one.")
    arrival_rate: float = Field(0.15, ge=0, le=1, description="Chance of a new car, per road and env step.")
    light_period: PositiveInt = Field(5, description="Env steps between two decisions of a light.")
    failure_rate: float = Field(0.05, ge=0, le=1, description="Chance that a light fails, per decision.")
    dark_periods: PositiveInt = Field(2, description="Decisions for which a failed light stays away.")
    episode_length: PositiveInt = Field(100, description="Env steps until the episode is truncated.")


class RoadMap:
    """Tables of the roads, all indexed ``[road, place]``. Beyond a road's end lies the cell ``nowhere``."""

    def __init__(self, lights: int, block: int) -> None:
        places = block * (lights + 1)
        shape = (lights + 1, places + block + 1)  # room to look a block ahead of a car that has just left
        self.length = np.array([places] + [2 * block] * lights)
        self.junction = np.full(shape, -1)  # the next one ahead, or -1
        self.distance = np.full(shape, block)  # cells to it
        self.cell = np.full(shape, -1)
        self.cell[AVENUE, :places] = np.arange(places)
        self.junction[AVENUE, : lights * block] = np.repeat(np.arange(lights), block)
        self.distance[AVENUE, : lights * block] = np.tile(np.arange(block, 0, -1), lights)
        for j in range(lights):
            street, own = j + 1, places + j * (2 * block - 1)
            self.cell[street, : 2 * block] = np.insert(np.arange(2 * block - 1) + own, block, block * (j + 1))
            self.junction[street, :block] = j
            self.distance[street, :block] = np.arange(block, 0, -1)
        self.num_cells = int(self.cell.max()) + 1
        self.nowhere = self.num_cells
        self.cell[self.cell < 0] = self.nowhere


class TrafficGames(NativeEnv):
    """``num_envs`` towns. Global state: cars in every cell, each street's green, each working light."""

    config_class = TrafficConfig

    name = "traffic"
    fixed_seats = False
    state_arrays = (
        *("clock", "status", "road", "place", "moved", "name_at"),
        *("street_green", "dark", "arrivals", "failures"),
    )

    def __init__(self, num_envs: int, env_config: Mapping[str, Any]) -> None:
        self.num_envs = num_envs
        self.config = config = TrafficConfig(**env_config)
        self.cars, self.lights, self.block = config.max_cars, config.lights, config.block_length
        self.map = RoadMap(self.lights, self.block)
        self.state_size = self.map.num_cells + 2 * self.lights
        self.kinds = number_seats([_kind("car_*", self.cars), _kind("traffic_light_*", self.lights)])
        self.born = np.zeros((num_envs, self.cars + self.lights), bool)  # in the last step or reset
        self.clock = np.zeros(num_envs, np.int64)
        self.status = np.zeros((num_envs, self.cars + self.lights), np.int8)
        self.road, self.place, self.name_at = np.zeros((3, num_envs, self.cars), np.int64)
        self.moved = np.zeros((num_envs, self.cars), bool)
        self.street_green = np.zeros((num_envs, self.lights), bool)
        self.dark = np.zeros((num_envs, self.lights), np.int64)  # decisions until it works again
        self.arrivals = np.zeros((num_envs, config.episode_length, self.lights + 1, 2))  # luck: whether, who
        decisions = -(-config.episode_length // config.light_period)
        self.failures = np.zeros((num_envs, decisions, self.lights))  # luck

    def reset(self, env_ids: Ints, seeds: Ints) -> StepOutput:
        self.born[:] = False
        frame = super().reset(env_ids, seeds)
        frame.born = self._born_seats()
        return frame

    def step(self, actions: Sequence[Array]) -> StepOutput:
        self.born[:] = False
        frame = super().step(actions)
        frame.born = self._born_seats()
        return frame

    def set_state(self, state: State) -> StepOutput:
        """Show the state again. ``born`` is empty: ``agent_at`` knows who sits where."""
        self.born[:] = False
        return super().set_state(state)

    def agent_at(self, env_id: int, seat: int) -> AgentID:
        if seat < self.cars:
            return f"car_{self.name_at[env_id, seat]}"
        return f"traffic_light_{seat - self.cars}"

    def reseed(self, seeds: Ints) -> bool:
        """Other cars arrive and other lights fail from now on."""
        self._draw_luck(np.arange(self.num_envs), seeds)
        return True

    def action_names(self, agent: AgentID) -> tuple[str, ...]:
        if agent.startswith("car_"):
            return ("wait", "go")
        return ("avenue", "street")

    def _born_seats(self) -> list[tuple[int, int]]:
        env_ids, seats = np.nonzero(self.born)
        return list(zip(env_ids.tolist(), seats.tolist(), strict=True))

    def _draw_luck(self, env_ids: Ints, seeds: Ints) -> None:
        # One generator per env and all luck of an episode at once: it follows from the env's seed alone.
        for env_id, seed in zip(env_ids, seeds, strict=True):
            luck = np.random.default_rng(int(seed))
            self.arrivals[env_id] = luck.random(self.arrivals.shape[1:])
            self.failures[env_id] = luck.random(self.failures.shape[1:])

    def _start(self, env_ids: Ints, seeds: Ints) -> None:
        self._draw_luck(env_ids, seeds)
        self.clock[env_ids] = 0
        self.status[env_ids, : self.cars] = EMPTY
        self.status[env_ids, self.cars :] = ALIVE
        self.born[env_ids, self.cars :] = True
        self.road[env_ids] = 0
        self.place[env_ids] = 0
        self.moved[env_ids] = False
        self.name_at[env_ids] = 0
        self.street_green[env_ids] = False
        self.dark[env_ids] = 0
        started = np.zeros(self.num_envs, bool)
        started[env_ids] = True
        self._arrive(started)

    def _play(self, actions: Sequence[Array]) -> tuple[Floats, Bools, Bools, Bools]:
        # A seat stays taken for one step after its end, so that nobody is born into the row of a last observation.
        self.status[self.status == ENDED] = EMPTY
        working = self.status[:, self.cars :] == ALIVE
        paid, gone = self._drive(actions[0] == 1)
        self.status[:, : self.cars][gone] = ENDED
        waiting = self._count(~self.moved).sum(axis=2)
        rewards = np.concatenate([paid, CAR_WAITS * waiting * working], axis=1).astype(np.float32)
        asked = working & self._lights_decide()[:, None]
        self.street_green = np.where(asked, actions[1] == 1, self.street_green)
        self.clock += 1
        over = self.clock >= self.config.episode_length
        failed = self._fail_or_return(self._lights_decide() & ~over)
        self._arrive(~over)
        truncated = over[:, None] & (self.status == ALIVE)
        return rewards, np.concatenate([gone, failed], axis=1), truncated, over

    def _lights_decide(self) -> Bools:
        return np.equal(self.clock % self.config.light_period, 0)

    def _drive(self, wants: Bools) -> tuple[Floats, Bools]:
        """Move the cars: rewards and who is gone, ``[E, cars]``."""
        driving = self.driving()
        go = driving & wants
        junction, distance, green = self._ahead()
        ran_red = go & (junction >= 0) & (distance == 1) & ~green
        self.place += go
        self.moved = go
        crowd = np.take_along_axis(self._crowd(), self.map.cell[self.road, self.place], axis=1)
        crashed = driving & (crowd > 1)
        arrived = driving & (self.place >= self.map.length[self.road])
        paid = np.where(go, GO, WAIT) * driving + RAN_RED * ran_red + CRASHED * crashed + ARRIVED * arrived
        return paid.astype(np.float32), crashed | arrived

    def _fail_or_return(self, due: Bools) -> Bools:
        """Where lights are ``due``, some fail and dark ones come back. Who failed, ``[E, lights]``."""
        status = self.status[:, self.cars :]
        decision = np.minimum(self.clock // self.config.light_period, self.failures.shape[1] - 1)
        luck = self.failures[np.arange(self.num_envs), decision]
        failed: Bools = due[:, None] & (status == ALIVE) & (luck < self.config.failure_rate)
        self.dark -= due[:, None] & (self.dark > 0)
        back = due[:, None] & (status == EMPTY) & (self.dark == 0)
        status[failed], status[back] = ENDED, ALIVE
        self.born[:, self.cars :] |= back
        self.dark[failed] = self.config.dark_periods
        self.street_green &= ~failed
        return failed

    def _arrive(self, open_envs: Bools) -> None:
        """Let cars in where a road's first cell, a seat and luck allow. Seats left just now stay empty."""
        crowd, config = self._crowd(), self.config
        luck = self.arrivals[np.arange(self.num_envs), np.minimum(self.clock, config.episode_length - 1)]
        for road in range(self.lights + 1):
            room = self.status[:, : self.cars] == EMPTY
            entry_free = crowd[:, self.map.cell[road, 0]] == 0
            come = open_envs & (luck[:, road, 0] < config.arrival_rate) & entry_free & room.any(axis=1)
            env_ids = np.flatnonzero(come)
            seats = room[env_ids].argmax(axis=1)
            self.name_at[env_ids, seats] = self._draw_names(env_ids, luck[env_ids, road, 1])
            self.road[env_ids, seats], self.place[env_ids, seats], self.moved[env_ids, seats] = road, 0, True
            self.status[env_ids, seats] = ALIVE
            self.born[env_ids, seats] = True

    def _draw_names(self, env_ids: Ints, luck: Array) -> Ints:
        """One car number per env, uniformly among those that are not on the roads (nor left just now)."""
        free = np.ones((len(env_ids), self.cars + self.config.spare_names), bool)
        rows, seats = np.nonzero(self.status[env_ids, : self.cars] != EMPTY)
        free[rows, self.name_at[env_ids[rows], seats]] = False
        rank = (luck * free.sum(axis=1)).astype(np.int64)
        names: Ints = np.argmax(free.cumsum(axis=1) > rank[:, None], axis=1)
        return names

    def driving(self) -> Bools:
        """``[E, cars]``: which seats hold a car that is on the road."""
        return np.equal(self.status[:, : self.cars], ALIVE)

    def _crowd(self) -> Ints:
        """Cars in every cell, ``[E, cells + 1]``; always 0 nowhere."""
        width = self.map.num_cells + 1
        cells = self.map.cell[self.road, self.place] + width * np.arange(self.num_envs)[:, None]
        crowd = np.bincount(cells[self.driving()], minlength=self.num_envs * width).reshape(-1, width)
        crowd[:, self.map.nowhere] = 0
        return crowd

    def _ahead(self) -> tuple[Ints, Ints, Bools]:
        """Of each car: the next junction (or -1), cells to it, and whether it is green for the car's road."""
        junction = self.map.junction[self.road, self.place]
        street_green = np.take_along_axis(self.street_green, np.maximum(junction, 0), axis=1)
        return junction, self.map.distance[self.road, self.place], street_green == (self.road != AVENUE)

    def _count(self, which: Bools) -> Ints:
        """Cars among ``which`` before each junction, ``[E, lights, 2]``: on the avenue, on the street."""
        junction = self.map.junction[self.road, self.place]
        row = (np.arange(self.num_envs)[:, None] * self.lights + junction) * 2 + (self.road != AVENUE)
        chosen = row[which & self.driving() & (junction >= 0)]
        return np.bincount(chosen, minlength=self.num_envs * self.lights * 2).reshape(-1, self.lights, 2)

    def _view(self) -> tuple[Sequence[Array], Sequence[Bools], Bools, Floats]:
        crowd = self._crowd()
        obs = np.zeros((self.num_envs, self.cars + self.lights, 5), np.float32)
        obs[:, : self.cars] = self._seen_by_cars(crowd)
        obs[:, self.cars :] = self._seen_by_lights()
        obs[self.status == EMPTY] = 0
        present = self.status == ALIVE
        works = present[:, self.cars :].astype(np.float32)
        state = np.concatenate([crowd[:, :-1], self.street_green, works], axis=1, dtype=np.float32)
        present[:, self.cars :] &= self._lights_decide()[:, None]
        legal = [np.ones((self.num_envs, kind.size, 0), bool) for kind in self.kinds]
        return (obs[:, : self.cars], obs[:, self.cars :]), legal, present, state

    def _seen_by_cars(self, crowd: Ints) -> Floats:
        junction, distance, green = self._ahead()
        gap, free = np.zeros_like(self.place), np.ones(self.place.shape, bool)
        for cells in range(1, self.block + 1):
            ahead = self.map.cell[self.road, self.place + cells]
            free &= np.take_along_axis(crowd, ahead, axis=1) == 0
            gap += free
        is_ahead = junction >= 0
        seen = (is_ahead, distance / self.block, green & is_ahead, gap / self.block, self.moved)
        return np.stack(seen, axis=2, dtype=np.float32)

    def _seen_by_lights(self) -> Floats:
        cars, waiting = self._count(np.ones_like(self.moved)), self._count(~self.moved)
        return np.concatenate(
            [cars / self.block, waiting / self.block, self.street_green[..., None]], axis=2, dtype=np.float32
        )

    def scene(self, env_id: int, viewer: AgentID | None = None) -> Mapping[str, Any]:
        del viewer  # the roads are the same for everybody who looks at the map
        return traffic_scene(self, env_id)

    def render(self, env_id: int) -> str:
        """Each road in driving direction: ``.`` free, ``+`` junction, a digit is the end of a car's id."""
        lines = [f"traffic, step {self.clock[env_id]}"]
        for road in range(self.lights + 1):
            name = "avenue  " if road == AVENUE else f"street {road - 1}"
            lines.append(f"{name} {self._drawn_road(env_id, road)}")
        for light, green in enumerate(self.street_green[env_id]):
            way = "street" if green else "avenue"
            dark = " (dark)" if self.dark[env_id, light] else ""
            lines.append(f"traffic_light_{light}: {way} has green{dark}")
        return "\n".join(lines)

    def _drawn_road(self, env_id: int, road: int) -> str:
        before_junction = (self.map.junction[road] >= 0) & (self.map.distance[road] == 1)
        is_junction = np.roll(before_junction, 1)[: self.map.length[road]]
        cells = ["+" if junction else "." for junction in is_junction]
        for seat in np.flatnonzero(self.driving()[env_id] & (self.road[env_id] == road)):
            cells[self.place[env_id, seat]] = str(self.name_at[env_id, seat] % 10)
        return "".join(cells)


def _kind(pattern: str, seats: int) -> AgentType:
    """Cars and lights both see five numbers and choose one of two actions."""
    names = tuple(f"{pattern}[{i}]" for i in range(seats))
    return AgentType(pattern, names, spaces.Box(0, 1, (5,), np.float32), spaces.Discrete(2))
