"""What policies say of their decisions is how they really decide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType, Floats
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy
from marl.policies.tabular import TabularPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
SEEN = np.array([0.3, -0.8, 0.5], np.float32)
ROWS = 20_000
EPSILON = ExplorationConfig(type="EpsilonGreedy", initial_epsilon=0.4)
SOFT = ExplorationConfig(type="SoftQ", temperature=0.8, initial_epsilon=0.2)
SMALL = ModelConfig(fcnet_hiddens=[8])


def kind(action: Any, masked: bool = False) -> AgentType:
    return AgentType("agent", ("a_0", "a_1"), OBS, action, masked)


def loud(policy: Policy) -> Policy:
    """Weights of its own that are large enough to tell options apart."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.7)
    return policy


def rows(count: int, legal: Any = None, lot: float | None = None) -> Inputs:
    mask = np.ones((count, 0), bool) if legal is None else np.tile(np.array(legal, bool), (count, 1))
    given = Inputs(np.tile(SEEN, (count, 1)), mask, np.zeros(count, np.int64))
    if lot is not None:
        given.episode_uniform = np.full(count, lot)
    return given


def memory(policy: Policy, count: int) -> Floats:
    return np.zeros((count, policy.carry_size), np.float32)


def build(acts: Any, space: Any, masked: bool = False, **keys: Any) -> Policy:
    return loud(build_policy(PolicySpec(acts, 0, SMALL, **keys), kind(space, masked)))


@pytest.mark.parametrize(
    ("policy", "legal", "lot"),
    [
        (build("stochastic", spaces.Discrete(4)), None, None),
        (build("stochastic", spaces.Discrete(4), masked=True), [1, 0, 1, 1], None),
        (build("value", spaces.Discrete(4), masked=True, exploration=EPSILON), [0, 1, 1, 1], None),
        (build("value", spaces.Discrete(4), exploration=SOFT), None, None),
        (build("value", spaces.Discrete(4), masked=True, exploration=SOFT), [0, 1, 1, 1], None),
        (build("squashed", spaces.Discrete(3)), None, None),
        (build("deterministic", spaces.Discrete(3)), None, None),
        (build("nfsp", spaces.Discrete(3), exploration=EPSILON), None, 0.05),
        (build("nfsp", spaces.Discrete(3), exploration=EPSILON), None, 0.95),
        (
            build("scripted", spaces.Discrete(4), masked=True, scripted=ScriptedConfig(name="random")),
            [1, 0, 1, 0],
            None,
        ),
        (TabularPolicy(kind(spaces.Discrete(3)), [SEEN], [[0.2, 0.5, 0.3]]), None, None),
    ],
    ids=[
        "categorical",
        "masked",
        "epsilon",
        "soft",
        "masked soft",
        "sac",
        "ddpg",
        "best response",
        "average",
        "random",
        "table",
    ],
)
def test_actions_are_as_frequent_as_the_policy_says(policy: Policy, legal: Any, lot: float | None) -> None:
    given = rows(ROWS, legal, lot)
    insight = policy.insight(rows(1, legal, lot), memory(policy, 1), explore=True)
    assert insight.probabilities is not None
    drawn = policy.act(given, memory(policy, ROWS), np.random.default_rng(1), explore=True).actions.reshape(-1)
    shares = np.bincount(drawn.astype(int), minlength=insight.probabilities.shape[1]) / ROWS
    assert shares == pytest.approx(insight.probabilities[0], abs=0.015)
    assert np.ptp(insight.probabilities) > 0.1  # else any numbers would do


def test_actions_drawn_by_their_values_have_these_chances_and_their_logarithms_are_recorded() -> None:
    policy = build("value", spaces.Discrete(4), masked=True, exploration=SOFT)
    legal = [0, 1, 1, 1]
    insight = policy.insight(rows(1, legal), memory(policy, 1), explore=True)
    assert insight.q_values is not None
    assert insight.probabilities is not None
    odds = np.exp(insight.q_values[0] / 0.8) * legal
    expected = 0.2 / 3 * np.array(legal) + 0.8 * odds / odds.sum()
    assert insight.probabilities[0] == pytest.approx(expected, rel=1e-4)
    decision = policy.act(rows(50, legal), memory(policy, 50), np.random.default_rng(1), explore=True)
    assert np.exp(decision.logp) == pytest.approx(expected[decision.actions], rel=1e-4)
    greedy = policy.act(rows(5, legal), memory(policy, 5), np.random.default_rng(1), explore=False)
    assert set(greedy.actions.tolist()) == {int(np.where(legal, insight.q_values[0], -np.inf).argmax())}
    assert (greedy.logp == 0).all()


def test_every_choice_of_an_action_has_its_own_probabilities() -> None:
    policy = build("stochastic", spaces.MultiDiscrete([2, 3]))
    insight = policy.insight(rows(1), memory(policy, 1), explore=True)
    assert insight.probabilities is not None
    drawn = policy.act(rows(ROWS), memory(policy, ROWS), np.random.default_rng(1), explore=True).actions
    shares = [np.bincount(drawn[:, c], minlength=n) / ROWS for c, n in enumerate((2, 3))]
    assert np.concatenate(shares) == pytest.approx(insight.probabilities[0], abs=0.015)


@pytest.mark.parametrize("acts", ["stochastic", "squashed"])
def test_coordinates_spread_as_the_policy_says(acts: Any) -> None:
    policy = build(acts, spaces.Box(-1, 1, (2,), np.float32))
    insight = policy.insight(rows(1), memory(policy, 1), explore=True)
    assert insight.mean is not None
    assert insight.std is not None
    drawn = policy.act(rows(ROWS), memory(policy, ROWS), np.random.default_rng(1), explore=True).actions
    greedy = policy.act(rows(1), memory(policy, 1), np.random.default_rng(1), explore=False).actions
    assert insight.mean == pytest.approx(greedy)
    assert insight.std[0] == pytest.approx(drawn.std(axis=0), rel=0.03)
    assert insight.probabilities is None


def test_a_greedy_q_policy_takes_its_highest_legal_value_and_has_no_probabilities() -> None:
    policy = build("value", spaces.Discrete(4), masked=True)
    free = policy.insight(rows(1, [1, 1, 1, 1]), memory(policy, 1), explore=False)
    assert free.q_values is not None
    assert free.probabilities is None
    best = int(free.q_values[0].argmax())
    legal = [number != best for number in range(4)]
    bound = policy.insight(rows(1, legal), memory(policy, 1), explore=False)
    taken = int(policy.act(rows(1, legal), memory(policy, 1), np.random.default_rng(0), explore=False).actions[0])
    assert bound.q_values is not None
    assert bound.value is not None
    assert float(bound.value[0]) == float(bound.q_values[0, taken]) == float(np.sort(bound.q_values[0])[-2])


def recurrent(memory: str, rewards: int = 0) -> Policy:
    keys: dict[str, Any] = {
        "use_lstm": True,
        "lstm_cell_size": 6,
        "lstm_use_prev_action": True,
        "lstm_use_prev_reward": rewards,
    }
    if memory == "attention":
        keys = {
            "use_attention": True,
            "attention_dim": 2,
            "attention_use_n_prev_actions": 3,
            "attention_use_n_prev_rewards": 2 * rewards,
        }
    model = ModelConfig(fcnet_hiddens=[8], **keys)
    return loud(build_policy(PolicySpec("stochastic", 0, model), kind(spaces.Discrete(4))))


MEMORIES = pytest.mark.parametrize("kept", ["lstm", "attention"])


@MEMORIES
def test_a_recurrent_policy_is_asked_with_its_memory(kept: str) -> None:
    policy, rng = recurrent(kept), np.random.default_rng(0)
    first = policy.act(rows(8), memory(policy, 8), rng, explore=True)
    insight = policy.insight(rows(8), first.carry, explore=True)
    second = policy.act(rows(8), first.carry, rng, explore=True)
    assert insight.probabilities is not None
    chosen = insight.probabilities[np.arange(8), second.actions]
    assert np.log(chosen) == pytest.approx(second.logp, abs=1e-5)
    forgetful = policy.insight(rows(8), memory(policy, 8), explore=True).probabilities
    assert forgetful is not None
    assert np.abs(forgetful - insight.probabilities).max() > 0.01


@MEMORIES
def test_what_was_done_instead_is_remembered_as_if_it_had_been_chosen(kept: str) -> None:
    policy = recurrent(kept, rewards=1)
    many = policy.act(rows(64), memory(policy, 64), np.random.default_rng(0), explore=True)
    assert len(np.unique(many.actions)) == 4
    greedy = policy.act(rows(64), memory(policy, 64), np.random.default_rng(0), explore=False)
    instead = policy.recarried(rows(64), memory(policy, 64), greedy.carry, many.actions)
    assert np.array_equal(instead, many.carry)
    assert not np.array_equal(instead, greedy.carry)


def test_a_mixture_says_what_the_member_thinks_that_plays() -> None:
    made = iter(range(3))

    def fresh() -> Policy:
        spec = PolicySpec("stochastic", 0, ModelConfig(fcnet_hiddens=[8], use_lstm=True), seed=next(made))
        return build_policy(spec, kind(spaces.Discrete(3)))

    mixture = Mixture(kind(spaces.Discrete(3)), fresh, draws_actions=True)
    second = loud(mixture.fresh())
    mixture.add(second.get_weights())
    mixture.set_chances([0.5, 0.5])
    given = rows(2)
    given.episode_uniform = mixture.draw(np.array([0.9, 0.1]))
    insight = mixture.insight(given, memory(mixture, 2), explore=False)
    assert insight.member is not None
    assert insight.member.tolist() == [1, 0]
    assert insight.probabilities is not None
    alone = mixture.member(1).insight(rows(1), np.zeros((1, mixture.carry_size - 1), np.float32), explore=True)
    assert insight.probabilities[0] == pytest.approx(alone.probabilities[0])  # type: ignore[index]
    assert insight.probabilities[0] != pytest.approx(insight.probabilities[1], abs=0.01)
    # The same member goes on playing by what is in the carry, whatever the lot says then.
    after = mixture.act(given, memory(mixture, 2), np.random.default_rng(0), explore=False).carry
    later = mixture.insight(rows(2), after, explore=False)
    assert later.member is not None
    assert later.member.tolist() == [1, 0]
