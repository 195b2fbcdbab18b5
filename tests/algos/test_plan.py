"""Which policies share a learner: those that meet in a group, whose critics see everybody, or who share layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.algos.plan import Role, plan_learners
from marl.algos.presets import ALGOS
from marl.data.task import AgentType, Task, number_seats
from marl.errors import ConfigError
from marl.policies.build import build_policies
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.stochastic import StochasticPolicy

KINDS = number_seats(
    [AgentType("k", tuple(f"a_{i}" for i in range(6)), spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(2))]
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


SEES = {"own": {"critic_sees": "own"}, "group": {"critic_sees": "group"}, "all": {"critic_sees": "all"}}
# Looks at groups, at everybody, needs the state, needs whole episodes, learns from recordings.
NEEDS: list[tuple[str, dict[str, Any], str]] = [
    ("ppo", {}, "-----"),
    ("ppo", {"share_reward": True}, "g----"),
    ("ppo", SEES["group"], "g----"),
    ("mappo", {"critic_sees": "state"}, "g-s--"),
    ("mappo", SEES["all"], "g----"),
    ("a2c", {}, "-----"),
    ("coma", {}, "g----"),
    ("pg", {}, "---w-"),
    ("dqn", {}, "-----"),
    ("vdn", {}, "g----"),
    ("qmix", {}, "g-s--"),
    ("ddpg", {}, "-----"),
    ("ddpg", {"share_reward": True}, "g----"),
    ("maddpg", {}, "ge---"),
    ("maddpg", SEES["group"], "g----"),
    ("sac", {}, "-----"),
    ("sac", SEES["group"], "g----"),
    ("sac", {"share_reward": True}, "g----"),
    ("es", {}, "-----"),
    ("deep_cfr", {}, "-----"),
    ("escher", {}, "-----"),
    ("marwil", {}, "---wr"),
    ("nfsp", {}, "-----"),
    ("rnad", {}, "-e---"),
    ("rnad", {"critic_sees": "state"}, "-es--"),
]


@pytest.mark.parametrize(("algo", "keys", "expected"), NEEDS)
def test_what_an_algorithm_looks_at_and_needs_follows_from_its_keys(
    algo: str, keys: dict[str, Any], expected: str
) -> None:
    config = ALGOS[algo].configure(**keys)
    flags = {
        "g": config.looks_at_groups, "e": config.looks_at_everybody, "s": config.needs_state,
        "w": config.needs_whole_episodes, "r": config.learns_from_recordings,
    }  # fmt: skip
    assert "".join(letter if flag else "-" for letter, flag in flags.items()) == expected


@pytest.mark.parametrize(
    ("algo", "keys", "shares"),
    [
        ("ppo", {}, True), ("a2c", {}, True), ("ppo", SEES["all"], False), ("mappo", SEES["group"], False),
        ("pg", {}, False),
    ],
)  # fmt: skip
def test_values_come_from_the_memory_that_acts_only_where_a_critic_sees_its_own_agent_alone(
    algo: str, keys: dict[str, Any], shares: bool
) -> None:
    options = ALGOS[algo].configure(**keys).acting
    for memory in (True, False):
        model = ModelConfig(fcnet_hiddens=[4], use_lstm=memory)
        policy = build_policies({"p": PolicySpec("stochastic", 0, model, options=options)}, KINDS)["p"]
        assert isinstance(policy, StochasticPolicy)
        assert policy.shares_value is (shares and memory)


def test_what_policies_of_values_have_to_know_is_told_by_their_keys() -> None:
    assert ALGOS["dqn"].configure(dueling=True).acting == {"dueling": True, "units": True}
    assert ALGOS["dqn"].configure(dueling=False, normalize_rewards=False).acting == {"dueling": False}
    atoms = ALGOS["dqn"].configure(num_atoms=5, v_min=-2.0, v_max=3.0).acting
    assert {key: atoms[key] for key in ("num_atoms", "v_min", "v_max")} == {"num_atoms": 5, "v_min": -2.0, "v_max": 3.0}
    assert ALGOS["nfsp"].configure(anticipatory=0.3, dueling=True).acting == {"dueling": True, "anticipatory": 0.3}
