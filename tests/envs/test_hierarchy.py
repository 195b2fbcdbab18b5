"""Hand-computed episodes of two and three levels in corridors without wind: who is asked when, and what each is paid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.task import AgentID, AnySpace, Task
from marl.envs.base import Action, MultiAgentEnv, StepResult
from marl.envs.check import check_env
from marl.envs.games.windy_maze import WindyMaze
from marl.envs.hierarchy.world import HierarchicalEnv
from marl.envs.registry import make_env, make_world
from marl.errors import EnvError
from marl.mappers.mapper import ByTable, level_of
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.rollout.config import RolloutConfig, RolloutSpec
from marl.rollout.worker import RolloutWorker

STAY, EAST, WEST = 0, 2, 4
FORWARD, BACK = 0, 1
ALL = "__all__"


def corridor(cells: int = 5, limit: int = 50) -> WindyMaze:
    """The walker starts in column 1 and leaves in column ``cells``."""
    line = f"#S{'.' * (cells - 2)}E#"
    return WindyMaze({"map": ["#" * len(line), line, "#" * len(line)], "wind": 0, "turn": 0, "limit": limit})


def goals(cells: int, **keys: Any) -> dict[str, Any]:
    """Move so many cells on, or back."""
    return {"changes": [[cells / 10], [-cells / 10]], "tolerance": 0.02, **keys}


def two_levels(base: MultiAgentEnv, horizon: int = 3, cells: int = 2, **keys: Any) -> HierarchicalEnv:
    levels = [{"name": "top_level", "horizon": horizon, "goals": goals(cells)}, {"name": "low_level", **keys}]
    return HierarchicalEnv(base, levels=levels, features=[1])


def three_levels(base: MultiAgentEnv, top_cells: int = 4, mid_cells: int = 2) -> HierarchicalEnv:
    levels = [
        {"name": "top_level", "horizon": 2, "goals": goals(top_cells)},
        {"name": "mid_level", "horizon": 3, "goals": goals(mid_cells)},
        {"name": "low_level"},
    ]
    return HierarchicalEnv(base, levels=levels, features=[1])


def play(env: HierarchicalEnv, choices: Sequence[Action | Mapping[AgentID, Action]]) -> list[StepResult]:
    """Play an episode; a plain action is played by everybody who is asked."""
    obs, _ = env.reset(seed=0)
    results = [StepResult(obs, {}, {}, {}, {})]
    for choice in choices:
        asked = who_is_asked(results[-1])
        results.append(env.step(dict(choice) if isinstance(choice, Mapping) else dict.fromkeys(asked, choice)))
    return results


def who_is_asked(result: StepResult) -> list[AgentID]:
    return [a for a in result.obs if not (result.terminated.get(a) or result.truncated.get(a))]


def asked(results: Sequence[StepResult]) -> list[list[AgentID]]:
    return [who_is_asked(result) for result in results]


def ended(flags: Mapping[AgentID, bool]) -> list[AgentID]:
    return sorted(agent for agent, flag in flags.items() if flag)


def paid(results: Sequence[StepResult], level: str) -> list[float]:
    return [round(sum(r for a, r in result.rewards.items() if a.startswith(level)), 6) for result in results[1:]]


class Line(MultiAgentEnv):
    """Agents on a line of their own; action 1 moves one cell on. Agent ``x`` leaves after ``lengths[x]`` steps of play,
    paid 1; ``late`` ones appear after two steps. Masks forbid to move where ``blocked``."""

    def __init__(
        self, lengths: Mapping[AgentID, int], late: Sequence[AgentID] = (), blocked: Sequence[int] = ()
    ) -> None:
        self.lengths, self.late, self.blocked = lengths, late, blocked
        self.possible_agents = tuple(lengths)
        self.box = spaces.Box(0, 10, (2,), np.float32)
        self.masked = spaces.Dict({"observation": self.box, "action_mask": spaces.MultiBinary(2)})
        self.moves = spaces.Discrete(2)

    def observation_space(self, agent: AgentID) -> AnySpace:
        return self.masked if self.blocked else self.box

    def action_space(self, agent: AgentID) -> AnySpace:
        return self.moves

    def state(self) -> Any:
        return np.array(list(self.at.values()), np.float32)

    def _see(self, agent: AgentID) -> Any:
        seen = np.array([self.clock / 10, self.at[agent] / 10], np.float32)
        mask = np.array([1, self.at[agent] not in self.blocked], np.int8)
        return {"observation": seen, "action_mask": mask} if self.blocked else seen

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        self.clock, self.at = 0, dict.fromkeys(self.lengths, 0)
        self.left = [a for a in self.lengths if a not in self.late]
        return {a: self._see(a) for a in self.left}, {}

    def step(self, actions: dict[AgentID, Action]) -> StepResult:
        assert sorted(actions) == sorted(self.left)
        self.clock += 1
        for agent, move in actions.items():
            self.at[agent] += move
        gone = [a for a in self.left if self.at[a] >= self.lengths[a]]
        shown = [*self.left, *(self.late if self.clock == 2 else ())]
        self.left = [a for a in shown if a not in gone]
        rewards, flags = {a: float(a in gone) for a in actions}, {a: a in gone for a in shown}
        waits = self.clock < 2 and bool(self.late)
        if waits:
            flags[ALL] = False
        return StepResult(
            {a: self._see(a) for a in shown}, rewards, flags, {}, {a: {"clock": self.clock} for a in shown}
        )


# -- two levels --------------------------------------------------------------------------------------------------------


def test_two_levels_by_hand() -> None:
    results = play(two_levels(corridor()), [FORWARD, EAST, EAST, FORWARD, EAST, STAY, STAY, FORWARD, EAST])
    top, low = "top_level_0", "low_level_{}".format
    assert asked(results) == [[top], [low(0)], [low(0)], [top], [low(1)], [low(1)], [low(1)], [top], [low(2)], []]
    # Reached after two steps; out of time after three; the base world ends during the third goal.
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


def test_the_base_worlds_time_limit_truncates_every_level_with_its_last_observation() -> None:
    last = play(two_levels(corridor(limit=2)), [FORWARD, EAST, STAY])[-1]
    assert ended(last.truncated) == [ALL, "low_level_0", "top_level_0"]
    assert ended(last.terminated) == []
    assert sorted(last.obs) == ["low_level_0", "top_level_0"]


def test_a_goal_reached_with_the_base_worlds_time_limit_is_terminated_all_the_same() -> None:
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


def test_masks_infos_and_the_global_state_of_the_base_world_pass_through() -> None:
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


def test_in_a_turn_based_world_everybody_gets_a_goal_when_its_turn_comes() -> None:
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


# -- through the machinery that trains ---------------------------------------------------------------------------------


def decisions_of(env: MultiAgentEnv, level: str, gamma: float = 0.5) -> list[tuple[Any, ...]]:
    """What is trained on when everybody always goes forward: (step, reward, elapsed, terminated, truncated)."""
    world = make_world(lambda _: env, 1, {})
    levels = {level_of(kind.agents[0]): k for k, kind in enumerate(world.kinds)}
    move = {name: EAST if name == "low_level" else FORWARD for name in levels}
    spec = RolloutSpec(
        env=lambda _: env,
        env_config={},
        task=Task(world.kinds, world.state_size),
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
    first = 0.5 * 0.24 + 0.25 * 0.24  # nothing in its own step, then two steps of the base world
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


def test_any_registered_world_can_be_commanded() -> None:
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


def test_a_base_world_that_answers_nonsense_is_named() -> None:
    class Old(Line):
        def step(self, actions: Any) -> Any:
            return {}, {}, {}, {}

    env = two_levels(Old({"a": 3}))
    env.reset(seed=0)
    env.step({"top_level_0": FORWARD})
    with pytest.raises(EnvError, match="the base world of a hierarchy: step returned 4 values"):
        env.step({"low_level_0": 0})
