"""Who plays whom."""

from __future__ import annotations

from typing import Any

import pytest

from marl.data.episode import Episode
from marl.errors import ConfigError, SpaceMismatchError, UnknownPolicyError
from marl.mappers.mapper import Patterns, UserFunction
from marl.scenario.load import compose
from marl.scenario.resolve import resolve

TRAFFIC = {"env": "traffic", "algo": "ppo"}


def test_the_first_matching_pattern_wins() -> None:
    mapper = Patterns({"car_1*": "special", "car_*": "cars", "*": "rest"})
    episode = Episode(0, 0)
    assert [mapper(agent, episode) for agent in ("car_12", "car_2", "light")] == ["special", "cars", "rest"]


def test_an_unmatched_agent_is_an_error() -> None:
    with pytest.raises(UnknownPolicyError, match="no pattern of policy_mapping_fn matches agent 'bike_1'"):
        Patterns({"car_*": "cars"})("bike_1", Episode(0, 0))


def test_a_list_of_policies_is_drawn_from_anew_in_each_episode_and_by_the_seed() -> None:
    mapper = Patterns({"car_*": ["car1", "car2"]})
    assert not mapper.fixed

    def draw() -> list[list[str]]:
        return [[mapper(f"car_{i}", episode) for i in range(5)] for episode in (Episode(s, s) for s in range(40))]

    first = draw()
    assert first == draw()
    assert {policy for episode in first for policy in episode} == {"car1", "car2"}
    assert len({tuple(episode) for episode in first}) > 5


def test_user_functions_may_take_the_agent_or_the_agent_and_the_episode() -> None:
    def with_kwargs(agent: str, episode: Episode, **kwargs: Any) -> str:
        return f"p{episode.episode_id}"

    assert UserFunction(lambda agent: "p", ["p"], "f")("a", Episode(0, 0)) == "p"
    assert UserFunction(lambda agent, episode: f"p{episode.episode_id}", ["p"], "f")("a", Episode(7, 0)) == "p7"
    assert UserFunction(with_kwargs, ["p"], "f")("a", Episode(8, 0)) == "p8"


@pytest.mark.parametrize(
    ("multiagent", "expected"),
    [
        ({}, {"default_policy": {0, 1}}),
        ({"policies": ["shared_one"]}, {"shared_one": {0, 1}}),
        ({"policy_mapping_fn": "per_agent"}, {"agent_0": {0}, "agent_1": {1}}),
        ({"policies": {"agent_0": {}, "agent_1": {"gamma": 0.5}}}, {"agent_0": {0}, "agent_1": {1}}),
        ({"groups": {"team": ["agent_*"]}, "policy_mapping_fn": "by_group"}, {"team": {0, 1}}),
        ({"groups": {"a": ["agent_1"], "b": ["agent_0"]}, "policies": ["a", "b"]}, {"a": {1}, "b": {0}}),
        ({"policy_mapping_fn": {"agent_0": "x", "*": ["y", "z"]}}, {"x": {0}, "y": {1}, "z": {1}}),
        ({"policies": ["u", "v"], "policy_mapping_fn": lambda a: "u" if a == "agent_0" else "v"}, {"u": {0, 1}, "v": {0, 1}}),
    ],
)  # fmt: skip
def test_every_form_of_routing(multiagent: dict[str, Any], expected: dict[str, set[int]]) -> None:
    setup = resolve(compose({"env": "two_step_game", "algo": "ppo", "multiagent": multiagent}))
    assert {name: set(role.seats) for name, role in setup.roles.items()} == expected


def test_without_a_multiagent_section_equal_spaces_share_a_policy() -> None:
    setup = resolve(compose(TRAFFIC))
    assert set(setup.policies) == {"car", "traffic_light"}
    assert "car plays car_*" in setup.header[1]


@pytest.mark.parametrize(
    ("multiagent", "error", "text"),
    [
        ({"policies": ["p"], "policy_mapping_fn": "shared"}, SpaceMismatchError, "same policy 'p'"),
        (
            {"policies": ["p", "q"], "policy_mapping_fn": {"car_*": "pp", "*": "q"}},
            UnknownPolicyError,
            "Did you mean 'p'",
        ),
        ({"policies": ["p", "q", "r"], "policy_mapping_fn": {"car_*": "p", "*": "q"}}, ConfigError, "'r' plays nobody"),
        ({"policies": ["p", "q"]}, ConfigError, "nobody knows who plays whom"),
        ({"policies": ["p", "q"], "policy_mapping_fn": "by_grop"}, ConfigError, "Did you mean 'by_group'"),
        ({"policies": ["p", "q"], "policy_mapping_fn": "shared"}, ConfigError, "exactly one policy"),
        ({"groups": {"x": ["car_*"], "y": ["car_*"]}}, ConfigError, "in the groups 'x' and 'y'"),
        ({"groups": {"x": ["cra_*"]}}, ConfigError, "no such agent"),
        ({"policies_to_train": ["cars"]}, ConfigError, "Did you mean 'car'"),
        ({"policy_mapping_fn": lambda a: "x"}, ConfigError, "needs multiagent.policies"),
        ({"policies": ["p"], "policy_mapping_fn": lambda a: 1 / 0}, ConfigError, "failed for agent"),
    ],
)
def test_mistakes_in_routing_are_found_before_the_first_step(multiagent: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        resolve(compose({**TRAFFIC, "multiagent": multiagent}))
