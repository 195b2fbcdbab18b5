"""Networks are asked about observations that somebody typed: nobody has to know columns of rollouts for it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import marl
from marl.errors import ConfigError, SpaceMismatchError

X = np.array([[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.0, 0.0]])
SMALL: dict[str, Any] = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}}


def test_logits_distribution_and_value_of_plain_observations_are_those_of_the_rollout() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config=SMALL) as trainer:
        policy: Any = trainer.get_policy()
        batch = trainer.workers.collect(4).batch
        rows = batch.for_policy("default_policy")
        plain = {"obs": rows["obs"]}
        assert policy.model.from_batch(plain).equal(policy.model.from_batch(rows))
        np.testing.assert_allclose(
            policy.action_distribution(plain).logp(rows["actions"]), rows["action_logp"], atol=1e-6
        )
        expected = trainer.value_function("default_policy", batch)
        np.testing.assert_allclose(trainer.value_function("default_policy", plain), expected, atol=1e-6)
        assert trainer.value_function("default_policy", X).shape == (2,)


def test_action_values_take_plain_observations_as_a_dict_or_alone() -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config=SMALL) as trainer:
        policy: Any = trainer.get_policy()
        values = policy.q_values({"obs": X})
        assert values.shape == (2, 2)
        assert policy.q_values(X.tolist()).equal(values)
        assert [trainer.compute_action(x) for x in X] == values.argmax(1).tolist()
        assert policy.state_value({"obs": X}).shape == (2, 1)
        assert policy.q_value_distributions({"obs": X}).shape == (2, 2, 1)


def test_a_recurrent_policy_sees_them_as_the_beginning_of_an_episode() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config={**SMALL, "use_lstm": True, "lstm_cell_size": 4}) as trainer:
        policy: Any = trainer.get_policy()
        logp = policy.action_distribution({"obs": X[:1]}).logp(np.array([0]))
        _, _, extra = trainer.compute_action(X[0], explore=False, full_fetch=True)  # type: ignore[misc]
        other = policy.action_distribution({"obs": X[:1]}).logp(np.array([1]))
        assert extra["action_logp"] == pytest.approx(max(float(logp), float(other)), abs=1e-6)
        carried = policy.action_distribution({"obs": X[:1], "carry": np.ones((1, policy.carry_size), np.float32)})
        assert not carried.params.equal(policy.action_distribution({"obs": X[:1]}).params)


def test_masks_are_used_where_they_are_given() -> None:
    with marl.Trainer("ppo", env="pettingzoo:classic/tictactoe_v3", config=SMALL) as trainer:
        policy: Any = trainer.get_policy(next(iter(trainer.policies)))
        kind = policy.kind
        obs = np.zeros((1, *kind.observation_space.shape), kind.obs_dtype)
        only_third = np.eye(9, dtype=bool)[[2]]
        chances = policy.action_distribution({"obs": obs, "legal": only_third})
        assert chances.sample().tolist() == [2]
        assert policy.action_distribution({"obs": obs}).entropy() > 1.0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (X[0], r"A single observation x is written \[x\]"),
        (np.zeros((2, 5)), r"expected one row each, \(2, 4\)"),
        ({"observation": X}, "has no observations"),
        ({"obs": [None]}, "expected one row each"),
    ],
)
def test_what_is_no_observation_is_refused_with_the_shape_that_is(given: Any, text: str) -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config=SMALL) as trainer, pytest.raises(SpaceMismatchError, match=text):
        trainer.get_policy().q_values(given)  # type: ignore[operator]


def test_a_policy_that_is_shown_its_agent_asks_for_it_and_a_wide_critic_for_a_whole_step() -> None:
    keys = {**SMALL, "groups": {"team": ["agent_0", "agent_1"]}}
    with marl.Trainer("mappo", env="two_step_game", config=keys) as trainer:
        policy: Any = trainer.get_policy()
        obs = np.array([[1, 0, 0, 1]])
        with pytest.raises(SpaceMismatchError, match="agent_index: the place of the agent in agent_0, agent_1"):
            policy.action_distribution({"obs": obs})
        first, second = (policy.model.from_batch({"obs": obs, "agent_index": [i]}) for i in (0, 1))
        assert not first.equal(second)
        with pytest.raises(ConfigError, match="sees more than one observation"):
            trainer.value_function(next(iter(trainer.policies)), {"obs": obs})


def test_a_worker_gives_its_policies_by_name() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config=SMALL) as trainer:
        worker = trainer.workers.local_worker()
        assert worker.get_policy() is worker.get_policy("default_policy") is worker.policy_map["default_policy"]
        with pytest.raises(marl.errors.UserError, match="nobody"):
            worker.get_policy("nobody")
