"""Recurrent policies: what is learned from is what was played, memory by memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import marl
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.qmix.learner import QmixLearner
from marl.data.batch import SampleBatch
from marl.data.sequences import Chunks, in_sequences, rows_of, unpadded
from marl.errors import ConfigError
from marl.training.rounds import collect_and_learn

MEMORY = {
    "use_lstm": True,
    "lstm_cell_size": 6,
    "fcnet_hiddens": [8],
    "lstm_use_prev_action": True,
    "lstm_use_prev_reward": True,
}
ATTENTION = {
    "use_attention": True, "attention_dim": 6, "attention_head_dim": 4, "attention_memory_inference": 5, "fcnet_hiddens": [8],
    "attention_num_transformer_units": 2, "attention_use_n_prev_actions": 2, "attention_use_n_prev_rewards": 2,
}  # fmt: skip
MEMORIES = pytest.mark.parametrize("memory", [MEMORY, ATTENTION], ids=["lstm", "attention"])
FEW = {"evaluation": {"interval": 0}, "rollout_fragment_length": 7, "num_envs_per_worker": 3}


def rows(stream: list[int], t: list[int], ended: list[int], eps_id: list[int] | None = None) -> SampleBatch:
    count = len(stream)
    return SampleBatch(
        {
            "stream": np.array(stream), "t": np.array(t), "ended": np.array(ended, bool), "elapsed": np.ones(count, int),
            "eps_id": np.array(eps_id or [0] * count), "x": np.arange(count), "carry.0": np.arange(count)[:, None],
        }
    )  # fmt: skip


def test_sequences_end_with_lives_gaps_and_their_longest_length() -> None:
    given = rows([0, 1, 0, 1, 0, 0, 1, 0], [0, 0, 1, 1, 2, 3, 3, 4], [0, 0, 0, 0, 0, 1, 0, 0])
    order, lengths = in_sequences(given, given["ended"], longest=3)
    assert order.tolist() == [0, 2, 4, 5, 7, 1, 3, 6]
    # Stream 0: three rows are the longest, then the row with which a life ended, then the next life. Stream 1: a gap at t = 2.
    assert lengths.tolist() == [3, 1, 1, 2, 1]
    assert rows_of(lengths, np.array([3, 0])).tolist() == [5, 6, 0, 1, 2]


def test_chunks_are_put_together_over_fragments_and_padded() -> None:
    chunks = Chunks(3)
    assert chunks.add(rows([0, 1], [0, 0], [0, 0])) is None
    again = Chunks(3)
    again.load_state_dict(chunks.state_dict())  # while rows are waiting
    found, found_again = (each.add(rows([0, 1, 0], [1, 1, 2], [0, 1, 0])) for each in (chunks, again))
    assert found is not None
    assert found_again is not None
    assert {name: column.tolist() for name, column in found_again.items()} == {
        name: column.tolist() for name, column in found.items()
    }
    assert found["mask"].tolist() == [[True, True, True], [True, True, False]]
    assert found["x"].tolist() == [[0, 0, 2], [1, 1, 0]]
    assert found["carry.0"].tolist() == [[0], [1]]  # of the first row alone
    assert unpadded(found)["x"].tolist() == [0, 0, 2, 1, 1]


@MEMORIES
@pytest.mark.parametrize("env", ["two_step_game", "traffic"])
def test_the_first_ratio_of_a_recurrent_ppo_is_one_everywhere(env: str, memory: dict[str, Any]) -> None:
    """The log probabilities that learning computes over sequences are those of acting, step by step."""
    with marl.Trainer("ppo", env=env, config={**memory, **FEW, "train_batch_size": 1000, "max_seq_len": 4}) as trainer:
        for _ in range(3):  # sequences go on over fragments
            collect_and_learn(trainer)
        for learner in trainer.learners:
            assert isinstance(learner, CentralCriticLearner)
            for name in learner.policies:
                lesson = learner._train_batch(name, SampleBatch.concat_samples(learner.gathered[name]))
                part = lesson.whole()
                assert part.sequences is not None
                assert int(part.sequences.lengths.max()) > 1
                params, _ = learner.actors[name](
                    part.data["obs"], part.data["agent_index"], part.data["legal"], part.sequences
                )
                logp = learner.actors[name].distribution.logp(params, part.data["actions"])
                np.testing.assert_allclose(logp.detach(), part.data["action_logp"], atol=1e-4)


@MEMORIES
def test_recurrent_values_over_time_are_those_of_acting(memory: dict[str, Any]) -> None:
    """QMIX's values over sequences choose what the greedy policy played."""
    keys = {
        **memory, **FEW, "max_seq_len": 3, "learning_starts": 10**6, "env": "traffic",
        "exploration_config": {"type": "EpsilonGreedy", "initial_epsilon": 0.0, "final_epsilon": 0.0},
        "multiagent": {"groups": {"lights": ["traffic_light_*"]}, "policies": {"light": {}, "car": {"algo": "dqn"}},
                       "policy_mapping_fn": {"traffic_light_*": "light", "car_*": "car"}},
    }  # fmt: skip
    with marl.Trainer("qmix", config=keys) as trainer:
        for _ in range(6):
            collect_and_learn(trainer)
        seen = 0
        for learner in trainer.learners:
            assert isinstance(learner, QmixLearner)
            for team in learner.teams:
                drawn = team.replay.sample(20, np.random.default_rng(0), 1, 0.99)
                flat = unpadded(drawn)
                values, _ = learner.members.over_time(drawn, learner.values)
                for k, q in values.items():
                    present = flat["present"][:, : q.shape[1]].astype(bool)
                    legal = torch.from_numpy(flat[f"legal.{k}"])
                    best = (q.masked_fill(~legal, -1e9) if legal.shape[-1] else q).argmax(-1).numpy()
                    assert (best == flat[f"actions.{k}"])[present].all()
                    seen += int(present.sum())
        assert seen > 50


def test_chunks_of_dqn_begin_with_as_much_memory_as_attention_trains_with() -> None:
    keys = {**ATTENTION, **FEW, "max_seq_len": 3, "learning_starts": 10**6, "env": "CartPole-v1"}
    values = []
    for training in (50, 1, 0):
        with marl.Trainer("dqn", config={**keys, "attention_memory_training": training}) as trainer:
            for _ in range(4):
                collect_and_learn(trainer)
            learner = trainer.learners[0]
            assert isinstance(learner, QmixLearner)
            drawn = learner.teams[0].replay.sample(30, np.random.default_rng(0), 1, 0.99)
            with torch.no_grad():
                values.append(learner.members.over_time(drawn, learner.values)[0][0][:, 0])
    first = np.cumsum(drawn["mask"].sum(1)) - drawn["mask"].sum(1)
    remembered = drawn["carry.0"][:, 0, 0]
    differs = (values[0] != values[2]).any(1).numpy()[first]
    assert (differs == (remembered > 0)).all()  # a life that begins with the chunk has nothing to forget
    assert (values[1] != values[2]).any()


@MEMORIES
def test_a_life_that_was_cut_off_is_valued_with_its_memory(memory: dict[str, Any]) -> None:
    keys = {**memory, **FEW, "max_seq_len": 3, "learning_starts": 10**6, "horizon": 5, "env": "CartPole-v1"}
    with marl.Trainer("dqn", config=keys) as trainer:
        for _ in range(4):
            collect_and_learn(trainer)
        learner = trainer.learners[0]
        assert isinstance(learner, QmixLearner)
        (team,), (policy,) = learner.teams, learner.values.values()
        drawn = team.replay.sample(40, np.random.default_rng(0), 1, 0.99)
        flat = unpadded(drawn)
        with torch.no_grad():
            _, after = learner.members.over_time(drawn, learner.values)
        cut = np.flatnonzero(flat["ended"] & ~flat["terminateds"])
        assert cut.size
        rows_before = np.cumsum(drawn["mask"].sum(1)) - drawn["mask"].sum(1)
        for row in cut[:5].tolist():  # step by step from the carry with which the sequence began
            chunk = int(np.searchsorted(rows_before, row, side="right") - 1)
            carry = torch.from_numpy(drawn["carry.0"][chunk])
            for at in range(int(rows_before[chunk]), row + 1):
                obs, index = torch.from_numpy(flat["obs.0"][at]), torch.from_numpy(flat["agent_index.0"][at])
                with torch.no_grad():
                    _, after_it = policy.step(obs, index, carry)
                    taken, paid = torch.from_numpy(flat["actions.0"][at]), torch.from_numpy(flat["member_rewards"][at])
                    carry = policy.model.carried(after_it, taken, paid)
            with torch.no_grad():
                value, _ = policy.step(torch.from_numpy(flat["new_obs.0"][row]), index, carry)
            torch.testing.assert_close(after[0][row], value)


@pytest.mark.parametrize(
    ("algo", "more"),
    [
        ("ppo", ATTENTION),
        ("qmix", ATTENTION),
        ("ppo", {}),
        ("mappo", {}),
        ("qmix", {}),
        ("dqn", {"dueling": False}),
        ("impala", {}),
    ],
)
@pytest.mark.slow
def test_a_recurrent_run_that_was_restored_goes_on_bit_for_bit(algo: str, more: dict[str, Any], tmp_path: Any) -> None:
    keys = {
        **(more if more == ATTENTION else {**MEMORY, **more}), **FEW, "env": "two_step_game", "max_seq_len": 4, "train_batch_size": 21, "timesteps_per_iteration": 21,
        **({"learning_starts": 20} if algo in ("qmix", "dqn") else {"num_workers": 0}),
    }  # fmt: skip
    with marl.Trainer(algo, config=keys) as trainer:
        for _ in range(3):
            trainer.train()
        saved = trainer.save(tmp_path / "here")
        for _ in range(3):
            trainer.train()
        expected = trainer.get_weights()
    with marl.Trainer(algo, config=keys) as again:
        again.restore(saved)
        for _ in range(3):
            again.train()
        found = again.get_weights()
    for name, arrays in expected.items():
        for part, array in arrays.items():
            np.testing.assert_array_equal(array, found[name][part], err_msg=f"{name} {part}")


def test_n_step_targets_of_sequences_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"n_step: 1"):
        marl.Trainer("dqn", env="two_step_game", config={"use_gru": True, "n_step": 3})


@pytest.mark.parametrize("algo", ["sac", "nfsp", "ddpg", "td3", "maddpg", "marwil", "bc", "rainbow", "q_learning"])
@pytest.mark.parametrize("key", ["use_lstm", "use_attention"])
def test_who_cannot_remember_names_the_key_that_asks_for_it(algo: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?i)\bdrop (num_atoms or )?{key}\b"):
        marl.Trainer(algo, env="two_step_game", config={key: True})


def test_compute_action_hands_the_memory_on() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config={**MEMORY, "evaluation": {"interval": 0}}) as trainer:
        obs = np.zeros(4, np.float32)
        _, state, extra = trainer.compute_action(obs, full_fetch=True)  # type: ignore[misc]
        assert state.shape == (2 * 6 + 2 + 1,)
        assert extra["action_logp"] <= 0
        _, after, _ = trainer.compute_action(obs, state=state, prev_reward=1.0, full_fetch=True)  # type: ignore[misc]
        _, other, _ = trainer.compute_action(obs, state=state, prev_reward=5.0, full_fetch=True)  # type: ignore[misc]
        assert not np.array_equal(after, other)
        with pytest.raises(ConfigError, match=r"remembers 15"):
            trainer.compute_action(obs, state=np.zeros(3))


# -- custom losses and the magnet ------------------------------------------------------------------------------------


class Downwards(marl.Loss):
    """Draws the policy towards action 0 and counts how often it was asked."""

    calls = 0

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        self.calls += 1
        actor: Any = self.policy
        params, _ = actor(batch["obs"], batch["agent_index"], batch["legal"])
        return loss * 0 - params.log_softmax(1)[:, 0].mean()

    def stats(self) -> dict[str, float]:
        return {"asked": float(self.calls)}


def test_a_custom_loss_is_minimised_and_its_statistics_are_reported() -> None:
    marl.register_loss("downwards", Downwards)
    keys = {
        "custom_loss": "downwards",
        "fcnet_hiddens": [8],
        "train_batch_size": 64,
        "lr": 0.02,
        "evaluation": {"interval": 0},
    }
    with marl.Trainer(
        "ppo",
        env="matrix_game",
        config={"env_config": {"game": "rock_paper_scissors"}, **keys, "sgd_minibatch_size": 32},
    ) as trainer:
        for _ in range(4):
            result = trainer.train()
        name = next(iter(trainer.policies))
        rows_ = trainer.workers.collect(8).batch.for_policy(name)
        policy: Any = trainer.policies[name]
        chance = policy.action_distribution(rows_).params.softmax(1)[:, 0]
    assert chance.min() > 0.9
    assert result["info"]["learner"][name]["learner_stats"]["asked"] > 0


def test_the_magnet_moves_by_its_share_and_holds_the_policy_back() -> None:
    keys = {
        "fcnet_hiddens": [8],
        "train_batch_size": 64,
        "lr": 0.01,
        "evaluation": {"interval": 0},
        "env": "matrix_game",
        "env_config": {"game": "rock_paper_scissors"},
    }
    moved = {}
    for coeff, magnet in ((0.0, {}), (5.0, {"magnet_coeff": 5.0, "magnet_tau": 0.1})):
        with marl.Trainer("ppo", config={**keys, **magnet}) as trainer:
            learner = trainer.learners[0]
            assert isinstance(learner, CentralCriticLearner)
            name = next(iter(learner.policies))
            start = trainer.get_weights()[name]
            trainer.train()
            after = trainer.get_weights()[name]
            moved[coeff] = sum(float(np.abs(after[p] - start[p]).sum()) for p in start if "weights" in p)
            if coeff:
                magnet = learner.magnets[name].copy.get_weights()
                part = "model.network.weights.0"
                np.testing.assert_allclose(magnet[part], start[part] + 0.1 * (after[part] - start[part]), atol=1e-6)
    assert moved[5.0] < moved[0.0]


def test_a_box_space_is_needed_to_keep_entries() -> None:
    with pytest.raises(ConfigError, match=r"keep_entries needs Box observations"):
        marl.Trainer("ppo", env="two_step_game", config={"wrappers": [{"keep_entries": {"entries": [0]}}]})
    with pytest.raises(ConfigError, match=r"places from 0 to 3"):
        marl.Trainer("ppo", env="CartPole-v1", config={"wrappers": [{"keep_entries": {"entries": [0, 9]}}]})
    with marl.Trainer(
        "ppo", env="CartPole-v1", config={"wrappers": [{"keep_entries": {"entries": [0, 2]}}]}
    ) as trainer:
        assert trainer.setup.task.kinds[0].obs_width == 2


class Counted(marl.Loss):
    """Leaves the loss as it is and counts."""

    calls = 0

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        assert len(next(iter(batch.values()))) > 0
        self.calls += 1
        return loss

    def stats(self) -> dict[str, float]:
        return {"counted": float(self.calls)}


@pytest.mark.parametrize("algo", ["pg", "ppo", "impala", "dqn", "qmix", "maddpg", "td3", "sac", "nfsp", "marwil", "bc"])
def test_every_algorithm_with_gradients_asks_the_custom_loss(algo: str) -> None:
    marl.register_loss("counted", Counted)
    keys: dict[str, Any] = {
        "custom_loss": "counted",
        "fcnet_hiddens": [8],
        "evaluation": {"interval": 0},
        "train_batch_size": 16,
    }
    if algo in ("dqn", "qmix", "maddpg", "td3", "sac", "nfsp"):
        keys["learning_starts"] = 8
    with marl.Trainer(algo, env="two_step_game", config={**keys, "timesteps_per_iteration": 64}) as trainer:
        result = trainer.train()
    stats = next(iter(result["info"]["learner"].values()))["learner_stats"]
    assert stats["counted"] > 0


class Kept(marl.Loss):
    """Leaves the loss as it is and keeps the batch."""

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        self.batch = batch
        return loss


@pytest.mark.parametrize("memory", [{}, MEMORY])
def test_a_custom_loss_of_a_team_of_one_is_shown_single_decisions_by_plain_names(memory: dict[str, Any]) -> None:
    marl.register_loss("kept", Kept)
    keys = {
        **FEW,
        "fcnet_hiddens": [8],
        **memory,
        "custom_loss": "kept",
        "learning_starts": 10**6,
        "env": "two_step_game",
    }
    with marl.Trainer("dqn", config=keys) as trainer:
        for _ in range(4):
            collect_and_learn(trainer)
        learner = trainer.learners[0]
        assert isinstance(learner, QmixLearner)
        (team,), (custom,) = learner.teams, learner.custom.values()
        assert isinstance(custom, Kept)
        ((minibatch,),) = learner.drawing.draw([team], 1, np.random.default_rng(0), learner.learner_group)
        given = minibatch.rows()
        learner._learn_from(minibatch)
        for name in ("obs", "actions", "legal", "agent_index", "new_obs", "new_legal"):
            np.testing.assert_array_equal(custom.batch[name], given[f"{name}.0"][:, 0], err_msg=name)
        np.testing.assert_array_equal(custom.batch["rewards"], given["rewards"])
        assert {len(column) for column in custom.batch.values()} == {len(given)}


def test_only_the_losses_of_policies_that_are_trained_are_asked() -> None:
    marl.register_loss("counted", Counted)
    keys = {
        "custom_loss": "counted", "fcnet_hiddens": [8], **FEW, "train_batch_size": 16, "learning_starts": 8,
        "policies": {"a": {}, "b": {}}, "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"}, "policies_to_train": ["a"],
    }  # fmt: skip
    for algo in ("qmix", "dqn"):
        with marl.Trainer(algo, env="two_step_game", config={**keys, "timesteps_per_iteration": 64}) as trainer:
            trainer.train()
            calls = {name: c.calls for x in trainer.learners for name, c in x.custom.items()}  # type: ignore[attr-defined]
        assert calls["a"] > 0
        assert calls["b"] == 0


class Curious(marl.Loss):
    """Asks for a column that a mixed team does not have, or for a setting that it was not given."""

    def __call__(self, loss: Tensor, batch: Mapping[str, Tensor]) -> Tensor:
        return loss + batch[self.config["column"]].sum()


def test_a_column_that_a_mixed_team_does_not_have_is_answered_with_those_it_has() -> None:
    marl.register_loss("curious", Curious)
    keys = {
        "custom_loss": "curious", "custom_loss_config": {"column": "obs"}, "fcnet_hiddens": [8], **FEW, "learning_starts": 8,
        "timesteps_per_iteration": 64,
    }  # fmt: skip
    with (
        marl.Trainer("qmix", env="two_step_game", config=keys) as trainer,
        pytest.raises(
            ConfigError, match=r"Curious asked for the column 'obs'.*There are actions\.0.*, obs\.0, .*present"
        ),
    ):
        trainer.train()
    with (
        marl.Trainer("qmix", env="two_step_game", config={**keys, "custom_loss_config": {}}) as trainer,
        pytest.raises(ConfigError, match=r"custom loss Curious failed: KeyError: 'column'"),  # the user's own mistake
    ):
        trainer.train()


def test_evolution_refuses_a_custom_loss() -> None:
    with pytest.raises(ConfigError, match=r"custom_loss: counted means nothing here: es has no loss. Drop custom_loss"):
        marl.Trainer("es", env="two_step_game", config={"custom_loss": "counted"})
