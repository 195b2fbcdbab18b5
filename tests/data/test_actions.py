"""Actions of every space are stored as rows of numbers and come back as they were."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from marl.data.action_units import to_env
from marl.data.actions import action_encoder, action_storage, columns_of, decoder
from marl.data.task import AgentType
from marl.errors import SpaceMismatchError
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.distributions import Mixed, distribution_for
from marl.policies.policy import Inputs
from marl.rollout.config import RolloutConfig

LEAVES = st.one_of(
    st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5), st.integers(-2, 3)),
    st.builds(lambda sizes: spaces.MultiDiscrete(sizes), st.lists(st.integers(1, 4), min_size=1, max_size=3)),
    st.builds(lambda n: spaces.MultiBinary(n), st.integers(1, 4)),
    st.builds(lambda n: spaces.Box(-1.5, 2.0, (n, 2), np.float32), st.integers(1, 3)),
)
SPACES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.builds(lambda items: spaces.Tuple(items), st.lists(parts, min_size=1, max_size=3)),
        st.builds(
            lambda items: spaces.Dict({f"k{i}": p for i, p in enumerate(items)}),
            st.lists(parts, min_size=1, max_size=3),
        ),
    ),
    max_leaves=6,
)
MIXED = spaces.Tuple(
    [spaces.Box(-2, 2, (2,), np.float32), spaces.Discrete(3, start=1), spaces.Box(0, 1, (1,), np.float32)]
)


@settings(deadline=None, max_examples=200)
@given(SPACES, st.integers(0, 2**31 - 1))
def test_an_action_comes_back_from_its_stored_form(space, seed):
    space.seed(seed)
    action = space.sample()
    stored = action_encoder(space)(action)
    assert (stored.shape, stored.dtype) == action_storage(space)
    assert columns_of(space).contains(stored)
    back = decoder(space)(stored.tolist())
    assert space.contains(back)
    np.testing.assert_array_equal(action_encoder(space)(back), stored)


@pytest.mark.parametrize("row", [[0, 0, 3, 0], [0, 0, -1, 0], [0, 0, 0.5, 0], [2.5, 0, 0, 0], [0, 0, 0, np.nan]])
def test_a_row_outside_the_space_is_no_action(row):
    assert not columns_of(MIXED).contains(np.array(row, np.float32))
    assert columns_of(MIXED).contains(np.array([1.0, -2.0, 2.0, 1.0], np.float32))


def test_stretching_and_squeezing_leave_choices_and_unbounded_numbers_alone():
    space = spaces.Tuple([spaces.Box(np.array([0.0, -np.inf]), np.array([4.0, np.inf])), spaces.Discrete(5)])
    columns = columns_of(space)
    stored = np.array([[0.5, 7.0, 4.0], [-3.0, -7.0, 1.0]], np.float32)
    stretched = columns.stretched(stored)
    assert stretched.tolist() == [[3.0, 7.0, 4.0], [0.0, -7.0, 1.0]]
    assert columns.squeezed(stretched)[0].tolist() == [0.5, 7.0, 4.0]
    assert columns.cut(np.array([[9.0, 9.0, 4.0]], np.float32)).tolist() == [[4.0, 9.0, 4.0]]


def test_a_space_that_cannot_be_stored_is_refused_by_name():
    with pytest.raises(SpaceMismatchError, match=r"Text.*not supported\. Expected Discrete"):
        action_storage(spaces.Text(3))


def test_the_mixed_distribution_is_the_product_of_its_parts():
    mixed = distribution_for(MIXED)
    assert isinstance(mixed, Mixed)
    assert mixed.size == 3 + 2 * 3
    rng = np.random.default_rng(0)
    params = rng.normal(size=(4000, mixed.size)).astype(np.float32) * 0.3
    params[:] = params[0]
    actions, logp = mixed.sample(params, rng, explore=True)
    ours = mixed.logp(torch.from_numpy(params), torch.from_numpy(actions)).numpy()
    np.testing.assert_allclose(ours, logp, atol=1e-4)
    chances = np.exp(params[0, :3]) / np.exp(params[0, :3]).sum()
    np.testing.assert_allclose(np.bincount(actions[:, 2].astype(int), minlength=3) / 4000, chances, atol=0.03)
    np.testing.assert_allclose(actions[:, [0, 1, 3]].mean(0), params[0, 3:6], atol=0.08)
    # The entropy is the mean of -logp.
    assert abs(float(mixed.entropy(torch.from_numpy(params[:1]))) + logp.mean()) < 0.08
    assert float(mixed.kl(torch.from_numpy(params[:1]), torch.from_numpy(params[:1]))) == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("free", "noise"),
    [(True, None), (False, None), (False, ExplorationConfig(type="GaussianNoise", initial_scale=0.5))],
)
def test_a_policy_over_mixed_actions_draws_actions_of_the_space_and_obeys_the_mask(free, noise):
    kind = AgentType("agent", ("a",), spaces.Box(-1, 1, (4,)), MIXED, masked=True)
    assert kind.legal_width == 3
    spec = PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8], free_log_std=free), noise)
    policy = build_policy(spec, kind)
    legal = np.tile(np.array([True, False, True]), (500, 1))
    inputs = Inputs(np.zeros((500, 4), np.float32), legal, np.zeros(500, np.int64))
    decision = policy.act(inputs, np.zeros((500, 0), np.float32), np.random.default_rng(1), explore=True)
    assert decision.actions.shape == (500, 4)
    assert set(decision.actions[:, 2].tolist()) == {0.0, 2.0}
    assert np.abs(decision.actions[:, [0, 1, 3]]).max() > 0.3


def test_random_play_covers_every_column_and_obeys_masks_of_several_choices():
    space = spaces.Tuple([spaces.Discrete(2), spaces.MultiDiscrete([3, 2])])
    kind = AgentType("agent", ("a",), spaces.Discrete(2), space, masked=True)
    legal = np.tile(np.array([1, 1, 0, 1, 1, 0, 1], bool), (300, 1))
    policy = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="random")), kind)
    inputs = Inputs(np.zeros((300, 1), np.int64), legal, np.zeros(300, np.int64))
    actions = policy.act(inputs, np.zeros((300, 0), np.float32), np.random.default_rng(0), explore=True).actions
    assert [sorted(set(column.tolist())) for column in actions.T] == [[0, 1], [1, 2], [1]]


@pytest.mark.parametrize(
    "box",
    [
        spaces.Box(-0.3, 0.7, (2,), np.float64),
        spaces.Box(-0.1, 0.1, (2,), np.float64),
        spaces.Box(-0.3, 0.7, (2,), np.float32),
        spaces.Box(np.array([-1, 0], np.float32), np.array([1, np.inf], np.float32)),
        spaces.Box(0, np.inf, (2,), np.float32),
        spaces.Box(-np.inf, 0, (2,), np.float32),
        spaces.Box(-3e38, 3e38, (2,), np.float32),
        spaces.Box(-2, 2, (2,), np.int8),
    ],
    ids=str,
)
@pytest.mark.parametrize("acts", ["stochastic", "scripted"])
def test_no_action_is_sent_outside_of_its_box(box, acts):
    kind = AgentType("agent", ("a",), spaces.Box(-1, 1, (4,)), box)
    spec = PolicySpec(
        acts, 0, ModelConfig(fcnet_hiddens=[8]), scripted=ScriptedConfig(name="random") if acts == "scripted" else None
    )
    inputs = Inputs(np.zeros((400, 4), np.float32), np.zeros((400, 0), bool), np.zeros(400, np.int64))
    drawn = (
        build_policy(spec, kind)
        .act(inputs, np.zeros((400, 0), np.float32), np.random.default_rng(0), explore=True)
        .actions
    )
    sent = to_env(drawn * 3, kind.columns, RolloutConfig()) if acts == "stochastic" else drawn
    for row in sent.tolist():
        assert box.contains(decoder(box)(row)), row


def test_random_whole_numbers_are_uniform():
    box = spaces.Box(-2, 2, (1,), np.int8)
    kind = AgentType("agent", ("a",), spaces.Box(-1, 1, (4,)), box)
    policy = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="random")), kind)
    inputs = Inputs(np.zeros((5000, 4), np.float32), np.zeros((5000, 0), bool), np.zeros(5000, np.int64))
    drawn = policy.act(inputs, np.zeros((5000, 0), np.float32), np.random.default_rng(0), explore=True).actions
    counts = np.bincount(drawn[:, 0].astype(int) + 2, minlength=5)
    assert counts.min() > 900
    assert counts.max() < 1100
