"""Recorded first iterations of every algorithm: losses, values, returns and the size of the weights.

``python -m tests.golden.learning``, from the root of the project, records all cases anew; names behind it pick some. Do so only
when learning was changed on purpose, and look at the difference before it is committed. Numbers are compared with a tolerance,
because other processors round in other places. That a number has not moved does not say that it is right: for that there are the
tests beside the code, which compare with other ways to compute it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import marl
from marl.algos.presets import ALGOS
from tests.algos.zoo import Zoo

FILE = Path(__file__).with_name("learning.json")
ITERATIONS, DIGITS = 2, 6
COMMON = {"fcnet_hiddens": [8, 6], "seed": 5, "horizon": 30, "evaluation": {"interval": 1, "episodes": 3}}
ON_POLICY = {"rollout_fragment_length": 5, "train_batch_size": 60, "num_envs_per_worker": 3}
REPLAY = {
    "rollout_fragment_length": 5, "learning_starts": 20, "train_batch_size": 12, "buffer_size": 200, "updates_per_step": 0.15,
    "timesteps_per_iteration": 60, "num_envs_per_worker": 2,
}  # fmt: skip
TABLE = {"rollout_fragment_length": 5, "timesteps_per_iteration": 60, "num_envs_per_worker": 2}
FEW_WALKS = {"traversals": 8, "regret_updates": 4, "average_updates": 4}
TABLES = [name for name in ALGOS if ALGOS[name].family.name == "tabular"]
WALKS = [name for name in ALGOS if ALGOS[name].family.name == "deep_cfr"]
TEAM = {"multiagent": {"groups": {"team": ["agent_*"]}}}
MEMORY = {
    "use_lstm": True,
    "lstm_cell_size": 5,
    "max_seq_len": 4,
    "lstm_use_prev_action": True,
    "lstm_use_prev_reward": True,
}
PRIORITIES = {"prioritized_replay": True, "prioritized_replay_alpha": 0.7, "prioritized_replay_beta": 0.5}
SMALL_STEPS = {"optimizer": {"type": "sgd", "momentum": 0.5}, "grad_clip": 0.1}

# name -> algorithm, env, keys
CASES: dict[str, tuple[str, Any, dict[str, Any]]] = {
    **{f"{name} two_step": (name, "two_step_game", {}) for name in ALGOS if name not in ("marwil", "bc", "es", *WALKS, *TABLES)},
    **{name: (name, "two_step_game", {"float_states": True}) for name in TABLES},
    "sarsa lake": ("sarsa", "FrozenLake-v1", {"lr": 0.5, "gamma": 0.9}),
    "monte_carlo lake": ("monte_carlo", "FrozenLake-v1", {"first_visit": True, "averaging": False, "lr": 0.3}),
    "es": ("es", "two_step_game", {"num_perturbations": 4, "episodes_per_perturbation": 1}),
    **{f"{name} cards": (name, "kuhn_poker", {**FEW_WALKS, "train_batch_size": 8}) for name in WALKS},
    "qmix team": ("qmix", "two_step_game", {**TEAM, "hypernet_embed": 4, "mixing_embed_dim": 3, "target_update_every": 3}),
    "qmix gru": ("qmix", "two_step_game", {**TEAM, "use_gru": True, "lstm_cell_size": 5, "max_seq_len": 2}),
    "vdn cards": ("vdn", "kuhn_poker", {**PRIORITIES, "gamma": 0.9, "multiagent": {"groups": {"team": ["player_*"]}}}),
    "dqn rich": (
        "dqn", "CartPole-v1",
        {**PRIORITIES, "n_step": 3, "dueling": True, "double_q": True, "huber_delta": 1.0, "target_update_every": 4},
    ),
    "dqn atoms": ("dqn", "CartPole-v1", {"num_atoms": 7, "v_min": -2.0, "v_max": 8.0, "n_step": 2}),
    "dqn memory": ("dqn", "CartPole-v1", {**MEMORY, "updates_per_step": 0.05}),
    "dqn cards": ("dqn", "kuhn_poker", {"observation_filter": "MeanStdFilter"}),
    "ppo zoo": ("ppo", Zoo, {"vf_clip_param": 0.3, "entropy_coeff": 0.02, "kl_coeff": 0.3, "num_sgd_iter": 2}),
    "ppo masks": ("ppo", "leduc_poker", {"num_sgd_iter": 2}),
    "sac masks": ("sac", "leduc_poker", {}),
    "qmix few rows": ("qmix", "two_step_game", {**TEAM, "use_gru": True, "max_seq_len": 4, "train_batch_size": 1}),
    "dqn plain": ("dqn", "leduc_poker", {"double_q": False, "dueling": False}),
    "ppo memory": ("ppo", "CartPole-v1", {**MEMORY, "sgd_minibatch_size": 16, "num_sgd_iter": 2}),
    "ppo cards": ("ppo", "kuhn_poker", {"magnet_coeff": 0.1, "magnet_tau": 0.3, "normalize_advantages": False, **SMALL_STEPS}),
    "ppo shared": ("ppo", "traffic", {"horizon": 15, "vf_share_layers": True, "observation_filter": "MeanStdFilter"}),
    "mappo team": ("mappo", "two_step_game", {**TEAM, "critic_sees": "group", "share_reward": True, "num_sgd_iter": 2}),
    "mappo zoo": ("mappo", Zoo, {"critic_sees": "all", "batch_mode": "complete_episodes"}),
    "mappo scaled": (
        "mappo", "two_step_game", {**TEAM, "critic_sees": "agent_state", "normalize_values": True, "vf_huber_delta": 0.5},
    ),
    "ippo scaled memory": ("ippo", "CartPole-v1", {**MEMORY, "normalize_values": True, "sgd_minibatch_size": 16}),
    "happo apart": ("happo", "two_step_game", {**TEAM, "policy_mapping_fn": "per_agent", "num_sgd_iter": 2}),
    "impala box": ("impala", "Pendulum-v1", {"gamma": 0.9, "horizon": 12}),
    "a2c schedule": ("a2c", "CartPole-v1", {"lr_schedule": [[0, 0.01], [100, 0.001]], "gae_lambda": 0.8}),
    "pg zoo": ("pg", Zoo, {"gamma": 0.8}),
    "maddpg zoo": ("maddpg", Zoo, {"critic_sees": "all", "n_step": 2, "actor_reg": 0.01}),
    "maddpg team": ("maddpg", "two_step_game", {**TEAM, "critic_sees": "group", **PRIORITIES, "share_reward": True}),
    "td3 box": ("td3", "Pendulum-v1", {"horizon": 12, "actor_lr": 0.01, "critic_lr": 0.02, "tau": 0.1}),
    "ddpg zoo": ("ddpg", Zoo, {**PRIORITIES}),
    "sac box": ("sac", "Pendulum-v1", {"horizon": 12, "n_step": 2, **PRIORITIES, "initial_alpha": 0.3}),
    "sac team": ("sac", "two_step_game", {**TEAM, "critic_sees": "group", "share_reward": True, "tau": 0.1}),
    "sac cards": ("sac", "kuhn_poker", {"target_entropy": 0.4, "alpha_lr": 0.01}),
    "nfsp cards": ("nfsp", "kuhn_poker", {}),
    "marwil": ("marwil", "CartPole-v1", {"beta": 1.5, "moving_average_sqd_adv_norm_update_rate": 0.5, "sgd_minibatch_size": 8}),
    "bc": ("bc", "CartPole-v1", {"sgd_minibatch_size": 8}),
}  # fmt: skip


def config_of(name: str) -> dict[str, Any]:
    algo, _, keys = CASES[name]
    family = ALGOS[algo].family
    size = {} if algo == "es" or algo in WALKS else ON_POLICY if family.on_policy else REPLAY
    if algo in TABLES:  # no layers and no replay
        return {**{key: value for key, value in COMMON.items() if key != "fcnet_hiddens"}, **TABLE, **keys}
    if family.name == "central_critic" and algo in ("ppo", "ippo", "mappo", "happo"):
        size = {**size, "sgd_minibatch_size": 20, "num_sgd_iter": 1}
    return {**COMMON, **size, **keys}


def run(name: str) -> list[dict[str, float]]:
    """Numbers of each iteration, by name."""
    algo, env, _ = CASES[name]
    found = []
    with TemporaryDirectory() as folder, marl.Trainer(algo, env=env, config=_with_input(name, Path(folder))) as trainer:
        for _ in range(ITERATIONS):
            result = trainer.train()
            numbers = _counted(result)
            for policy, told in result["info"]["learner"].items():
                numbers |= {f"{policy}.{key}": value for key, value in told["learner_stats"].items()}
            for policy, weights in trainer.get_weights().items():
                flat = np.concatenate([np.ravel(array).astype(np.float64) for array in weights.values()])
                numbers[f"{policy}.weights"] = float(np.sqrt(np.mean(flat**2)))
            times = {**result["timers"], **result["sampler_perf"]}
            numbers |= {f"{timer} was taken": bool(time) for timer, time in times.items()}
            found.append({key: round(float(value), DIGITS) for key, value in numbers.items() if value is not None})
    return found


def _counted(result: dict[str, Any]) -> dict[str, Any]:
    """Returns, lengths and counters of an iteration, and the returns of its evaluation."""
    numbers = {
        key: result[key] for key in ("episode_len_mean", "timesteps_total", "agent_timesteps_total", "episodes_total")
    }
    numbers |= {key: value for key, value in result["info"].items() if key.startswith("num_")}
    for place, told in (("", result), ("evaluation ", result.get("evaluation") or {})):
        numbers |= {
            f"{place}{key}": told.get(key)
            for key in ("episode_reward_mean", "episode_reward_min", "episode_reward_max")
        }
        for key in ("policy_reward_mean", "policy_reward_min", "policy_reward_max", "agent_reward_mean"):
            numbers |= {f"{place}{key} {name}": value for name, value in told.get(key, {}).items()}
    return numbers


def _with_input(name: str, folder: Path) -> dict[str, Any]:
    """The config; algorithms that imitate get recorded episodes to learn from."""
    if not ALGOS[CASES[name][0]].family.config().learns_from_recordings:
        return config_of(name)
    rng = np.random.default_rng(0)
    episodes = [
        {
            "obs": rng.normal(size=(length + 1, 4)).astype(np.float32) * 0.1,
            "actions": rng.integers(2, size=length).tolist(),
            "rewards": rng.integers(5, size=length).astype(float).tolist(),
            "terminated": length % 2 == 0,
        }
        for length in (12, 7, 10, 9)
    ]
    marl.write_trajectories(folder, "CartPole-v1", episodes)
    return {**COMMON, "input": str(folder), "train_batch_size": 20, **CASES[name][2]}


def main(names: list[str]) -> None:
    recorded = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() and names else {}
    recorded |= {name: run(name) for name in names or CASES}
    FILE.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
