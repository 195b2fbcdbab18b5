"""Which policies share a learner: those that meet in a group, whose critics see everybody, or who share layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.algos.plan import Role, plan_learners
from marl.algos.presets import ALGOS
from marl.data.task import Kind, Task, number_seats
from marl.errors import ConfigError
from marl.policies.config import ModelConfig

KINDS = number_seats(
    [Kind("k", tuple(f"a_{i}" for i in range(6)), spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2))]
)


def role(algo: str, *seats: int, layers: str = "", **keys: Any) -> Role:
    model = ModelConfig(shared={"encoder": layers}) if layers else ModelConfig()
    return Role(ALGOS[algo], ALGOS[algo].configure(**keys), model, frozenset(seats))


def planned(roles: dict[str, Role], **groups: tuple[int, ...]) -> list[tuple[tuple[str, ...], str, str]]:
    return [(plan.policies, plan.algo, plan.why) for plan in plan_learners(roles, Task(KINDS, 0, groups))]


def test_policies_learn_together_if_their_agents_meet_in_a_group_that_they_look_at() -> None:
    roles = {"a": role("qmix", 0), "b": role("qmix", 1), "c": role("qmix", 2), "d": role("ppo", 3), "e": role("dqn", 4)}
    assert planned(roles, left=(0, 1), right=(2, 3)) == [
        (("a", "b"), "qmix", "group left"),
        (("c",), "qmix", "group right"),
        (("d",), "ppo", ""),
        (("e",), "dqn", ""),
    ]
    assert planned(roles) == [((name,), role.preset.name, "") for name, role in roles.items()]


def test_groups_that_overlap_join_all_of_their_policies() -> None:
    roles = {name: role("vdn", *seats) for name, seats in {"a": (0,), "b": (5,), "c": (1, 2), "d": (3,)}.items()}
    assert planned(roles, one=(0, 1), two=(2, 3)) == [(("a", "c", "d"), "vdn", "group one"), (("b",), "vdn", "")]
    assert planned(roles, two=(2, 3), one=(0, 1)) == [(("a", "c", "d"), "vdn", "group one"), (("b",), "vdn", "")]
    assert planned(roles, all=(0, 1, 2, 3, 5)) == [(("a", "b", "c", "d"), "vdn", "group all")]


def test_a_group_takes_one_algorithm_with_the_same_keys() -> None:
    with pytest.raises(ConfigError, match=r"group 'g' is looked at by qmix \(policy 'a'\) and by mappo \(policy 'b'\)"):
        planned({"a": role("qmix", 0), "b": role("mappo", 1, critic_sees="group")}, g=(0, 1))
    with pytest.raises(ConfigError, match=r"policies 'b' and 'c' are mixed in group 'g' but differ in gamma"):
        planned({"a": role("qmix", 0), "b": role("qmix", 1), "c": role("qmix", 2, gamma=0.5)}, g=(0, 1, 2))


def test_policies_whose_critics_see_everybody_learn_together_within_their_family() -> None:
    roles = {"a": role("maddpg", 0), "b": role("ppo", 1), "c": role("maddpg", 2), "d": role("ddpg", 3)}
    assert planned(roles) == [
        (("a", "c"), "maddpg", "critics see everybody"),
        (("b",), "ppo", ""),
        (("d",), "ddpg", ""),
    ]
    apart = {"a": role("maddpg", 0), "b": role("sac", 1, critic_sees="all")}
    assert [policies for policies, *_ in planned(apart)] == [("a",), ("b",)]


def test_policies_that_share_layers_learn_together_if_they_agree_on_their_steps() -> None:
    roles = {
        "a": role("ppo", 0, layers="eyes"), "b": role("ppo", 1), "c": role("ppo", 2, layers="eyes"),
        "d": role("ppo", 3, layers="ears"),
    }  # fmt: skip
    assert planned(roles) == [
        (("a", "c"), "ppo", "shared layers eyes"),
        (("b",), "ppo", ""),
        (("d",), "ppo", "shared layers ears"),
    ]
    for other, named in (
        (role("ppo", 1, layers="eyes", lr=0.5), "lr"),
        (role("dqn", 1, layers="eyes"), "the algorithm"),
    ):
        with pytest.raises(ConfigError, match=f"'a' and 'b' share the layers 'eyes'.*differ in {named}"):
            planned({"a": role("ppo", 0, layers="eyes"), "b": other})
