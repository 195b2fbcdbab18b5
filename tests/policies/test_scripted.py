"""Rules of users: what they are shown, what they may answer, and that masks hold for them as well."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.rules import batched_rule
from marl.data.task import AgentType
from marl.errors import ConfigError
from marl.policies.policy import Inputs
from marl.policies.scripted import FixedPolicy, RandomPolicy, RulePolicy

SIGHT = spaces.Box(-1, 1, (2,), np.float32)


def played(policy: Any, obs: Any, legal: Any = None) -> list[Any]:
    rows = np.array(obs, policy.kind.obs_dtype)
    mask = np.ones((len(rows), 0), bool) if legal is None else np.array(legal, bool)
    seen = Inputs(rows, mask, np.zeros(len(rows), np.int64))
    decision = policy.act(seen, np.zeros((len(rows), 0), np.float32), np.random.default_rng(0), explore=False)
    if not policy.tells_logp(explore=False):
        assert not decision.logp.any()
    return list(decision.actions.tolist())


def shown(space: Any, obs: Any) -> list[Any]:
    """What a rule sees of stored observations."""
    seen: list[Any] = []
    played(RulePolicy(AgentType("k", ("a",), space, spaces.Discrete(2)), lambda row: seen.append(row) or 0), obs)
    return seen


def test_a_rule_sees_observations_as_the_env_has_them() -> None:
    assert shown(spaces.Discrete(5, start=3), [[0], [4]]) == [3, 7]
    (grid,) = shown(spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [2, 2]]), [[0, 2, 3, 1]])
    assert grid.tolist() == [[1, 3], [5, 3]]
    (image,) = shown(spaces.Box(0, 9, (2, 2), np.float32), [[1, 2, 3, 4]])
    assert image.tolist() == [[1, 2], [3, 4]]
    (parts,) = shown(spaces.Dict({"n": spaces.Discrete(2), "x": spaces.Box(-1, 1, (2,))}), [[0, 1, 0.5, -0.5]])
    assert parts["n"] == 1
    assert parts["x"].tolist() == [0.5, -0.5]


def test_a_rule_gets_as_many_arguments_as_it_takes() -> None:
    kind = AgentType("k", ("a",), SIGHT, spaces.Discrete(3), masked=True)
    legal = [[0, 0, 1], [1, 0, 0]]
    rows = [[0.5, 0], [-0.5, 0]]
    assert played(RulePolicy(kind, lambda obs: 2 if obs[0] > 0 else 0), rows, legal) == [2, 0]
    assert played(RulePolicy(kind, lambda obs, rng, legal: int(legal.argmax())), rows, legal) == [2, 0]
    draws = np.random.default_rng(0).integers(3, size=2).tolist()
    assert played(RulePolicy(kind, lambda obs, rng: rng.integers(3)), rows, np.ones((2, 3))) == draws


def test_answers_count_from_the_start_of_the_space() -> None:
    assert played(RulePolicy(AgentType("k", ("a",), SIGHT, spaces.Discrete(3, start=5)), lambda obs: 6), [[0, 0]]) == [
        1
    ]
    assert played(FixedPolicy(AgentType("k", ("a",), SIGHT, spaces.Discrete(3, start=5)), 7), [[0, 0]] * 2) == [2, 2]
    pair = AgentType("k", ("a",), SIGHT, spaces.MultiDiscrete([2, 3], start=[1, 2]))
    assert played(RulePolicy(pair, lambda obs: [2, 3]), [[0, 0]]) == [[1, 1]]


@pytest.mark.parametrize(
    ("space", "answer"),
    [(spaces.Discrete(3), 1.5), (spaces.Discrete(3), 3), (spaces.Discrete(3), -1), (spaces.Discrete(3), "left"),
     (spaces.MultiDiscrete([2, 2]), [0, 0.5]), (spaces.MultiDiscrete([2, 2]), [0, 2]),
     (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}), {"a": 1, "b": 0.5}),
     (spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Discrete(2)}), {"a": 1})],
)  # fmt: skip
def test_answers_outside_of_the_space_are_refused(space: Any, answer: Any) -> None:
    policy = RulePolicy(AgentType("k", ("a",), SIGHT, space), lambda obs: answer)
    with pytest.raises(ConfigError, match="which is not in"):
        played(policy, [[0, 0]])


def test_what_the_mask_forbids_is_refused_with_what_it_allows() -> None:
    kind = AgentType("k", ("a",), SIGHT, spaces.MultiDiscrete([2, 3]), masked=True)
    policy = RulePolicy(kind, lambda obs: [1, 2])
    assert played(policy, [[0, 0]], [[0, 1, 1, 0, 1]]) == [[1, 2]]
    with pytest.raises(ConfigError, match=r"plays 2, which the action mask forbids there \(legal: \[0, 1\]\)"):
        played(policy, [[0, 0]] * 2, [[0, 1, 1, 0, 1], [0, 1, 1, 1, 0]])
    with pytest.raises(ConfigError, match=r"plays 1, which the action mask forbids there \(legal: \[0\]\)"):
        played(FixedPolicy(kind, [1, 2]), [[0, 0]], [[1, 0, 1, 0, 1]])


def test_a_batched_rule_is_asked_once_and_answers_for_everybody() -> None:
    seen: list[Any] = []

    @batched_rule
    def last_legal(obs: Any, rng: Any, legal: Any) -> Any:
        seen.append(obs)
        return obs + 2 - legal[:, ::-1].argmax(axis=1)

    kind = AgentType("k", ("a",), spaces.Discrete(2, start=5), spaces.Discrete(3, start=6), masked=True)
    assert played(RulePolicy(kind, last_legal), [[0], [1]], [[1, 1, 0], [1, 0, 0]]) == [0, 0]
    assert [rows.tolist() for rows in seen] == [[5, 6]]
    with pytest.raises(ConfigError, match=r"plays 2, which the action mask forbids there \(legal: \[1\]\)"):
        played(RulePolicy(kind, batched_rule(lambda obs: np.full(len(obs), 8))), [[0]], [[0, 1, 0]])


def test_batched_rules_see_and_answer_in_the_shapes_of_the_spaces() -> None:
    grid = AgentType(
        "k", ("a",), spaces.MultiDiscrete([[2, 3], [4, 5]], start=[[1, 1], [2, 2]]), spaces.Box(-1, 1, (2,))
    )
    seen: list[Any] = []

    @batched_rule
    def rule(obs: Any) -> Any:
        seen.append(obs)
        return np.array([[0.5, -0.5], [1, -1]])

    assert played(RulePolicy(grid, rule), [[0, 2, 3, 1], [1, 0, 0, 4]]) == [[0.5, -0.5], [1, -1]]
    assert seen[0].tolist() == [[[1, 3], [5, 3]], [[2, 1], [2, 6]]]
    pair = AgentType("k", ("a",), SIGHT, spaces.MultiDiscrete([2, 3], start=[1, 2]))
    assert played(RulePolicy(pair, batched_rule(lambda obs: [[2, 3], [1, 4]])), [[0, 0]] * 2) == [[1, 1], [0, 2]]


@pytest.mark.parametrize(
    ("answer", "message"),
    [([0, 3], r"returned np.int64\(3\), which is not in Discrete\(3\)"),
     ([0, 1.5], r"returned np.float64\(1.5\), which is not in"),
     ([0], r"returned an array of shape \(1,\) for 2 agents; expected \(2,\), an action per row"),
     (1, r"returned an array of shape \(\) for 2 agents")],
)  # fmt: skip
def test_answers_of_batched_rules_outside_of_the_space_are_refused(answer: Any, message: str) -> None:
    policy = RulePolicy(AgentType("k", ("a",), SIGHT, spaces.Discrete(3)), batched_rule(lambda obs: answer))
    with pytest.raises(ConfigError, match=message):
        played(policy, [[0, 0]] * 2)


def test_batched_rules_are_refused_where_spaces_are_nested() -> None:
    kind = AgentType("k", ("a",), spaces.Dict({"x": SIGHT}), spaces.Discrete(3))
    with pytest.raises(ConfigError, match="has a Dict space, whose members cannot be laid into one array"):
        RulePolicy(kind, batched_rule(lambda obs: 0))


def test_random_play_is_even_over_what_is_legal() -> None:
    kind = AgentType("k", ("a",), SIGHT, spaces.Discrete(3), masked=True)
    actions = played(RandomPolicy(kind), np.zeros((3000, 2)), np.tile([1, 0, 1], (3000, 1)))
    assert np.bincount(actions, minlength=3) / 3000 == pytest.approx([0.5, 0.0, 0.5], abs=0.03)
    free = played(RandomPolicy(AgentType("k", ("a",), SIGHT, spaces.Discrete(3))), np.zeros((3000, 2)))
    assert np.bincount(free, minlength=3) / 3000 == pytest.approx([1 / 3] * 3, abs=0.03)
