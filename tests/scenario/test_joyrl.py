"""JoyRL's YAML is read, key by key, and the user is told what it became."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from marl.errors import ConfigError
from marl.policies.config import ExplorationConfig
from marl.scenario.config import ALL_ALGO_KEYS
from marl.scenario.joyrl import Translation, translate
from marl.scenario.joyrl_keys import RENAMED_ALGO
from marl.scenario.load import compose, load_scenario, read_any
from tests.command import marl

# As JoyRL's own documentation shows it.
DOCUMENTED = """
general_cfg:
  algo_name: DQN_new # algo name
  device: cpu # device, cpu or cuda
  env_name: gym # env name, differ from env_id in env_cfgs
  mode: train # run mode: train, test
  collect_traj: true
  mp_backend: single # multi-processing mode: null(default), ray
  n_workers: 1 # number of workers if using multi-processing, default 1
  load_checkpoint: false # if load checkpoint or not
  load_path: Train_CartPole-v1_DQN_20221026-054757 # if load checkpoint, then config path in 'tasks' dir
  max_episode: 100 # max episodes, set -1 to keep running
  max_step: 200 # max steps per episode
  seed: 1 # random seed, set 0 not to use seed
  online_eval: true # if online eval or not
  online_eval_episode: 10 # online eval episodes
  model_save_fre: 500 # update step frequency of saving model
  save_best_model: # if save the best model or not, online_eval must be true)
  save_fig: true # if save fig or not
  show_fig: false # if show fig or not

algo_cfg:
  value_layers:
    - layer_type: linear
      layer_dim: [256]
      activation: relu
    - layer_type: linear
      layer_dim: [256]
      activation: relu
  batch_size: 64
  buffer_type: REPLAY_QUE
  buffer_size: 100000
  epsilon_decay: 500
  epsilon_end: 0.01
  epsilon_start: 0.95
  gamma: 0.95
  lr: 0.0001
  target_update: 4
env_cfg:
  id: CartPole-v1
  render_mode: null
"""
needs_exponential_epsilon = pytest.mark.skipif(
    "epsilon_decay" not in ExplorationConfig.model_fields, reason="exploration_config has no epsilon_decay"
)


def read(general: dict[str, Any] | None = None, algo: dict[str, Any] | None = None, **env: Any) -> Translation:
    sections = {
        "general_cfg": {"algo_name": "DQN", **(general or {})},
        "algo_cfg": algo or {},
        "env_cfg": {"id": "CartPole-v1", **env},
    }
    return translate(sections, "joy.yaml")


def refusal(general: dict[str, Any] | None = None, algo: dict[str, Any] | None = None, **env: Any) -> str:
    with pytest.raises(ConfigError) as refused:
        read(general, algo, **env)
    return str(refused.value)


def test_the_documented_file_becomes_this_scenario() -> None:
    made = translate(yaml.safe_load(DOCUMENTED), "joy.yaml")
    assert made.scenario == {
        "env": "CartPole-v1",
        "algo": {
            "name": "dqn", "double_q": False, "dueling": False, "train_batch_size": 64, "buffer_size": 100_000, "gamma": 0.95,
            "lr": 0.0001, "target_update_every": 4, "updates_per_step": 1.0, "learning_starts": 64,
        },
        "model": {"fcnet_hiddens": [256, 256], "fcnet_activation": "relu"},
        "exploration_config": {
            "type": "EpsilonGreedy", "initial_epsilon": 0.95, "final_epsilon": 0.01, "epsilon_decay": 500,
        },
        "device": "cpu",
        "horizon": 200,
        "stop": {"episodes_total": 100},
        "timesteps_per_iteration": 500,
        "checkpoint_freq": 1,
        "evaluation": {"interval": 1, "episodes": 10},
        "seed": 1,
        "output": "joy_trajs",
    }  # fmt: skip
    told = " ".join(made.notes)
    for key in ("algo_name", "buffer_type", "load_path", "save_fig", "show_fig", "save_best_model", "collect_traj"):
        assert key in told
    assert yaml.safe_load(made.text) == made.scenario, "what is told is a scenario that can be run"


@needs_exponential_epsilon
@pytest.mark.slow
def test_the_documented_file_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("joy.yaml").write_text(
        DOCUMENTED.replace("max_episode: 100", "max_episode: 3").replace("fre: 500", "fre: 100")
    )
    done = marl("run", "joy.yaml", "--local-dir", "out")
    assert done.code == 0, done.err
    assert list(Path("joy_trajs").glob("trajs_*.npz"))


def test_the_longest_episode_is_the_horizon_and_minus_one_episode_is_no_end() -> None:
    made = read({"max_episode": -1, "max_step": 7})
    assert made.scenario["horizon"] == 7
    assert "stop" not in made.scenario
    assert "max_episode -1: it trains until Ctrl-C" in made.notes


@pytest.mark.parametrize(
    ("name", "ours", "key", "value"),
    [
        ("DQN", "dqn", "dueling", False), ("DoubleDQN", "dqn", "double_q", True), ("DuelingDQN", "dqn", "dueling", True),
        ("PER_DQN", "dqn", "prioritized_replay", True), ("CategoricalDQN", "dqn", "num_atoms", 51),
        ("NoisyDQN", "noisy_dqn", "double_q", False), ("RainbowDQN", "rainbow", "updates_per_step", 1.0),
        ("SoftQ", "softq", "updates_per_step", 1.0),
        ("REINFORCE", "pg", "name", "pg"), ("PPO", "ppo", "name", "ppo"), ("PPO_new", "ppo", "name", "ppo"),
        ("QLearning", "q_learning", "name", "q_learning"), ("Q-learning", "q_learning", "name", "q_learning"),
        ("Sarsa", "sarsa", "name", "sarsa"), ("MonteCarlo", "monte_carlo", "name", "monte_carlo"),
        ("SAC", "sac", "updates_per_step", 1.0), ("TD3", "td3", "name", "td3"),
    ],
)  # fmt: skip
def test_algorithms_have_other_names_here(name: str, ours: str, key: str, value: Any) -> None:
    algo = read({"algo_name": name}).scenario["algo"]
    assert algo["name"] == ours
    assert algo[key] == value
    compose({"env": "CartPole-v1", "algo": algo})  # every key is one that the algorithm has


def test_noisy_layers_and_the_temperature_of_softq_are_keys_of_the_algorithm() -> None:
    layer = {"layer_type": "noisy_linear", "layer_size": [64], "activation": "ReLU", "std_init": 0.3}
    made = read({"algo_name": "NoisyDQN"}, {"value_layers": [layer, dict(layer)], "epsilon_start": 0.5}).scenario
    assert made["algo"]["sigma0"] == 0.3
    assert made["model"] == {"fcnet_hiddens": [64, 64], "fcnet_activation": "relu"}
    assert made["exploration_config"]["type"] == "EpsilonGreedy"
    assert layer["layer_type"] == "noisy_linear", "what was read stays as it is"
    compose(made)
    soft = read({"algo_name": "SoftQ"}, {"alpha": 0.4, "epsilon_end": 0.1}).scenario
    assert soft["algo"]["temperature"] == 0.4
    assert soft["exploration_config"] == {
        "type": "SoftQ", "initial_epsilon": 0.95, "final_epsilon": 0.1, "epsilon_decay": 500,
    }  # fmt: skip
    compose(soft)
    rainbow = read({"algo_name": "RainbowDQN"}, {"Vmin": 0.0, "Vmax": 200.0, "n_step": 1, "n_atoms": 21}).scenario[
        "algo"
    ]
    assert (rainbow["v_min"], rainbow["v_max"], rainbow["n_step"], rainbow["num_atoms"]) == (0.0, 200.0, 1, 21)
    with pytest.raises(ConfigError, match="temperature"):
        compose(read({"algo_name": "PPO"}, {"alpha": 0.4}).scenario)


def test_renamed_keys_are_keys_of_ours() -> None:
    assert set(RENAMED_ALGO.values()) <= ALL_ALGO_KEYS


def test_workers_are_those_of_ray() -> None:
    assert read({"mp_backend": "ray", "n_workers": 4}).scenario["num_workers"] == 4
    assert "num_workers" not in read({"mp_backend": None, "n_workers": 1}).scenario
    idle = read({"mp_backend": "single", "n_workers": 4})
    assert "num_workers" not in idle.scenario
    assert any("n_workers 4" in note for note in idle.notes)


def test_a_seed_of_0_is_none_so_one_is_drawn_and_told() -> None:
    first, second = read({"seed": 0}), read({"seed": 0})
    assert first.scenario["seed"] != second.scenario["seed"]
    assert any(str(first.scenario["seed"]) in note for note in first.notes)


def test_evaluations_and_checkpoints_come_after_so_many_updates() -> None:
    on_policy = read({"algo_name": "PPO", "model_save_fre": 5, "online_eval": True, "online_eval_episode": 3}).scenario
    assert (on_policy["checkpoint_freq"], on_policy["evaluation"]) == (5, {"interval": 5, "episodes": 3})
    assert read({"online_eval": False, "online_eval_episode": 3}).scenario["evaluation"] == {"interval": 0}


def test_watching_loading_and_keys_of_the_env(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read(render_mode="human").scenario["render_env"] is True
    assert read(render_mode="rgb_array").scenario["record_env"] is True
    assert read(max_episode_steps=9).scenario["env_config"] == {"max_episode_steps": 9}
    assert read({"load_checkpoint": True, "load_path": "a/run"}).scenario["load"] == {"default_policy": "a/run"}
    monkeypatch.chdir(tmp_path)
    Path("tasks/old").mkdir(parents=True)
    assert read({"load_checkpoint": True, "load_path": "old"}).scenario["load"] == {"default_policy": "tasks/old"}


@pytest.mark.parametrize(
    ("general", "algo", "env", "told"),
    [
        ({"algo_name": "HDQN"}, {}, {}, "algo_name = 'HDQN'; expected one of dqn"),
        ({"mode": "play"}, {}, {}, "mode = 'play'; expected train or test"),
        ({"env_name": "mine"}, {}, {}, "env: package.module:Class"),
        ({"mp_backend": "threads"}, {}, {}, "expected single or ray"),
        ({"mode": "test"}, {}, {}, "load_path = None; expected the run directory"),
        ({"load_checkpoint": True}, {}, {}, "load_path = None; expected the run directory"),
        ({"collect_traj": "yes"}, {}, {}, "collect_traj = 'yes'; expected true or false"),
        ({"max_epsiode": 3}, {}, {}, "general_cfg.max_epsiode has no equivalent"),
        ({}, {"min_epsilon": 3}, {}, "algo_cfg.min_epsilon has no equivalent"),
        ({}, {"buffer_type": "STACK"}, {}, "expected REPLAY_QUE"),
        ({}, {"lambda": 0.9}, {}, "Here, say gae_lambda"),
        ({}, {"value_layers": [{"layer_type": "conv2d"}]}, {}, "conv_filters"),
        ({}, {"value_layers": [{"layer_dim": [8], "activation": "relu"}, {"layer_dim": [8], "activation": "tanh"}]}, {},
         "one activation for all layers"),
        ({}, {"actor_layers": [{"layer_dim": 8}], "critic_layers": [{"layer_dim": 9}]}, {}, "Make them equal"),
        ({}, {"value_layers": [{"layer_type": "noisy_linear"}]}, {}, "NoisyDQN and RainbowDQN have noisy ones"),
        ({"algo_name": "NoisyDQN"}, {"value_layers": [{"layer_type": "noisy_linear", "std_init": x} for x in (0.1, 0.2)]}, {},
         "[0.1, 0.2]; expected one std_init for all layers"),
        ({}, {}, {"id": None}, "a Gymnasium id such as CartPole-v1"),
        ({}, {}, {"render_mode": "ansi"}, "null, human or rgb_array"),
        ({}, {}, {"wrapper": "my.Wrapper"}, "wrappers: [package.module:Class]"),
    ],
)  # fmt: skip
def test_what_has_no_equivalent_is_refused_with_what_to_write(
    general: dict[str, Any], algo: dict[str, Any], env: dict[str, Any], told: str
) -> None:
    assert told in refusal(general, algo, **env)


def test_sections_of_both_are_refused() -> None:
    with pytest.raises(ConfigError, match="'env' beside them"):
        translate({"general_cfg": {}, "env": "CartPole-v1"}, "joy.yaml")
    with pytest.raises(ConfigError, match="algo_cfg is a list"):
        translate({"algo_cfg": [1]}, "joy.yaml")


SMALL = """
general_cfg: {algo_name: DQN_new, max_episode: 3, max_step: 10, seed: 1, online_eval: false, model_save_fre: 40}
algo_cfg: {batch_size: 8, value_layers: [{layer_type: linear, layer_dim: [8], activation: relu}]}
env_cfg: {id: CartPole-v1}
"""


@pytest.mark.parametrize("command", [("run",), ("train", "-f")])
def test_it_is_trained_told_and_played(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("joy.yaml").write_text(SMALL)
    done = marl(*command, "joy.yaml", "--local-dir", "out")
    assert done.code == 0, done.err
    assert "# JoyRL's YAML, read as:\nenv: CartPole-v1" in done.err
    directory = Path(done.out.splitlines()[-1].removeprefix("results: "))
    lines = [json.loads(line) for line in (directory / "result.json").read_text().splitlines()]
    assert [line["episodes_total"] >= 3 for line in lines] == [*[False] * (len(lines) - 1), True], "it stops right"
    assert max(lines[-1]["hist_stats"]["episode_lengths"]) <= 10

    test = {"mode": "test", "load_checkpoint": True, "load_path": str(directory), "max_episode": 2, "max_step": 4}
    Path("test.yaml").write_text(yaml.safe_dump({"general_cfg": test, "env_cfg": {"render_mode": None}}))
    played = marl(*command, "test.yaml")
    assert played.code == 0, played.err
    assert f"marl rollout {directory} --episodes 2 --seed 0 --set horizon=4" in played.err
    assert "8 env steps, 2 episodes" in played.out
    assert "--stop-iters means nothing to it" in marl(*command, "test.yaml", "--stop-iters", 3).err
    with pytest.raises(ConfigError, match="nothing to train"):
        load_scenario("test.yaml")


def test_our_own_files_are_read_as_before(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text("env: two_step_game\nalgo: ppo\n")
    assert read_any(tmp_path / "ours.yaml") == ({"env": "two_step_game", "algo": "ppo"}, None)
