"""Traffic: frames whose agents come and go, the rules of the road, and what good play earns."""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest

from marl.data.task import Array, Ints
from marl.envs.batched import StepOutput
from marl.envs.games.traffic import ALIVE, TrafficGames

BUSY = {"arrival_rate": 0.5, "max_cars": 5, "spare_names": 2, "failure_rate": 0.3, "episode_length": 40}
Rule: TypeAlias = Callable[[Array, np.random.Generator], Ints]


def started(num_envs: int = 1, seed: int = 0, **env_config: object) -> tuple[TrafficGames, StepOutput]:
    games = TrafficGames(num_envs, env_config)
    return games, games.reset(np.arange(num_envs), np.arange(num_envs) + seed)


def town(*cars: tuple[int, int], **env_config: object) -> TrafficGames:
    """One town without arrivals and failures, with cars put on ``(road, place)``; seat i is car_i."""
    games, _ = started(arrival_rate=0.0, failure_rate=0.0, **env_config)
    for seat, (road, place) in enumerate(cars):
        games.road[0, seat], games.place[0, seat], games.name_at[0, seat] = road, place, seat
        games.moved[0, seat], games.status[0, seat] = True, ALIVE
    return games


def step(games: TrafficGames, go: tuple[int, ...], green: tuple[int, ...] = (0, 0)) -> StepOutput:
    cars = np.zeros((1, games.cars), np.int64)
    cars[0, : len(go)] = go
    return games.step([cars, np.array([green])])


def random_actions(games: TrafficGames, rng: np.random.Generator, share_go: float = 0.5) -> list[Array]:
    shape = (games.num_envs, games.cars)
    return [(rng.random(shape) < share_go).astype(int), rng.integers(2, size=(games.num_envs, games.lights))]


def shown(frame: StepOutput) -> list[Array]:
    """Everything in a frame that a collector reads, copied."""
    columns = [
        *frame.obs,
        frame.present,
        frame.state,
        frame.rewards,
        frame.terminated,
        frame.truncated,
        frame.over,
    ]
    return [np.array(column) for column in columns]


def assert_same(one: list[Array], other: list[Array]) -> None:
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a, b)


# -- the contract of frames ----------------------------------------------------------------------------------


class Witness:
    """Follows the frames of all copies and checks that they tell one consistent story of who is alive."""

    def __init__(self, games: TrafficGames, frame: StepOutput) -> None:
        self.games = games
        self.alive = np.zeros(frame.present.shape, bool)
        self.names: dict[tuple[int, int], str] = {}
        self.ended_before: list[set[str]] = [set() for _ in range(games.num_envs)]
        self.came_back: set[str] = set()
        self.see_births(frame, may_be_taken=~self.alive)
        self.check_present(frame)

    def see_births(self, frame: StepOutput, may_be_taken: Array) -> None:
        assert len(set(frame.born)) == len(frame.born)
        for env_id, seat in frame.born:
            assert may_be_taken[env_id, seat]
            name = self.games.agent_at(env_id, seat)
            living = {self.names[env_id, s] for s in np.flatnonzero(self.alive[env_id]).tolist()}
            assert name not in living
            assert name.startswith("car_" if seat < self.games.cars else "traffic_light_")
            if name in self.ended_before[env_id]:
                self.came_back.add(name)
            self.names[env_id, seat] = name
            self.alive[env_id, seat] = True

    def check_present(self, frame: StepOutput) -> None:
        cars = self.games.cars
        due = self.games.clock % self.games.config.light_period == 0
        expected = self.alive.copy()
        expected[:, cars:] &= due[:, None]
        expected[frame.over] = False
        np.testing.assert_array_equal(frame.present, expected)
        for env_id, seat in np.argwhere(self.alive).tolist():
            assert self.games.agent_at(env_id, seat) == self.names[env_id, seat]
        for seen in frame.obs:
            assert seen.dtype == np.float32
            assert ((seen >= 0) & (seen <= 1)).all()

    def see_step(self, frame: StepOutput) -> None:
        ended = frame.terminated | frame.truncated
        assert not (frame.terminated & frame.truncated).any()
        assert not (ended & ~self.alive).any()
        assert not frame.rewards[~self.alive].any()
        assert not frame.present[ended].any()
        assert not frame.blind.any()
        for env_id, seat in np.argwhere(ended).tolist():
            assert self.games.agent_at(env_id, seat) == self.names[env_id, seat]
            self.ended_before[env_id].add(self.names[env_id, seat])
        free = ~self.alive
        self.alive &= ~ended
        names_just_ended = {(env_id, self.names[env_id, seat]) for env_id, seat in np.argwhere(ended).tolist()}
        self.see_births(frame, may_be_taken=free)
        assert not names_just_ended & {(env_id, self.names[env_id, seat]) for env_id, seat in frame.born}
        assert not self.alive[frame.over].any()
        self.check_present(frame)
        for kind, seen in zip(self.games.kinds, frame.obs, strict=True):
            assert not seen[~(self.alive | ended)[:, kind.seats]].any()

    def see_reset(self, frame: StepOutput, env_ids: Ints) -> None:
        self.alive[env_ids] = False
        for env_id in env_ids.tolist():
            self.ended_before[env_id].clear()
        assert {env_id for env_id, _ in frame.born} == set(env_ids.tolist())
        self.see_births(frame, may_be_taken=~self.alive)
        assert not frame.over.any()
        self.check_present(frame)


@pytest.mark.parametrize("light_period", [1, 3, 5])
def test_frames_tell_one_story_of_who_is_alive_in_thousands_of_random_steps(light_period: int) -> None:
    games, frame = started(6, **BUSY, light_period=light_period)
    witness, rng = Witness(games, frame), np.random.default_rng(1)
    for number in range(400):
        frame = games.step(random_actions(games, rng, share_go=0.8))
        witness.see_step(frame)
        if frame.over.any():
            env_ids = np.flatnonzero(frame.over)
            frame = games.reset(env_ids, 1000 * number + env_ids)
            witness.see_reset(frame, env_ids)
        elif number == 7:  # one copy out of step with the others, as after an early end
            witness.see_reset(games.reset(np.array([2]), np.array([5])), np.array([2]))
    assert {name.split("_")[0] for name in witness.came_back} == {"car", "traffic"}


def test_twenty_cars_and_five_lights_obey_the_same_contract() -> None:
    games, frame = started(2, max_cars=20, lights=5, arrival_rate=0.6, failure_rate=0.2)
    witness, rng = Witness(games, frame), np.random.default_rng(2)
    most = 0
    for _ in range(100):
        frame = games.step(random_actions(games, rng, share_go=0.6))
        witness.see_step(frame)
        most = max(most, int(witness.alive[:, :20].sum(axis=1).max()))
    assert most == 20
    assert frame.over.all()


def test_an_episode_follows_from_its_seed_whatever_the_number_of_lanes() -> None:
    many, one = started(5, **BUSY), started(1, seed=3, **BUSY)
    assert_same([column[3:4] for column in shown(many[1])], shown(one[1]))
    rng = np.random.default_rng(0)
    for _ in range(40):
        actions = random_actions(many[0], rng)
        frame, alone = many[0].step(actions), one[0].step([a[3:4] for a in actions])
        assert_same([column[3:4] for column in shown(frame)], shown(alone))
        assert [seat for env_id, seat in frame.born if env_id == 3] == [seat for _, seat in alone.born]
        for _, seat in alone.born:
            assert one[0].agent_at(0, seat) == many[0].agent_at(3, seat)


def test_another_seed_gives_another_episode() -> None:
    _, frame = started(20, arrival_rate=0.5)
    assert len({tuple(row) for row in frame.present.tolist()}) > 1


@pytest.mark.parametrize("stop", [0, 13, 25])
def test_an_episode_goes_on_bit_for_bit_from_its_saved_state(stop: int) -> None:
    games, frame = started(3, **BUSY)
    rng = np.random.default_rng(0)
    for _ in range(stop):
        frame = games.step(random_actions(games, rng))
    other = TrafficGames(3, BUSY)
    again = other.set_state(games.get_state())
    assert_same([*again.obs, again.present, again.state], [*frame.obs, frame.present, frame.state])
    assert not again.rewards.any()
    for _ in range(stop, 40):
        actions = random_actions(games, rng)
        frame, copy = games.step(actions), other.step(actions)
        assert_same(shown(frame), shown(copy))
        assert frame.born == copy.born
        assert [games.agent_at(*b) for b in frame.born] == [other.agent_at(*b) for b in copy.born]


def test_the_episode_is_truncated_for_everybody_alive_with_a_last_observation() -> None:
    games, _ = started(1, arrival_rate=0.5, failure_rate=0.0, episode_length=7)
    rng = np.random.default_rng(0)
    frames = [games.step(random_actions(games, rng)) for _ in range(7)]
    assert [bool(frame.over[0]) for frame in frames] == [False] * 6 + [True]
    last = frames[-1]
    assert last.truncated[0, -2:].all()  # both lights, though they were not asked in this step
    assert not last.terminated[0, -2:].any()
    assert last.truncated[0, :-2].any()
    assert last.obs[0][last.truncated[:, :-2]].any(axis=1).all()
    assert last.born == []
    assert last.state[0, : games.map.num_cells].sum() == last.truncated[0, :-2].sum()


# -- the rules of the road -----------------------------------------------------------------------------------


def test_a_car_sees_the_junction_its_colour_the_gap_and_its_own_movement() -> None:
    games = town((0, 2), (0, 3), (1, 1), (0, 11))  # junctions of the avenue lie on the places 4 and 8
    frame = games.set_state(games.get_state())
    assert frame.obs[0][0, :4].tolist() == [
        [1, 0.5, 1, 0.0, 1],  # two cells before a green junction, right behind a car
        [1, 0.25, 1, 1.0, 1],
        [1, 0.75, 0, 1.0, 1],  # on the street: red
        [0, 1.0, 0, 1.0, 1],  # nothing ahead any more
    ]
    frame = step(games, (0, 1, 0, 1), green=(1, 0))
    assert frame.obs[0][0, :2].tolist() == [[1, 0.5, 0, 0.25, 0], [1, 1.0, 1, 1.0, 1]]


def test_a_light_sees_cars_and_waiting_cars_of_both_approaches_and_its_colour() -> None:
    games = town((0, 2), (0, 3), (1, 1), (2, 0))
    frame = step(games, (0, 0, 0, 1), green=(1, 0))
    assert frame.obs[1][0].tolist() == [[0.5, 0.25, 0.5, 0.25, 1], [0, 0.25, 0, 0, 0]]


def test_going_pays_and_waiting_costs_a_little() -> None:
    frame = step(town((0, 0), (1, 0)), (1, 0))
    assert frame.rewards[0, :2].tolist() == pytest.approx([0.1, -0.02])


def test_a_car_at_the_end_of_its_road_is_rewarded_and_terminated() -> None:
    frame = step(town((0, 11), (2, 7)), (1, 1))
    assert frame.rewards[0, :2].tolist() == pytest.approx([1.1, 1.1])
    assert frame.terminated[0, :3].tolist() == [True, True, False]


def test_running_a_red_light_costs_one_and_going_on_green_nothing() -> None:
    frame = step(town((0, 3), (1, 3)), (0, 1))
    assert frame.rewards[0, 1] == pytest.approx(0.1 - 1)
    frame = step(town((0, 3), (1, 3)), (1, 0))
    assert frame.rewards[0, 0] == pytest.approx(0.1)


def test_a_light_switches_after_the_cars_have_moved() -> None:
    games = town((0, 3), (1, 3))
    frame = step(games, (1, 0), green=(1, 0))  # the avenue still had green
    assert frame.rewards[0, 0] == pytest.approx(0.1)
    frame = step(games, (1, 1))
    assert frame.rewards[0, 1] == pytest.approx(0.1)
    assert not frame.terminated.any()


def test_two_cars_in_one_cell_crash_and_both_are_out() -> None:
    rear_end = step(town((0, 0), (0, 1)), (1, 0))
    assert rear_end.rewards[0, :2].tolist() == pytest.approx([0.1 - 2, -0.02 - 2])
    assert rear_end.terminated[0, :2].all()
    junction = step(town((0, 3), (1, 3)), (1, 1))
    assert junction.rewards[0, :2].tolist() == pytest.approx([0.1 - 2, 0.1 - 2 - 1])
    assert junction.terminated[0, :2].all()


def test_cars_in_a_row_may_all_go() -> None:
    frame = step(town((0, 0), (0, 1), (0, 2)), (1, 1, 1))
    assert not frame.terminated.any()


def test_a_light_pays_for_the_cars_that_wait_before_it() -> None:
    frame = step(town((0, 3), (0, 2), (1, 3), (2, 1), (2, 6)), (0, 0, 0, 0, 0))
    assert frame.rewards[0, -2:].tolist() == pytest.approx([-0.3, -0.1])  # the car past its junction counts for none


def test_lights_are_asked_only_every_light_period_steps_but_paid_always() -> None:
    games = town((1, 3), light_period=3)
    frames = [step(games, (0,)) for _ in range(6)]
    assert [bool(frame.present[0, -2]) for frame in frames] == [False, False, True, False, False, True]
    assert [float(frame.rewards[0, -2]) for frame in frames] == pytest.approx([-0.1] * 6)


def test_actions_of_lights_that_were_not_asked_mean_nothing() -> None:
    games = town(light_period=3)
    step(games, (), green=(0, 0))
    step(games, (), green=(1, 1))
    assert not games.street_green.any()


def test_a_failed_light_leaves_the_green_to_the_avenue_and_comes_back_as_a_new_agent() -> None:
    games = town((1, 3), light_period=2, dark_periods=2)
    games.failures[:] = 1.0
    games.config = games.config.model_copy(update={"failure_rate": 0.5})
    games.failures[0, 1, 0] = 0.0  # the first light fails at its second decision
    frames = [step(games, (0,), green=(1, 1)) for _ in range(6)]
    assert [bool(frame.terminated[0, -2]) for frame in frames] == [False, True, False, False, False, False]
    assert [bool(frame.present[0, -2]) for frame in frames] == [False] * 5 + [True]
    assert [frame.born for frame in frames] == [[]] * 5 + [[(0, games.cars)]]
    assert games.agent_at(0, games.cars) == "traffic_light_0"
    assert frames[1].obs[1][0, 0].tolist() == [0, 0.25, 0, 0.25, 0]
    assert [float(frame.rewards[0, -2]) for frame in frames] == pytest.approx([-0.1, -0.1, 0, 0, 0, 0])
    assert games.street_green[0].tolist() == [False, True]


# -- what play earns -----------------------------------------------------------------------------------------


def random_play(obs: Array, rng: np.random.Generator) -> Ints:
    return rng.integers(2, size=obs.shape[:-1])


def always_go(obs: Array, rng: np.random.Generator) -> Ints:
    return np.ones(obs.shape[:-1], np.int64)


def go_on_green_into_a_free_cell(obs: Array, rng: np.random.Generator) -> Ints:
    junction, distance, green, gap, _ = np.moveaxis(obs, -1, 0)
    red_ahead = (junction == 1) & (distance == 0.25) & (green == 0)
    return ((gap > 0) & ~red_ahead).astype(np.int64)


def green_for_the_longer_queue(obs: Array, rng: np.random.Generator) -> Ints:
    return (obs[..., 1] > obs[..., 0]).astype(np.int64)


def earned(cars: Rule, lights: Rule, episodes: int = 300) -> tuple[float, float, float]:
    """Mean reward per episode of all cars and of all lights, and the mean number of crashed cars."""
    games, frame = started(episodes)
    rng, total = np.random.default_rng(0), np.zeros(3)
    for _ in range(games.config.episode_length):
        frame = games.step([cars(frame.obs[0], rng), lights(frame.obs[1], rng)])
        of_cars, of_lights = frame.rewards[:, : games.cars], frame.rewards[:, games.cars :]
        total += of_cars.sum(), of_lights.sum(), (of_cars < -1.5).sum()
    return tuple(total / episodes)


def test_good_driving_beats_always_going_which_beats_random_play() -> None:
    random, _, random_crashes = earned(random_play, random_play)
    going, _, _ = earned(always_go, random_play)
    careful, _, careful_crashes = earned(go_on_green_into_a_free_cell, random_play)
    assert random == pytest.approx(-31, abs=3)
    assert going == pytest.approx(26, abs=3)
    assert careful == pytest.approx(58, abs=3)
    assert random_crashes > 15
    assert careful_crashes == 0


def test_lights_that_watch_their_queues_earn_more_and_help_the_cars() -> None:
    cars, lights, _ = earned(go_on_green_into_a_free_cell, green_for_the_longer_queue)
    cars_at_random, lights_at_random, _ = earned(go_on_green_into_a_free_cell, random_play)
    assert (cars, lights) == (pytest.approx(72, abs=3), pytest.approx(-10, abs=2))
    assert lights_at_random == pytest.approx(-26, abs=2)
    assert cars > cars_at_random + 10


def test_the_picture_shows_roads_cars_and_lights() -> None:
    games = town((0, 2), (1, 3))
    assert games.render(0).splitlines() == [
        "traffic, step 0",
        "avenue   ..0.+...+...",
        "street 0 ...1+...",
        "street 1 ....+...",
        "traffic_light_0: avenue has green",
        "traffic_light_1: avenue has green",
    ]
