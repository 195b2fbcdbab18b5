"""What stands between an observation and an action: memory, filters, custom parts, and looking at them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

import marl
from marl.algos.joint_view import joint_rows
from marl.data.task import AgentType
from marl.errors import ConfigError, UserError
from marl.policies.config import ModelConfig
from marl.policies.filters import MeanStdFilter
from marl.policies.memory import still_going
from marl.policies.networks import Body, Sequences, seeded

KIND = AgentType("k", ("a", "b"), spaces.Box(-1, 1, (3,), np.float32), spaces.Discrete(2))


def body(**keys: Any) -> Body:
    return Body(KIND, ModelConfig(fcnet_hiddens=[8], lstm_cell_size=5, **keys), 2, seeded(0))


def sequences(carry_size: int) -> tuple[Tensor, Tensor, Sequences]:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([2, 4, 1, 3])
    rows = int(lengths.sum())
    obs = torch.randn(rows, 3, generator=generator)
    actions, rewards = torch.randint(0, 2, (rows,), generator=generator), torch.randn(rows, generator=generator)
    carry = torch.randn(4, carry_size, generator=generator)
    return obs, torch.zeros(rows, dtype=torch.long), Sequences(lengths, carry, actions, rewards)


RECURRENT = [
    {"use_lstm": True}, {"use_gru": True},
    {"use_lstm": True, "lstm_use_prev_action": True, "lstm_use_prev_reward": True},
    {"use_gru": True, "lstm_use_prev_reward": True},
]  # fmt: skip


@pytest.mark.parametrize("keys", RECURRENT)
def test_sequences_of_any_length_give_what_single_steps_give(keys: dict[str, Any]) -> None:
    model = body(**keys)
    obs, index, given = sequences(model.carry_size)
    out = model.unroll(obs, index, given)
    row = 0
    for sequence, length in enumerate(given.lengths.tolist()):
        carry = given.carry[sequence : sequence + 1]
        for _ in range(length):
            here = slice(row, row + 1)
            one, after = model.step(obs[here], index[here], carry)
            torch.testing.assert_close(out[here], one)
            carry = model.carried(after, given.actions[here], given.rewards[here])
            row += 1


def test_no_sequences_give_no_rows() -> None:
    model = body(use_lstm=True)
    nothing = Sequences(
        torch.zeros(0, dtype=torch.long),
        torch.zeros(0, model.carry_size),
        torch.zeros(0, dtype=torch.long),
        torch.zeros(0),
    )
    assert still_going(nothing.lengths) == []
    assert still_going(torch.tensor([4, 2, 2, 1])) == [4, 3, 1, 1]


def test_a_sequence_does_not_look_into_its_neighbours() -> None:
    model = body(use_lstm=True)
    obs, index, given = sequences(model.carry_size)
    obs.requires_grad_(True)
    out = model.unroll(obs, index, given)
    out[2:6].sum().backward()  # the second sequence
    assert obs.grad is not None
    assert obs.grad[:2].abs().sum() == 0
    assert obs.grad[6:].abs().sum() == 0
    assert (obs.grad[2:6].abs().sum(1) > 0).all()


def test_the_carry_is_memory_then_last_action_then_last_reward() -> None:
    model = body(use_gru=True, lstm_use_prev_action=True, lstm_use_prev_reward=True)
    assert model.carry_size == 5 + 2 + 1
    packed = model.carried(torch.full((1, 5), 0.5), torch.tensor([1]), torch.tensor([-3.0]))
    assert packed.tolist() == [[0.5] * 5 + [0, 1] + [-3]]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"use_lstm": True, "use_gru": True}, "use_gru: true needs use_lstm: false, but use_lstm is true"),
        ({"lstm_use_prev_action": True}, "needs use_lstm: true, use_gru: true or custom_model, but"),
        (
            {"use_lstm": True, "custom_model": "x"},
            "needs no custom_model, but custom_model is x .*brings its own memory",
        ),
    ],
)
def test_keys_of_memory_that_do_not_fit_together_are_refused(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ModelConfig(**keys)


# -- filters ---------------------------------------------------------------------------------------------------------


def test_a_filter_fed_in_pieces_knows_mean_and_deviation_of_the_whole() -> None:
    rows = torch.randn(1000, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.1]) + 3
    model = MeanStdFilter(3)
    for piece in rows.split([1, 399, 600]):
        model.observe(piece)
    torch.testing.assert_close(model.mean, rows.double().mean(0))
    expected = ((rows - rows.mean(0)) / rows.std(0, unbiased=False)).clamp(-10, 10)
    torch.testing.assert_close(model(rows), expected, atol=1e-4, rtol=1e-4)


def test_a_filter_that_has_seen_nothing_changes_nothing() -> None:
    rows = torch.randn(4, 3)
    assert torch.equal(MeanStdFilter(3)(rows), rows)


def test_the_seat_is_not_filtered() -> None:
    model = Body(KIND, ModelConfig(fcnet_hiddens=[4], observation_filter="MeanStdFilter"), 2, seeded(0), agent_id=True)
    model.observe(np.random.default_rng(0).normal(5, 2, (50, 3)).astype(np.float32), np.zeros(50, np.int64))
    encoded = model.encode(torch.full((1, 3), 5.0), torch.tensor([1]))
    assert encoded[0, 3:].tolist() == [0, 1]
    assert encoded[0, :3].abs().max() < 0.5


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_the_learner_moves_the_filter_and_frozen_policies_keep_theirs(algo: str) -> None:
    keys = {
        "env": "traffic", "observation_filter": "MeanStdFilter", "fcnet_hiddens": [8], "evaluation": {"interval": 0},
        "rollout_fragment_length": 20, "timesteps_per_iteration": 20, "train_batch_size": 20,
    }  # fmt: skip
    with marl.Trainer(algo, config=keys) as trainer:
        first, *others = sorted(trainer.policies)
        trainer.set_policies_to_train(others)
        trainer.train()
        counts = {name: float(policy.model.filter.count) for name, policy in trainer.policies.items()}  # type: ignore[union-attr]
    assert counts[first] == 0
    assert all(counts[name] > 0 for name in others)


# -- custom parts ----------------------------------------------------------------------------------------------------


class Plain(marl.Model):
    """One linear layer."""

    def __init__(self, inputs: int, outputs: int, config: dict[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(inputs, outputs)

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.layer(features) * self.config.get("scale", 1.0), carry


class Adder(marl.Model):
    """Remembers the sum of its inputs."""

    carry_size = 1

    def __init__(self, inputs: int, outputs: int, config: dict[str, Any]) -> None:
        super().__init__(inputs, outputs, config)
        self.layer = nn.Linear(1, outputs)

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        total = carry + features.sum(1, keepdim=True)
        return self.layer(total), total


class Doubled(marl.Preprocessor):
    """Twice the observation, and once more."""

    size = 6

    def forward(self, obs: Tensor) -> Tensor:
        return torch.cat([obs.float() * 2, obs.float()], dim=1)


def test_a_custom_model_gets_its_config_and_its_first_weights_follow_from_the_seed() -> None:
    marl.register_model("plain_for_test", Plain)
    model = ModelConfig(custom_model="plain_for_test", custom_model_config={"scale": 3.0})
    one, same, other = (Body(KIND, model, 2, seeded(seed)) for seed in (0, 0, 1))
    obs, index = torch.randn(4, 3), torch.zeros(4, dtype=torch.long)
    assert torch.equal(one(obs, index), same(obs, index))
    assert not torch.equal(one(obs, index), other(obs, index))
    assert isinstance(one.network, Plain)
    torch.testing.assert_close(one(obs, index), one.network.layer(obs) * 3)


def test_a_custom_model_may_remember() -> None:
    model = Body(KIND, ModelConfig(custom_model=f"{__name__}:Adder"), 2, seeded(0))
    obs, index, given = sequences(model.carry_size)
    assert isinstance(model.network, Adder)
    expected = given.carry[1] + obs[2:6].sum()
    torch.testing.assert_close(model.unroll(obs, index, given)[5], model.network.layer(expected))


def test_a_custom_preprocessor_replaces_the_features() -> None:
    model = Body(KIND, ModelConfig(custom_preprocessor=f"{__name__}:Doubled"), 2, seeded(0), agent_id=True)
    obs = torch.tensor([[1.0, 2.0, 3.0]])
    assert model.encode(obs, torch.tensor([0])).tolist() == [[2, 4, 6, 1, 2, 3, 1, 0]]


@pytest.mark.parametrize("key", ["custom_model", "custom_preprocessor", "custom_action_dist", "custom_loss"])
def test_an_unknown_name_is_refused_before_anything_is_built(key: str) -> None:
    with pytest.raises(UserError, match=rf"unknown {key} 'nowhere'"):
        marl.Trainer("ppo", env="two_step_game", config={key: "nowhere"})


def test_a_class_of_the_wrong_sort_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected a class derived from marl\.Model"):
        marl.register_model("wrong", Doubled)  # type: ignore[arg-type]


# -- looking ---------------------------------------------------------------------------------------------------------


def test_a_stochastic_policy_shows_outputs_distribution_and_value() -> None:
    keys = {"vf_share_layers": True, "fcnet_hiddens": [8], "evaluation": {"interval": 0}}
    with marl.Trainer("ppo", env="two_step_game", config=keys) as trainer:
        policy: Any = trainer.get_policy()
        batch = trainer.workers.collect(4).batch
        rows = batch.for_policy("default_policy")
        out = policy.model.from_batch(rows)
        chances = policy.action_distribution(rows)
        assert out.shape == (8, 3)
        np.testing.assert_allclose(chances.logp(rows["actions"]).numpy(), rows["action_logp"], atol=1e-5)
        assert (chances.entropy() > 0).all()
        assert set(chances.sample(np.random.default_rng(0)).tolist()) <= {0, 1}
        np.testing.assert_allclose(
            policy.value_function(rows).numpy(), out[:, -1].detach().numpy(), rtol=1e-5, atol=1e-7
        )
        np.testing.assert_allclose(
            trainer.value_function("default_policy", batch), policy.value_function(rows).numpy(), atol=1e-6
        )
        total = sum(p.numel() for p in policy.model.parameters())
        assert policy.model.summary().splitlines()[-1].split() == ["total", str(total)]


def test_a_value_policy_shows_its_action_values() -> None:
    with marl.Trainer(
        "dqn", env="two_step_game", config={"fcnet_hiddens": [8], "evaluation": {"interval": 0}}
    ) as trainer:
        policy: Any = trainer.get_policy()
        rows = trainer.workers.collect(4).batch.for_policy("default_policy")
        q, v = policy.q_values(rows), policy.state_value(rows)
        assert q.shape == (8, 2)
        torch.testing.assert_close(q.mean(1, keepdim=True), v)
        with pytest.raises(ConfigError, match=r"without a critic"):
            trainer.value_function("default_policy", trainer.workers.collect(1).batch)


def test_the_value_of_a_decision_in_sac_is_that_of_the_more_careful_critic() -> None:
    keys = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}}
    with marl.Trainer("sac", env="two_step_game", config=keys) as trainer:
        batch = trainer.workers.collect(4).batch
        (learner,) = trainer.learners
        pupil = learner.actor_critics["default_policy"]  # type: ignore[attr-defined]
        with torch.no_grad():
            rows = joint_rows(batch, "default_policy", pupil.view.visible, pupil.config.gamma)
            both = pupil.soft.chosen(pupil.critics, pupil.transitions(rows))
        values = trainer.value_function("default_policy", batch)
    assert both.shape == (2, 8)
    assert (both[0] != both[1]).any()
    assert values.tolist() == [min(pair) for pair in both.T.tolist()]


@pytest.mark.parametrize("algo", ["maddpg", "sac", "marwil", "mappo"])
def test_every_critic_can_be_asked_for_the_value_of_decisions(algo: str) -> None:
    keys = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}}
    with marl.Trainer(algo, env="two_step_game", config=keys) as trainer:
        batch = trainer.workers.collect(4).batch
        name = next(iter(trainer.policies))
        values = trainer.value_function(name, batch)
    assert values.shape == (len(batch.for_policy(name)),)
    assert np.isfinite(values).all()
    assert np.ptp(values) > 0


class Late(marl.Loss):
    """Knows its statistics only after it was asked."""

    def __call__(self, loss: Tensor, batch: Any) -> Tensor:
        self.size = float(loss.detach())
        return loss

    def stats(self) -> dict[str, float]:
        return {"size": self.size}


def test_statistics_of_a_custom_loss_are_asked_for_after_the_loss() -> None:
    marl.register_loss("late", Late)
    keys = {
        "custom_loss": "late", "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "learning_starts": 8,
        "updates_per_step": 0.1, "timesteps_per_iteration": 40, "train_batch_size": 8, "rollout_fragment_length": 10,
    }  # fmt: skip
    with marl.Trainer("td3", env="Pendulum-v1", config=keys) as trainer:  # the actor moves at every other update only
        stats = [trainer.train()["info"]["learner"]["default_policy"]["learner_stats"] for _ in range(2)]
    assert "size" in stats[-1]


def test_a_summary_tells_the_stages_of_a_model() -> None:
    model = body(use_lstm=True, observation_filter="MeanStdFilter", post_fcnet_hiddens=[4])
    assert model.summary().splitlines()[0] == (
        "3 features -> filter -> 8 tanh -> LSTM of 5 -> 4 relu -> 2 outputs; remembers 10 numbers"
    )


def test_a_fixed_key_says_which_algorithm_has_it() -> None:
    with pytest.raises(ConfigError, match=r"bc has beta 0\.0, not 1\.0\. Use algo marwil, or drop beta"):
        marl.Trainer("bc", env="CartPole-v1", config={"beta": 1.0})
