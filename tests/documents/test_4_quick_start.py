"""The scripts of the fourth document, JoyRL's quick start, in its order and in our API.

Here stands what the keys of JoyRL's YAML (``general_cfg``, ``algo_cfg``, ``env_cfg``) are called with us.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import yaml
from torch import Tensor, nn

import marl
from tests.command import marl as command
from tests.documents.parts import DQN, PG, MyEnv


def test_01_the_loop_of_act_step_store_update_is_one_call() -> None:
    """Act, step, store and update for so many steps: one iteration."""
    with marl.Trainer("dqn", env="CartPole-v1", config=DQN) as agent:
        before = agent.get_policy().get_weights()
        result = agent.train()
        after = agent.get_policy().get_weights()
    assert result["timesteps_total"] >= 64
    assert any((before[name] != after[name]).any() for name in before)


def test_02_an_env_of_gymnasium_is_made_by_its_id() -> None:
    env = gym.make("CartPole-v1")
    assert marl.make_env("CartPole-v1").observation_space("agent_0") == env.observation_space


class Qnet(marl.Model):
    """Three layers with ReLU between them."""

    def __init__(self, inputs: int, outputs: int, config: Any) -> None:
        super().__init__(inputs, outputs, config)
        hidden = config.get("hidden_dim", 16)
        self.net = nn.Sequential(
            nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, outputs)
        )

    def forward(self, features: Tensor, carry: Tensor) -> tuple[Tensor, Tensor]:
        return self.net(features), carry


def q_config() -> dict[str, Any]:
    marl.register_model("quick_qnet", Qnet)
    config = {**DQN, "model": {"custom_model": "quick_qnet", "custom_model_config": {"hidden_dim": 8}}}
    config.pop("fcnet_hiddens")
    return config


def test_03_a_network_of_ones_own_gives_the_values_of_actions() -> None:
    with marl.Trainer("dqn", env="CartPole-v1", config=q_config()) as trainer:
        trainer.train()
        assert isinstance(trainer.get_policy().network, Qnet)  # type: ignore[attr-defined]


def test_04_the_replay_overwrites_its_oldest_rows() -> None:
    config = {**DQN, "buffer_size": 50, "timesteps_per_iteration": 128}
    with marl.Trainer("dqn", env="CartPole-v1", config=config) as trainer:
        trainer.train()
        sizes = [len(team.replay) for team in trainer.learners[0].teams]  # type: ignore[attr-defined]
        assert sizes == [50]


def test_05_an_agent_samples_with_exploration_and_predicts_without() -> None:
    explore = {"type": "EpsilonGreedy", "initial_epsilon": 1.0, "final_epsilon": 1.0}
    with marl.Trainer("dqn", env="CartPole-v1", config={**DQN, "exploration_config": explore}) as agent:
        obs = np.zeros(4, np.float32)
        assert {agent.compute_action(obs, explore=True) for _ in range(30)} == {0, 1}
        assert len({agent.compute_action(obs) for _ in range(30)}) == 1


def test_06_training_and_test_episodes_of_a_trainer() -> None:
    config = {**DQN, "horizon": 20, "evaluation": {"interval": 0, "episodes": 2}}
    with marl.Trainer("dqn", env="CartPole-v1", config=config) as trainer:
        trained = trainer.train()
        tested = trainer.evaluate()
    assert trained["episode_len_mean"] <= 20
    assert tested["episode_len_mean"] <= 20


SCENARIO = """
env: CartPole-v1            # env_cfg.id
seed: 1
horizon: 200                # max_step
stop: {episodes_total: 5}   # max_episode
num_workers: 0              # mp_backend: single
checkpoint_freq: 1          # model_save_fre
timesteps_per_iteration: 64
evaluation: {interval: 1, episodes: 2}   # online_eval, online_eval_episode
model: {fcnet_hiddens: [16, 16], fcnet_activation: relu}
algo: {name: dqn, gamma: 0.95, lr: 0.0001, train_batch_size: 64, buffer_size: 100000, target_update_every: 4, learning_starts: 64}
"""


@pytest.fixture(scope="module")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """07: the YAML's keys in a scenario of ours, trained."""
    folder = tmp_path_factory.mktemp("quick")
    file = folder / "cartpole.yaml"
    file.write_text(SCENARIO)
    done = command("run", file, "--local-dir", folder / "out")
    assert done.code == 0, done.err
    return next(path.parent for path in (folder / "out").rglob("result.json"))


def test_07_the_keys_of_the_yaml_train(run_directory: Path) -> None:
    kept = yaml.safe_load((run_directory / "params.yaml").read_text())
    assert kept["algo"]["target_update_every"] == 4
    assert kept["horizon"] == 200
    assert (run_directory / "learning_curve.png").is_file()  # save_fig


def test_08_a_run_is_loaded_and_trained_on(run_directory: Path) -> None:
    done = command("run", "--resume", run_directory, "--stop-iters", 100, "--set", "stop={episodes_total: 8}")
    assert done.code == 0, done.err


def test_09_a_run_is_loaded_and_tested(run_directory: Path) -> None:
    done = command("rollout", run_directory, "--episodes", 2)
    assert done.code == 0, done.err
    assert done.out.count("reward") >= 2


@pytest.mark.slow
def test_10_a_test_is_filmed(run_directory: Path, tmp_path: Path) -> None:
    done = command("rollout", run_directory, "--episodes", 1, "--video", tmp_path / "video.gif")
    assert done.code == 0, done.err
    assert (tmp_path / "video.gif").stat().st_size > 1000


def test_11_evaluation_while_training_keeps_the_best_model(run_directory: Path) -> None:
    assert (run_directory / "checkpoints" / "best").is_dir()
    assert '"evaluation"' in (run_directory / "result.json").read_text()


def test_12_trajectories_are_collected(tmp_path: Path) -> None:
    with marl.Trainer(
        "pg", env=lambda config: MyEnv(config), config={**PG, "output": str(tmp_path / "trajs")}
    ) as trainer:
        trainer.train()
    assert list((tmp_path / "trajs").rglob("*"))


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_13_workers_are_processes_of_ray() -> None:
    with marl.Trainer("pg", env=lambda config: MyEnv(config), config={**PG, "num_workers": 2}) as trainer:
        assert trainer.train()["num_healthy_workers"] == 2


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_14_several_learners_share_every_minibatch() -> None:
    """The document simulates one and two learners by sleeping; ``marl bench learners`` measures real ones."""
    with marl.Trainer("pg", env=lambda config: MyEnv(config), config={**PG, "num_learners": 2}) as trainer:
        assert trainer.train()["timesteps_total"] >= 64
