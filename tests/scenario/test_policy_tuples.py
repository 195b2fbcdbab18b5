"""Policies as RLlib's guides write them: tuples with spaces and keys."""

from __future__ import annotations

from typing import Any

import pytest
from gymnasium import spaces

from marl.errors import ConfigError
from marl.scenario.config import MultiAgentConfig
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve

OBS, ACT = spaces.MultiDiscrete([2, 2, 2, 3]), spaces.Discrete(2)


def setup(first: Any, second: Any = None) -> Setup:
    policies = {"first": first, "second": second}
    mapping = {"agent_0": "first", "agent_1": "second"}
    keys = {"env": "two_step_game", "algo": "pg", "multiagent": {"policies": policies, "policy_mapping_fn": mapping}}
    return resolve(compose(keys))


def test_a_tuple_is_the_dict_of_its_keys() -> None:
    found = setup((None, OBS, ACT, {"gamma": 0.85}), (None, None, None, {}))
    assert found.scenario.multiagent.policies == {"first": {"gamma": 0.85}, "second": {}}
    assert found.roles["first"].config.gamma == 0.85
    assert describe(found.scenario)["multiagent"]["policies"] == {"first": {"gamma": 0.85}, "second": {}}


def test_the_space_of_an_envelope_fits_the_observation_inside() -> None:
    setup((None, spaces.Dict({"obs": OBS, "state": OBS}), ACT, {}))


@pytest.mark.parametrize(
    ("entry", "text"),
    [
        (
            (None, spaces.Discrete(6), ACT, {}),
            r"policies\.first has the observation space Discrete\(6\), but the env has",
        ),
        ((None, OBS, spaces.Discrete(3), {}), r"the action space Discrete\(3\), but the env has Discrete\(2\)"),
        ((dict, OBS, ACT, {"gamma": 0.5}), r"\{'first': \{'gamma': 0\.5, 'algo': 'ppo'\}\}"),
        ((None, 6, ACT, {}), "first has 6 where a space"),
        ((None, OBS), "expected"),
        ((None, OBS, ACT, 3), "expected"),
        ((None, OBS, ACT, {"agent_id": 0}), "drop agent_id"),
        ({"agent_id": 1}, "Whom a policy plays says policy_mapping_fn"),
    ],
)
def test_a_tuple_that_means_something_else_here_is_refused_with_what_to_write(entry: Any, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        setup(entry)


def test_agent_id_still_takes_its_own_words() -> None:
    for word in (True, False, "auto"):
        setup({"agent_id": word})


def test_other_mistakes_in_the_section_are_still_told() -> None:
    with pytest.raises(ValueError, match="groups"):
        MultiAgentConfig.model_validate({"policies": {"a": (None, None, None, {})}, "groups": 3})
