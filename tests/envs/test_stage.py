"""The rules of an export, one by one, on envs whose every number is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.envs.adapters.export import to_pettingzoo
from marl.envs.adapters.pettingzoo_spaces import as_played, as_shown, blank, shown_space
from marl.envs.base import MultiAgentEnv, StepResult
from marl.errors import ConfigError, EnvError
from tests.small_envs import Scripted, Step

TWO = ("a_0", "b_1")


def two(first: Sequence[str], *steps: Step) -> Scripted:
    return Scripted(first, steps, agents=TWO)


def crowd(first: Sequence[str], *steps: Step) -> Scripted:
    return Scripted(first, steps, patterns={"car_*": 2})


def stepped(env: Any) -> Any:
    """One parallel step in which everybody plays 0."""
    return env.step(dict.fromkeys(env.agents, 0))


def turns(env: Any) -> list[tuple[str, list[float], float, bool]]:
    """Who had a turn in a whole episode, what it saw, what it was paid since its last turn, and whether it had ended."""
    env.reset()
    seen = []
    for agent in env.agent_iter(100):
        obs, reward, terminated, truncated, _ = env.last()
        seen.append((agent, obs.tolist(), reward, terminated or truncated))
        env.step(None if terminated or truncated else 0)
    return seen


# -- endings ---------------------------------------------------------------------------------------------------------


def test_one_terminates_while_the_other_is_truncated() -> None:
    env = to_pettingzoo(two(TWO, Step(rewards={"a_0": 1, "b_1": 2}, terminated=["a_0"], truncated=["b_1"])))
    env.reset()
    obs, rewards, terminated, truncated, _ = stepped(env)
    assert (terminated, truncated) == ({"a_0": True, "b_1": False}, {"a_0": False, "b_1": True})
    assert rewards == {"a_0": 1.0, "b_1": 2.0}
    assert obs["b_1"].tolist() == [1, 1]
    assert env.agents == []
    assert env.step({}) == ({}, {}, {}, {}, {})


def test_one_who_ends_early_leaves_and_the_others_go_on() -> None:
    batched_env = two(TWO, Step(asked=["a_0"], terminated=["b_1"]), Step(truncated=["__all__"], last=["a_0"]))
    env = to_pettingzoo(batched_env)
    env.reset()
    stepped(env)
    assert env.agents == ["a_0"]
    env.step({"a_0": 2, "b_1": 1})  # an action of somebody who ended is ignored
    assert batched_env.seen == [{"a_0": 0, "b_1": 0}, {"a_0": 2}]
    assert env.agents == []


def test_who_is_cut_off_without_a_last_observation_gets_its_latest_one_marked_as_stale() -> None:
    env = to_pettingzoo(two(TWO, Step(truncated=["__all__"], last=["a_0"])))
    env.reset()
    obs, _, _, truncated, infos = stepped(env)
    assert truncated == {"a_0": True, "b_1": True}
    assert obs["b_1"].tolist() == [1, 0]
    assert (infos["a_0"], infos["b_1"]) == ({}, {"marl_stale": True})


def test_who_was_never_shown_anything_leaves_with_the_others() -> None:
    env = to_pettingzoo(two(["a_0"], Step(asked=["a_0"]), Step(terminated=["a_0"])))
    obs, _ = env.reset()
    assert env.agents == list(TWO)
    assert obs["b_1"].tolist() == [0, 0]
    assert stepped(env)[2] == {"a_0": False, "b_1": False}
    assert stepped(env)[2] == {"a_0": True, "b_1": True}


# -- rewards ---------------------------------------------------------------------------------------------------------


LATE = (
    Step(asked=["a_0"], terminated=["b_1"], rewards={"b_1": 1}),
    Step(asked=["a_0"], rewards={"b_1": 4, "a_0": 1}),
    Step(asked=["a_0"], rewards={"b_1": 2}),
    Step(terminated=["a_0"], rewards={"b_1": 0}),
)


def test_a_reward_after_the_end_is_paid_under_its_id_by_the_parallel_export() -> None:
    env = to_pettingzoo(two(TWO, *LATE))
    env.reset()
    paid = [stepped(env)[1] for _ in range(4)]
    assert paid == [{"a_0": 0, "b_1": 1}, {"a_0": 1, "b_1": 4}, {"a_0": 0, "b_1": 2}, {"a_0": 0}]


def test_a_reward_after_the_end_is_kept_apart_and_told_by_the_turn_based_export() -> None:
    env = to_pettingzoo(two(TWO, *LATE), turns=True)
    with pytest.warns(UserWarning, match="adds it to late_rewards") as told:
        played = turns(env)
    assert [str(w.message).split(";")[0] for w in told] == [
        "agent 'b_1' was paid 4.0 after it had left",
        "agent 'b_1' was paid 2.0 after it had left",
    ]
    assert env.late_rewards == {"b_1": 6.0}
    assert [(agent, reward) for agent, _, reward, ended in played if ended] == [("b_1", 1), ("a_0", 0)]
    env.reset()
    assert env.late_rewards == {}


def test_a_reward_while_others_move_reaches_the_agents_next_turn() -> None:
    batched_env = two(
        ["a_0"],
        Step(asked=["b_1"], rewards={"a_0": 1}),
        Step(asked=["a_0"], rewards={"a_0": 2, "b_1": 3}),
        Step(terminated=["__all__"], last=TWO, rewards={"a_0": 4, "b_1": 5}),
    )
    assert turns(to_pettingzoo(batched_env, turns=True)) == [
        ("a_0", [0, 0], 0, False),
        ("b_1", [1, 1], 0, False),
        ("a_0", [0, 2], 3, False),
        ("a_0", [0, 3], 4, True),
        ("b_1", [1, 3], 8, True),
    ]
    assert batched_env.seen == [{"a_0": 0}, {"b_1": 0}, {"a_0": 0}]


def test_a_reward_for_somebody_who_never_appeared_is_an_error() -> None:
    env = to_pettingzoo(crowd(["car_7"], Step(asked=["car_7"], rewards={"car_8": 1})))
    env.reset()
    with pytest.raises(EnvError, match="step 1: agent 'car_8' was paid 1 without having appeared"):
        stepped(env)


# -- agents that come and go -----------------------------------------------------------------------------------------


def test_one_dies_and_one_is_born_in_the_same_step() -> None:
    env = to_pettingzoo(
        crowd(
            ["car_7"],
            Step(asked=["car_9"], terminated=["car_7"], rewards={"car_7": 1}),
            Step(asked=["car_7", "car_9"]),  # the first one is back
            Step(truncated=["__all__"], last=["car_7", "car_9"]),
        )
    )
    env.reset()
    assert env.agents == ["car_0"]
    obs, rewards, terminated, _, infos = stepped(env)
    assert rewards == {"car_0": 1.0, "car_1": 0.0}
    assert terminated == {"car_0": True, "car_1": False}
    assert {a: o.tolist() for a, o in obs.items()} == {"car_0": [7, 1], "car_1": [9, 1]}
    assert env.agents == ["car_1"]
    *_, infos = stepped(env)
    assert infos == {"car_1": {"agent": "car_9"}, "car_2": {"agent": "car_7"}}
    assert stepped(env)[3] == {"car_1": True, "car_2": True}


def test_a_known_agent_that_comes_back_needs_a_second_life() -> None:
    steps = Step(asked=["a_0"], terminated=["b_1"]), Step(asked=TWO), Step(terminated=["__all__"], last=TWO)
    env = to_pettingzoo(two(TWO, *steps))
    env.reset()
    stepped(env)
    with pytest.raises(EnvError, match=r"step 2: agent 'b_1' appeared after all 1 ids of 'b_1'.*Raise lives"):
        stepped(env)
    env = to_pettingzoo(two(TWO, *steps), lives=2)
    assert env.possible_agents == ["a_0", "a_0_life_2", "b_1", "b_1_life_2"]
    env.reset()
    stepped(env)
    *_, infos = stepped(env)
    assert env.agents == ["a_0", "b_1_life_2"]
    assert infos["b_1_life_2"] == {"agent": "b_1"}


def test_an_ended_agent_that_is_shown_and_flagged_again_has_no_new_life() -> None:
    again = Step(asked=["a_0"], terminated=["b_1"])
    env = to_pettingzoo(two(TWO, again, again, Step(terminated=["__all__"], last=TWO)))
    env.reset()
    stepped(env)
    assert stepped(env)[2] == {"a_0": False}
    assert stepped(env)[2] == {"a_0": True}


def test_steps_without_anybody_are_played_at_once() -> None:
    batched_env = crowd(
        ["car_7"],
        Step(terminated=["car_7"], rewards={"car_7": 1}),
        Step(rewards={"car_7": 2}),
        Step(asked=["car_3"]),
        Step(terminated=["__all__"], last=["car_3"]),
    )
    batched_env.step = _goes_on(batched_env)  # type: ignore[method-assign]
    env = to_pettingzoo(batched_env)
    env.reset()
    _, rewards, terminated, _, _ = stepped(env)
    assert rewards == {"car_0": 3.0, "car_1": 0.0}
    assert terminated == {"car_0": True, "car_1": False}
    assert env.agents == ["car_1"]
    assert batched_env.seen == [{"car_7": 0}, {}, {}]
    assert turns(to_pettingzoo(batched_env, turns=True))[:3] == [
        ("car_0", [7, 0], 0, False),
        ("car_0", [7, 1], 3, True),
        ("car_1", [3, 3], 0, False),
    ]


def _goes_on(batched_env: Scripted) -> Any:
    """Steps of an env that says ``__all__`` in every step."""
    plain = batched_env.step

    def step(actions: Any) -> StepResult:
        result = plain(actions)
        return result._replace(terminated={"__all__": False, **result.terminated})

    return step


def test_steps_in_which_nobody_is_asked_take_no_turn_but_a_parallel_step() -> None:
    def script() -> Scripted:
        pauses = [Step(rewards={"a_0": 1}), Step(rewards={"a_0": 1}), Step(asked=TWO)]
        return two(TWO, *pauses, Step(terminated=["__all__"], last=TWO))

    assert [(agent, reward) for agent, _, reward, _ in turns(to_pettingzoo(script(), turns=True))] == [
        ("a_0", 0), ("b_1", 0), ("a_0", 2), ("b_1", 0), ("a_0", 0), ("b_1", 0),
    ]  # fmt: skip
    env = to_pettingzoo(script())
    env.reset()
    told = [stepped(env) for _ in range(4)]
    assert [infos["a_0"] for *_, infos in told] == [{"marl_stale": True}, {"marl_stale": True}, {}, {}]
    assert [rewards["a_0"] for _, rewards, *_ in told] == [1, 1, 0, 0]


def test_an_env_that_never_asks_anybody_again_is_told_off() -> None:
    batched_env = two(TWO, *[Step()] * 1500)
    env = to_pettingzoo(batched_env, turns=True)
    env.reset()
    env.step(0)
    with pytest.raises(EnvError, match="nobody has been asked to act for 1000 steps"):
        env.step(0)


# -- calls out of order and wrong actions ----------------------------------------------------------------------------


@pytest.mark.parametrize("by_turns", [False, True])
def test_a_step_before_reset_is_an_error(by_turns: bool) -> None:
    with pytest.raises(EnvError, match="before reset"):
        to_pettingzoo(two(TWO), turns=by_turns).step({})


def test_wrong_actions_name_the_agent() -> None:
    env = to_pettingzoo(two(TWO, Step(asked=TWO)))
    env.reset()
    with pytest.raises(
        EnvError, match=r"step 0: got no action of 'b_1'. Expected one of each of env\.agents: a_0, b_1"
    ):
        env.step({"a_0": 0})
    with pytest.raises(EnvError, match="an action of 'c', which is no agent"):
        env.step({"a_0": 0, "b_1": 0, "c": 0})
    with pytest.raises(EnvError, match=r"action 3 of agent 'b_1' is not in its space Discrete\(3\)"):
        env.step({"a_0": 0, "b_1": 3})
    by_turns = to_pettingzoo(two(TWO, Step(terminated=["__all__"], last=TWO)), turns=True)
    by_turns.reset()
    with pytest.raises(EnvError, match="action None of agent 'a_0'"):
        by_turns.step(None)
    by_turns.step(0)
    by_turns.step(0)
    with pytest.raises(EnvError, match="agent 'a_0' has ended, but got the action 1"):
        by_turns.step(1)
    by_turns.step(None)
    by_turns.step(None)
    with pytest.raises(EnvError, match="the episode is over"):
        by_turns.step(None)


class Crash(Scripted):
    def step(self, actions: Any) -> StepResult:
        raise ZeroDivisionError("no wind")


def test_an_env_that_raises_is_named() -> None:
    env = to_pettingzoo(Crash(TWO, [], agents=TWO))
    env.reset()
    with pytest.raises(EnvError, match="env 'Crash', step 1: step raised ZeroDivisionError: no wind"):
        stepped(env)


def test_an_env_without_agents_or_lives_is_refused() -> None:
    with pytest.raises(EnvError, match="names no agents"):
        to_pettingzoo(Scripted([], []))
    with pytest.raises(ConfigError, match="lives is -1"):
        to_pettingzoo(two(TWO), lives=-1)


# -- values ----------------------------------------------------------------------------------------------------------

SPACES = [
    spaces.Discrete(4, start=2),
    spaces.Box(1, 2, (2, 2), np.float32),
    spaces.Box(-np.inf, np.inf, (3,), np.float64),
    spaces.MultiBinary(3),
    spaces.MultiDiscrete([2, 3]),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (1,), np.float32)]),
    spaces.Dict({"obs": spaces.Discrete(3), "action_mask": spaces.MultiBinary(2)}),
    spaces.Dict({"map": spaces.Box(0, 255, (2, 2, 3), np.uint8), "name": spaces.Text(3)}),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_shown_observations_blanks_and_actions_are_in_their_spaces(space: Any) -> None:
    shown = shown_space(space)
    for value in (space.sample() for _ in range(5)):
        assert shown.contains(as_shown(shown, value))
        assert space.contains(as_played(space, value, "a"))
    assert shown.contains(blank(shown))


def test_a_mask_stands_beside_the_observation_as_in_the_classic_games() -> None:
    shown = shown_space(SPACES[6])
    assert set(shown.spaces) == {"observation", "action_mask"}
    value = as_shown(shown, {"obs": 2, "action_mask": [1, 0]})
    assert (value["observation"], value["action_mask"].tolist()) == (2, [1, 0])
    assert blank(shown)["action_mask"].tolist() == [1, 1]


@pytest.mark.parametrize(
    ("space", "action"),
    [
        (spaces.Discrete(3), 1.5),
        (spaces.Discrete(3), "left"),
        (spaces.MultiDiscrete([2, 2]), [0.5, 1]),
        (spaces.MultiDiscrete([2, 2]), [0, 1, 0]),
        (spaces.Box(-1, 1, (2,), np.float32), [0.0, 1.5]),
        (spaces.Dict({"x": spaces.Discrete(2)}), {"y": 1}),
    ],
)
def test_an_action_outside_of_its_space_is_refused(space: Any, action: Any) -> None:
    with pytest.raises(EnvError, match="of agent 'a' is not in its space"):
        as_played(space, action, "a")


class Reuses(MultiAgentEnv):
    """Writes every observation into the same array."""

    possible_agents = ("a", "b")
    seen = np.zeros(1, np.float32)

    def observation_space(self, agent: str) -> Any:
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent: str) -> Any:
        return spaces.Discrete(2)

    def reset(self, *, seed: Any = None, options: Any = None) -> Any:
        self.seen[:] = 1
        return {"a": self.seen}, {}

    def step(self, actions: Any) -> StepResult:
        self.seen += 1
        return StepResult({"b": self.seen}, {}, {}, {}, {})


def test_a_latest_observation_changes_neither_with_the_envs_array_nor_with_the_users() -> None:
    env = to_pettingzoo(Reuses())
    obs, _ = env.reset()
    obs["a"][:] = 7
    obs, *_ = env.step({"a": 0, "b": 0})
    assert (obs["a"].tolist(), obs["b"].tolist()) == ([1.0], [2.0])


def test_an_observation_of_the_wrong_shape_names_the_agent_and_the_space() -> None:
    batched_env = two(TWO)
    batched_env._obs = lambda agents: dict.fromkeys(agents, np.zeros(3, np.float32))  # type: ignore[method-assign]
    with pytest.raises(EnvError, match=r"step 0: the observation of agent 'a_0' does not fit.*shape is \(3,\)"):
        to_pettingzoo(batched_env).reset()
