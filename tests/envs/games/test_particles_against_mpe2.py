"""The fast envs against mpe2's own: the same start and the same actions lead to the same observations, rewards and ends."""

from __future__ import annotations

import importlib
import logging
from typing import Any

import numpy as np
import pytest

from marl.data.task import Array
from marl.envs.batched import BatchedEnv, StepOutput
from marl.envs.registry import make_batched_env

pytestmark = pytest.mark.slow  # whole runs or processes

ORIGINALS = {
    "simple_spread": "simple_spread_v3",
    "simple_tag": "simple_tag_v3",
    "simple_speaker_listener": "simple_speaker_listener_v4",
    "simple_adversary": "simple_adversary_v3",
    "simple_push": "simple_push_v3",
    "simple_crypto": "simple_crypto_v3",
    "simple_reference": "simple_reference_v3",
    "simple_world_comm": "simple_world_comm_v3",
}
NUM_ENVS = 4
CLOSE = 1e-6
Config = dict[str, Any]


def secrets(game: str, physics: Any) -> dict[str, Any]:
    """What mpe2 has drawn besides the places, as ``place`` takes it."""
    landmarks, agents = physics.landmarks, physics.agents
    if game == "simple_speaker_listener":
        return {"goal": landmarks.index(agents[0].goal_b)}
    if game == "simple_reference":
        return {"goals": [landmarks.index(agent.goal_b) for agent in agents]}
    if game == "simple_crypto":  # landmark i has the colour e_i, and the key is the colour of a landmark
        return {"goals": [landmarks.index(agents[0].goal_a), int(agents[2].key.argmax())]}
    if game in ("simple_adversary", "simple_push"):
        return {"goals": [landmarks.index(agents[0].goal_a)]}
    return {}


class Pair:
    """``NUM_ENVS`` copies of a fast env beside as many envs of mpe2, started from mpe2's layouts.

    ``scale`` moves everybody towards the middle, so that more of them touch.
    """

    def __init__(self, game: str, config: Config, seed: int = 0, scale: float = 1.0) -> None:
        make = importlib.import_module(f"mpe2.{ORIGINALS[game]}").parallel_env
        self.envs = [make(**config) for _ in range(NUM_ENVS)]
        self.fast: Any = make_batched_env(f"fast:{game}", NUM_ENVS, config)
        self.fast.reset(np.arange(NUM_ENVS), np.arange(NUM_ENVS))
        self.rng = np.random.default_rng(seed)
        self.game, self.seed, self.scale = game, seed, scale
        self.start()

    def start(self) -> None:
        """New episodes in all copies."""
        self.running = list(range(NUM_ENVS))
        for env_id, env in enumerate(self.envs):
            env.reset(seed=100 * self.seed + env_id)
            physics = env.unwrapped.world
            for body in physics.entities:
                body.state.p_pos *= self.scale
            agents, landmarks = ([b.state.p_pos for b in bodies] for bodies in (physics.agents, physics.landmarks))
            frame = self.fast.place(env_id, agents, landmarks, **secrets(self.game, physics))
        observe = [env.unwrapped.observe for env in self.envs]
        self.compare_sights(frame, {env_id: {a: observe[env_id](a) for a in self.agents} for env_id in range(NUM_ENVS)})

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.envs[0].possible_agents)

    def actions(self) -> list[Array]:
        """Random ones. Continuous actions leave their bounds now and then."""
        drawn: list[Array] = []
        for kind in self.fast.kinds:
            shape = (NUM_ENVS, kind.size, *kind.action_shape)
            if kind.action_shape:
                drawn.append(self.rng.uniform(-0.2, 1.2, shape).astype(np.float32))
            else:
                drawn.append(self.rng.integers(kind.action_space.n, size=shape))
        return drawn

    def step(self) -> StepOutput:
        actions = self.actions()
        frame: StepOutput = self.fast.step(actions)
        seen = {}
        for env_id in list(self.running):
            chosen = {
                agent: column[env_id, i] if kind.action_shape else int(column[env_id, i])
                for kind, column in zip(self.fast.kinds, actions, strict=True)
                for i, agent in enumerate(kind.agents)
            }
            seen[env_id], rewards, terminated, truncated, _ = self.envs[env_id].step(chosen)
            assert [rewards[a] for a in self.agents] == pytest.approx(frame.rewards[env_id].tolist(), abs=CLOSE)
            assert [terminated[a] for a in self.agents] == frame.terminated[env_id].tolist()
            assert [truncated[a] for a in self.agents] == frame.truncated[env_id].tolist()
            assert frame.over[env_id] == (not self.envs[env_id].agents)
            assert frame.present[env_id].tolist() == [not frame.over[env_id]] * len(self.agents)
            if frame.over[env_id]:
                self.running.remove(env_id)
        self.compare_sights(frame, seen)
        return frame

    def compare_sights(self, frame: StepOutput, seen: dict[int, dict[str, Array]]) -> None:
        """Observations of all agents, also the last ones, and the global state."""
        for env_id, by_agent in seen.items():
            for kind, column in zip(self.fast.kinds, frame.obs, strict=True):
                expected = np.stack([by_agent[agent] for agent in kind.agents])
                np.testing.assert_allclose(column[env_id], expected, rtol=CLOSE, atol=CLOSE)
            np.testing.assert_allclose(frame.state[env_id], self.envs[env_id].state(), rtol=CLOSE, atol=CLOSE)

    def play(self) -> list[StepOutput]:
        """Until the episodes of all copies are over."""
        frames = []
        while self.running:
            frames.append(self.step())
        return frames


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """mpe2 warns of every action that it clips."""
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
@pytest.mark.parametrize("game", ORIGINALS)
def test_whole_episodes_agree_step_for_step(game: str, continuous: bool) -> None:
    pair = Pair(game, {"continuous_actions": continuous})
    for seed in range(4):
        pair.seed, pair.scale = seed, (1.0, 0.5)[seed % 2]
        pair.start()
        assert len(pair.play()) == 25


CROWDS: dict[str, Config] = {
    "simple_spread": {"N": 6},
    "simple_tag": {"num_good": 3, "num_adversaries": 5, "num_obstacles": 3},
    "simple_world_comm": {"num_good": 3, "num_adversaries": 5, "num_obstacles": 3, "num_food": 4, "num_forests": 3},
}


@pytest.mark.parametrize("game", CROWDS)
def test_long_crowded_episodes_full_of_pushes_agree(game: str) -> None:
    pair = Pair(game, {**CROWDS[game], "max_cycles": 60}, scale=0.3)
    bodies, touches = pair.fast.bodies, 0
    for _ in range(60):
        pair.step()
        movers = bodies.num_movers
        touches += int((bodies.distance[:, :movers] < bodies.touching_at[:, :movers, None]).sum()) - movers * NUM_ENVS
    assert touches > 100
    assert not pair.running


@pytest.mark.parametrize(
    ("game", "config"),
    [
        ("simple_spread", {"N": 1, "max_cycles": 7}),
        ("simple_spread", {"N": 2, "local_ratio": 0.1}),
        ("simple_spread", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
        ("simple_spread", {"N": 3, "num_agent_neighbors": 5, "num_landmark_neighbors": 6}),
        ("simple_spread", {"curriculum": True}),
        ("simple_tag", {"num_good": 2, "num_adversaries": 2, "num_obstacles": 0}),
        ("simple_tag", {"num_good": 2, "num_obstacles": 3, "num_agent_neighbors": 2, "num_landmark_neighbors": 2}),
        ("simple_tag", {"num_agent_neighbors": 6, "num_landmark_neighbors": 4}),
        ("simple_tag", {"curriculum": True, "max_cycles": 40}),
        ("simple_speaker_listener", {"max_cycles": 3}),
        ("simple_adversary", {"N": 1, "max_cycles": 7}),
        ("simple_adversary", {"N": 4}),
        ("simple_adversary", {"N": 4, "num_agent_neighbors": 2, "num_landmark_neighbors": 3}),
        ("simple_adversary", {"N": 2, "num_agent_neighbors": 5, "num_landmark_neighbors": 6}),
        ("simple_push", {"max_cycles": 40}),
        ("simple_crypto", {"max_cycles": 3}),
        ("simple_reference", {"local_ratio": 0.1, "max_cycles": 12}),
        ("simple_world_comm", {"num_forests": 0, "num_obstacles": 0}),
        ("simple_world_comm", {"num_adversaries": 1, "num_good": 1, "num_food": 1}),
        ("simple_world_comm", {"num_adversaries": 3, "num_good": 4, "num_food": 5, "num_forests": 4, "max_cycles": 40}),
    ],
    ids=str,
)
def test_every_key_means_what_it_means_there(game: str, config: Config) -> None:
    pair = Pair(game, config, seed=1, scale=0.7)
    assert len(pair.play()) == config.get("max_cycles", 25)


@pytest.mark.parametrize("game", ORIGINALS)
@pytest.mark.parametrize("continuous", [False, True], ids=["discrete", "continuous"])
def test_agents_spaces_and_state_are_those_of_the_original(game: str, continuous: bool) -> None:
    pair = Pair(game, {"continuous_actions": continuous})
    env = pair.envs[0]
    assert pair.fast.seat_names == pair.agents
    for kind in pair.fast.kinds:
        for agent in kind.agents:
            assert kind.observation_space == env.observation_space(agent)
            assert kind.action_space == env.action_space(agent)
    assert pair.fast.state_size == env.unwrapped.state_space.shape[0]


@pytest.mark.parametrize(
    ("game", "config"),
    [
        ("simple_spread", {"N": 1}),
        ("simple_tag", {"num_good": 1, "num_adversaries": 3, "num_obstacles": 0}),
    ],
)
def test_episodes_that_terminate_on_success_end_in_the_same_step(game: str, config: Config) -> None:
    pair = Pair(game, {**config, "terminate_on_success": True, "max_cycles": 40}, scale=0.15)
    ends = []
    while pair.running:
        frame = pair.step()
        ends += [bool(frame.terminated[env_id].all()) for env_id in np.flatnonzero(frame.over)]
    assert any(ends)


@pytest.mark.parametrize(("stage", "share"), [(0, 0.5), (1, 0.75), (2, 1.0)])
def test_a_stage_of_tag_is_the_original_with_slower_agents_from_the_next_episode_on(stage: int, share: float) -> None:
    pair = Pair("simple_tag", {"curriculum": True}, seed=2, scale=0.3)  # plays stage 0 at first
    for env_id in range(NUM_ENVS):
        pair.fast.sub_env(env_id).set_task(stage)
    pair.play()
    # mpe2 1.1.1 never leaves stage 0 (its set_curriculum_stage has no effect), so its agents are changed by hand.
    pair.start()
    for env in pair.envs:
        prey = env.unwrapped.world.agents[-1]
        prey.max_speed, prey.accel = 1.3 * share, 4.0 * share
    pair.play()


def test_stage_one_of_spread_is_the_original_without_a_curriculum() -> None:
    pair = Pair("simple_spread", {}, seed=2, scale=0.3)
    pair.fast = make_batched_env("fast:simple_spread", NUM_ENVS, {"curriculum": True})
    for env_id in range(NUM_ENVS):
        pair.fast.set_task(env_id, 1)
    pair.start()
    assert min(frame.rewards.min() for frame in pair.play()) < -1


def errors_apart(ours: Array, theirs: Array) -> Array:
    """By how many standard errors the means of columns differ; columns that never change must be equal."""
    error = np.sqrt((ours.var(axis=0) + theirs.var(axis=0)) / len(ours))
    apart: Array = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / (error + 1e-6)
    return apart


def episode_starts(batched_env: BatchedEnv, count: int) -> Array:
    return np.concatenate(
        [batched_env.reset(np.arange(NUM_ENVS), NUM_ENVS * i + np.arange(NUM_ENVS)).state for i in range(count)]
    )


@pytest.mark.parametrize("game", ORIGINALS)
def test_first_observations_have_the_means_spreads_and_limits_of_the_originals(game: str) -> None:
    count = 2000
    env = importlib.import_module(f"mpe2.{ORIGINALS[game]}").parallel_env()
    theirs = np.empty((count, env.unwrapped.state_space.shape[0]), np.float32)
    for i in range(count):
        env.reset(seed=i)
        theirs[i] = env.state()
    ours = episode_starts(make_batched_env(f"fast:{game}", NUM_ENVS, {}), count // NUM_ENVS)
    assert (errors_apart(ours, theirs) < 4.5).all()
    assert (errors_apart(ours**2, theirs**2) < 4.5).all()
    assert np.abs(ours).max(axis=0) == pytest.approx(np.abs(theirs).max(axis=0), abs=0.15)
