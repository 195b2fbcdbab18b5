"""Strategies as policies that play, and policies read back as strategies."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
import torch
from gymnasium import spaces

from marl.data.task import AgentType
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, PolicyError, SpaceMismatchError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.cfr import cfr
from marl.gametheory.tree.policy_conversion import policies_of, strategy_of
from marl.gametheory.tree.response import expected_values, nash_conv
from marl.gametheory.tree.tree import Tree
from marl.gametheory.tree.value import equilibrium
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.mixture import Mixture
from marl.policies.policy import Inputs, Policy
from marl.policies.scripted import RulePolicy
from marl.policies.tabular import TabularPolicy

from .trees import play_through, random_strategy


@cache
def kuhn() -> Tree:
    return build_tree("kuhn_poker")


@cache
def leduc() -> Tree:
    return build_tree("leduc_poker")


@cache
def repeated() -> Tree:
    """Both see nothing but that it goes on: own pasts differ behind equal observations."""
    return build_tree("matrix_game", {"game": "chicken", "repetitions": 3})


def network(tree: Tree, acts: str, seed: int = 0, explore: ExplorationConfig | None = None, **model: object) -> Policy:
    spec = PolicySpec(acts, 0, ModelConfig(fcnet_hiddens=[16], **model), explore, seed=seed)
    found = build_policy(spec, tree.kinds[0])
    with torch.no_grad():
        for parameter in found.parameters():
            parameter.mul_(3.0)  # last layers start near 0: make play differ between information sets
    return found


def mean_payoffs(
    tree: Tree, env: str, config: Mapping[str, object], policies: Mapping[str, Policy], env_ids: int
) -> np.ndarray:
    """Mean payoffs of many episodes, each seat played by its policy."""
    batched_env = make_batched_env(env, env_ids, config)
    frame = batched_env.reset(np.arange(env_ids), np.arange(env_ids))
    kind, rng = batched_env.kinds[0], np.random.default_rng(0)
    paid, over = np.zeros((env_ids, kind.size)), np.zeros(env_ids, bool)
    carry = {name: np.zeros((env_ids, policies[name].carry_size), np.float32) for name in kind.agents}
    while not over.all():
        actions = np.zeros((env_ids, kind.size), np.int64)
        for seat, name in enumerate(kind.agents):
            rows = np.flatnonzero(frame.present[:, seat] & ~over)
            if rows.size:
                seen = Inputs(frame.obs[0][rows, seat], frame.legal[0][rows, seat], np.full(rows.size, seat))
                decision = policies[name].act(seen, carry[name][rows], rng, explore=False)
                actions[rows, seat], carry[name][rows] = decision.actions, decision.carry
        frame = batched_env.step([actions])
        paid += np.where(over[:, None], 0, frame.rewards)
        over = over | frame.over
    return paid.mean(axis=0)


# -- strategies that play ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "env", "config", "width"),
    [
        (kuhn, "kuhn_poker", {}, 1.5),
        (leduc, "leduc_poker", {}, 4.0),
        (repeated, "matrix_game", {"game": "chicken", "repetitions": 3}, 8.0),
    ],
)
def test_rollouts_of_a_strategy_earn_its_value(tree, env, config, width) -> None:
    strategy, env_ids = random_strategy(tree(), 7), 20_000
    earned = mean_payoffs(tree(), env, config, policies_of(tree(), strategy), env_ids)
    # 4 standard errors; ``width`` bounds the deviation of one episode
    assert earned == pytest.approx(expected_values(tree(), strategy), abs=4 * width / np.sqrt(env_ids))


def test_policies_remember_only_where_observations_do_not_tell_the_past() -> None:
    assert policies_of(kuhn(), kuhn().uniform())["player_0"].carry_size == 0
    assert policies_of(repeated(), repeated().uniform())["player_0"].carry_size == 1


@pytest.mark.parametrize("tree", [kuhn, leduc, repeated])
def test_strategy_written_into_policies_and_read_back_is_the_same(tree) -> None:
    strategy = random_strategy(tree(), 8)
    assert strategy_of(tree(), policies_of(tree(), strategy)) == pytest.approx(strategy, abs=1e-12)


def test_weights_carry_the_table_into_a_policy_that_knew_nothing() -> None:
    strategy = random_strategy(leduc(), 9)
    tables = policies_of(leduc(), strategy)
    fresh = {name: TabularPolicy(leduc().kinds[0]) for name in tables}
    assert nash_conv(leduc(), strategy_of(leduc(), fresh)) == pytest.approx(4.747222, abs=1e-6)  # evenly
    for name, policy in fresh.items():
        policy.set_weights(tables[name].get_weights())
    assert strategy_of(leduc(), fresh) == pytest.approx(strategy, abs=1e-12)
    remembering = TabularPolicy(repeated().kinds[0])
    remembering.set_weights(policies_of(repeated(), repeated().uniform())["player_1"].get_weights())
    assert remembering.carry_size == 1


def simple_kind(masked: bool = False) -> AgentType:
    return AgentType("agent", ("a",), spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(3), masked)


def inputs(rows: list[list[float]], legal: list[list[int]] | None = None) -> Inputs:
    mask = np.ones((len(rows), 0), bool) if legal is None else np.array(legal, bool)
    return Inputs(np.array(rows, np.float32), mask, np.zeros(len(rows), np.int64))


NO_CARRY = np.zeros((1, 0), np.float32)


def test_table_keeps_to_legal_actions_and_plays_the_unknown_evenly() -> None:
    policy = TabularPolicy(simple_kind(masked=True), [[0, 1], [1, 0]], [[0.2, 0.3, 0.5], [1, 0, 0]])
    assert policy.probabilities(inputs([[0, 1]], [[1, 1, 0]]), NO_CARRY)[0] == pytest.approx([0.4, 0.6, 0])
    assert policy.probabilities(inputs([[1, 0]], [[0, 1, 1]]), NO_CARRY)[0] == pytest.approx([0, 0.5, 0.5])
    assert policy.probabilities(inputs([[1, 1]], [[1, 0, 1]]), NO_CARRY)[0] == pytest.approx([0.5, 0, 0.5])
    assert policy.probabilities(inputs([[-0.0, 1]], [[1, 1, 1]]), NO_CARRY)[0] == pytest.approx([0.2, 0.3, 0.5])


def test_table_draws_its_mixed_strategy_without_exploring_unless_it_is_greedy() -> None:
    rows, rng = [[0.0, 1.0]] * 4000, np.random.default_rng(0)
    mixed = TabularPolicy(simple_kind(), [[0, 1]], [[0.2, 0.3, 0.5]])
    drawn = mixed.act(inputs(rows), np.zeros((4000, 0), np.float32), rng, explore=False)
    assert np.bincount(drawn.actions) / 4000 == pytest.approx([0.2, 0.3, 0.5], abs=0.04)
    assert np.exp(drawn.logp) == pytest.approx(np.array([0.2, 0.3, 0.5])[drawn.actions], rel=1e-5)
    greedy = TabularPolicy(simple_kind(), [[0, 1]], [[0.2, 0.3, 0.5]], greedy=True)
    assert set(greedy.act(inputs(rows), np.zeros((4000, 0), np.float32), rng, explore=True).actions) == {2}
    assert greedy.probabilities(inputs(rows[:1]), NO_CARRY)[0].tolist() == [0, 0, 1]


def test_tables_that_are_none_are_refused() -> None:
    with pytest.raises(ConfigError, match="sum to 1"):
        TabularPolicy(simple_kind(), [[0, 1]], [[0.2, 0.3, 0.4]])
    with pytest.raises(ConfigError, match="2 observations, 1 rows"):
        TabularPolicy(simple_kind(), [[0, 1], [1, 0]], [[0.2, 0.3, 0.5]])
    with pytest.raises(SpaceMismatchError, match="Discrete"):
        TabularPolicy(AgentType("agent", ("a",), spaces.Discrete(2), spaces.Box(0, 1, (1,))))


# -- policies read as strategies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [{}, {"use_lstm": True, "lstm_use_prev_action": True}])
@pytest.mark.slow
def test_network_read_back_earns_what_it_earns_in_rollouts(model) -> None:
    policy = network(repeated(), "stochastic", **model)
    policies = {name: Drawing(policy) for name in repeated().players}
    strategy = strategy_of(repeated(), dict.fromkeys(repeated().players, policy))
    earned = mean_payoffs(repeated(), "matrix_game", {"game": "chicken", "repetitions": 3}, policies, 20_000)
    assert earned == pytest.approx(expected_values(repeated(), strategy), abs=4 * 8.0 / np.sqrt(20_000))


class Drawing(Policy):
    """Plays another policy with exploration on."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy.kind)
        self.policy, self.carry_size = policy, policy.carry_size

    def act(self, inputs, carry, rng, *, explore):
        return self.policy.act(inputs, carry, rng, explore=True)


def test_memory_makes_play_depend_on_the_own_past() -> None:
    policy = network(repeated(), "stochastic", use_lstm=True, lstm_use_prev_action=True)
    strategy = strategy_of(repeated(), dict.fromkeys(repeated().players, policy))
    last = repeated().sets.first_choice[repeated().sets.level == 2]
    assert len(set(np.round(strategy[last[:4]], 6).tolist())) == 4  # four pasts of two actions each
    plain = strategy_of(repeated(), dict.fromkeys(repeated().players, network(repeated(), "stochastic")))
    assert len(set(np.round(plain[last[:4]], 6).tolist())) == 1  # the same observation, the same play


def test_memory_is_stepped_along_each_own_past() -> None:
    # Slow: for every pair of first two actions, step the network three times with its own carry.
    tree, policy = repeated(), network(repeated(), "stochastic", use_lstm=True, lstm_use_prev_action=True)
    strategy = strategy_of(tree, dict.fromkeys(tree.players, policy))
    obs, index, legal = torch.ones(1, 1), torch.tensor([1]), torch.ones(1, 0, dtype=torch.bool)
    for infoset in np.flatnonzero((tree.sets.level == 2) & (tree.sets.player == 1)).tolist():
        second = tree.sets.parent_choice[infoset]
        first = tree.sets.parent_choice[tree.sets.owner[second]]
        carry = torch.zeros(1, policy.carry_size)
        with torch.no_grad():
            for action in (tree.sets.action[first], tree.sets.action[second]):
                _, memory = policy.model.step(obs, index, carry)  # type: ignore[operator,union-attr]
                carry = policy.model.carried(memory, torch.tensor([action]), torch.zeros(1))  # type: ignore[operator,union-attr]
            slow = policy.params(obs, index, legal, carry).softmax(1)[0].numpy()  # type: ignore[operator]
        at = tree.sets.first_choice[infoset]
        assert strategy[at : at + 2] == pytest.approx(slow, abs=1e-6)


def test_average_policy_of_nfsp_is_what_is_read() -> None:
    spec = PolicySpec("nfsp", 0, ModelConfig(fcnet_hiddens=[16]), options={"anticipatory": 0.1})
    policy = build_policy(spec, leduc().kinds[0])
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.mul_(3.0)
    strategy = strategy_of(leduc(), dict.fromkeys(leduc().players, policy))
    legal = np.zeros((1, 3), bool)
    legal[0, leduc().sets.action[:2]] = True  # the first information set has two actions
    row = Inputs(leduc().sets.obs[0][None].repeat(20_000, 0), legal.repeat(20_000, 0), np.zeros(20_000, np.int64))
    drawn = policy.act(row, np.zeros((20_000, 0), np.float32), np.random.default_rng(0), explore=False).actions
    assert leduc().sets.num_actions[0] == 2
    assert np.mean(drawn == leduc().sets.action[0]) == pytest.approx(strategy[0], abs=0.015)


def test_softmax_of_a_network_is_read_row_by_row_and_keeps_to_masks() -> None:
    policy = network(leduc(), "stochastic")
    strategy = strategy_of(leduc(), dict.fromkeys(leduc().players, policy))
    infoset = 500
    at, count = leduc().sets.first_choice[infoset], leduc().sets.num_actions[infoset]
    legal = np.zeros((1, 3), bool)
    legal[0, leduc().sets.action[at : at + count]] = True
    with torch.no_grad():
        logits, _ = policy(
            torch.from_numpy(leduc().sets.obs[infoset][None]), torch.tensor([1]), torch.from_numpy(legal)
        )
    slow = logits.softmax(1).numpy()[0][leduc().sets.action[at : at + count]]
    assert strategy[at : at + count] == pytest.approx(slow, abs=1e-6)
    assert nash_conv(leduc(), strategy) > 0.1


def test_values_are_read_greedily_or_with_their_epsilon() -> None:
    policy = network(kuhn(), "value")
    greedy = strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=False)
    assert set(greedy.tolist()) == {0.0, 1.0}
    assert (strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy)) == greedy).all()
    epsilon = policy.exploration.now()  # type: ignore[union-attr]
    assert epsilon > 0
    noisy = strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=True)
    assert noisy == pytest.approx((1 - epsilon) * greedy + epsilon / 2)


def test_values_by_which_actions_are_drawn_are_read_with_their_chances_over_legal_actions() -> None:
    tree = leduc()
    policy = network(tree, "value", explore=ExplorationConfig(type="SoftQ", temperature=0.5))
    strategy = strategy_of(tree, dict.fromkeys(tree.players, policy), explore=True)
    for infoset in (0, 100, 500):
        at, count = tree.sets.first_choice[infoset], tree.sets.num_actions[infoset]
        row = {"obs": tree.sets.obs[infoset][None], "agent_index": np.array([tree.sets.player[infoset]])}
        odds = np.exp(policy.q_values(row)[0].numpy()[tree.sets.action[at : at + count]] / 0.5)  # type: ignore[union-attr]
        assert strategy[at : at + count] == pytest.approx(odds / odds.sum(), rel=1e-4)


def test_values_with_noise_on_weights_are_read_greedily_and_refused_while_they_explore() -> None:
    policy = network(kuhn(), "value", explore=ExplorationConfig(type="ParameterNoise"))
    assert set(strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=False).tolist()) == {0.0, 1.0}
    with pytest.raises(PolicyError, match="ValuePolicy, which can be asked for an action but not"):
        strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=True)


def test_values_are_read_as_the_action_that_is_played() -> None:
    tree, policy = leduc(), network(leduc(), "value")
    strategy = strategy_of(tree, dict.fromkeys(tree.players, policy))
    for infoset in (0, 100, 500):
        at, count = tree.sets.first_choice[infoset], tree.sets.num_actions[infoset]
        legal = np.zeros((1, 3), bool)
        legal[0, tree.sets.action[at : at + count]] = True
        row = Inputs(tree.sets.obs[infoset][None], legal, np.array([tree.sets.player[infoset]]))
        played = policy.act(row, NO_CARRY, np.random.default_rng(0), explore=False).actions[0]
        assert strategy[at : at + count].tolist() == (tree.sets.action[at : at + count] == played).tolist()


def test_a_greedy_network_is_read_as_its_likeliest_action() -> None:
    policy = network(kuhn(), "stochastic")
    drawn = strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=True).reshape(-1, 2)
    assert (strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy)).reshape(-1, 2) == drawn).all()
    greedy = strategy_of(kuhn(), dict.fromkeys(kuhn().players, policy), explore=False).reshape(-1, 2)
    assert greedy.tolist() == (drawn == drawn.max(axis=1, keepdims=True)).tolist()


def test_random_and_fixed_play_are_read_as_what_they_are() -> None:
    random = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="random")), kuhn().kinds[0])
    fixed = build_policy(PolicySpec("scripted", 0, scripted=ScriptedConfig(name="fixed", action=1)), kuhn().kinds[0])
    found = strategy_of(kuhn(), {"player_0": random, "player_1": fixed})
    assert found[kuhn().choices(0)].tolist() == [0.5] * 12
    assert found[kuhn().choices(1)].tolist() == [0.0, 1.0] * 6


def test_mixture_over_strategies_is_mixed_by_episodes_not_by_decisions() -> None:
    # Members: always 0 and always 1. A mixture plays the same action in all three rounds.
    zero, one = np.tile([1.0, 0.0], 14), np.tile([0.0, 1.0], 14)
    tables = [policies_of(repeated(), strategy)["player_0"] for strategy in (zero, one)]
    mixture = Mixture(repeated().kinds[0], lambda: TabularPolicy(repeated().kinds[0]), True)
    mixture.set_weights(
        {"chances": np.array([0.3, 0.7])}
        | {
            f"members.{i}.{name}": array
            for i, table in enumerate(tables)
            for name, array in table.get_weights().items()
        }
    )
    uniform = policies_of(repeated(), repeated().uniform())["player_1"]
    found = strategy_of(repeated(), {"player_0": mixture, "player_1": uniform})
    parts = [repeated().joined({0: s[repeated().choices(0)]}, repeated().uniform()) for s in (zero, one)]
    slow = 0.3 * play_through(repeated(), parts[0]) + 0.7 * play_through(repeated(), parts[1])
    assert expected_values(repeated(), found) == pytest.approx(slow)
    assert found[:2] == pytest.approx([0.3, 0.7])


def test_equilibrium_as_policies_cannot_be_exploited() -> None:
    policies = policies_of(leduc(), equilibrium(leduc()).strategy)
    assert nash_conv(leduc(), strategy_of(leduc(), policies)) == pytest.approx(0.0, abs=1e-9)
    greedy = policies_of(kuhn(), cfr(kuhn(), 1000).strategy, greedy=True)
    assert nash_conv(kuhn(), strategy_of(kuhn(), greedy)) > 0.1  # the most likely actions are no equilibrium


def test_policies_that_cannot_tell_their_chances_are_refused() -> None:
    rule = RulePolicy(kuhn().kinds[0], lambda obs: 0)
    with pytest.raises(PolicyError, match="RulePolicy, which can be asked for an action but not"):
        strategy_of(kuhn(), dict.fromkeys(kuhn().players, rule))
    with pytest.raises(ConfigError, match="no policy was given for player_1"):
        strategy_of(kuhn(), {"player_0": TabularPolicy(kuhn().kinds[0])})
    with pytest.raises(SpaceMismatchError, match="player_0"):
        strategy_of(kuhn(), dict.fromkeys(kuhn().players, TabularPolicy(leduc().kinds[0])))
    paid = network(repeated(), "stochastic", use_lstm=True, lstm_use_prev_reward=True)
    with pytest.raises(PolicyError, match="last reward"):
        strategy_of(repeated(), dict.fromkeys(repeated().players, paid))
