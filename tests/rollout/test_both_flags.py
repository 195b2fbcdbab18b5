"""Terminated beside truncated: one rule, wherever the flags come from. Terminated wins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl import check_env, to_pettingzoo
from marl.data.task import AgentType, number_seats
from marl.envs.base import MultiAgentEnv, ending
from marl.envs.batched import NativeEnv
from marl.envs.hierarchy.env import HierarchicalEnv
from marl.envs.vector.unbatched import SingleLane
from tests.small_envs import Scripted, Step, decisions, worker_for

ALL = "__all__"
AGENTS = ["a_0", "a_1"]


def game_over_beside_a_time_limit() -> Scripted:
    """The game is over for all in the step in which a_0 also runs out of time."""
    return Scripted(AGENTS, [Step(AGENTS), Step([], {"a_0": 1}, [ALL], ["a_0"], last=AGENTS)], AGENTS)


def flags_of_last_decisions(env: Any, **keys: Any) -> dict[int, tuple[bool, bool]]:
    """(terminated, truncated) of the decision that the second step closed, by seat."""
    batch = worker_for(env, **keys).collect(2).batch
    return {d[2]: (d[7], d[8]) for d in decisions([batch]) if d[1] == 1}


@pytest.mark.parametrize(
    ("terminated", "truncated", "expected"),
    [
        ({}, {}, (False, False)),
        ({"a": True}, {"a": True}, (True, False)),
        ({ALL: True}, {"a": True}, (True, False)),
        ({"a": True}, {ALL: True}, (True, False)),
        ({ALL: True}, {ALL: True}, (True, False)),
        ({"b": True}, {"a": True}, (False, True)),
        ({"a": False, ALL: True}, {}, (True, False)),
        ({"a": False}, {ALL: True}, (False, True)),
    ],
)
def test_terminated_wins_whoever_says_it(terminated: dict, truncated: dict, expected: tuple[bool, bool]) -> None:
    assert ending("a", terminated, truncated) == expected


def test_the_end_of_the_game_wins_over_an_agents_own_time_limit() -> None:
    flags = flags_of_last_decisions(lambda _: game_over_beside_a_time_limit())
    assert flags == {0: (True, False), 1: (True, False)}


def test_the_same_in_a_group_that_plays_as_one() -> None:
    grouped = game_over_beside_a_time_limit().with_agent_groups({"team_0": AGENTS})
    grouped.reset(seed=0)
    grouped.step({"team_0": (0, 0)})
    last = grouped.step({"team_0": (0, 0)})
    assert ending("team_0", last.terminated, last.truncated) == (True, False)
    assert not last.truncated.get("team_0")


def test_the_same_after_export_to_pettingzoo() -> None:
    env = to_pettingzoo(game_over_beside_a_time_limit())
    env.reset(seed=0)
    env.step(dict.fromkeys(AGENTS, 0))
    _, _, terminations, truncations, _ = env.step(dict.fromkeys(AGENTS, 0))
    assert terminations == dict.fromkeys(AGENTS, True)
    assert truncations == dict.fromkeys(AGENTS, False)


def test_the_same_for_the_members_of_a_hierarchy() -> None:
    levels = [
        {"name": "top_level", "horizon": 5, "goals": {"changes": [[1.0], [-1.0]], "tolerance": 0.1}},
        {"name": "low_level"},
    ]
    base = Scripted(["a_0"], [Step(["a_0"]), Step([], {}, [ALL], ["a_0"], last=["a_0"])], ["a_0"])
    env = HierarchicalEnv(base, levels=levels, features=[0])
    obs, _ = env.reset(seed=0)
    result = None
    for _ in range(6):
        result = env.step(dict.fromkeys(obs, 0))
        obs = result.obs
        if result.terminated.get(ALL) or result.truncated.get(ALL):
            break
    assert result is not None
    assert result.terminated[ALL]
    assert not any(result.truncated.values())


class BothFlags(NativeEnv):
    """Native: in the third step everything is over. ``flags[seat]`` is what it says: terminated, truncated."""

    state_arrays = ("t",)
    flags = ((True, True), (False, True))

    def __init__(self, num_envs: int, config: Any) -> None:
        self.num_envs = num_envs
        self.kinds = number_seats([AgentType("agent", ("a_0", "a_1"), spaces.Discrete(4), spaces.Discrete(2))])
        self.t = np.zeros(num_envs, np.int64)

    def _start(self, env_ids: Any, seeds: Any) -> None:
        self.t[env_ids] = 0

    def _play(self, actions: Any) -> Any:
        self.t += 1
        over = self.t == 2
        terminated, truncated = (np.array(column) & over[:, None] for column in zip(*self.flags, strict=True))
        return np.ones((self.num_envs, 2), np.float32), terminated, truncated, over

    def _view(self) -> Any:
        seen = np.repeat(self.t[:, None, None], 2, axis=1)
        return (
            [seen],
            [np.zeros((self.num_envs, 2, 0), bool)],
            np.ones((self.num_envs, 2), bool),
            np.zeros((self.num_envs, 0)),
        )


def test_a_native_env_with_both_flags_is_not_bootstrapped() -> None:
    batch = worker_for(BothFlags).collect(2).batch
    assert batch.terminateds[1, 0].tolist() == [True, False]
    assert batch.truncateds[1, 0].tolist() == [False, True]
    assert batch.new_alive[1, 0].tolist() == [False, True]  # only the truncated one has a value after the end


def test_mixed_endings_of_a_native_env_stay_as_they_are_behind_the_dict_view() -> None:
    class Mixed(BothFlags):
        flags = ((True, False), (False, True))

    def dict_view(_: Any) -> MultiAgentEnv:
        return SingleLane(Mixed)

    assert flags_of_last_decisions(dict_view) == {0: (True, False), 1: (False, True)}


def test_check_env_names_an_agent_that_is_truncated_while_all_terminate() -> None:
    problems = check_env(game_over_beside_a_time_limit())
    assert [(p.code, "a_0" in p.text) for p in problems if p.code == "both-flags"] == [("both-flags", True)]
