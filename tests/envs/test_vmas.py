"""VMAS scenarios: equal to VMAS itself, starts by seed, partial resets, endings, resuming, pictures, training."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
import torch
import vmas

import marl
from marl.envs.adapters.vmas import VmasEnv, vmas_env
from marl.envs.batched import StepOutput
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, EnvError, UnknownNameError
from marl.training.trainer import Trainer

pytestmark = pytest.mark.slow  # whole runs or processes

SCENARIOS = [*vmas.scenarios, *vmas.mpe_scenarios, *vmas.debug_scenarios]
NOISY = ["road_traffic", "asym_joint"]  # noise on every observation
BY_LANE = ["simple_crypto"]  # secrets of all copies are drawn at once, also for one
SHARED_GOAL = ["simple_reference", "simple_speaker_listener"]  # one goal for all copies
MOVES_OTHERS = ["waterfall"]  # a joint pulls its body to the middle in all copies


def new_env(scenario: str, copies: int, **env_config: Any) -> VmasEnv:
    made = make_batched_env(f"vmas:{scenario}", copies, env_config)
    assert isinstance(made, VmasEnv)
    return made


def started(scenario: str, copies: int = 3, seed: int = 10, **env_config: Any) -> tuple[VmasEnv, StepOutput]:
    games = new_env(scenario, copies, **env_config)
    return games, games.reset(np.arange(copies), np.arange(copies) + seed)


def actions(games: VmasEnv, rng: np.random.Generator) -> list[np.ndarray]:
    columns = []
    for kind in games.kinds:
        shape = (games.num_envs, kind.size, *kind.action_shape)
        if kind.action_dtype == np.int64:
            top = getattr(kind.action_space, "n", None) or kind.action_space.nvec  # type: ignore[attr-defined]
            columns.append(rng.integers(0, top, shape))
        else:
            space: Any = kind.action_space
            columns.append(rng.uniform(space.low, space.high, shape).astype(np.float32))
    return columns


def shown(frame: StepOutput) -> list[np.ndarray]:
    return [column.copy() for column in (*frame.obs, frame.rewards, frame.terminated, frame.truncated, frame.over)]


def played(games: VmasEnv, steps: int, rng: np.random.Generator, seed: int = 500) -> list[list[np.ndarray]]:
    """What the env shows while it plays at random and starts ended episodes anew."""
    log = []
    for step in range(steps):
        frame = games.step(actions(games, rng))
        log.append(shown(frame))
        ended = np.flatnonzero(frame.over)
        if len(ended):
            log.append(shown(games.reset(ended, ended + seed + 100 * step)))
    return log


def same(one: list[list[np.ndarray]], two: list[list[np.ndarray]]) -> bool:
    return len(one) == len(two) and all(
        np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
        for x, y in zip(one, two, strict=True)
        for a, b in zip(x, y, strict=True)
    )


@pytest.mark.parametrize("continuous", [True, False])
@pytest.mark.parametrize("scenario", ["balance", "simple_tag", "simple_adversary", "diff_drive"])
def test_stepping_the_env_is_stepping_vmas(scenario: str, continuous: bool) -> None:
    games, frame = started(scenario, copies=3, continuous_actions=continuous)
    env = vmas.make_env(scenario, num_envs=3, continuous_actions=continuous, terminated_truncated=True)
    env.reset(seed=10)
    for env_id in range(3):
        env.seed(10 + env_id)
        env.reset_at(env_id)
    seats = {name: seat for seat, name in enumerate(games.seat_names)}
    place = {agent: (k, i) for k, kind in enumerate(games.kinds) for i, agent in enumerate(kind.agents)}
    rng = np.random.default_rng(0)
    for _ in range(10):
        chosen = actions(games, rng)
        frame = games.step(chosen)
        own = [torch.as_tensor(chosen[place[a.name][0]][:, place[a.name][1]]).reshape(3, -1) for a in env.agents]
        obs, rewards, terminated, _, _ = env.step(own)
        for agent, seen, paid in zip(env.agents, obs, rewards, strict=True):
            k, i = place[agent.name]
            assert np.array_equal(frame.obs[k][:, i], seen.numpy())
            assert np.array_equal(frame.rewards[:, seats[agent.name]], paid.numpy())
        assert np.array_equal(frame.over, terminated.numpy())


@pytest.mark.parametrize("scenario", ["balance", "navigation", "football", "simple_tag"])
def test_the_start_of_an_episode_follows_from_its_seed_alone(scenario: str) -> None:
    many, first = started(scenario, copies=4, seed=20)
    first_obs = [column.copy() for column in first.obs]
    played(many, 3, np.random.default_rng(0))
    later = [column[1].copy() for column in many.reset(np.array([1]), np.array([22])).obs]
    alone = new_env(scenario, 1).reset(np.array([0]), np.array([22])).obs
    for k in range(len(many.kinds)):
        assert np.array_equal(first_obs[k][2], alone[k][0])
        assert np.array_equal(later[k], alone[k][0])
        assert not np.array_equal(first_obs[k][2], first_obs[k][3])


def test_with_one_copy_the_whole_episode_follows_from_its_seed() -> None:
    keys = {"respawn_at_catch": True, "max_steps": 40}  # whoever is caught starts again at a random place
    logs = []
    for seed in (3, 3, 4):
        games = new_env("simple_tag", 1, **keys)
        games.reset(np.array([0]), np.array([99]))
        played(games, 7, np.random.default_rng(1))
        games.reset(np.array([0]), np.array([seed]))
        logs.append(played(games, 15, np.random.default_rng(0)))
    assert same(logs[0], logs[1])
    assert not same(logs[0], logs[2])


def test_luck_that_is_drawn_anew_changes_the_future_and_not_the_present() -> None:
    def future(seed: int) -> np.ndarray:
        games, first = started("road_traffic", 1)  # which draws noise in every step
        shown = [np.array(column) for column in first.obs]
        assert games.reseed(np.array([seed]))
        assert all(map(np.array_equal, games.get_state()["obs"], shown))
        return np.array(games.step(actions(games, np.random.default_rng(0))).obs[0])

    assert np.array_equal(future(1), future(1))
    assert not np.array_equal(future(1), future(2))


def test_a_partial_reset_leaves_the_other_copies_alone() -> None:
    games, _ = started("balance", copies=3)
    twin, _ = started("balance", copies=3)
    for each in (games, twin):
        played(each, 5, np.random.default_rng(0))
    before = [column.copy() for column in games._obs]
    frame = games.reset(np.array([1]), np.array([77]))
    chosen = actions(games, np.random.default_rng(2))
    after, without = games.step(chosen), twin.step(chosen)
    for k in range(len(games.kinds)):
        assert np.array_equal(frame.obs[k][[0, 2]], before[k][[0, 2]])
        assert np.array_equal(after.obs[k][[0, 2]], without.obs[k][[0, 2]])
        assert not np.array_equal(after.obs[k][1], without.obs[k][1])


def test_vmas_leaves_everybody_elses_generators_alone() -> None:
    games, _ = started("football", copies=2, max_steps=3)
    before = (torch.random.get_rng_state(), np.random.get_state()[1].copy(), random.getstate())  # type: ignore[index]  # noqa: NPY002
    played(games, 8, np.random.default_rng(0))
    games.render(0)
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # type: ignore[index]  # noqa: NPY002
    assert before[2] == random.getstate()


def test_another_vmas_env_in_the_process_changes_nothing() -> None:
    logs = []
    for with_other in (False, True):
        games, _ = started("simple_tag", copies=2, respawn_at_catch=True)
        log, rng = [], np.random.default_rng(0)
        for _ in range(10):
            log += played(games, 1, rng)
            if with_other:
                started("simple_tag", copies=1, seed=3)
        logs.append(log)
    assert same(*logs)


def test_running_out_of_time_truncates_and_the_scenarios_own_end_terminates() -> None:
    games, _ = started("simple_spread", copies=2, max_steps=4)
    frames = [games.step(actions(games, np.random.default_rng(0))) for _ in range(4)]
    assert [bool(frame.over.any()) for frame in frames] == [False, False, False, True]
    assert frames[-1].truncated.all()
    assert not frames[-1].terminated.any()
    assert not frames[-1].present.any()
    # Agents that move at random in balance soon let the package fall to the ground, which ends the episode.
    games, ended = started("balance", copies=3, max_steps=200)
    rng = np.random.default_rng(0)
    while not ended.over.any():
        ended = games.step(actions(games, rng))
    env_id = int(np.flatnonzero(ended.over)[0])
    assert ended.terminated[env_id].all()
    assert not ended.truncated[env_id].any()


def test_agents_with_different_spaces_are_kinds() -> None:
    games = new_env("simple_tag", 2)
    assert [(kind.name, kind.size, kind.obs_width) for kind in games.kinds] == [("adversary", 3, 16), ("agent", 1, 14)]
    speaking = new_env("simple_speaker_listener", 2, continuous_actions=False)
    assert [kind.action_space.n for kind in speaking.kinds] == [27, 9]  # type: ignore[attr-defined]


def test_keys_of_the_scenario_are_passed_on_and_others_refused() -> None:
    assert new_env("balance", 2, n_agents=5).kinds[0].size == 5
    mixed = new_env("balance", 2, continuous_actions=False, multidiscrete_actions=True)
    assert mixed.kinds[0].action_space.nvec.tolist() == [3, 3]  # type: ignore[attr-defined]
    assert played(mixed, 2, np.random.default_rng(0))
    with pytest.raises(ConfigError, match=r"n_agent'.*For every scenario there are continuous_actions"):
        new_env("balance", 2, n_agent=5)
    with pytest.raises(ConfigError, match="may not set 'wrapper'"):
        new_env("balance", 2, wrapper="gym")
    with pytest.raises(ConfigError, match="max_steps"):
        new_env("balance", 2, max_steps=0)


def test_observations_in_dicts_are_joined() -> None:
    plain, joined = new_env("football", 2), new_env("football", 2, dict_obs=True)
    assert joined.reset(np.arange(2), np.arange(2)).obs[0].shape == (2, 3, joined.kinds[0].obs_width)
    assert joined.kinds[0].obs_width == plain.kinds[0].obs_width


def test_actions_that_vmas_refuses_name_env_and_worker() -> None:
    games, _ = started("balance", copies=2, clamp_actions=False)
    with pytest.raises(EnvError, match="env 'vmas:balance', worker 0: step raised AssertionError"):
        games.step([np.full((2, 3, 2), 5.0, np.float32)])


def test_resetting_together_draws_all_starts_from_the_first_seed() -> None:
    seeds = np.array([5, 6, 7])
    together = new_env("balance", 3, reset_together=True)
    env = vmas.make_env("balance", num_envs=3)
    wanted = torch.stack(env.reset(seed=5), dim=1).numpy()
    assert np.array_equal(together.reset(np.arange(3), seeds).obs[0], wanted)
    apart = new_env("balance", 3).reset(np.array([1]), np.array([6])).obs[0][1]
    assert np.array_equal(together.reset(np.array([1]), np.array([6])).obs[0][1], apart)


def check_resuming(scenario: str, **env_config: Any) -> None:
    games, _ = started(scenario, copies=3, max_steps=5, **env_config)
    played(games, 7, np.random.default_rng(0))
    state = games.get_state()
    future = played(games, 8, np.random.default_rng(1))
    fresh = new_env(scenario, 3, max_steps=5, **env_config)
    frame = fresh.set_state(state)
    assert np.array_equal(frame.obs[0], state["obs"][0])
    assert not frame.over.any()
    assert same(played(fresh, 8, np.random.default_rng(1)), future)
    games.set_state(state)
    assert same(played(games, 8, np.random.default_rng(1)), future)


@pytest.mark.parametrize("scenario", ["balance", "simple_tag", "simple_adversary", "football"])
def test_an_env_taken_up_in_the_middle_has_the_same_future(scenario: str) -> None:
    check_resuming(scenario)


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_resumes_exactly(scenario: str) -> None:
    check_resuming(scenario, continuous_actions=False)


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_starts_by_seed_and_resets_apart_but_for_the_named_exceptions(scenario: str) -> None:
    many, frame = started(scenario, copies=4)
    row = [column[2].copy() for column in frame.obs]
    alone = new_env(scenario, 1).reset(np.array([0]), np.array([12])).obs
    by_seed = all(np.array_equal(a, b[0]) for a, b in zip(row, alone, strict=True))
    assert by_seed == (scenario not in [*NOISY, *BY_LANE, *SHARED_GOAL])
    played(many, 3, np.random.default_rng(0))
    before = [column.copy() for column in many._obs]
    with many._own_luck():
        many.env.reset_at(1)
        (seen,) = many.env.get_from_scenario(True, False, False, False)
    others = [0, 2, 3]
    apart = all(np.array_equal(a[others], b[others]) for a, b in zip(before, many._columns(seen), strict=True))
    assert apart == (scenario not in [*NOISY, *MOVES_OTHERS])


def test_a_picture_of_a_lane_is_drawn_without_a_display() -> None:
    games, _ = started("balance", copies=2)
    picture = games.render(1)
    assert picture is not None
    assert picture.dtype == np.uint8
    assert picture.shape[2] == 3
    assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 3  # package, line, agents, ground
    assert not np.array_equal(picture, games.render(0))


def test_unknown_scenarios_are_told_with_the_nearest_name() -> None:
    with pytest.raises(UnknownNameError, match="Did you mean 'balance'"):
        make_batched_env("vmas:balanc", 1, {})


def test_a_missing_package_is_told_with_the_pip_command(monkeypatch: pytest.MonkeyPatch) -> None:
    vmas_env.cache_clear()
    monkeypatch.setitem(sys.modules, "vmas", None)
    with pytest.raises(ConfigError, match=r"pip install vmas"):
        make_batched_env("vmas:balance", 1, {})


def test_the_checker_passes_but_for_what_vmas_shares_between_copies() -> None:
    assert marl.check_env("vmas:simple_spread", {"max_steps": 10}, steps=30) == []
    codes = {problem.code for problem in marl.check_env("vmas:balance", {"max_steps": 20}, steps=40)}
    assert codes <= {"lanes-depend"}  # which bodies may touch is looked up for all copies together


def test_which_bodies_are_tested_for_contact_depends_on_all_copies() -> None:
    """The reason for "lanes-depend": the same start and actions part where another copy brings a pair into play."""
    parted = []
    for trial in (7, 10):
        rng = np.random.default_rng(trial)
        crowd, alone = new_env("balance", 3), new_env("balance", 1)
        crowd.reset(np.arange(3), np.arange(3) + 40 + trial)
        for _ in range(3):
            crowd.step([rng.uniform(-1, 1, (3, 3, 2)).astype(np.float32)])
        seed = np.array([5 + trial])
        assert np.array_equal(crowd.reset(np.array([1]), seed).obs[0][1], alone.reset(np.array([0]), seed).obs[0][0])
        for _ in range(20):
            own = rng.uniform(-1, 1, (1, 3, 2)).astype(np.float32)
            all_three = rng.uniform(-1, 1, (3, 3, 2)).astype(np.float32)
            all_three[1] = own[0]
            parted.append(np.abs(crowd.step([all_three]).obs[0][1] - alone.step([own]).obs[0][0]).max())
    assert 0 < max(parted) < 0.1


def test_the_dict_api_plays_one_copy() -> None:
    env = marl.make_env("vmas:simple_tag", {"max_steps": 3})
    obs, _ = env.reset(seed=0)
    assert set(obs) == {"adversary_0", "adversary_1", "adversary_2", "agent_0"}
    for _ in range(3):
        result = env.step({agent: env.action_space(agent).sample() for agent in obs})
    assert result.truncated["__all__"]


@pytest.mark.parametrize(("algo", "continuous"), [("ppo", True), ("qmix", False)])
def test_training_runs_over_the_batched_env(algo: str, continuous: bool) -> None:
    keys: dict[str, Any] = {"num_envs_per_worker": 8, "fcnet_hiddens": [16]}
    keys |= {"train_batch_size": 160} if algo == "ppo" else {"learning_starts": 50, "timesteps_per_iteration": 160}
    keys["env_config"] = {"max_steps": 10, "continuous_actions": continuous}
    with Trainer(algo, env="vmas:balance", config=keys) as trainer:
        results = [trainer.train() for _ in range(2)]
    assert results[-1]["training_iteration"] == 2
    assert results[-1]["episode_len_mean"] <= 10
    assert np.isfinite(results[-1]["episode_reward_mean"])
