"""A mixture is a policy: one member per episode and team, remembered, growing, travelling with its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from marl import games
from marl.data.task import AgentType, number_seats
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.merged.game import merge_game
from marl.mappers.mapper import Patterns
from marl.policies.build import build_policies, weights_of
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import RandomPolicy
from marl.policies.tabular import TabularPolicy
from marl.rollout.config import RolloutConfig
from marl.rollout.env_runner import EnvRunner, episode_uniform
from tests.small_envs import ACT, OBS, Scripted, Step

KINDS = number_seats([AgentType("agent", ("a_0", "a_1"), OBS, ACT)])
SPEC = PolicySpec("value", 0, ModelConfig(fcnet_hiddens=[4]), population="p")


def always(policy: Any, action: int) -> dict[str, Any]:
    """Weights of a value policy that prefers one action."""
    weights = {name: np.zeros_like(array) for name, array in policy.get_weights().items()}
    last = next(name for name in reversed(weights) if weights[name].shape == (ACT.n,))
    weights[last][action] = 1.0
    return weights


def mixture_of(*actions: int) -> Mixture:
    policy = build_policies({"m": SPEC}, KINDS)["m"]
    assert isinstance(policy, Mixture)
    policy.member(0).set_weights(always(policy.member(0), actions[0]))
    for action in actions[1:]:
        policy.add(always(policy.member(0), action))
    policy.set_chances(np.full(len(actions), 1 / len(actions)))
    return policy


def inputs(drawn: Any) -> Inputs:
    rows = len(drawn)
    obs, legal = np.zeros((rows, KINDS[0].obs_width), np.float32), np.zeros((rows, 0), bool)
    return Inputs(obs, legal, np.zeros(rows, np.int64), drawn)


def play(policy: Mixture, drawn: list[float], carry: Any = None) -> Any:
    carry = np.zeros((len(drawn), policy.carry_size), np.float32) if carry is None else carry
    return policy.act(inputs(policy.draw(np.array(drawn))), carry, np.random.default_rng(0), explore=True)


def test_a_member_with_a_memory_plays_in_a_mixture_as_it_plays_alone() -> None:
    spec = PolicySpec("value", 0, ModelConfig(fcnet_hiddens=[4], use_lstm=True, lstm_cell_size=3), population="p")
    policy = build_policies({"m": spec}, KINDS)["m"]
    assert isinstance(policy, Mixture)
    alone = policy.member(0)
    rng = np.random.default_rng(2)
    carry, own = np.zeros((5, policy.carry_size), np.float32), np.zeros((5, alone.carry_size), np.float32)
    for _ in range(3):
        seen = inputs(policy.draw(np.full(5, 0.4)))
        seen.obs[:] = rng.normal(size=seen.obs.shape)
        mixed = policy.act(seen, carry, rng, explore=True)
        plain = alone.act(Inputs(seen.obs, seen.legal, seen.agent_index), own, rng, explore=policy.draws_actions)
        assert mixed.actions.tolist() == plain.actions.tolist()
        np.testing.assert_allclose(mixed.carry[:, 1:], plain.carry)
        carry, own = mixed.carry, plain.carry
    assert np.abs(own).max() > 0


def test_the_lot_chooses_the_member_by_its_share() -> None:
    policy = mixture_of(0, 1, 2)
    policy.set_chances([0.5, 0.2, 0.3])
    assert play(policy, [0.0, 0.49, 0.51, 0.69, 0.71, 0.999]).actions.tolist() == [0, 0, 1, 1, 2, 2]


def test_a_member_plays_an_episode_to_its_end_even_if_chances_change() -> None:
    policy = mixture_of(0, 1)
    first = play(policy, [0.1, 0.9])
    policy.set_chances([0.0, 1.0])
    assert play(policy, [0.1, 0.9], first.carry).actions.tolist() == [0, 1]
    assert play(policy, [0.1, 0.9]).actions.tolist() == [1, 1]  # a new episode


def test_what_a_lot_means_holds_for_agents_that_act_later() -> None:
    policy = mixture_of(0, 1)
    drawn = policy.draw(np.array([0.1, 0.9]))
    policy.set_chances([0.0, 1.0])
    nobody = np.zeros((2, policy.carry_size), np.float32)
    assert policy.act(inputs(drawn), nobody, np.random.default_rng(0), explore=True).actions.tolist() == [0, 1]


def test_within_its_share_a_member_has_a_lot_of_its_own() -> None:
    policy = mixture_of(0, 1, 2)
    policy.set_chances([0.5, 0.0, 0.5])
    assert policy.draw(np.array([0.0, 0.2, 0.5, 0.6, 0.95])) == pytest.approx([0.0, 0.4, 2.0, 2.2, 2.9])
    assert np.floor(policy.draw(np.array([0.5 - 1e-16, 1.0 - 1e-16, 1.0]))).tolist() == [0, 2, 2]


def test_a_team_is_played_by_one_member_though_the_chances_change_before_some_of_it_act() -> None:
    """The second agent is born after the chances changed, the first one goes and comes back; half of the way is resumed."""
    steps = [
        Step(["a_0", "a_1"]),
        Step(["a_1"], terminated=["a_0"]),
        Step(["a_0", "a_1"]),
        Step(terminated=["__all__"]),
    ]
    copies = [Scripted(["a_0"], steps, patterns={"a_*": 2}) for _ in range(40)]

    def player(policy: Mixture) -> EnvRunner:
        env = DictVector(copies, "late")
        return EnvRunner(env, {"m": policy}, {"m": 0}, Patterns({"*": "m"}), RolloutConfig(), teams=[0, 0])

    policy, rng = mixture_of(0, 1), np.random.default_rng(0)
    one = player(policy)
    one.begin(np.arange(40), np.arange(40))

    def step(player: EnvRunner) -> np.ndarray[Any, Any]:
        choices = player.decide(rng, explore=True)
        player.settle(player.advance(choices))
        return choices.actions[0]

    first = step(one)[:, 0]
    assert 10 < first.sum() < 30  # either member plays some of the episodes
    policy.set_chances([1.0, 0.0])
    assert (step(one) == first[:, None]).all()
    other = player(policy)
    other.load_state_dict(one.state_dict())
    step(other)
    assert (step(other) == first[:, None]).all()
    other.begin(np.arange(40), np.arange(40))
    assert not step(other).any()  # new episodes have the new chances


def test_mixtures_of_one_population_have_the_same_members_and_chances_of_their_own() -> None:
    built = build_policies({"a": SPEC, "b": SPEC, "other": PolicySpec("value", 0, SPEC.model, population="q")}, KINDS)
    a, b, other = (built[name] for name in ("a", "b", "other"))
    assert isinstance(a, Mixture)
    assert isinstance(b, Mixture)
    assert isinstance(other, Mixture)
    a.add(always(a.member(0), 1))
    for mixture, chances in ((a, [0.5, 0.5]), (b, [0.0, 1.0])):
        mixture.set_chances(chances)
    assert (len(b), len(other)) == (2, 1)
    assert b.chances.tolist() == [0.0, 1.0]
    assert a.chances.tolist() == [0.5, 0.5]
    sent = weights_of({"a": a, "b": b})
    inside = [name for name in sent["a"] if name.startswith("members.")]
    assert inside
    assert all(sent["a"][name] is sent["b"][name] for name in inside)


def test_weights_bring_their_members_along() -> None:
    policy, copy = mixture_of(2, 1, 0), mixture_of(0)
    copy.set_weights(policy.get_weights())
    drawn = [0.1, 0.5, 0.9]
    assert len(copy) == 3
    assert play(copy, drawn).actions.tolist() == play(policy, drawn).actions.tolist() == [2, 1, 0]
    policy.set_weights(mixture_of(1).get_weights())  # and take them away again
    assert len(policy) == 1
    assert play(policy, drawn).actions.tolist() == [1, 1, 1]


def test_chances_have_to_be_a_distribution_over_the_members() -> None:
    for wrong in ([1.0], [0.5, 0.6], [1.5, -0.5]):
        with pytest.raises(ConfigError, match="add up to 1"):
            mixture_of(0, 1).set_chances(wrong)


def test_a_team_draws_one_lot_per_episode_and_lots_are_uniform() -> None:
    drawn = episode_uniform(np.arange(20_000), np.array([0, 0, 1]))
    assert (drawn[:, 0] == drawn[:, 1]).all()
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 2])[0, 1]) < 0.03
    counts = np.histogram(drawn[:, 2], bins=10, range=(0, 1))[0]
    assert np.abs(counts - 2_000).max() < 200
    assert (episode_uniform(np.array([7]), np.array([3])) == episode_uniform(np.array([5, 7]), np.array([3]))[1:]).all()


def test_a_mixture_that_is_fitted_to_weights_has_as_many_members_each_as_likely_as_the_others() -> None:
    policy = mixture_of(0, 2)
    policy.set_chances(np.array([0.9, 0.1]))
    for wanted in (2, 4, 1, 3):
        before = policy.chances.tolist()
        policy.fit({"chances": np.zeros(wanted)})
        assert len(policy) == len(policy.members) == wanted
        assert policy.chances.tolist() == (before if len(before) == wanted else [1 / wanted] * wanted)
    policy.set_weights(weights_of({"m": mixture_of(2, 1)})["m"])
    assert [int(play(policy, [lot]).actions[0]) for lot in (0.0, 0.49, 0.51, 0.99)] == [2, 2, 1, 1]


def test_policies_of_different_sorts_and_memories_may_be_mixed() -> None:
    game = merge_game("matrix_game", {"game": "matching_pennies", "repetitions": 2})
    kind = game.positions.kinds[0]
    even = RandomPolicy(kind)
    # Its second action depends on its first: the same is seen before both, so it has to remember.
    blank = np.zeros((1, kind.obs_width), kind.obs_dtype)
    steady = TabularPolicy(kind, np.repeat(blank, 3, axis=0), [[1, 0], [1, 0], [0, 1]], after=[0, 1, 2])
    assert steady.carry_size > even.carry_size
    against: dict[str, Policy] = {"player_1": steady}
    alone = [game.measure({"player_0": one, **against}).values for one in (even, steady)]
    for order in ((even, steady), (steady, even)):
        mixed = games.mixture(order, [0.25, 0.75])
        wanted = 0.25 * alone[order[0] is steady] + 0.75 * alone[order[1] is steady]
        assert game.measure({"player_0": mixed, **against}).values == pytest.approx(wanted, abs=1e-12)


def test_mixtures_need_members_that_fit() -> None:
    one = RandomPolicy(merge_game("kuhn_poker").positions.kinds[0])
    other = RandomPolicy(merge_game("leduc_poker").positions.kinds[0])
    with pytest.raises(ConfigError, match="play for the same agents, but policy 0 sees"):
        games.mixture([one, other], [0.5, 0.5])
    with pytest.raises(ConfigError, match="one policy or more"):
        games.mixture([], [])
    with pytest.raises(ConfigError, match="no mixtures among them"):
        games.mixture([games.mixture([one], [1.0])], [1.0])
