"""Tables learn what the textbook says, to the last digits, and refuse what does not fit into a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import marl
from marl import Trainer
from marl.algos.tabular.updates import move, next_played
from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Array
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, TrainingError
from marl.gametheory.tree.build import build_tree
from marl.gametheory.tree.policy_conversion import strategy_of
from marl.policies.build import build_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec
from marl.policies.policy import Inputs
from marl.policies.value_table import TABLE, ValueTable, countable
from marl.testing.state_compare import different, everything
from tests.algos.small_worlds import OFTEN, SELDOM, STATES, Logged, by_hand, mean_returns
from tests.command import marl as command

WORLD = "tests.algos.small_worlds:Logged"
QUIET: dict[str, Any] = {"evaluation": {"interval": 0}, "num_workers": 0, "seed": 3}


def constant(epsilon: float) -> dict[str, Any]:
    return {"type": "EpsilonGreedy", "initial_epsilon": epsilon, "final_epsilon": epsilon}


def table_of(trainer: Trainer, policy: str = "default_policy", states: int = STATES) -> Array:
    found = trainer.get_policy(policy)
    assert isinstance(found, ValueTable)
    return found.q_values({"obs": np.arange(states)[:, None]}).numpy()


# -- the rules ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fragment", [1, 7])
@pytest.mark.parametrize("rule", ["q_learning", "sarsa"])
def test_temporal_differences_are_those_of_the_book_for_agents_that_are_asked_always_or_now_and_then(
    rule: str, fragment: int
) -> None:
    for choices in Logged.told.values():
        choices.clear()
    keys = {"lr": 0.3, "gamma": 0.8, "timesteps_per_iteration": 210, "rollout_fragment_length": fragment}
    config = {**QUIET, **keys, "policy_mapping_fn": "per_agent", "exploration_config": constant(0.25)}
    with Trainer(rule, env=WORLD, config=config) as trainer:
        trainer.train()
        for agent in (OFTEN, SELDOM):
            told = Logged.told[agent]
            assert {choice.end for choice in told} == {"", "terminated", "truncated"}
            np.testing.assert_allclose(table_of(trainer, agent), by_hand(told, rule, 0.3, 0.8, 0.25), atol=1e-6)
    assert any(len(choice.rewards) > 1 for choice in Logged.told[SELDOM])


@pytest.mark.parametrize("first_visit", [False, True])
def test_monte_carlo_takes_the_mean_of_the_returns_of_all_or_of_first_visits(first_visit: bool) -> None:
    for choices in Logged.told.values():
        choices.clear()
    config = {**QUIET, "gamma": 0.8, "timesteps_per_iteration": 210, "policy_mapping_fn": "per_agent"}
    with Trainer("monte_carlo", env=WORLD, config={**config, "first_visit": first_visit}) as trainer:
        trainer.train()
        for agent in (OFTEN, SELDOM):
            expected = mean_returns(Logged.told[agent], 0.8, first_visit)
            np.testing.assert_allclose(table_of(trainer, agent), expected, atol=1e-5)
            other = mean_returns(Logged.told[agent], 0.8, not first_visit)
            assert np.abs(expected - other).max() > 0.01


def test_q_learning_finds_the_values_of_value_iteration_exactly() -> None:
    outcomes = gym.make("FrozenLake-v1", is_slippery=False).unwrapped.P  # type: ignore[attr-defined]
    expected = np.zeros((16, 4))
    for _ in range(40):
        best = expected.max(axis=1)
        for state in range(16):
            for action in range(4):
                ((_, later, reward, ended),) = outcomes[state][action]
                expected[state, action] = reward + (0.0 if ended else 0.9 * best[later])
    config = {
        **QUIET,
        "env_config": {"is_slippery": False},
        "lr": 1.0,
        "gamma": 0.9,
        "exploration_config": constant(1.0),
    }
    config |= {"num_envs_per_worker": 64, "timesteps_per_iteration": 24_000}
    with Trainer("q_learning", env="FrozenLake-v1", config=config) as trainer:
        trainer.train()
        assert trainer.evaluate()["episode_reward_mean"] == 1.0
        found = table_of(trainer, states=16)
    holes = [5, 7, 11, 12, 15]  # nobody decides there
    np.testing.assert_allclose(np.delete(found, holes, 0), np.delete(expected, holes, 0), atol=1e-12)


def test_independent_tables_value_the_two_step_game_by_the_mean_over_what_the_other_does() -> None:
    config = {**QUIET, "averaging": True, "gamma": 0.5, "exploration_config": constant(1.0), "num_envs_per_worker": 64}
    config |= {"env_config": {"one_hot_state_encoding": False}, "timesteps_per_iteration": 8_000}
    with Trainer("q_learning", env="two_step_game", config={**config, "policy_mapping_fn": "per_agent"}) as trainer:
        trainer.train()
        first, second = (table_of(trainer, agent, 6) for agent in ("agent_0", "agent_1"))
        known = [len(trainer.get_policy(agent)) for agent in ("agent_0", "agent_1")]  # type: ignore[arg-type]
    assert known == [3, 3]  # each sees three of the six
    for mine in (first[:3], second[3:]):  # halves of the team's reward: 7, 7 and 0.5, 4.5
        np.testing.assert_allclose(mine[1:], [[3.5, 3.5], [0.25, 2.25]], atol=0.15)
    np.testing.assert_allclose(first[0], [0.5 * 3.5, 0.5 * 2.25], atol=0.15)  # its own action picks the branch


def test_one_table_of_two_agents_learns_from_both_and_tells_them_apart_where_it_is_shown_who_plays() -> None:
    config = {**QUIET, "timesteps_per_iteration": 200}
    sizes = []
    for agent_id in (False, True):
        with Trainer("q_learning", env=WORLD, config={**config, "agent_id": agent_id}) as trainer:
            trainer.train()
            table = trainer.get_policy()
            assert isinstance(table, ValueTable)
            sizes.append(len(table))
            (learner,) = trainer.learners
            assert learner.counters["num_agent_steps_trained"] > 200
    assert sizes == [STATES, 2 * STATES]


# -- the parts ---------------------------------------------------------------------------------------------------------


def test_several_visits_at_once_go_as_far_as_single_ones_towards_their_mean_in_any_order() -> None:
    targets = np.array([4.0, 1.0, 1.0, 7.0])
    moved = []
    for order in ([0, 1, 2, 3], [3, 2, 1, 0]):
        values, visits = np.array([2.0, 5.0]), np.zeros(2, np.int64)
        move(values, visits, np.array([0, 1, 0, 0])[order], targets[order], 0.5)
        moved.append(values)
        assert visits.tolist() == [3, 1]
    np.testing.assert_allclose(moved[0], [2.0 + (1 - 0.5**3) * (4.0 - 2.0), 3.0])
    np.testing.assert_allclose(moved[0], moved[1])
    values, visits = np.array([100.0]), np.zeros(1, np.int64)  # the first guess counts nothing beside a mean
    move(values, visits, np.zeros(3, np.int64), np.array([1.0, 2.0, 6.0]), None)
    move(values, visits, np.zeros(1, np.int64), np.array([7.0]), None)
    assert values[0] == pytest.approx(4.0)


def test_the_next_action_is_looked_for_in_the_same_life_alone() -> None:
    rows = SampleBatch(
        {
            "stream": np.array([0, 1, 0, 0, 1, 2]), "eps_id": np.array([0, 0, 0, 1, 0, 0]),
            "t": np.array([0, 0, 1, 0, 2, 5]), "elapsed": np.array([1, 1, 1, 1, 1, 1]),
            "terminateds": np.array([False, False, True, False, False, True]), "truncateds": np.zeros(6, bool),
            "actions": np.array([4, 5, 6, 7, 8, 9]),
        }
    )  # fmt: skip
    played, ready, follower = next_played(rows)
    assert played.tolist() == [6, -1, -1, -1, -1, -1]  # the second agent's next decision is missing
    assert follower.tolist() == [2, -1, -1, -1, -1, -1]
    assert ready.tolist() == [True, True, True, False, False, True]


def test_a_table_explores_evenly_among_the_best_and_plays_the_first_of_them_greedily() -> None:
    kind = AgentType("k", ("a",), spaces.Discrete(3), spaces.Discrete(3), masked=True)
    exploration = ExplorationConfig(type="EpsilonGreedy", initial_epsilon=0.3)
    policy = build_policy(PolicySpec(TABLE, 0, exploration=exploration, options={"initial_value": 1.0}), kind)
    assert isinstance(policy, ValueTable)
    obs = np.array([[0], [2]])
    (row,) = policy.add(obs[:1], np.zeros(1, np.int64))
    policy.values[row] = policy.values.new_tensor([2.0, 5.0, 2.0])
    legal = np.array([[True, False, True], [True, True, True]])
    inputs = Inputs(obs, legal, np.zeros(2, np.int64))
    expected = [[0.5, 0.0, 0.5], [1 / 3, 1 / 3, 1 / 3]]  # the best action is illegal; the other state is not known
    np.testing.assert_allclose(policy.chances(inputs, explore=True), expected)
    insight = policy.insight(inputs, np.zeros((2, 0), np.float32), explore=True)
    assert insight.value is not None
    assert insight.q_values is not None
    assert insight.value.tolist() == [2.0, 1.0]
    assert insight.q_values.tolist() == [[2.0, 5.0, 2.0], [1.0, 1.0, 1.0]]
    rng = np.random.default_rng(0)
    assert policy.act(inputs, np.zeros((2, 0), np.float32), rng, explore=False).actions.tolist() == [0, 0]
    many = Inputs(np.repeat(obs[1:], 3000, 0), np.repeat(legal[1:], 3000, 0), np.zeros(3000, np.int64))
    drawn = policy.act(many, np.zeros((3000, 0), np.float32), rng, explore=True)
    np.testing.assert_allclose(np.bincount(drawn.actions) / 3000, 1 / 3, atol=0.04)
    np.testing.assert_allclose(drawn.logp, np.log(1 / 3), rtol=1e-5)


def test_a_table_that_grows_keeps_what_it_knows() -> None:
    kind = AgentType("k", ("a",), spaces.Discrete(200), spaces.Discrete(2))
    policy = build_policy(PolicySpec(TABLE, 0, options={"initial_value": 7.0}), kind)
    assert isinstance(policy, ValueTable)
    obs, seats = np.arange(150)[:, None], np.zeros(150, np.int64)
    rows = policy.add(obs[:64], seats[:64])
    policy.values[rows] = policy.values.new_tensor(np.stack([obs[:64, 0], -obs[:64, 0]], axis=1))
    assert policy.add(obs, seats).tolist() == list(range(150))
    values = policy.values_of(obs, seats)
    assert values[:64, 0].tolist() == list(range(64))
    assert (values[64:] == 7.0).all()
    assert len(policy) == 150


def test_a_table_is_read_as_a_strategy_of_a_game_tree() -> None:
    tree = build_tree("kuhn_poker")
    spec = PolicySpec(TABLE, 0, ModelConfig(), ExplorationConfig(type="EpsilonGreedy"), options={"float_states": True})
    policies = {name: build_policy(spec, tree.kind_of(player)) for player, name in enumerate(tree.players)}
    assert set(strategy_of(tree, policies).tolist()) == {0.0, 1.0}
    np.testing.assert_allclose(strategy_of(tree, policies, explore=True), 0.5)


# -- what does not fit -------------------------------------------------------------------------------------------------


def test_which_observations_are_countable() -> None:
    whole = spaces.Box(0, 255, (2, 2), np.uint8)
    both = spaces.Dict({"a": spaces.Discrete(2), "b": spaces.Tuple([spaces.MultiBinary(3), whole])})
    assert countable(both)
    assert countable(spaces.MultiDiscrete([2, 3]))
    assert not countable(spaces.Box(0.0, 1.0, (1,)))
    assert not countable(spaces.Tuple([spaces.Discrete(2), spaces.Box(0.0, 1.0, (1,))]))


def test_what_does_not_fit_into_a_table_is_refused_before_the_start() -> None:
    with pytest.raises(SpaceMismatchError, match=r"see fractions: Box.*Use dqn.*float_states: true"):
        Trainer("q_learning", env="CartPole-v1", config=QUIET)
    with pytest.raises(SpaceMismatchError, match="needs Discrete actions"):
        Trainer("sarsa", env="Pendulum-v1", config={**QUIET, "float_states": True})
    with pytest.raises(
        ConfigError, match=r"fcnet_hiddens: \[8\] is for networks, but sarsa learns a table\. Use dqn, or drop"
    ):
        Trainer("sarsa", env="FrozenLake-v1", config={**QUIET, "fcnet_hiddens": [8]})
    with pytest.raises(ConfigError, match="whole episodes"):
        Trainer("monte_carlo", env="FrozenLake-v1", config={**QUIET, "batch_mode": "truncate_episodes"})
    with pytest.raises(ConfigError, match="does not share its work"):
        Trainer("q_learning", env="FrozenLake-v1", config={**QUIET, "num_learners": 2})
    refused = command("train", "--run", "Q_LEARNING", "--env", "CartPole-v1")
    assert (refused.code, len(refused.errors)) == (2, 1)
    assert "Use dqn" in refused.err


def test_a_table_that_would_grow_too_long_ends_the_run_with_a_sentence() -> None:
    keys = {"float_states": True, "max_states": 70, "timesteps_per_iteration": 500}
    with (
        Trainer("q_learning", env="CartPole-v1", config={**QUIET, **keys}) as trainer,
        pytest.raises(TrainingError, match=r"has 70 states, which is max_states.*Use dqn"),
    ):
        trainer.train()


# -- as all others -----------------------------------------------------------------------------------------------------


def test_a_table_grows_resumes_and_is_exported_with_all_its_states(tmp_path: Path) -> None:
    keys = {**QUIET, "float_states": True, "num_envs_per_worker": 2, "timesteps_per_iteration": 100}
    with Trainer("sarsa", env="CartPole-v1", config=keys) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run")
        trainer.train()
        table = trainer.get_policy()
        assert isinstance(table, ValueTable)
        assert len(table) > 128  # more than the first rows: it has grown
        end, seen = everything(trainer), table.obs[: len(table)].numpy()
        (folder,) = trainer.export_model(tmp_path / "exported")
        expected = table.q_values({"obs": seen})
        with pytest.raises(ConfigError, match="it is a table of values and no network"):
            trainer.export_model(tmp_path / "onnx", format="onnx")
    with Trainer("sarsa", env="CartPole-v1", config=keys) as resumed:
        resumed.restore(path)
        resumed.train()
        assert different(everything(resumed), end) == []
    exported = marl.load_policy(folder)
    found = exported.policy.q_values({"obs": seen})  # type: ignore[operator, union-attr]
    assert found.equal(expected)
    assert found.abs().sum() > 0


def test_weights_of_another_table_are_refused(tmp_path: Path) -> None:
    with Trainer("sarsa", env="FrozenLake-v1", config={**QUIET, "timesteps_per_iteration": 50}) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run")
    with pytest.raises(CheckpointError, match=r"does not fit: .* has shape"):
        Trainer("sarsa", env="Blackjack-v1", config={**QUIET, "load": {"default_policy": str(path)}})


def test_a_trained_table_plays_and_tells_why(tmp_path: Path) -> None:
    keys = {**QUIET, "env_config": {"is_slippery": False}, "timesteps_per_iteration": 100}
    with Trainer("q_learning", env="FrozenLake-v1", config={**keys, "horizon": 20}) as trainer:
        trainer.train()
        path = trainer.save(tmp_path / "run")
    played = command("rollout", path, "--episodes", 2)
    assert played.code == 0, played.err
    told = command("why", path, "--agent", "agent_0", "--step", 0)
    assert told.code == 0, told.err


@pytest.mark.ray
def test_ray_workers_bring_the_tables_of_workers_in_this_process() -> None:
    tables = []
    for pool in ("ray", "in_process"):
        keys = {"num_workers": 2, "pool": pool, "timesteps_per_iteration": 400, "policy_mapping_fn": "per_agent"}
        with Trainer("sarsa", env="FrozenLake-v1", config={**QUIET, **keys, "policy_mapping_fn": "shared"}) as trainer:
            trainer.train()
            trainer.train()
            tables.append(trainer.get_weights())
    assert different(tables[0], tables[1]) == []
