"""Hand-computed episodes of two and three levels in corridors without wind: who is asked when, and what each is paid."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

from marl.data.task import AgentID
from marl.envs.base import Action, StepResult
from marl.envs.hierarchy.env import HierarchicalEnv
from tests.envs.small_hierarchies import (
    ALL,
    BACK,
    EAST,
    FORWARD,
    STAY,
    Line,
    asked,
    corridor,
    ended,
    goals,
    paid,
    play,
    three_levels,
    two_levels,
)

# -- two levels --------------------------------------------------------------------------------------------------------


def test_two_levels_by_hand() -> None:
    results = play(two_levels(corridor()), [FORWARD, EAST, EAST, FORWARD, EAST, STAY, STAY, FORWARD, EAST])
    top, low = "top_level_0", "low_level_{}".format
    assert asked(results) == [[top], [low(0)], [low(0)], [top], [low(1)], [low(1)], [low(1)], [top], [low(2)], []]
    # Reached after two steps; out of time after three; the base env ends during the third goal.
    assert [ended(r.terminated) for r in results] == [[], [], [], [low(0)], [], [], [], [], [], [ALL, low(2), top]]
    assert [ended(r.truncated) for r in results] == [[], [], [], [], [], [], [], [low(1)], [], []]
    assert paid(results, "top") == [0, 0, 0, 0, 0, 0, 0, 0, 1]
    # Half the way 0.5, reached 1, each base step -0.01; commanders' own steps pay nothing.
    assert paid(results, "low") == [0, 0.49, 1.49, 0, 0.49, -0.01, -0.01, 0, 0.49]
    assert all(agent in results[7].obs for agent in (low(1), top))  # with its last observation


def test_a_worker_sees_the_base_observation_the_way_that_remains_and_the_time_left() -> None:
    env = two_levels(corridor())
    results = play(env, [FORWARD, EAST, EAST, BACK])
    for i, (agent, remaining, left) in enumerate([(0, 0.2, 1), (0, 0.1, 2 / 3), (0, 0.0, 1 / 3), (1, -0.2, 1)]):
        obs = results[1 + i].obs[f"low_level_{agent}"]
        assert obs[:-2].tolist() == env.base.seen[env.base.cell_of[1, min(1 + i, 3)]][env.base.wind].tolist()
        assert obs[-2:] == pytest.approx([remaining, left], abs=1e-6)
    assert results[0].obs["top_level_0"].shape == (10,)


def test_one_hot_goals_show_the_choice() -> None:
    levels = [{"name": "top_level", "horizon": 3, "goals": goals(2, show="one_hot")}, {"name": "low_level"}]
    env = HierarchicalEnv(corridor(), levels=levels, features=[1])
    assert play(env, [BACK])[1].obs["low_level_0"][-3:].tolist() == [0, 1, 1]


def test_the_base_envs_time_limit_truncates_every_level_with_its_last_observation() -> None:
    last = play(two_levels(corridor(limit=2)), [FORWARD, EAST, STAY])[-1]
    assert ended(last.truncated) == [ALL, "low_level_0", "top_level_0"]
    assert ended(last.terminated) == []
    assert sorted(last.obs) == ["low_level_0", "top_level_0"]


def test_a_goal_reached_with_the_base_envs_time_limit_is_terminated_all_the_same() -> None:
    last = play(two_levels(corridor(limit=2)), [FORWARD, EAST, EAST])[-1]
    assert ended(last.terminated) == ["low_level_0"]
    assert ended(last.truncated) == [ALL, "top_level_0"]


def test_extrinsic_adds_a_share_of_the_base_reward() -> None:
    results = play(two_levels(corridor(3), extrinsic=10.0), [FORWARD, EAST, EAST])
    assert paid(results, "low") == [0, 0.49, 11.49]
    assert paid(results, "top") == [0, 0, 1]


# -- three levels ------------------------------------------------------------------------------------------------------


def test_three_levels_by_hand() -> None:
    walk = [FORWARD, FORWARD, EAST, EAST, FORWARD, EAST, EAST]
    results = play(three_levels(corridor(9)), [*walk, *walk])
    top, mid, low = "top_level_0", "mid_level_{}".format, "low_level_{}".format
    half = [[top], [mid(0)], [low(0)], [low(0)], [mid(0)], [low(1)], [low(1)]]
    assert asked(results)[:7] == half
    assert asked(results)[7:] == [[top], [mid(1)], [low(2)], [low(2)], [mid(1)], [low(3)], [low(3)], []]
    assert [ended(r.terminated) for r in results][4] == [low(0)]
    assert [ended(r.terminated) for r in results][7] == [low(1), mid(0)]  # both goals at once
    assert not any(ended(r.truncated) for r in results)
    # The middle level goes four cells: a quarter per step, less the step's cost, and 1 at the end.
    assert paid(results, "mid")[:7] == [0, 0, 0.24, 0.24, 0, 0.24, 1.24]
    assert paid(results, "low")[:7] == [0, 0, 0.49, 1.49, 0, 0.49, 1.49]
    assert paid(results, "top") == [0] * 13 + [1]


def test_a_middle_levels_time_is_counted_in_its_own_goals() -> None:
    results = play(three_levels(corridor(9)), [FORWARD, FORWARD, *[STAY] * 3, FORWARD, *[STAY] * 3])
    # Two goals of three steps each: the second one ends both.
    assert [ended(r.truncated) for r in results][5] == ["low_level_0"]
    assert [ended(r.truncated) for r in results][9] == ["low_level_1", "mid_level_0"]
    assert asked(results)[-1] == ["top_level_0"]
    assert results[6].obs["low_level_1"][-1] == 1
    mid = [result.obs["mid_level_0"][-1] for result in results if "mid_level_0" in result.obs]
    assert mid == [1, 0.5, 0]


def test_no_goal_outlives_its_commander() -> None:
    results = play(three_levels(corridor(9), top_cells=1), [FORWARD, FORWARD, EAST, FORWARD])
    # The middle level's goal was one cell and is reached; the low level was only half way and is cut.
    assert ended(results[3].terminated) == ["mid_level_0"]
    assert ended(results[3].truncated) == ["low_level_0"]
    assert sorted(results[3].obs) == ["low_level_0", "mid_level_0", "top_level_0"]
    assert asked(results)[3:] == [["top_level_0"], ["mid_level_1"]]


# -- several base agents -----------------------------------------------------------------------------------------------


def test_a_commander_sets_goals_for_its_workers_one_after_another() -> None:
    env = two_levels(Line({"a": 9, "b": 9}))
    # a reaches its goal in two steps while b stays behind.
    walk = {"low_level_a_0": 1, "low_level_b_0": 0}
    results = play(env, [FORWARD, FORWARD, walk, walk, BACK, {"low_level_a_1": 0, "low_level_b_0": 1}])
    assert asked(results) == [
        ["top_level_0"], ["top_level_0"], ["low_level_a_0", "low_level_b_0"], ["low_level_a_0", "low_level_b_0"],
        ["top_level_0"], ["low_level_a_1", "low_level_b_0"], ["top_level_0"],
    ]  # fmt: skip
    whom = [results[t].obs["top_level_0"][-2:].tolist() for t in (0, 1, 4, 6)]
    assert whom == [[1, 0], [0, 1], [1, 0], [0, 1]]
    assert results[4].terminated == {"low_level_a_0": True, ALL: False}
    assert results[6].truncated == {"low_level_b_0": True, ALL: False}
    # The commander sees both: clock and place of a, then of b.
    assert results[4].obs["top_level_0"][:4] == pytest.approx([0.2, 0.2, 0.2, 0.0])


def test_the_top_is_paid_for_all_base_agents_and_lives_until_the_last_one_ends() -> None:
    env = two_levels(Line({"a": 1, "b": 2}))
    results = play(env, [FORWARD, FORWARD, 1, 1])
    assert asked(results)[2:] == [["low_level_a_0", "low_level_b_0"], ["low_level_b_0"], []]
    assert paid(results, "top") == [0, 0, 1, 1]
    assert ended(results[3].terminated) == ["low_level_a_0"]  # its base agent ended, short of its goal
    assert ended(results[4].terminated) == [ALL, "low_level_b_0", "top_level_0"]


def test_a_base_agent_that_appears_later_is_given_a_goal_then() -> None:
    env = two_levels(Line({"a": 9, "b": 9}, late=["b"]), horizon=5)
    results = play(env, [FORWARD, 0, 0, FORWARD, 0])
    assert asked(results) == [
        ["top_level_0"], ["low_level_a_0"], ["low_level_a_0"], ["top_level_0"], *[["low_level_a_0", "low_level_b_0"]] * 2
    ]  # fmt: skip
    assert results[0].obs["top_level_0"][2:4].tolist() == [0, 0]  # nothing is known of b yet


def test_a_team_of_a_middle_level_has_reached_its_goal_when_every_member_has() -> None:
    command = {"top_level": ["mid_level_x", "mid_level_y"], "mid_level_x": ["a", "b"], "mid_level_y": ["c"]}
    levels = [
        {"name": "top_level", "horizon": 9, "goals": goals(1)},
        {"name": "mid_level", "horizon": 9, "goals": goals(1)},
        {"name": "low_level"},
    ]
    env = HierarchicalEnv(Line({"a": 9, "b": 9, "c": 9}), levels=levels, features=[1], command=command)
    move_a = {"low_level_a_0": 1, "low_level_b_0": 0, "low_level_c_0": 1}
    results = play(env, [FORWARD] * 3 + [move_a])
    # While the top commands y, x already commands a; base agents wait for all of it.
    assert asked(results)[:4] == [
        ["top_level_0"], ["mid_level_x_0", "top_level_0"], ["mid_level_x_0", "mid_level_y_0"],
        ["low_level_a_0", "low_level_b_0", "low_level_c_0"],
    ]  # fmt: skip
    assert ended(results[4].terminated) == ["low_level_a_0", "low_level_c_0", "mid_level_y_0"]
    assert results[4].rewards["mid_level_y_0"] == pytest.approx(1.99)
    assert results[4].rewards["mid_level_x_0"] == pytest.approx(0.49)  # the mean way of both is half done
    results.append(env.step({"mid_level_x_0": FORWARD, "top_level_0": FORWARD}))
    results.append(env.step({"mid_level_y_1": FORWARD}))
    results.append(env.step({"low_level_a_1": 0, "low_level_b_0": 1, "low_level_c_1": 0}))
    assert ended(results[-1].terminated) == ["low_level_b_0", "mid_level_x_0"]
    assert ended(results[-1].truncated) == ["low_level_a_1"]


def test_masks_infos_and_the_global_state_of_the_base_env_pass_through() -> None:
    env = two_levels(Line({"a": 9}, blocked=[1]))
    results = play(env, [FORWARD, 1, 0])
    masks = [result.obs["low_level_0"]["action_mask"].tolist() for result in results[1:]]
    assert masks == [[1, 1], [1, 0], [1, 0]]
    assert isinstance(env.observation_space("low_level_7"), spaces.Dict)
    assert env.action_space("low_level_7") == spaces.Discrete(2)
    assert results[2].infos == {"low_level_0": {"clock": 1}}
    assert env.state().tolist() == [1]


class Turns(Line):
    """The same, but agents move in turns."""

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        result = super().step({**dict.fromkeys(self.left, 0), **actions})
        mover = list(self.lengths)[self.clock % len(self.lengths)]
        return result._replace(obs={mover: result.obs[mover]})

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        obs, infos = super().reset()
        return {"a": obs["a"]}, infos


def test_in_a_turn_based_env_everybody_gets_a_goal_when_its_turn_comes() -> None:
    levels = [
        {"name": "top_level", "horizon": 9, "goals": goals(1)},
        {"name": "mid_level", "horizon": 9, "goals": goals(5)},
        {"name": "low_level"},
    ]
    env = HierarchicalEnv(Turns({"a": 9, "b": 9}), levels=levels, features=[1])
    results = play(env, [FORWARD, FORWARD, 1, FORWARD, 1, 0])
    top, mid, a, b = "top_level_0", "mid_level_0", "low_level_a_0", "low_level_b_0"
    assert asked(results) == [[top], [mid], [a], [mid], [b], [a], [top]]
    # What b did is seen when its turn comes again: the team's goal is reached. Both workers are cut, a with what it saw
    # last, though it was not its turn.
    assert ended(results[6].terminated) == [mid]
    assert ended(results[6].truncated) == [a, b]
    assert results[6].obs[a][1] == pytest.approx(0.1)


def test_a_goal_counts_from_where_a_base_agent_appears() -> None:
    env = HierarchicalEnv(
        Line({"a": 9, "b": 9}, late=["b"]),
        levels=[
            {"name": "top_level", "horizon": 9, "goals": {"changes": [[0.5]], "tolerance": 0.02}},
            {"name": "mid_level", "horizon": 9, "goals": {"changes": [[0.1]]}},
            {"name": "low_level"},
        ],
        features=[0],  # the clock, which is at 0.2 when b appears
    )
    results = play(env, [FORWARD, FORWARD, 0, FORWARD, 0])
    assert asked(results)[-1] == ["mid_level_0"]
    remaining = results[-1].obs["mid_level_0"][4:6]
    assert remaining == pytest.approx([0.5 - 0.2, 0.5])  # of a, and of b, which begins now
