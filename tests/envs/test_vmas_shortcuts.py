"""Shortcuts through VMAS: what they show, remember and draw is what VMAS itself does, to the bit."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError
from typing import Any

import numpy as np
import pytest
import torch

from marl.envs.adapters import vmas_physics
from marl.envs.adapters.vmas import VmasEnv
from marl.envs.adapters.vmas_geometry import Segments, nearest_of_box_and_line, sides
from marl.errors import EnvError
from tests.envs.test_vmas import SCENARIOS, actions, new_env, played, same, shown

pytestmark = pytest.mark.slow

LEFT_OUT = ("forces_dict", "torques_dict", "entity_index_map", "_u_multiplier_tensor", "_u_range_tensor", "info_stored")
"""Attributes that only VMAS's own step and infos fill and read, and constants that it keeps from the first use on."""
MANY = ["balance", "ball_passage", "football", "give_way", "navigation", "simple_tag", "simple_world_comm", "het_mass"]


def both_ways(scenario: str, copies: int, **env_config: Any) -> tuple[VmasEnv, VmasEnv]:
    quick, plain = new_env(scenario, copies, **env_config), new_env(scenario, copies, plain=True, **env_config)
    for env in (quick, plain):
        env.reset(np.arange(copies), np.arange(copies) + 3)
    return quick, plain


def remembered(env: VmasEnv) -> dict[str, Any]:
    state = env.get_state()
    changed = state["memory"]["changed"]
    state["memory"] = {
        path: value
        for path, value in changed.items()
        if path.rpartition("/")[2] not in LEFT_OUT and "/timer/" not in path  # which counts seconds
    }
    return state


def assert_equal(one: Any, two: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert one.keys() == two.keys(), where
        for key in one:
            assert_equal(one[key], two[key], f"{where}/{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(two), where
        for i, (a, b) in enumerate(zip(one, two, strict=True)):
            assert_equal(a, b, f"{where}/{i}")
    else:
        assert np.array_equal(one, two, equal_nan=isinstance(one, np.ndarray) and one.dtype.kind == "f"), where


def check_both_ways(scenario: str, **env_config: Any) -> None:
    """Three copies, of which one and then two others start anew in the middle."""
    envs = both_ways(scenario, 3, **env_config)
    logs = []
    for env in envs:
        rng = np.random.default_rng(1)
        log = played(env, 1, rng)
        log.append(shown(env.reset(np.array([1]), np.array([70]))))
        log += played(env, 1, rng)
        log.append(shown(env.reset(np.array([0, 2]), np.array([80, 81]))))
        logs.append(log + played(env, 2, rng))
    assert same(*logs)
    assert_equal(remembered(envs[0]), remembered(envs[1]))


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_scenario_goes_the_same_way_with_and_without_shortcuts(scenario: str) -> None:
    check_both_ways(scenario)


@pytest.mark.parametrize("scenario", MANY)
def test_discrete_actions_go_the_same_way(scenario: str) -> None:
    check_both_ways(scenario, continuous_actions=False)


@pytest.mark.parametrize("copies", [1, 5, 37])  # torch works on the last few numbers of a tensor in another way
def test_contacts_and_single_ends_go_the_same_way_over_many_steps(copies: int) -> None:
    quick, plain = both_ways("balance", copies)
    logs = [played(env, 60, np.random.default_rng(0)) for env in (quick, plain)]
    assert len(logs[0]) >= 60 + (copies > 1)  # packages fell down here and there
    assert same(*logs)
    assert quick.env.world.step.__self__._plan is not None


def test_several_discrete_parts_go_the_same_way() -> None:
    check_both_ways("balance", continuous_actions=False, multidiscrete_actions=True)


def test_a_body_that_gets_another_mass_or_filter_is_noticed() -> None:
    quick, plain = both_ways("balance", 4)
    for env in (quick, plain):
        env.env.scenario.package.mass = 2.0
    logs = [played(env, 15, np.random.default_rng(0)) for env in (quick, plain)]
    for env in (quick, plain):
        env.env.scenario.line.collision_filter = lambda other: other.movable  # falls through the floor
        env.env.world._gravity *= 2
    logs = [log + played(env, 15, np.random.default_rng(2)) for log, env in zip(logs, (quick, plain), strict=True)]
    assert same(*logs)


def test_a_world_that_is_not_known_keeps_the_step_of_vmas() -> None:
    quick, plain = both_ways("balance", 2)
    for env in (quick, plain):
        env.env.scenario.package.gravity = torch.tensor([0.0, 0.5])
    logs = [played(env, 5, np.random.default_rng(0)) for env in (quick, plain)]
    assert same(*logs)
    assert quick.env.world.step.__self__._plan is None


def test_another_version_of_vmas_is_played_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vmas_physics, "PROVEN", ("0.0",))
    env = new_env("balance", 2)
    assert env._shortcuts is None
    assert "step" not in vars(env.env.world)


def test_a_vmas_that_does_not_tell_its_version_is_played_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(vmas_physics, "version", nowhere)
    assert new_env("balance", 2)._shortcuts is None


def test_a_checkpoint_passes_between_the_two_ways() -> None:
    quick, plain = both_ways("football", 3, max_steps=6)
    for env in (quick, plain):
        played(env, 8, np.random.default_rng(0))
    future = played(plain, 8, np.random.default_rng(1))
    swapped = new_env("football", 3, max_steps=6)
    # What VMAS's own step leaves in its world does no harm, and a checkpoint without it lacks nothing.
    state = quick.get_state()
    other = new_env("football", 3, max_steps=6, plain=True)
    other.set_state(state)
    assert same(played(other, 8, np.random.default_rng(1)), future)
    swapped.set_state(plain.get_state())
    assert same(played(swapped, 4, np.random.default_rng(3)), played(plain, 4, np.random.default_rng(3)))


@pytest.mark.parametrize(("continuous", "wrong"), [(True, np.nan), (False, 9), (False, -1)])
def test_actions_that_vmas_refuses_are_refused(continuous: bool, wrong: float) -> None:
    quick, _ = both_ways("balance", 2, continuous_actions=continuous)
    chosen = actions(quick, np.random.default_rng(0))
    chosen[0][1, 2] = wrong
    with pytest.raises(EnvError, match="step raised AssertionError"):
        quick.step(chosen)


@np.errstate(all="ignore")
def test_nearest_points_of_a_box_and_a_line() -> None:
    def planes(*numbers: float) -> np.ndarray:
        return np.array(numbers, np.float32).reshape(-1, 1, 1)

    upright = planes(0.0, 1.0)
    box = sides(planes(0.0, 0.0), planes(0.0)[0], planes(2.0)[0], planes(1.0)[0])
    on_box, on_line = nearest_of_box_and_line(box, Segments(planes(0.5, 0.5), upright, planes(3.0)[0]))
    assert np.array_equal(on_box, on_line)
    assert on_box.flatten().tolist() in ([0.5, 1.0], [0.5, -1.0])
    on_box, on_line = nearest_of_box_and_line(box, Segments(planes(0.5, 4.0), upright, planes(2.0)[0]))
    assert (on_box.flatten().tolist(), on_line.flatten().tolist()) == ([0.5, 1.0], [0.5, 2.0])
