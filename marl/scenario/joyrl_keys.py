"""The keys of JoyRL's YAML: what is called otherwise here, and what changes nothing."""

from __future__ import annotations

from typing import Any, TypeAlias

Keys: TypeAlias = dict[str, Any]

SECTIONS = ("general_cfg", "algo_cfg", "env_cfg")
VALUES = {"double_q": False, "dueling": False}  # JoyRL's DQN is the plain one
ALGORITHMS: dict[str, tuple[str, Keys]] = {
    "dqn": ("dqn", VALUES),
    "doubledqn": ("dqn", {**VALUES, "double_q": True}),
    "duelingdqn": ("dqn", {**VALUES, "dueling": True}),
    "perdqn": ("dqn", {**VALUES, "prioritized_replay": True}),
    "categoricaldqn": ("dqn", {**VALUES, "num_atoms": 51}),
    "qlearning": ("q_learning", {}),
    "sarsa": ("sarsa", {}),
    "montecarlo": ("monte_carlo", {}),
    "noisydqn": ("noisy_dqn", VALUES),
    "rainbowdqn": ("rainbow", {}),
    "rainbow": ("rainbow", {}),
    "softq": ("softq", {}),
    "reinforce": ("pg", {}),
    "a2c": ("a2c", {}),
    "a3c": ("a3c", {}),
    "ppo": ("ppo", {}),
    "ddpg": ("ddpg", {}),
    "td3": ("td3", {}),
    "sac": ("sac", {}),
}
HIERARCHY = (
    " Hierarchical DQN is a scenario here, as its goals are things of the env: see docs/hierarchy.md and "
    "scenarios/key_door_hdqn.yaml."
)
RECIPES = {"hierarchicaldqn": HIERARCHY, "hdqn": HIERARCHY}
"""Algorithms that are no single name here, with what to do."""
REPLAYED = (
    "dqn",
    "noisy_dqn",
    "rainbow",
    "softq",
    "ddpg",
    "td3",
    "sac",
)  # JoyRL makes one update per env step once there is a batch
# Under another name or place, with the same value.
RENAMED_GENERAL = {"device": "device", "max_step": "horizon", "n_learners": "num_learners"}
RENAMED_ALGO = {
    "batch_size": "train_batch_size",
    "train_batch_size": "train_batch_size",
    "buffer_size": "buffer_size",
    "target_update": "target_update_every",
    "gamma": "gamma",
    "lr": "lr",
    "actor_lr": "actor_lr",
    "critic_lr": "critic_lr",
    "tau": "tau",
    "policy_freq": "policy_delay",
    "k_epochs": "num_sgd_iter",
    "sgd_batch_size": "sgd_minibatch_size",
    "eps_clip": "clip_param",
    "entropy_coef": "entropy_coeff",
    "critic_loss_coef": "vf_loss_coeff",
    "gae_lambda": "gae_lambda",
    "n_atoms": "num_atoms",
    "v_min": "v_min",
    "v_max": "v_max",
    "Vmin": "v_min",
    "Vmax": "v_max",
    "n_step": "n_step",
    "alpha": "temperature",  # of SoftQ; others do not have it, and say so
}
# They change nothing here; each is named with the reason.
IDLE = {
    "save_fig": "every run draws learning_curve.png",
    "show_fig": "no window is opened; look at learning_curve.png of the run directory",
    "save_best_model": "the best evaluation is always kept, as checkpoints/best",
    "new_step_api": "there is one step API",
    "ignore_params": "nothing else is taken from this section",
}
BUFFERS = {"REPLAY_QUE": {}, "REPLAY": {}, "ONPOLICY_QUE": {}, "PER_QUE": {"prioritized_replay": True}}
NOISY = ("noisy_dqn", "rainbow")
DRAWING = {"softq": "SoftQ"}  # whose actions are drawn by their values where they are not random
EPSILON = {"epsilon_start": 0.95, "epsilon_end": 0.01, "epsilon_decay": 500}  # JoyRL's defaults
WATCHING: dict[str, Keys] = {"None": {}, "human": {"render_env": True}, "rgb_array": {"record_env": True}}
