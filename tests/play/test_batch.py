"""Many decisions at once are what so many single calls give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from marl.data.action_units import ActionUnits
from marl.data.actions import columns_of, decoder
from marl.data.space_batches import actions_of, named_parts
from marl.data.task import AgentType
from marl.errors import ConfigError, SpaceMismatchError
from marl.play.actor import Actor
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec, ScriptedConfig

FLAT = spaces.Box(-1, 1, (3,), np.float32)
PARTS = spaces.Dict(
    {
        "where": spaces.Box(-5, 5, (2, 2), np.float64),
        "bytes": spaces.Box(0, 200, (3,), np.uint8),
        "pair": spaces.Tuple([spaces.Discrete(3, start=-1), spaces.MultiDiscrete([2, 3], start=[0, 1])]),
        "flags": spaces.MultiBinary(2),
    }
)
MOVES = spaces.Dict(
    {
        "push": spaces.Box(np.array([-3, 0], np.float64), np.array([1, np.inf], np.float64), dtype=np.float64),
        "gear": spaces.Discrete(4, start=2),
        "keys": spaces.MultiDiscrete([2, 3]),
        "turn": spaces.Tuple([spaces.Box(-4, 9, (1,), np.int32), spaces.MultiBinary(2)]),
    }
)
AGENTS = ("a", "b", "c")


def actor(seen: Any, moves: Any, acts: str = "stochastic", masked: bool = False, **keys: Any) -> Actor:
    agent_id = keys.pop("agent_id", False)
    model = ModelConfig(fcnet_hiddens=[8], **keys)
    kind = AgentType("k", AGENTS, seen, moves, masked)
    policy = build_policy(PolicySpec(acts, 0, model, agent_id=agent_id, seed=3), kind)
    rng = np.random.default_rng(0)
    # As if it had learned: the last layer begins so small that all actions would be alike.
    policy.set_weights({k: _moved(v, rng) for k, v in policy.get_weights().items()})
    return Actor(policy, ActionUnits())


def _moved(weights: Any, rng: np.random.Generator) -> Any:
    return weights + rng.normal(0, 0.5, weights.shape).astype(np.float32) if weights.dtype == np.float32 else weights


def samples(space: Any, count: int) -> list[Any]:
    space.seed(1)
    return [space.sample() for _ in range(count)]


def stacked(space: Any, values: list[Any]) -> Any:
    """Single observations or actions as a batch."""
    if isinstance(space, spaces.Dict):
        return {key: stacked(part, [value[key] for value in values]) for key, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(stacked(part, [value[i] for value in values]) for i, part in enumerate(space.spaces))
    return np.array(values)


def assert_same(space: Any, got: Any, expected: Any) -> None:
    if isinstance(space, spaces.Dict):
        assert list(got) == list(space.spaces)
        for key, part in space.spaces.items():
            assert_same(part, got[key], expected[key])
    elif isinstance(space, spaces.Tuple):
        for i, part in enumerate(space.spaces):
            assert_same(part, got[i], expected[i])
    else:
        assert got.shape == expected.shape
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("seen", "moves", "acts"),
    [
        (FLAT, spaces.Discrete(5, start=2), "value"),
        (FLAT, MOVES, "stochastic"),
        (PARTS, MOVES, "deterministic"),
        (PARTS, spaces.Box(-2, 7, (2, 2), np.float32), "squashed"),
        (spaces.Discrete(6, start=3), spaces.MultiBinary(3), "stochastic"),
        (spaces.MultiDiscrete([3, 4], start=[1, 0]), spaces.Discrete(3), "value"),
        (spaces.Box(0, 255, (4, 5), np.uint8), spaces.Box(0, 9, (2,), np.uint8), "stochastic"),
        (spaces.Tuple([FLAT, spaces.Discrete(2)]), spaces.Discrete(3), "stochastic"),
    ],
)
def test_a_batch_is_as_many_single_calls(seen: Any, moves: Any, acts: str) -> None:
    policy, given = actor(seen, moves, acts), samples(seen, 40)
    expected = stacked(moves, [policy.compute_action(one) for one in given])
    assert_same(moves, policy.compute_actions_batch(stacked(seen, given)), expected)
    assert_same(moves, policy.compute_actions_batch(given), expected)


def test_masks_are_kept_in_every_form_in_which_they_come() -> None:
    policy, given = actor(FLAT, spaces.Discrete(6), masked=True), samples(FLAT, 50)
    masks = np.random.default_rng(2).integers(0, 2, (50, 6), np.int8)
    masks[:, 4] = 1
    expected = [policy.compute_action(one, info={"action_mask": mask}) for one, mask in zip(given, masks, strict=True)]
    free = policy.compute_actions_batch(np.array(given))
    assert free.tolist() != expected
    envelopes = [{"observation": one, "action_mask": mask} for one, mask in zip(given, masks, strict=True)]
    for actions in (
        policy.compute_actions_batch(np.array(given), masks=masks),
        policy.compute_actions_batch({"observation": np.array(given), "action_mask": masks}),
        policy.compute_actions_batch(envelopes),
    ):
        assert actions.tolist() == expected


@pytest.mark.parametrize("keys", [{"use_lstm": True}, {"use_gru": True}])
def test_what_is_remembered_goes_in_and_out(keys: dict[str, Any]) -> None:
    policy = actor(
        FLAT, spaces.Discrete(3), lstm_cell_size=4, lstm_use_prev_action=True, lstm_use_prev_reward=True, **keys
    )
    given, rewards = np.array(samples(FLAT, 20)), np.linspace(-3, 3, 20)
    _, before = policy.compute_actions_batch(given)
    assert before.shape == (20, policy.policy.carry_size)
    actions, after = policy.compute_actions_batch(-given, state=before, prev_reward=rewards)
    for i in range(20):
        one, state, _ = policy.compute_action(
            -given[i], state=before[i], prev_reward=float(rewards[i]), full_fetch=True
        )
        assert one == actions[i]
        np.testing.assert_allclose(state, after[i], atol=1e-5)


def test_each_row_is_played_for_its_agent() -> None:
    policy, given = actor(FLAT, spaces.Discrete(5), agent_id=True), samples(FLAT, 30)
    seats = np.arange(30) % 3
    expected = [policy.compute_action(one, agent=AGENTS[seat]) for one, seat in zip(given, seats, strict=True)]
    assert policy.compute_actions_batch(np.array(given), agent_index=seats).tolist() == expected
    assert policy.compute_actions_batch(np.array(given), agent_index=0).tolist() != expected
    with pytest.raises(ConfigError, match="Give agent_index"):
        policy.compute_actions_batch(np.array(given))
    for wrong in (3, [0, 1], 0.5, "b"):
        with pytest.raises(ConfigError, match="agent_index"):
            policy.compute_actions_batch(np.array(given), agent_index=wrong)


def test_exploration_draws_for_every_row() -> None:
    policy = actor(FLAT, spaces.Box(-1, 1, (2,), np.float32))
    same = np.zeros((10, 3), np.float32)
    assert len(np.unique(policy.compute_actions_batch(same)[:, 0])) == 1
    assert len(np.unique(policy.compute_actions_batch(same, explore=True)[:, 0])) > 1


def test_a_script_acts_in_the_units_of_the_env() -> None:
    kind = AgentType("k", AGENTS, FLAT, spaces.Box(0, 8, (1,), np.float32))
    policy = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="fixed", action=[7.0])), kind)
    assert Actor(policy).compute_actions_batch(np.zeros((3, 3), np.float32)).tolist() == [[7.0]] * 3


@pytest.mark.parametrize(
    "space",
    [
        MOVES,
        spaces.Box(-0.1, 0.1, (2, 2), np.float64),  # float32 of 0.1 is larger
        spaces.Box(0, 3, (2,), np.uint8),
        spaces.MultiDiscrete([[2, 3], [4, 2]], start=[[1, 0], [0, -5]]),
        spaces.Tuple([spaces.Discrete(3, start=4), spaces.Box(-1, 1, (), np.float32)]),
    ],
)
def test_stored_actions_are_decoded_as_single_ones_also_beyond_the_bounds(space: Any) -> None:
    columns, rng = columns_of(space), np.random.default_rng(0)
    rows = (rng.normal(0, 5, (200, len(columns)))).astype(columns.dtype)
    rows[:50] = columns.cut(rows[:50]) if columns.numbers else rows[:50]
    for column in columns.choices:
        rows[:, column] = rng.integers(0, columns.sizes[column], 200)
    expected = stacked(space, [decoder(space)(row.tolist()) for row in rows])
    got = actions_of(space, rows)
    for mine, theirs in zip(leaves(space, got), leaves(space, expected), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def leaves(space: Any, values: Any) -> list[Any]:
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return [values]
    return [leaf for key, part in named_parts(space) for leaf in leaves(part, values[key])]


def test_no_observations_give_no_actions() -> None:
    policy = actor(FLAT, MOVES)
    for empty in (np.zeros((0, 3), np.float32), []):
        assert policy.compute_actions_batch(empty)["push"].shape == (0, 2)


@pytest.mark.parametrize(
    ("seen", "obs", "told"),
    [
        (FLAT, np.zeros(3), r"obs has shape \(3,\); expected numbers of shape \(N, 3\)"),
        (FLAT, np.zeros((2, 4)), r"\(2, 4\)"),
        (FLAT, np.array([["a", "b", "c"]]), "expected numbers"),
        (FLAT, None, "expected numbers"),
        (FLAT, [np.zeros(4)], r"shape \(4,\)"),
        (spaces.Discrete(3), np.array([0, 3]), r"row 1 of obs is \[3\]"),
        (spaces.Discrete(3), np.array([0.5]), "row 0 of obs"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([[300]]), "do not fit uint8"),
        (spaces.Box(0, 255, (1,), np.uint8), np.array([[0.5]]), "do not fit uint8"),
        (PARTS, {"where": np.zeros((1, 2, 2))}, "the parts 'where'; expected a dict of arrays with"),
        (PARTS, np.zeros((1, 2)), "expected a dict of arrays"),
        (spaces.Tuple([FLAT, FLAT]), (np.zeros((2, 3)), np.zeros((1, 3))), r"\[2, 1\] rows"),
        (spaces.Tuple([FLAT, FLAT]), (np.zeros((2, 3)),), "a tuple of 2 arrays"),
    ],
)
def test_observations_of_another_shape_are_named(seen: Any, obs: Any, told: str) -> None:
    with pytest.raises(SpaceMismatchError, match=told):
        actor(seen, spaces.Discrete(2)).compute_actions_batch(obs)


def test_masks_and_states_of_another_shape_are_named() -> None:
    obs = np.zeros((2, 3), np.float32)
    masked, free = actor(FLAT, spaces.Discrete(4), masked=True), actor(FLAT, spaces.Discrete(4))
    with pytest.raises(SpaceMismatchError, match=r"masks have shape \(1, 4\), expected \(2, 4\)"):
        masked.compute_actions_batch(obs, masks=np.ones((1, 4)))
    with pytest.raises(ConfigError, match="row 1 of masks allows no action"):
        masked.compute_actions_batch(obs, masks=[[1, 0, 0, 0], [0, 0, 0, 0]])
    with pytest.raises(ConfigError, match="always legal"):
        free.compute_actions_batch(obs, masks=np.ones((2, 4)))
    with pytest.raises(ConfigError, match=r"state has shape \(2, 5\), expected \(2, 0\)"):
        free.compute_actions_batch(obs, state=np.zeros((2, 5)))
