"""Observations that do not fit their space, parts of observations, and how policies are shown them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType
from marl.envs.base import ENV_STATE
from marl.envs.vector.layout import encoder
from marl.envs.vector.unbatched import SingleLane
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError, EnvError, SpaceMismatchError
from marl.play.actor import act_once
from marl.policies.build import build_policy
from marl.policies.config import PolicySpec
from marl.policies.networks import Features
from marl.policies.policy import Inputs
from marl.policies.scripted import RulePolicy
from marl.rollout.config import RolloutConfig
from tests.small_envs import ACT, OBS, Scripted, Step

BYTES = spaces.Box(0, 255, (2,), np.uint8)
MAP = spaces.Box(0, 255, (1, 2), np.uint8)


class Shown(Scripted):
    """Everybody sees one and the same value."""

    def __init__(self, space: Any, value: Any, agents: Any = ("a_0", "a_1"), late: bool = False) -> None:
        super().__init__(agents[:1] if late else agents, [Step(list(agents))], agents=agents)
        self.space, self.value = space, value

    def observation_space(self, agent: str) -> Any:
        return self.space

    def _obs(self, agents: Any) -> dict[str, Any]:
        return dict.fromkeys(agents, self.value)


def stored(env: Any) -> Any:
    return DictVector([env], "odd").reset(np.array([0]), np.array([0])).obs[0][0]


def inputs(row: Any, dtype: Any = np.float32) -> Inputs:
    return Inputs(np.array([row], dtype), np.ones((1, 0), bool), np.zeros(1, np.int64))


def kind_of(obs: Any, action: Any = ACT, masked: bool = False) -> AgentType:
    return AgentType("agent", ("a_0",), obs, action, masked)


@pytest.mark.parametrize("late", [False, True])  # all at once, or one by one
@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (BYTES, np.array([300, -1]), "holds 300"),
        (BYTES, [7, -1], "holds -1"),
        (spaces.Box(0, 1, (1,), np.int8), np.array([257]), "holds 257"),
        (spaces.Box(0, 1, (1,), np.bool_), np.array([2]), "holds 2"),
        (spaces.MultiBinary(2), np.array([0, 256]), "holds 256"),
        (spaces.Discrete(3), 1.7, "its space says Discrete"),
        (spaces.Tuple((spaces.Discrete(3), OBS)), (-1, np.zeros(2)), "its space says Tuple"),
        (spaces.Tuple((spaces.Discrete(3), OBS)), (3, np.zeros(2)), "its space says Tuple"),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"a": -1}, "its space says Dict"),
        (spaces.Dict({"a": spaces.Discrete(3)}), {"a": 1.7}, "its space says Dict"),
        (spaces.Dict({"a": spaces.MultiDiscrete([2, 3])}), {"a": np.array([-1, 0])}, "its space says Dict"),
        (spaces.Dict({"a": spaces.MultiDiscrete([2, 3])}), {"a": np.array([2, 0])}, "its space says Dict"),
    ],
)
def test_numbers_that_storing_would_change_are_refused(space: Any, value: Any, words: str, late: bool) -> None:
    with pytest.raises(EnvError, match=f"agent 'a_0' .*{words}"):
        stored(Shown(space, value, late=late))


@pytest.mark.parametrize("late", [False, True])
def test_numbers_of_a_wider_type_are_taken_where_they_fit(late: bool) -> None:
    assert stored(Shown(BYTES, np.array([255, 0]), late=late))[0].tolist() == [255, 0]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Dict({"b": spaces.Discrete(3, start=-1), "a": spaces.MultiDiscrete([2, 3], start=[1, 5]), "c": MAP}),
        spaces.Tuple((spaces.Dict({"z": OBS, "y": spaces.MultiBinary(2)}), spaces.Discrete(2))),
        spaces.Dict({"word": spaces.Text(3), "n": spaces.Discrete(2)}),
    ],
)
def test_parts_are_stored_as_gymnasium_flattens_them(space: Any) -> None:
    space.seed(0)
    for _ in range(10):
        value = space.sample()
        np.testing.assert_array_equal(encoder(space)(value), spaces.flatten(space, value).astype(np.float32))


@pytest.mark.parametrize(
    ("space", "value", "shown"),
    [
        (BYTES, [255, 51], [1, 0.2]),
        (spaces.Box(0, 1, (2,), np.uint8), [1, 0], [1, 0]),
        (spaces.Box(0, np.array([0, 4], np.uint8), dtype=np.uint8), [0, 1], [0, 0.25]),
        (spaces.Tuple((MAP, spaces.Discrete(2), OBS)), [255, 51, 0, 1, 300, -2], [1, 0.2, 0, 1, 300, -2]),
        (spaces.Dict({"x": OBS, "map": MAP}), [255, 51, 300, -2], [1, 0.2, 300, -2]),
    ],
)
def test_networks_see_bytes_divided_by_the_top_of_their_space(space: Any, value: Any, shown: Any) -> None:
    kind = kind_of(space)
    row = torch.from_numpy(np.array([value], kind.obs_dtype))
    np.testing.assert_allclose(Features(kind, agent_id=False)(row, torch.zeros(1))[0], shown, rtol=1e-6)


def test_choices_that_do_not_start_at_zero_are_stored_from_zero_and_shown_as_they_are() -> None:
    space = spaces.MultiDiscrete([3, 3], start=[1, 1])
    env = Shown(space, np.array([3, 1]))
    assert stored(env)[0].tolist() == [2, 0]
    env_id = SingleLane(lambda n, _: DictVector([env], "odd"))
    obs, _ = env_id.reset(seed=0)
    assert obs["a_0"].tolist() == [3, 1]
    assert space.contains(obs["a_0"])
    assert shown_to_a_rule(space, [2, 0], np.int64).tolist() == [3, 1]


def test_one_lane_shows_parts_as_the_env_has_them() -> None:
    space = spaces.Dict({"a": spaces.Discrete(3), "map": MAP})
    env_id = SingleLane(lambda n, _: DictVector([Shown(space, {"a": 2, "map": np.array([[7, 255]], np.uint8)})], "odd"))
    obs, _ = env_id.reset(seed=0)
    assert space.contains(obs["a_0"])
    assert (obs["a_0"]["a"], obs["a_0"]["map"].tolist()) == (2, [[7, 255]])


def test_the_state_may_come_beside_an_agent_that_sees_a_plain_number() -> None:
    class Two(Scripted):
        def observation_space(self, agent: str) -> Any:
            return spaces.Discrete(3) if agent == "a_0" else spaces.Dict({"obs": OBS, ENV_STATE: OBS})

        def _obs(self, agents: Any) -> dict[str, Any]:
            envelope = {"obs": np.zeros(2, np.float32), ENV_STATE: np.array([5, 6], np.float32)}
            return {agent: 1 if agent == "a_0" else envelope for agent in agents}

    env = DictVector([Two(["a_0", "b_0"], [Step(["a_0", "b_0"])], agents=["a_0", "b_0"])], "two")
    assert env.reset(np.array([0]), np.array([0])).state.tolist() == [[5, 6]]


@pytest.mark.parametrize(
    ("agents", "words"),
    [
        (("car[0]", "car[1]"), r"names 'car\[0\]'.*for example 'car_0'"),
        (("car*",), r"names 'car\*'.*for example 'car'"),
        ((0, 1), "names 0 of the type int.*write 'agent_0'"),
    ],
)
def test_agent_ids_that_cannot_name_a_seat_are_refused(agents: Any, words: str) -> None:
    with pytest.raises(EnvError, match=words):
        stored(Shown(OBS, np.zeros(2, np.float32), agents=agents))


def test_brackets_in_a_pattern_of_agents_are_refused() -> None:
    with pytest.raises(EnvError, match=r"max_agents names 'car\[ab\]_\*'"):
        DictVector([Scripted(["cara_0"], [Step([])], patterns={"car[ab]_*": 2})], "cars")


# -- single decisions --------------------------------------------------------------------------------------------------

PARTS = spaces.Dict({"x": spaces.Discrete(2), "y": OBS})
INSIDE = {"x": 1, "y": np.zeros(2, np.float32)}


def decide(kind: AgentType, obs: Any) -> Any:
    policy = build_policy(PolicySpec("value", 0), kind)
    return act_once(policy, obs, None, False, np.random.default_rng(0), RolloutConfig())[0]


@pytest.mark.parametrize("key", ["observation", "obs"])
@pytest.mark.parametrize("only", [0, 1, 2])
def test_a_decision_opens_the_envelope_of_a_dict_observation(key: str, only: int) -> None:
    kind = kind_of(PARTS, masked=True)
    assert decide(kind, {key: INSIDE, "action_mask": np.eye(3, dtype=np.int8)[only]}) == only
    assert ACT.contains(decide(kind, INSIDE))


@pytest.mark.parametrize(
    ("kind", "obs"),
    [
        (kind_of(PARTS, masked=True), {"observation": {"x": 1}, "action_mask": np.ones(3)}),
        (kind_of(PARTS, masked=True), {"observation": INSIDE, "action_mask": np.ones(2)}),
        (kind_of(PARTS), {"y": np.zeros(2)}),
        (kind_of(OBS), {"x": 1}),
        (kind_of(spaces.Tuple((spaces.Discrete(2), OBS))), (1, np.zeros((3, 2)))),
        (kind_of(spaces.Tuple((spaces.Discrete(2), OBS))), (-1, np.zeros(2))),
        (kind_of(BYTES), np.array([300, 0])),
    ],
)
def test_a_decision_for_an_observation_of_another_space_says_so(kind: AgentType, obs: Any) -> None:
    with pytest.raises(SpaceMismatchError, match="compute_action got an observation with"):
        decide(kind, obs)


# -- rules -------------------------------------------------------------------------------------------------------------


def shown_to_a_rule(space: Any, row: Any, dtype: Any = np.float32) -> Any:
    seen: list[Any] = []
    rule = RulePolicy(kind_of(space), lambda obs: seen.append(obs) or 0)
    rule.act(inputs(row, dtype), np.zeros((1, 0), np.float32), np.random.default_rng(0), explore=False)
    return seen[0]


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Dict({"a": spaces.Discrete(3, start=4), "map": MAP}), {"a": 6, "map": np.array([[7, 255]], np.uint8)}),
        (
            spaces.Tuple((spaces.MultiDiscrete([2, 2], start=[1, 1]), MAP)),
            (np.array([2, 1]), np.ones((1, 2), np.uint8)),
        ),
    ],
)
def test_a_rule_is_shown_the_parts_of_an_observation_as_the_env_has_them(space: Any, value: Any) -> None:
    seen = shown_to_a_rule(space, encoder(space)(value))
    assert space.contains(seen)
    np.testing.assert_array_equal(spaces.flatten(space, seen), spaces.flatten(space, value))


@pytest.mark.parametrize(
    ("action", "chosen"),
    [
        (ACT, 1.7),
        (spaces.MultiDiscrete([3, 3]), [1.0, 1.7]),
        (spaces.Tuple((ACT, ACT)), (1, 1.7)),
        (spaces.Dict({"a": ACT}), {"a": 1.7}),
    ],
)
def test_a_rule_that_returns_a_fraction_for_a_choice_is_refused(action: Any, chosen: Any) -> None:
    rule = RulePolicy(kind_of(OBS, action), lambda obs: chosen)
    with pytest.raises(ConfigError, match=r"returned .*1\.7"):
        rule.act(inputs([0, 0]), np.zeros((1, 0), np.float32), np.random.default_rng(0), explore=False)
