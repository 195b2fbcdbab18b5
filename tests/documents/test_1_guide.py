"""The scripts of the first document, a guide to RLlib's training, envs and models, in its order and in our API.

What had to be written differently, and why, is the table in ``docs/coming_from_rllib.md``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import Tensor, nn

import marl
from tests.command import marl as command
from tests.documents.parts import DQN, EPISODE_HOOKS, FLAGS, PG, PPO, MyEnv, Traffic, raise_phase, train

slow = pytest.mark.slow


def trained(tmp_path: Path, *options: object) -> Path:
    """Train by the command line; gives the run directory."""
    done = command("train", *options, *FLAGS, "--local-dir", tmp_path)
    assert done.code == 0, done.err
    return next(path.parent for path in tmp_path.rglob("result.json"))


SMALL_DQN = [word for key in ("timesteps_per_iteration", "learning_starts") for word in ("--set", f"{key}={DQN[key]}")]


def test_01_training_by_one_command_leaves_params_results_and_events(tmp_path: Path) -> None:
    directory = trained(tmp_path, "--run", "DQN", "--env", "CartPole-v1", *SMALL_DQN)
    assert json.loads((directory / "params.json").read_text())["algo"]["name"] == "dqn"
    assert len((directory / "result.json").read_text().splitlines()) == 1
    assert list(directory.glob("events.out.tfevents.*"))  # 02: tensorboard --logdir shows these


def test_03_help_names_the_options() -> None:
    done = command("train", "--help")
    assert done.code == 0
    for option in ("--run", "--env", "--checkpoint-freq", "--config"):
        assert option in done.out


def test_04_a_checkpoint_is_played_for_so_many_steps(tmp_path: Path) -> None:
    directory = trained(tmp_path, "--run", "DQN", "--env", "CartPole-v1", *SMALL_DQN)
    checkpoint = next((directory / "checkpoints").iterdir())
    done = command("rollout", checkpoint, "--steps", 50)
    assert done.code == 0, done.err
    assert "50 env steps" in done.out or "50 steps" in done.out, done.out


def test_05_keys_are_given_as_json(tmp_path: Path) -> None:
    keys = {"num_workers": 0, "num_envs_per_worker": 8, "train_batch_size": 64}
    directory = trained(tmp_path, "--env=CartPole-v1", "--run=A2C", "--config", json.dumps(keys))
    assert json.loads((directory / "params.json").read_text())["num_envs_per_worker"] == 8


def test_06_tuned_keys_come_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "tuned.yaml"
    file.write_text("env: CartPole-v1\nalgo: {name: pg, train_batch_size: 64}\nstop: {training_iteration: 1}\n")
    assert trained(tmp_path / "out", "-f", file).is_dir()


def test_07_a_trainer_trains_prints_and_saves(tmp_path: Path) -> None:
    config = {**PPO, "num_gpus": 0, "num_workers": 0}
    with marl.Trainer("PPO", env="CartPole-v1", config=config) as trainer:
        for i in range(2):
            result = trainer.train()
            assert "episode_reward_mean" in marl.pretty_print(result)
            if i % 100 == 0:
                checkpoint = trainer.save(tmp_path / "checkpoint")
        trainer.restore(checkpoint)
        assert trainer.iteration == 1


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_08_a_search_over_step_sizes_trains_every_one(tmp_path: Path) -> None:
    config = {**PPO, "env": "CartPole-v1", "num_gpus": 0, "lr": marl.tune.grid_search([0.01, 0.001, 0.0001])}
    stop = {"episode_reward_mean": 200, "training_iteration": 1}
    found = marl.tune.run("PPO", stop=stop, config=config, local_dir=tmp_path, verbose=0)
    assert [trial.config["lr"] for trial in found.trials] == [0.01, 0.001, 0.0001]
    assert all(trial.last_result["episode_reward_mean"] > 0 for trial in found.trials)


def test_09_weights_of_policies_are_reached_here_and_in_every_worker() -> None:
    with marl.Trainer("ppo", env="CartPole-v1", config={**PPO, "num_workers": 0}) as trainer:
        own = trainer.get_policy().get_weights()
        local = trainer.workers.local_worker().policy_map["default_policy"].get_weights()
        everywhere = trainer.workers.foreach_worker(lambda ev: ev.get_policy().get_weights())
        indexed = trainer.workers.foreach_worker_with_index(lambda ev, i: (i, ev.get_policy().get_weights()))
        for weights in (local, *everywhere, indexed[0][1]):
            assert all(np.array_equal(own[name], weights[name]) for name in own)


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_10_callbacks_and_metrics_of_ones_own_reach_the_trials(tmp_path: Path) -> None:
    config = {**PG, "env": "CartPole-v1", "callbacks": EPISODE_HOOKS}
    found = marl.tune.run("PG", config=config, stop={"training_iteration": 1}, local_dir=tmp_path, verbose=0)
    result = found.best_result
    assert 0 < result["custom_metrics"]["pole_angle_mean"] < 0.5
    assert result["told"] == ["Trainer", result["episodes_this_iter"]]


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_11_a_training_function_changes_the_env_between_iterations(tmp_path: Path) -> None:
    found = marl.tune.run(
        train,
        config={"num_gpus": 0, "num_workers": 0},
        stop={"training_iteration": 2},
        resources_per_trial={
            "cpu": 1,
            "gpu": lambda spec: spec.config.num_gpus,
            "extra_cpu": lambda spec: spec.config.num_workers,
        },
        metric="episode_reward_mean",
        local_dir=tmp_path,
        verbose=0,
    )
    first, second = found.trials[0].results
    assert first["phases"] == [1]
    assert second["episode_reward_mean"] > first["episode_reward_mean"]


def test_12_a_callback_changes_the_env_after_each_result() -> None:
    config = {**PPO, "callbacks": {"on_train_result": raise_phase}}
    with marl.Trainer("PPO", env=MyEnv, config=config) as trainer:
        assert trainer.train()["phase"] == 1
        assert trainer.workers.foreach_env(lambda env: env.unwrapped.phase) == [[1]]


@slow
def test_13_episodes_are_filmed_while_training(tmp_path: Path) -> None:
    directory = trained(
        tmp_path, "--env=CartPole-v1", "--run=A2C", "--config", '{"record_env": true, "train_batch_size": 64}'
    )
    assert list(directory.rglob("*.mp4")) or list(directory.rglob("*.gif"))


def test_14_traces_of_episodes_are_written(tmp_path: Path) -> None:
    keys = {**PPO, "output": str(tmp_path / "debug")}
    trained(tmp_path / "out", "--run=PPO", "--env=CartPole-v1", "--config", json.dumps(keys))
    assert list((tmp_path / "debug").iterdir())


def test_15_the_log_level_is_a_key(tmp_path: Path) -> None:
    assert trained(tmp_path, "--env=CartPole-v1", "--run=PG", "--config", json.dumps({**PG, "log_level": "DEBUG"}))


def test_16_a_gymnasium_class_that_takes_an_env_config_is_an_env() -> None:
    with marl.Trainer("ppo", env=MyEnv, config={**PPO, "env_config": {"size": 3}}) as trainer:
        assert trainer.train()["episode_len_mean"] == 4.0
        configs = trainer.workers.foreach_env(lambda env: dict(env.unwrapped.env_config))
        assert configs == [[{"size": 3}]]


def test_17_a_registered_name_is_an_env() -> None:
    marl.register_env("my_documented_env", lambda env_config: MyEnv(env_config))
    with marl.Trainer("ppo", env="my_documented_env", config=PPO) as trainer:
        assert trainer.train()["episode_len_mean"] == 4.0


def test_18_every_copy_knows_its_worker_and_its_number() -> None:
    seen = []

    class MultiEnv(MyEnv):
        def __init__(self, env_config: Any) -> None:
            seen.append((env_config.worker_index, env_config.vector_index))
            super().__init__(env_config)

    with marl.Trainer("ppo", env=MultiEnv, config={**PPO, "num_envs_per_worker": 3}) as trainer:
        trainer.train()
    assert {(0, 0), (0, 1), (0, 2)} <= set(seen)


def test_19_a_multi_agent_env_speaks_in_dicts_and_agents_come_and_go() -> None:
    env = Traffic()
    obs, _ = env.reset()
    assert set(obs) == {"car_1", "car_2", "traffic_light_1"}
    obs, rewards, _, _, _ = env.step({"car_1": 2, "car_2": 1, "traffic_light_1": 0})
    assert rewards == {"car_1": 2.0, "car_2": 1.0, "traffic_light_1": 0.0}
    assert set(obs) == {"car_1", "car_2"}
    *_, terminated, truncated, _ = env.step({"car_1": 0, "car_2": 0})
    assert terminated == {"car_2": True, "__all__": False}
    assert truncated == {"__all__": False}
    assert marl.check_env(Traffic) == []


def test_20_policies_with_keys_of_their_own_are_drawn_for_cars() -> None:
    env = Traffic()
    car = env.observation_space("car_1"), env.action_space("car_1")
    light = env.observation_space("traffic_light_1"), env.action_space("traffic_light_1")
    config = {
        **PG,
        "multiagent": {
            "policies": {
                "car1": (None, *car, {"gamma": 0.85}),
                "car2": (None, *car, {"gamma": 0.99}),
                "traffic_light": (None, *light, {}),
            },
            "policy_mapping_fn": lambda agent_id, episode: (
                "traffic_light" if agent_id.startswith("traffic_light_") else str(episode.rng.choice(["car1", "car2"]))
            ),
        },
    }
    with marl.Trainer("PG", env=Traffic, config=config) as trainer:
        assert set(trainer.train()["policy_reward_mean"]) == {"car1", "car2", "traffic_light"}
        gammas = {name: role.config.gamma for name, role in trainer.setup.roles.items()}
        assert gammas == {"car1": 0.85, "car2": 0.99, "traffic_light": 0.99}


def test_21_levels_are_policies_and_one_of_them_learns_alone() -> None:
    """Agents ``low_level_*``, ``mid_level_*`` and ``top_level``: the names of the env decide who is who."""
    base = marl.make_multi_agent("CartPole-v1")
    names = {"agent_0": "top_level", "agent_1": "mid_level", "agent_2": "low_level"}
    config = {
        **PG,
        "env_config": {"num_agents": 3},
        "multiagent": {
            "policies": {"top_level": (None, None, None, {}), "mid_level": {}, "low_level": {}},
            "policy_mapping_fn": lambda agent_id: names[agent_id],
            "policies_to_train": ["top_level"],
        },
    }
    with marl.Trainer("pg", env=base, config=config) as trainer:
        before = trainer.get_weights()
        trainer.train()
        after = trainer.get_weights()
        changed = {name for name in before if any((before[name][k] != after[name][k]).any() for k in before[name])}
        assert changed == {"top_level"}


def test_22_policies_share_layers_by_a_name() -> None:
    config = {
        **PG,
        "env_config": {"num_agents": 2},
        "policies": {"a": {}, "b": {}},
        "policy_mapping_fn": {"agent_0": "a", "agent_1": "b"},
        "shared": {"encoder": "trunk"},
    }
    with marl.Trainer("pg", env=marl.make_multi_agent("CartPole-v1"), config=config) as trainer:
        a, b = (dict(trainer.get_policy(name).named_parameters()) for name in "ab")
        assert any(a[name] is b[name] for name in a)


class Pixels(gym.ObservationWrapper[Any, Any, Any]):
    """42 x 42 x 3 pixels that hold the number of ``MyEnv``."""

    def __init__(self, env_config: Any) -> None:
        super().__init__(MyEnv(env_config))
        self.observation_space = gym.spaces.Box(0, 255, (42, 42, 3), np.uint8)

    def observation(self, observation: Any) -> Any:
        return np.full((42, 42, 3), 60 * int(observation[0]), np.uint8)


def test_23_filters_as_the_document_writes_them_end_with_one_pixel() -> None:
    model = {"dim": 42, "conv_filters": [[16, [4, 4], 2], [32, [4, 4], 2], [512, [11, 11], 1]]}
    config = {**PPO, "num_sgd_iter": 1, "model": {**model, "fcnet_hiddens": [8]}}
    config.pop("fcnet_hiddens")
    with marl.Trainer("ppo", env=lambda config: Pixels(config), config=config) as trainer:
        vision = trainer.get_policy().model.vision  # type: ignore[union-attr]
        assert vision.sides == [(42, 42), (21, 21), (11, 11), (1, 1)]
        assert vision.size == 512
        trainer.train()


def test_24_the_documented_defaults_of_models_are_keys_of_ours() -> None:
    from marl.policies.config import ModelConfig

    assert ModelConfig().model_dump() | {
        "conv_filters": None, "conv_activation": "relu", "fcnet_activation": "tanh", "fcnet_hiddens": [256, 256],
        "free_log_std": False, "use_lstm": False, "max_seq_len": 20, "lstm_cell_size": 256, "grayscale": False,
        "custom_preprocessor": None, "custom_model": None, "custom_model_config": {},
    } == ModelConfig().model_dump()  # fmt: skip


class MyModel(marl.Model):
    """Two layers, with an option."""

    def __init__(self, inputs: int, outputs: int, config: Any) -> None:
        super().__init__(inputs, outputs, config)
        self.layers = nn.Sequential(nn.Linear(inputs, config["width"]), nn.Tanh(), nn.Linear(config["width"], outputs))

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.layers(features), carry


class MyLoss(marl.Loss):
    """The loss as it is, and a number of its own."""

    def __call__(self, loss: Tensor, batch: Any) -> Tensor:
        self.rows = len(batch["actions"])
        return loss

    def stats(self) -> dict[str, float]:
        return {"rows": float(self.rows)}


def test_25_a_model_with_a_loss_and_stats_of_its_own_trains() -> None:
    marl.register_model("my_documented_model", MyModel)
    marl.register_loss("my_documented_loss", MyLoss)
    model = {"custom_model": "my_documented_model", "custom_model_config": {"width": 5}, "vf_share_layers": True}
    config = {"train_batch_size": 64, "sgd_minibatch_size": 64, "custom_loss": "my_documented_loss", "model": model}
    with marl.Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        stats = trainer.train()["info"]["learner"]["default_policy"]
        assert 64.0 in stats.values() or 64.0 in stats["learner_stats"].values()
        assert trainer.get_policy().get_weights()["model.network.layers.0.weight"].shape == (5, 4)


class MyCustomLSTM(marl.Model):
    """Layers, then a cell of torch's own, whose two parts are the carry."""

    def __init__(self, inputs: int, outputs: int, config: Any) -> None:
        super().__init__(inputs, outputs, config)
        self.before = nn.Linear(inputs, 6)
        self.cell = nn.LSTMCell(6, 4)
        self.after = nn.Linear(4, outputs)
        self.carry_size = 8

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        hidden, cell = self.cell(torch.tanh(self.before(features)), (carry[:, :4], carry[:, 4:]))
        return self.after(hidden), torch.cat([hidden, cell], dim=1)


def test_26_a_recurrent_model_of_ones_own_trains_and_remembers() -> None:
    marl.register_model("my_documented_lstm", MyCustomLSTM)
    config = {"train_batch_size": 64, "sgd_minibatch_size": 64, "model": {"custom_model": "my_documented_lstm"}}
    with marl.Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        trainer.train()
        _, state, _ = trainer.compute_action(np.ones(4), full_fetch=True)  # type: ignore[misc]
        assert state.shape == (8,)
        assert np.abs(state).sum() > 0


class MyPreprocessor(marl.Preprocessor):
    """The first two numbers alone."""

    def __init__(self, space: Any, config: Any) -> None:
        super().__init__(space, config)
        self.size = 2

    def forward(self, obs: Tensor) -> Tensor:
        return obs[:, :2].float()


def test_27_a_preprocessor_of_ones_own_decides_what_the_network_sees() -> None:
    marl.register_preprocessor("my_documented_prep", MyPreprocessor)
    config = {**PPO, "model": {"custom_preprocessor": "my_documented_prep", "fcnet_hiddens": [8]}}
    config.pop("fcnet_hiddens")
    with marl.Trainer("ppo", env="CartPole-v1", config=config) as trainer:
        trainer.train()
        shapes = [tuple(weight.shape) for weight in trainer.get_policy().get_weights().values()]
        assert (8, 2) in shapes
