"""Particle games: seeds, saving, pictures, mistakes. That they play like the originals is tested beside this file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import marl
from marl.data.task import Array
from marl.envs.batched import StepOutput
from marl.envs.games.particles.adversary import AdversaryGames
from marl.envs.games.particles.crypto import CryptoGames
from marl.envs.games.particles.drawing import Disc, camera_range, draw
from marl.envs.games.particles.physics import Bodies, Body
from marl.envs.games.particles.push import PushGames
from marl.envs.games.particles.reference import ReferenceGames
from marl.envs.games.particles.seeding import uniform
from marl.envs.games.particles.speaker_listener import SpeakerListenerGames
from marl.envs.games.particles.spread import SpreadGames
from marl.envs.games.particles.tag import TagGames
from marl.envs.games.particles.world_comm import WorldCommGames
from marl.errors import ConfigError, EnvError

WITH_STAGES = [SpreadGames, TagGames]
GAMES = [
    *WITH_STAGES,
    SpeakerListenerGames,
    AdversaryGames,
    PushGames,
    CryptoGames,
    ReferenceGames,
    WorldCommGames,
]
NUM_ENVS = 5
STILL = 0


def started(game: Any, num_envs: int = NUM_ENVS, seed: int = 0, **config: object) -> tuple[Any, StepOutput]:
    env = game(num_envs, config)
    return env, env.reset(np.arange(num_envs), np.arange(num_envs) + seed)


def random_actions(env: Any, rng: np.random.Generator) -> list[Array]:
    return [rng.integers(kind.action_space.n, size=(env.num_envs, kind.size)) for kind in env.kinds]


def constant_actions(env: Any, action: int) -> list[Array]:
    return [np.full((env.num_envs, kind.size), action) for kind in env.kinds]


# -- physics ---------------------------------------------------------------------------------------------------------------


def lone_runner(top_speed: float) -> Bodies:
    bodies = Bodies(1, [Body(0.1, acceleration=2.0, top_speed=top_speed)], [])
    bodies.measure()
    return bodies


def test_a_body_moves_with_its_old_velocity_then_slows_down_and_accelerates() -> None:
    bodies = lone_runner(np.inf)
    for x, v in [(0.0, 0.2), (0.02, 0.35), (0.055, 0.4625)]:  # v' = 0.75 v + 0.2; x' = x + 0.1 v
        bodies.move(np.array([1.0, 0.0]).reshape(2, 1, 1))
        assert bodies.position[:, 0, 0].tolist() == pytest.approx([x, 0.0])
        assert bodies.velocity[:, 0, 0].tolist() == pytest.approx([v, 0.0])


def test_nobody_is_faster_than_its_top_speed_and_keeps_its_direction() -> None:
    bodies = lone_runner(0.3)
    for _ in range(5):
        bodies.move(np.array([0.6, 0.8]).reshape(2, 1, 1))
    assert bodies.velocity[:, 0, 0].tolist() == pytest.approx([0.18, 0.24])


def test_overlapping_bodies_push_each_other_apart_with_equal_force_and_obstacles_stay() -> None:
    bodies = Bodies(1, [Body(0.1, solid=True)] * 2, [Body(0.1, solid=True)])
    bodies.position[0, :, 0] = [0.0, 0.15, 5.0]
    bodies.measure()
    bodies.move(np.zeros((2, 2, 1)))
    assert bodies.velocity[0, :, 0].tolist() == pytest.approx([-0.5, 0.5])  # 100 * overlap 0.05 * 0.1 s
    bodies.position[0, :, 0] = [0.0, 3.0, 0.15]
    bodies.velocity[:] = 0
    bodies.measure()
    bodies.move(np.zeros((2, 2, 1)))
    assert bodies.velocity[0, :, 0].tolist() == pytest.approx([-0.5, 0.0])
    assert bodies.position[0, 2, 0] == 0.15


def test_bodies_in_exactly_the_same_place_give_finite_numbers() -> None:
    env, _ = started(SpreadGames, 1)
    env.place(0, np.zeros((3, 2)), np.zeros((3, 2)))
    frame = env.step(constant_actions(env, STILL))
    assert np.isfinite(frame.obs[0]).all()
    assert frame.rewards[0].tolist() == [-1.0] * 3  # nothing to walk, two bumps at half a point


# -- rules by hand ---------------------------------------------------------------------------------------------------------


def test_spread_pays_distances_of_landmarks_and_bumps_by_local_ratio() -> None:
    env, _ = started(SpreadGames, 1, local_ratio=0.25)
    agents = [[0, 0], [0.2, 0], [-1, 0]]  # the first two overlap: 0.2 < 0.3
    env.place(0, agents, [[0, 0.5], [-1, 0.25], [0.2, 1]])
    frame = env.step(constant_actions(env, STILL))
    far = 0.5 + 0.25 + 1.0
    assert frame.rewards[0] == pytest.approx([-0.75 * far - 0.25, -0.75 * far - 0.25, -0.75 * far])


def test_tag_pays_every_adversary_for_every_catch_and_agents_for_leaving() -> None:
    env, _ = started(TagGames, 1, num_good=2, num_obstacles=0)
    env.place(0, [[0.0, 0.0], [0.11, 0.0], [0.5, 0.5], [0.055, 0.0], [0.95, -2.0]], [])
    frame = env.step(constant_actions(env, STILL))
    assert frame.rewards[0] == pytest.approx([20, 20, 20, -20, -(0.5 + np.exp(2.0))])


def test_the_speaker_and_the_listener_pay_the_squared_distance_to_the_goal() -> None:
    env, _ = started(SpeakerListenerGames, 1)
    frame = env.place(0, [[1, 1], [0, 0]], [[9, 9], [0.3, 0.4], [9, 9]], goal=1)
    assert frame.obs[0][0, 0].tolist() == pytest.approx([0.15, 0.65, 0.15])
    assert frame.obs[1][0, 0, -3:].tolist() == [0, 0, 0]
    frame = env.step([np.array([[2]]), np.array([[STILL]])])
    assert frame.rewards[0] == pytest.approx([-0.25, -0.25])
    assert frame.obs[1][0, 0, -3:].tolist() == [0, 0, 1]


def test_the_adversary_pays_its_way_to_the_goal_and_agents_the_way_of_their_nearest() -> None:
    env, _ = started(AdversaryGames, 1)
    frame = env.place(0, [[0, 0], [1, 0], [0, 1]], [[0.3, 0.4], [0.0, -1.0]], goals=[1])
    assert frame.obs[0][0, 0].tolist() == pytest.approx([0.3, 0.4, 0, -1, 1, 0, 0, 1])  # does not know the goal
    assert frame.obs[1][0, 1].tolist() == pytest.approx([0, -2, 0.3, -0.6, 0, -2, 0, -1, 1, -1])
    frame = env.step(constant_actions(env, STILL))
    nearest = np.sqrt(2)
    assert frame.rewards[0] == pytest.approx([-1, 1 - nearest, 1 - nearest])


def test_the_pusher_is_paid_for_being_nearer_to_the_goal_than_the_agent() -> None:
    env, _ = started(PushGames, 1)
    frame = env.place(0, [[0, 0.5], [3, 4]], [[0, 0], [9, 9]], goals=[0])
    assert frame.obs[1][0, 0, 2:7].tolist() == pytest.approx([-3, -4, 0.25, 0.75, 0.25])
    frame = env.step(constant_actions(env, STILL))
    assert frame.rewards[0] == pytest.approx([4.5, -5])


def test_bob_and_alice_win_what_bob_guesses_and_eve_does_not() -> None:
    env, _ = started(CryptoGames, 1)
    frame = env.place(0, np.zeros((3, 2)), np.zeros((2, 2)), goals=[1, 0])
    assert frame.obs[2][0, 0].tolist() == [0, 1, 0, 0, 1, 0, 0, 0]  # Alice: goal, key
    assert frame.obs[1][0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0]  # Bob: key, nothing said yet
    frame = env.step([np.array([[3]]), np.array([[1]]), np.array([[2]])])
    assert frame.rewards[0].tolist() == [-2, 2, 2]
    assert frame.obs[0][0, 0].tolist() == [0, 0, 1, 0]  # Eve hears Alice
    frame = env.step([np.array([[1]]), np.array([[0]]), np.array([[0]])])
    assert frame.rewards[0].tolist() == [0, -2, -2]


def test_one_who_says_nothing_neither_pays_nor_wins() -> None:
    env, _ = started(CryptoGames, 1, continuous_actions=True)
    env.place(0, np.zeros((3, 2)), np.zeros((2, 2)), goals=[0, 0])
    frame = env.step([np.zeros((1, 1, 4)), np.full((1, 1, 4), 0.5), np.zeros((1, 1, 4))])
    assert frame.rewards[0].tolist() == [0, -1, -1]


def test_an_action_of_reference_is_a_move_and_a_word_for_the_other_one() -> None:
    env, _ = started(ReferenceGames, 1, local_ratio=0.25)
    frame = env.place(0, [[0, 0], [1, 0]], [[9, 9], [1, 2], [0, 3]], goals=[1, 2])
    assert frame.obs[0][0, :, 8:11].tolist() == [
        pytest.approx([0.25, 0.75, 0.25]),
        pytest.approx([0.25, 0.25, 0.75]),
    ]
    frame = env.step([np.array([[2 + 5 * 7, 0 + 5 * 4]])])  # right, word 7; nothing, word 4
    assert frame.rewards[0] == pytest.approx([-0.25 * 2 - 0.75 * 2.5, -0.25 * 3 - 0.75 * 2.5])
    assert frame.obs[0][0, :, 11:].argmax(axis=1).tolist() == [4, 7]
    assert frame.obs[0][0, :, 0].tolist() == [0.5, 0.0]


def test_world_comm_pays_for_catches_ways_food_and_leaving() -> None:
    env, _ = started(WorldCommGames, 1, num_good=2, num_adversaries=2, num_obstacles=0, num_food=1, num_forests=0)
    env.place(0, [[0.0, 0.0], [0.0, 0.5], [0.1, 0.0], [0.5, -0.95]], [[0.1, 0.04]])
    frame = env.step(constant_actions(env, STILL))
    behind = np.hypot(0.1, 0.5)
    far = np.hypot(0.4, 0.99)
    expected = [5 - 0.1 * 0.1, 5 - 0.1 * behind, -5 + 2 - 0.05 * 0.04, -2 * 0.5 - 0.05 * far]
    assert frame.rewards[0] == pytest.approx(expected)


def test_forests_hide_from_all_but_the_leader_and_those_inside() -> None:
    env, _ = started(WorldCommGames, 1, num_obstacles=0, num_food=1, num_forests=2, num_adversaries=3, num_good=2)
    inside, open_land = [-0.5, 0.0], [0.8, 0.8]
    agents = [[0.0, 0.9], [-0.6, 0.0], open_land, inside, [0.5, 0.9]]
    frame = env.place(0, agents, [[0, 0], [-0.5, 0.1], [0.5, -0.5]])

    def shown(kind: int, seat: int) -> list[bool]:
        """Who of the four others is there, in their order."""
        return list((frame.obs[kind][0, seat, 10:18].reshape(4, 2) != 0).any(axis=1).tolist())

    assert shown(0, 0) == [True, True, True, True]
    assert shown(1, 0) == [False, False, True, False]  # in the forest with agent_0
    assert shown(1, 1) == [True, False, False, True]  # adversary_1 sees who is in the open
    assert shown(2, 0) == [False, True, False, False]
    forests = [frame.obs[0][0, 0, 22:24], *frame.obs[1][0, :, 22:24], *frame.obs[2][0, :, 18:20]]
    assert [row.tolist() for row in forests] == [[-1, -1], [1, -1], [-1, -1], [1, -1], [-1, -1]]


# -- copies, seeds, state ---------------------------------------------------------------------------------------------------


def test_draws_are_uniform_and_unrelated_between_neighbouring_seeds() -> None:
    numbers = uniform(np.arange(4000), 13)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts = np.apply_along_axis(lambda row: np.histogram(row, 10, (0, 1))[0], 0, numbers)
    assert np.abs(counts - 400).max() < 5 * np.sqrt(400 * 0.9)
    related = np.corrcoef(np.vstack([numbers[:-1].T, numbers[1:].T])) - np.eye(26)
    assert np.abs(related).max() < 0.08
    assert len(np.unique(numbers)) == numbers.size
    assert (uniform(np.array([3, -7, 2**62]), 13)[0] == numbers[3]).all()


@pytest.mark.parametrize("game", GAMES)
def test_an_episode_follows_from_its_seed_in_whatever_lane_and_company(game: Any) -> None:
    alone, first = started(game, 1, seed=42)
    crowd = game(NUM_ENVS, {})
    crowd.reset(np.arange(NUM_ENVS), np.arange(NUM_ENVS) + 7)
    frame = crowd.reset(np.array([3]), np.array([42]))
    rng = np.random.default_rng(0)
    assert (frame.state[3] == first.state[0]).all()
    for _ in range(25):
        actions = random_actions(crowd, rng)
        frame, lone = crowd.step(actions), alone.step([column[3:4] for column in actions])
        assert (frame.state[3] == lone.state[0]).all()
        assert (frame.rewards[3] == lone.rewards[0]).all()
    assert lone.over.all()


@pytest.mark.parametrize("game", GAMES)
def test_a_reset_touches_its_own_lanes_only(game: Any) -> None:
    env, _ = started(game)
    before = env.step(random_actions(env, np.random.default_rng(0))).state.copy()
    after = env.reset(np.array([2]), np.array([99])).state
    assert [bool((a == b).all()) for a, b in zip(before, after, strict=True)] == [True, True, False, True, True]


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("stages", [False, True])
def test_a_game_goes_on_bit_for_bit_from_its_saved_state(game: Any, stages: bool) -> None:
    config = {"curriculum": True} if stages and game in WITH_STAGES else {}
    env, _ = started(game, **config)
    rng = np.random.default_rng(1)
    if config:
        env.set_task(1, 1)
        env.reset(np.array([1]), np.array([1]))
        env.set_task(2, 1)
    for _ in range(5):
        shown = env.step(random_actions(env, rng))
    saved = env.get_state()
    assert all(len(array) == NUM_ENVS for array in saved.values())
    other = game(NUM_ENVS, config)
    again = other.set_state(saved)
    assert (again.state == shown.state).all()
    assert not again.rewards.any()
    for step in range(30):
        actions = random_actions(env, rng)
        frame, same = env.step(actions), other.step(actions)
        assert (frame.state == same.state).all()
        assert (frame.rewards == same.rewards).all()
        if over := np.flatnonzero(frame.over).tolist():
            assert step == 19
            assert (other.reset(np.array(over), np.array(over)).state == env.reset(np.array(over), np.array(over)).state).all()  # fmt: skip
    assert all((other.get_state()[name] == array).all() for name, array in env.get_state().items())


@pytest.mark.parametrize("game", GAMES)
def test_frames_that_were_handed_out_do_not_change_later(game: Any) -> None:
    env, first = started(game)
    kept = first.state.copy()
    rng = np.random.default_rng(0)
    frames = [env.step(random_actions(env, rng)) for _ in range(3)]
    assert (first.state == kept).all()
    assert not (frames[0].state == frames[2].state).all()


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("continuous", [False, True])
@pytest.mark.slow
def test_the_checker_finds_nothing_wrong(game: Any, continuous: bool) -> None:
    assert [str(problem) for problem in marl.check_env(game.name, {"continuous_actions": continuous})] == []


# -- pictures --------------------------------------------------------------------------------------------------------------


def pixel(picture: Array, x: float, y: float, reach: float) -> list[int]:
    size = len(picture)
    row, column = int((reach - y) / (2 * reach) * size), int((x + reach) / (2 * reach) * size)
    return list(picture[row, column].tolist())


def painted(*colour: float) -> list[int]:
    return [round(255 * part) for part in colour]


@pytest.mark.parametrize(("game", "agent_colours"), [(SpreadGames, [(0.35, 0.35, 0.85)] * 3), (TagGames, [(0.85, 0.35, 0.35)] * 3 + [(0.35, 0.85, 0.35)])])  # fmt: skip
def test_the_picture_shows_every_agent_in_its_colour_where_it_is(game: Any, agent_colours: list[Any]) -> None:
    env, _ = started(game, 2, seed=5)
    for _ in range(3):
        env.step(random_actions(env, np.random.default_rng(3)))
    for env_id in range(2):
        picture = env.render(env_id)
        assert (picture.dtype, picture.shape[2], picture.shape[0]) == (np.uint8, 3, picture.shape[1])
        reach = camera_range(env.position[env_id])
        last = (*env.position[env_id][len(agent_colours) - 1],)  # painted last: certainly not hidden
        assert pixel(picture, *last, reach) == painted(*agent_colours[-1])
        for colour in set(agent_colours):
            assert (picture == painted(*colour)).all(axis=2).sum() > 20
        assert pixel(picture, -reach * 0.99, reach * 0.99, reach) == [255, 255, 255]


def test_the_picture_follows_the_agents_and_a_far_one_is_still_inside() -> None:
    env, _ = started(SpreadGames, 1, N=1)
    env.place(0, [[0.5, 0.5]], [[-0.5, -0.5]])
    near = env.render(0)
    assert pixel(near, 0.5, 0.5, 1.15) == painted(0.35, 0.35, 0.85)
    assert pixel(near, -0.5, -0.5, 1.15) == painted(0.25, 0.25, 0.25)
    env.place(0, [[5.0, 0.0]], [[-0.5, -0.5]])
    far = env.render(0)
    assert pixel(far, 5.0, 0.0, 5 * 1.15) == painted(0.35, 0.35, 0.85)
    assert pixel(far, 0.5, 0.5, 5 * 1.15) == [255, 255, 255]
    blue = [(picture == painted(0.35, 0.35, 0.85)).all(axis=2).sum() for picture in (near, far)]
    assert blue[1] < blue[0] / 10


def test_without_dynamic_rescaling_bodies_keep_their_size_in_pixels() -> None:
    env, _ = started(SpreadGames, 1, N=1, dynamic_rescaling=False)
    areas = []
    for x in (0.5, 5.0):
        env.place(0, [[x, 0.0]], [[-0.5, -0.5]])
        areas.append(int((env.render(0) == painted(0.35, 0.35, 0.85)).all(axis=2).sum()))
    assert areas[0] == pytest.approx(areas[1], rel=0.03)


def test_the_listener_is_painted_like_its_goal_only_brighter() -> None:
    env, _ = started(SpeakerListenerGames, 1)
    env.place(0, [[0.9, 0.9], [0, 0]], [[-0.9, 0], [0.9, 0], [0, -0.9]], goal=2)
    picture = env.render(0)
    assert pixel(picture, 0, 0, 1.15) == painted(0.6, 0.6, 1.0)
    assert pixel(picture, 0, -0.9, 1.15) == painted(0.15, 0.15, 0.65)


def test_the_picture_shows_the_last_word_as_a_dark_lamp() -> None:
    env, _ = started(SpeakerListenerGames, 1)
    env.place(0, np.zeros((2, 2)), np.zeros((3, 2)))
    lamps = [(x * 1.15, -0.92 * 1.15) for x in (-0.92, -0.82, -0.72)]
    assert [pixel(env.render(0), *lamp, 1.15)[0] for lamp in lamps] == [255, 255, 255]
    env.step([np.array([[1]]), np.array([[STILL]])])
    assert [pixel(env.render(0), *lamp, 1.15)[0] for lamp in lamps] == [255, 0, 255]


def test_a_disc_outside_of_the_view_paints_nothing() -> None:
    assert (draw([Disc(7.0, 7.0, 0.5, (0.0, 0.0, 0.0))], 1.0) == 255).all()


# -- mistakes --------------------------------------------------------------------------------------------------------------


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'num_good'"):
        marl.make_env("fast:simple_tag", {"num_god": 2})
    with pytest.raises(ConfigError, match="local_ratio"):
        marl.make_env("fast:simple_spread", {"local_ratio": 1.5})
    with pytest.raises(EnvError, match=r"agents to place have shape \(2, 2\); expected \(3, 2\)"):
        SpreadGames(1, {}).place(0, np.zeros((2, 2)), np.zeros((3, 2)))
    with pytest.raises(EnvError, match="goal 3"):
        SpeakerListenerGames(1, {}).place(0, np.zeros((2, 2)), np.zeros((3, 2)), goal=3)
    with pytest.raises(EnvError, match=r"goals \[2\] to place; expected 1 of the landmarks 0 to 1"):
        PushGames(1, {}).place(0, np.zeros((2, 2)), np.zeros((2, 2)), goals=[2])
    with pytest.raises(EnvError, match=r"goals \[0\] to place; expected 2 of the landmarks 0 to 2"):
        ReferenceGames(1, {}).place(0, np.zeros((2, 2)), np.zeros((3, 2)), goals=[0])
    with pytest.raises(ConfigError, match="num_food"):
        marl.make_env("fast:simple_world_comm", {"num_food": 0})
    with pytest.raises(ConfigError, match="stages are off"):
        TagGames(1, {}).set_task(0, 1)
    with pytest.raises(ConfigError, match="no stage 3"):
        TagGames(1, {"curriculum": True}).set_task(0, 3)
