"""The scripts of the third document, a report on RLlib's basics, callbacks, exploration and the two-step game.

What it repeats of the first two documents (commands, rollouts, a search over step sizes) is tested there.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import marl
from marl.testing import check_learning_achieved
from tests.documents.parts import DQN, PG, PPO, MyCallbacks, MyEnv, Traffic, raise_phase, train

X = np.array([[0.1, 0.2, 0.3, 0.4]])


def test_01_the_sample_batch_of_an_agent_has_the_documented_columns() -> None:
    """``dones`` is told apart: terminateds and truncateds."""
    with marl.Trainer("pg", env=Traffic, config={**PG, "keep_infos": True}) as trainer:
        batch = trainer.workers.collect(12).batch
        for agent in ("car_1", "car_2", "traffic_light_1"):
            rows = batch.for_agent(agent)
            assert {
                "action_logp",
                "actions",
                "terminateds",
                "truncateds",
                "infos",
                "new_obs",
                "obs",
                "rewards",
                "t",
            } <= set(rows)
            assert rows["infos"].dtype == object
        assert "mean" in rows.summarize()


def test_02_one_line_of_a_result_has_the_documented_fields(tmp_path: Path) -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config=DQN, directory=tmp_path) as trainer:
        trainer.train()
        line = json.loads((tmp_path / "result.json").read_text())
        table = (tmp_path / "progress.csv").read_text().splitlines()
    fields = {
        "episode_reward_max", "episode_reward_min", "episode_reward_mean", "episode_len_mean", "episodes_this_iter",
        "policy_reward_min", "policy_reward_max", "policy_reward_mean", "custom_metrics", "hist_stats", "sampler_perf",
        "num_healthy_workers", "timesteps_total", "timesteps_this_iter", "agent_timesteps_total", "timers", "info", "done",
        "episodes_total", "training_iteration", "trial_id", "experiment_id", "date", "timestamp", "time_this_iter_s",
        "time_total_s", "pid", "hostname", "node_ip", "config",
    }  # fmt: skip
    assert fields <= set(line)
    assert set(line["hist_stats"]) >= {"episode_reward", "episode_lengths"}
    assert line["config"]["env"] == "CartPole-v1"
    assert "episode_reward_mean" in table[0]


def test_03_weights_are_exported_and_imported(tmp_path: Path) -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        trainer.train()
        trainer.export_model(tmp_path / "my_weights")
        before = trainer.get_policy().get_weights()
    with marl.Trainer("ppo", env="CartPole-v1", config={**PPO, "seed": 5}) as other:
        other.import_model(tmp_path / "my_weights")
        after = other.get_policy().get_weights()
    assert all(np.array_equal(before[name], after[name]) for name in before)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_04_a_registered_env_is_searched_over(tmp_path: Path) -> None:
    marl.register_env("my_reported_env", lambda config: MyEnv(config))
    keys = {**DQN, "env": "my_reported_env", "buffer_size": 10000, "train_batch_size": 16, "lr": 1e-4}
    found = marl.tune.run("DQN", stop={"training_iteration": 1}, config=keys, local_dir=tmp_path, verbose=0)
    assert [trial.status for trial in found.trials] == ["TERMINATED"], found.trials[0].error


def test_05_an_episode_is_played_action_by_action() -> None:
    with marl.Trainer("ppo", env=lambda config: MyEnv(config), config=PPO) as agent:
        env, done, episode_reward = MyEnv(), False, 0.0
        obs, _ = env.reset()
        while not done:
            action = agent.compute_action(obs)
            obs, reward, terminated, truncated, _ = env.step(action)
            done = terminated or truncated
            episode_reward += reward
    assert 0.0 <= episode_reward <= 4.0


def test_06_an_action_takes_state_action_reward_info_and_policy_by_position() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config={**PPO, "use_lstm": True, "lstm_cell_size": 4}) as trainer:
        action, state, extra = trainer.compute_action(X[0], [], None, None, {}, "default_policy", True)  # type: ignore[misc]
        assert trainer.compute_action(X[0], state, action, 1.0, {}) in (0, 1)
        assert set(extra) == {"action_logp"}


def test_07_the_network_of_a_policy_is_fed_a_minibatch_of_one() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        policy: Any = trainer.get_policy()
        logits = policy.model.from_batch({"obs": X})
        dist = policy.action_distribution({"obs": X})
        action = dist.sample()
        assert logits.shape == (1, 2)
        assert action.shape == (1,)
        torch.testing.assert_close(dist.logp(action), logits.log_softmax(1)[:, action[0]])
        assert trainer.value_function("default_policy", {"obs": X}).shape == (1,)
        assert policy.model.summary().splitlines()[-1].startswith("total")


def test_08_action_values_of_dqn_are_asked_for() -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config={**DQN, "num_atoms": 5, "v_min": 0, "v_max": 10}) as trainer:
        policy: Any = trainer.get_policy()
        chances = policy.q_value_distributions({"obs": X})
        assert chances.shape == (1, 2, 5)
        torch.testing.assert_close(policy.q_values({"obs": X}), (chances * policy.support).sum(-1))
        assert policy.state_value({"obs": X}).shape == (1, 1)


def test_09_a_class_of_callbacks_sees_every_turning_point() -> None:
    config = {**PG, "num_envs_per_worker": 2, "callbacks": MyCallbacks}
    with marl.Trainer("PG", env="CartPole-v1", config=config) as trainer:
        result = trainer.train()
    assert result["callback_ok"]
    assert result["custom_metrics"]["num_batches_mean"] >= 1
    assert len(result["hist_stats"]["pole_angles"]) > 10
    stats = result["info"]["learner"]["default_policy"]
    assert "sum_actions_in_train_batch" in {**stats, **stats.get("learner_stats", {})}


@pytest.mark.parametrize(
    ("algo", "explore"),
    [
        ("dqn", {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 0.02, "epsilon_timesteps": 10000}),
        ("pg", {"type": "StochasticSampling", "random_timesteps": 0}),
    ],
)
def test_10_exploration_is_chosen_by_its_type(algo: str, explore: dict[str, Any]) -> None:
    keys = {"dqn": DQN, "pg": PG}[algo]
    config = {**keys, "explore": True, "exploration_config": explore}
    with marl.Trainer(algo, env="CartPole-v1", config=config) as trainer:
        trainer.train()
        exploration = trainer.get_policy().exploration
        assert exploration.initial == 1.0


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_11_a_training_function_with_bundles_of_resources(tmp_path: Path) -> None:
    num_gpus, num_workers = 0, 0
    bundles = [{"CPU": 1}, {"GPU": num_gpus}] + [{"CPU": 1}] * num_workers
    found = marl.tune.run(
        train,
        config={"num_gpus": num_gpus, "num_workers": num_workers},
        stop={"training_iteration": 1},
        resources_per_trial=bundles,
        metric="episode_reward_mean",
        local_dir=tmp_path,
        verbose=0,
    )
    assert found.trials[0].results[0]["phases"] == [1]


def test_12_the_curriculum_as_a_dict_of_callbacks_with_a_lower_case_name() -> None:
    config = {**PPO, "callbacks": {"on_train_result": raise_phase}}
    with marl.Trainer("ppo", env=lambda config: MyEnv(config), config=config) as trainer:
        assert trainer.train()["phase"] == 1


def test_13_the_two_step_game_shows_state_and_agent_in_both_encodings() -> None:
    env = marl.make_env("two_step_game")
    obs, _ = env.reset()
    assert [list(row) for row in obs.values()] == [[1, 0, 0, 1], [1, 0, 0, 2]]
    plain = marl.make_env("two_step_game", {"one_hot_state_encoding": False})
    assert list(plain.reset()[0].values()) == [0, 3]
    beside = marl.make_env("two_step_game", {"separate_state_space": True})
    first = next(iter(beside.reset()[0].values()))
    assert set(first) == {"obs", marl.ENV_STATE}


def test_14_rewards_of_the_two_step_game_are_halves() -> None:
    env = marl.make_env("two_step_game")
    obs, _ = env.reset()
    agents = list(obs)
    env.step(dict.fromkeys(agents, 1))
    _, rewards, *_ = env.step(dict.fromkeys(agents, 1))
    assert rewards == dict.fromkeys(agents, 4.0)


MADDPG: dict[str, Any] = {
    "learning_starts": 100,
    "fcnet_hiddens": [8],
    "timesteps_per_iteration": 128,
    "env_config": {"actions_are_logits": True},
    "evaluation": {"interval": 0},
    "multiagent": {
        "policies": {"pol1": (None, None, None, {}), "pol2": (None, None, None, {})},
        "policy_mapping_fn": {"agent_0": "pol1", "agent_1": "pol2"},
    },
}


def test_15_maddpg_plays_the_two_step_game_with_a_policy_each() -> None:
    with marl.Trainer("maddpg", env="two_step_game", config=MADDPG) as trainer:
        assert set(trainer.train()["policy_reward_mean"]) == {"pol1", "pol2"}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_16_a_search_with_maddpg_is_checked_for_what_it_learned(tmp_path: Path) -> None:
    stop = {"episode_reward_mean": 100.0, "timesteps_total": 100}
    config = {**MADDPG, "env": "two_step_game"}
    results = marl.tune.run("MADDPG", stop=stop, config=config, verbose=0, local_dir=tmp_path)
    assert check_learning_achieved(results, 0.0) >= 0.0
    with pytest.raises(marl.errors.GoalMissedError, match="expected at least 100"):
        check_learning_achieved(results, 100.0)
