"""Envs exported to PettingZoo: PettingZoo's own tests, SuperSuit, bad input."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest
import supersuit
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
from pettingzoo.test.state_test import state_test

from marl.envs.adapters.export import to_pettingzoo
from marl.envs.games.matrix import CLASSICS
from marl.envs.games.two_step import TwoStepGames
from marl.envs.registry import ENVS, make_env, resolve_env
from marl.errors import ConfigError, EnvError, UnknownNameError

DOCS = Path(__file__).parents[2] / "docs" / "export.md"
TIC_TAC_TOE = "pettingzoo:classic/tictactoe_v3"

BUSY = {"arrival_rate": 0.5, "max_cars": 5, "spare_names": 2, "failure_rate": 0.3, "episode_length": 60}
EMPTY_ROADS = {"arrival_rate": 0.05, "lights": 1, "failure_rate": 0.9, "dark_periods": 1, "light_period": 3}
THREE_PLAYERS = {"payoffs": np.arange(36).reshape(3, 2, 3, 2).tolist(), "repetitions": 3, "observe": "last"}
CONFIGS: dict[str, list[dict[str, Any]]] = {
    "two_step_game": [
        {"one_hot_state_encoding": False},
        {"separate_state_space": True},
        {"actions_are_logits": True},
    ],
    "matrix_game": [{"game": game, "repetitions": 4, "observe": "last", "observe_round": True} for game in CLASSICS],
    "traffic": [BUSY, EMPTY_ROADS],
    "repeat_after_delay": [{"delay": 3, "length": 2, "agents": 2}],
    "windy_maze": [{"rooms": [1, 2], "room_size": 2, "wind": 0.5, "limit": 30}],
}
CONFIGS["matrix_game"].append(THREE_PLAYERS)


def built_in(name: str) -> bool:
    creator = resolve_env(name)
    return isinstance(creator, type | FunctionType) and creator.__module__.startswith("marl.envs.")


def masked(name: str, config: dict[str, Any]) -> bool:
    """Some of PettingZoo's tests play without a look at masks, which envs with illegal moves refuse."""
    env = make_env(name, config)
    return any("action_mask" in getattr(env.observation_space(agent), "spaces", {}) for agent in env.possible_agents)


resolve_env("two_step_game")  # the built-in games register themselves
ENVS = [(name, config) for name in ENVS if built_in(name) for config in [{}, *CONFIGS.get(name, [])]]
on_every_game = pytest.mark.parametrize(("name", "config"), ENVS, ids=[f"{n}-{i}" for i, (n, _) in enumerate(ENVS)])


# -- PettingZoo's own tests ------------------------------------------------------------------------------------------


def test_the_list_of_games_is_not_empty() -> None:
    assert {"two_step_game", "matrix_game", "traffic"} <= {name for name, _ in ENVS}
    assert set(CONFIGS) <= {name for name, _ in ENVS}


@on_every_game
def test_pettingzoos_parallel_tests_pass(name: str, config: dict[str, Any]) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        parallel_api_test(to_pettingzoo(name, env_config=config), num_cycles=250)
        if not masked(name, config):
            parallel_seed_test(lambda: to_pettingzoo(name, env_config=config), num_cycles=100)
    breaches = [str(w.message) for w in caught if re.search("Live agent|dead last turn", str(w.message))]
    assert breaches == []


@on_every_game
@pytest.mark.filterwarnings("ignore::UserWarning")  # of PettingZoo's taste in spaces and names
def test_pettingzoos_turn_based_tests_pass(name: str, config: dict[str, Any]) -> None:
    api_test(to_pettingzoo(name, turns=True, env_config=config), num_cycles=60)
    seed_test(lambda: to_pettingzoo(name, turns=True, env_config=config), num_cycles=60)


@on_every_game
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_state_is_the_envs_and_where_it_has_none_there_is_no_state_space(name: str, config: dict[str, Any]) -> None:
    parallel, turns = (to_pettingzoo(name, t, env_config=config) for t in (False, True))
    env = make_env(name, config)
    parallel.reset(seed=3)
    env.reset(seed=3)
    state = env.state()
    if state is None:
        assert not hasattr(parallel, "state_space")
        with pytest.raises(NotImplementedError, match="no global state"):
            parallel.state()
    else:
        np.testing.assert_array_equal(parallel.state(), np.asarray(state, np.float32))
        if not masked(name, config):
            state_test(turns, parallel)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", [TIC_TAC_TOE, "pettingzoo:mpe2/simple_tag_v3", "CartPole-v1"])
def test_envs_made_of_other_libraries_envs_can_be_exported_as_well(name: str) -> None:
    parallel_api_test(to_pettingzoo(name), num_cycles=50)
    api_test(to_pettingzoo(name, turns=True), num_cycles=50)
    seed_test(lambda: to_pettingzoo(name, turns=True), num_cycles=50)


# -- turn-based games ------------------------------------------------------------------------------------------------


def test_a_turn_based_export_asks_exactly_the_agent_whose_turn_it_is() -> None:
    env = to_pettingzoo(TIC_TAC_TOE, turns=True)
    assert isinstance(env, AECEnv)
    env.reset(seed=0)
    asked = []
    for agent, move in zip(env.agent_iter(), [0, 3, 1, 4, 2, None, None], strict=False):
        asked.append((agent, env.last()[1]))
        env.step(move)
    assert asked == [
        *[("player_1", 0), ("player_2", 0)] * 2,
        ("player_1", 0),
        *[("player_1", 1), ("player_2", -1)],  # the empty turns of the end
    ]
    assert env.agents == []


def test_who_is_not_asked_sees_its_latest_board_again_and_may_play_anything() -> None:
    env = to_pettingzoo(TIC_TAC_TOE)
    assert isinstance(env, ParallelEnv)
    obs, infos = env.reset(seed=0)
    assert env.agents == ["player_1", "player_2"]
    assert [infos[a].get("marl_stale", False) for a in env.agents] == [False, True]
    assert obs["player_2"]["action_mask"].all()
    first = obs["player_1"]["observation"]
    obs, _, _, _, infos = env.step({"player_1": 0, "player_2": 0})  # the second 0 would be illegal
    assert [infos[a].get("marl_stale", False) for a in env.agents] == [True, False]
    np.testing.assert_array_equal(obs["player_1"]["observation"], first)
    assert obs["player_2"]["action_mask"].tolist() == [0, *[1] * 8]
    obs, *_ = env.step({"player_2": 3})  # and it may be left out
    assert obs["player_1"]["action_mask"].tolist() == [0, 1, 1, 0, *[1] * 5]


# -- traffic: agents that come and go --------------------------------------------------------------------------------


def test_every_life_of_a_car_has_an_id_of_its_own_and_the_info_tells_the_envs_id() -> None:
    env = to_pettingzoo("traffic", env_config=BUSY, lives=50)
    assert env.possible_agents == [f"{kind}_{i}" for kind in ("car", "traffic_light") for i in range(50)]
    luck = np.random.default_rng(0)
    _, infos = env.reset(seed=1)
    lives, ended = {a: infos[a]["agent"] for a in env.agents}, set()
    while env.agents:
        _, _, terminated, truncated, infos = env.step({a: luck.integers(2) for a in env.agents})
        for agent in terminated:
            assert agent not in ended
            assert lives.setdefault(agent, infos[agent]["agent"]) == infos[agent]["agent"]
        ended |= {a for a in terminated if terminated[a] or truncated[a]}
    assert ended == set(lives)
    cars = [own for agent, own in lives.items() if agent.startswith("car_")]
    assert len(cars) > len(set(cars)) == 7  # somebody came back, under another id
    assert sorted(a for a in lives if a.startswith("car_")) == sorted(f"car_{i}" for i in range(len(cars)))


def test_an_episode_with_more_lives_than_ids_ends_with_the_remedy() -> None:
    env = to_pettingzoo("traffic", env_config=BUSY, lives=10)
    env.reset(seed=1)
    with pytest.raises(EnvError, match=r"all 10 ids of 'car_\*' had been used.*Raise lives"):
        while env.agents:
            env.step(dict.fromkeys(env.agents, 1))


# -- spaces, seeds, pictures -----------------------------------------------------------------------------------------


def test_two_exports_share_no_space_and_each_gives_the_same_object_every_time() -> None:
    env = make_env("matrix_game")
    one, other = to_pettingzoo(env), to_pettingzoo(env)
    assert one.action_space("player_0") is one.action_space("player_0")
    assert one.observation_space("player_0") is one.observation_space("player_0")
    assert one.action_space("player_0") is not other.action_space("player_0")
    assert one.action_space("player_0") == other.action_space("player_0") == env.action_space("player_0")


def test_a_seed_decides_the_episodes_after_it_too() -> None:
    def arrivals(env: Any, seed: int) -> list[Any]:
        firsts = [env.reset(seed=seed), *(env.reset() for _ in range(3))]
        return [{a: o.tolist() for a, o in obs.items()} for obs, _ in firsts]

    env = to_pettingzoo("fast:simple_spread")
    assert arrivals(env, 5) == arrivals(to_pettingzoo("fast:simple_spread"), 5) == arrivals(env, 5)
    assert arrivals(env, 5) != arrivals(env, 6)
    assert len({str(first) for first in arrivals(env, 5)}) == 4


def test_render_modes_are_kept_or_refused() -> None:
    env = to_pettingzoo("two_step_game", render_mode="ansi")
    env.reset(seed=0)
    assert env.render() == env.exported.render()
    assert env.render_mode in env.metadata["render_modes"]
    assert str(env) == env.metadata["name"] == "two_step_game"
    wrong = to_pettingzoo("two_step_game", render_mode="rgb_array")
    wrong.reset(seed=0)
    with pytest.raises(EnvError, match="draws a str"):
        wrong.render()
    with pytest.raises(ConfigError, match="Did you mean 'ansi'"):
        to_pettingzoo("two_step_game", render_mode="anzi")


@pytest.mark.parametrize("turns", [False, True])
def test_closing_an_export_closes_the_env(turns: bool) -> None:
    class Closes(TwoStepGames):
        closed = False

        def close(self) -> None:
            self.closed = True

    env = to_pettingzoo(Closes, turns)
    env.close()
    assert env.exported.env.closed


# -- SuperSuit -------------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_supersuit_pads_and_stacks_observations_of_an_export() -> None:
    padded = supersuit.pad_observations_v0(to_pettingzoo("fast:simple_tag"))
    widths = {padded.observation_space(a).shape for a in padded.possible_agents}
    assert len(widths) == 1
    parallel_api_test(padded, num_cycles=30)
    stacked = supersuit.frame_stack_v1(to_pettingzoo("traffic"), 3)
    obs, _ = stacked.reset(seed=0)
    assert {seen.shape for seen in obs.values()} == {(15,)}
    api_test(supersuit.frame_stack_v1(to_pettingzoo("fast:simple_spread", turns=True), 2), num_cycles=30)


def test_supersuits_wrappers_that_step_on_after_an_end_work() -> None:
    game = to_pettingzoo("matrix_game", env_config={"repetitions": 3})
    env = supersuit.black_death_v3(supersuit.frame_skip_v0(game, 2))
    env.reset(seed=0)
    steps = 0
    while env.agents:
        env.step(dict.fromkeys(env.agents, 1))
        steps += 1
    assert steps == 3  # two of up to two rounds, and the empty one by which black_death sees the end


# -- input -----------------------------------------------------------------------------------------------------------


def test_an_env_is_given_by_name_class_function_or_object() -> None:
    config = {"repetitions": 7}
    made = make_env("matrix_game", config)
    for env in (to_pettingzoo(made), to_pettingzoo(lambda c: made), to_pettingzoo("matrix_game", env_config=config)):
        env.reset(seed=0)
        steps = 0
        while env.agents:
            env.step(dict.fromkeys(env.agents, 0))
            steps += 1
        assert steps == 7
    assert to_pettingzoo(TwoStepGames, env_config={"one_hot_state_encoding": False}).observation_space("agent_0").n == 6


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda: to_pettingzoo("two_step_gam"), UnknownNameError, "Did you mean 'two_step_game'"),
        (lambda: to_pettingzoo(3), ConfigError, "object of type int: 3. Expected the name"),
        (lambda: to_pettingzoo(lambda: 3), ConfigError, "gave an object of type int"),
        (lambda: to_pettingzoo("two_step_game", env_config={"onehot": 1}), ConfigError, "onehot"),
        (lambda: to_pettingzoo(make_env("traffic"), env_config={"lights": 1}), ConfigError, "built already"),
        (lambda: to_pettingzoo("traffic", lives=0), ConfigError, "lives is 0. Expected 1 or more"),
    ],
)
def test_bad_input_is_told_with_the_remedy(call: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()


def test_the_example_in_the_docs_runs() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(block, "export.md", "exec"), {})
