"""Hierarchies under the machinery that trains: decisions on their own clocks, contract, resuming."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl.data.task import Task
from marl.envs.base import MultiAgentEnv
from marl.envs.check import check_env
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.hierarchy.env import HierarchicalEnv
from marl.envs.registry import make_batched_env, make_env
from marl.errors import EnvError
from marl.mappers.mapper import ByTable, level_of
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.rollout.worker import RolloutWorker
from tests.envs.small_hierarchies import (
    BACK,
    EAST,
    FORWARD,
    STAY,
    WEST,
    Line,
    asked,
    corridor,
    play,
    three_levels,
    two_levels,
    who_is_asked,
)

# -- through the machinery that trains ---------------------------------------------------------------------------------


def decisions_of(env: MultiAgentEnv, level: str, gamma: float = 0.5) -> list[tuple[Any, ...]]:
    """What is trained on when everybody always goes forward: (step, reward, elapsed, terminated, truncated)."""
    batched_env = make_batched_env(lambda _: env, 1, {})
    levels = {level_of(kind.agents[0]): k for k, kind in enumerate(batched_env.kinds)}
    move = {name: EAST if name == "low_level" else FORWARD for name in levels}
    spec = RolloutSpec(
        env=lambda _: env,
        env_config={},
        task=Task(batched_env.kinds, batched_env.state_size),
        policies={
            name: PolicySpec("scripted", k, scripted=ScriptedConfig(name="fixed", action=move[name]))
            for name, k in levels.items()
        },
        mapper=ByTable("levels", level_of, ""),
        seed=0,
        config=RolloutConfig(),
        complete_episodes=True,
    )
    length = 14 if "mid_level" in levels else 6
    rows = RolloutWorker(spec, 0).collect(length).batch.for_policy(level, gamma=gamma)
    columns = zip(*(rows[k] for k in ("t", "rewards", "elapsed", "terminateds", "truncateds")), strict=True)
    return [(int(t), round(float(r), 6), int(n), bool(e), bool(c)) for t, r, n, e, c in sorted(columns)]


def test_a_decision_of_the_top_lasts_until_it_is_asked_again_and_is_discounted_by_the_steps_between() -> None:
    assert decisions_of(two_levels(corridor()), "top_level") == [(0, 0, 3, False, False), (3, 0.5**2, 3, True, False)]
    steps = decisions_of(two_levels(corridor()), "low_level")
    assert steps == [(1, 0.49, 1, False, False), (2, 1.49, 1, True, False), (4, 0.49, 1, False, False), (5, 1.49, 1, True, False)]  # fmt: skip


def test_the_same_with_three_levels() -> None:
    env = three_levels(corridor(9))
    assert decisions_of(env, "top_level") == [(0, 0, 7, False, False), (7, 0.5**6, 7, True, False)]
    first = 0.5 * 0.24 + 0.25 * 0.24  # nothing in its own step, then two steps of the base env
    second = 0.5 * 0.24 + 0.25 * 1.24
    wanted = [(1, first, 3, False, False), (4, second, 3, True, False), (8, first, 3, False, False), (11, second, 3, True, False)]  # fmt: skip
    assert decisions_of(env, "mid_level") == [pytest.approx(row) for row in wanted]


# -- contract and resuming ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "env",
    [
        two_levels(WindyMaze({"rooms": [1, 2], "limit": 40})),
        three_levels(corridor(9)),
        two_levels(Line({"a": 9, "b": 4, "c": 6}, late=["c"], blocked=[20])),
    ],
    ids=["two", "three", "team"],
)
def test_the_shipped_checker_finds_nothing_wrong(env: HierarchicalEnv) -> None:
    assert check_env(env, steps=300) == []


def test_any_registered_env_can_be_commanded() -> None:
    levels = [{"name": "top_level", "horizon": 2, "goals": {"changes": [[1.0], [0.0]]}}, {"name": "low_level"}]
    env = make_env("two_step_game", wrappers=[{"hierarchy": {"levels": levels, "features": [2]}}])
    assert dict(env.max_agents) == {"low_level_agent_0_*": 1, "low_level_agent_1_*": 1, "top_level_*": 2}
    assert check_env(env) == []
    cartpole = make_env("CartPole-v1", wrappers=[{"hierarchy": {"levels": levels, "features": [0]}}])
    assert check_env(cartpole) == []
    assert not hasattr(cartpole, "get_state")


def test_an_episode_goes_on_from_the_middle_as_if_nothing_had_happened() -> None:
    choices = [FORWARD, FORWARD, EAST, EAST, FORWARD, EAST, EAST, FORWARD, BACK, WEST, STAY, EAST]
    whole = play(three_levels(corridor(9)), choices)
    for cut in range(len(choices)):
        first, second = three_levels(corridor(9)), three_levels(corridor(9))
        play(first, choices[:cut])
        second.reset(seed=5)
        second.set_state(first.get_state())
        rest = [second.step(dict.fromkeys(who_is_asked(whole[t]), choices[t])) for t in range(cut, len(choices))]
        for went, wanted in zip(rest, whole[cut + 1 :], strict=True):
            assert asked([went]) == asked([wanted])
            assert went.rewards == wanted.rewards
            assert (went.terminated, went.truncated) == (wanted.terminated, wanted.truncated)
            for agent in wanted.obs:
                np.testing.assert_array_equal(went.obs[agent], wanted.obs[agent])


def test_a_base_env_that_answers_nonsense_is_named() -> None:
    class Old(Line):
        def step(self, actions: Any) -> Any:
            return {}, {}, {}, {}

    env = two_levels(Old({"a": 3}))
    env.reset(seed=0)
    env.step({"top_level_0": FORWARD})
    with pytest.raises(EnvError, match="the base env of a hierarchy: step returned 4 values"):
        env.step({"low_level_0": 0})
