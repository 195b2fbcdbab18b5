"""Everything that a key declares to need: a scenario without it is refused, one with it is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from gymnasium import spaces
from pydantic import ValidationError

from marl.algos.plan import Role
from marl.algos.presets import ALGOS
from marl.config import Config, explain
from marl.data.task import AgentType
from marl.envs.games.networks.neighbours import GraphicalConfig
from marl.envs.games.networks.routing import CongestionConfig
from marl.errors import ConfigError
from marl.needs import in_yaml
from marl.policies.config import ModelConfig, PolicySpec
from marl.scenario.config import Scenario
from marl.scenario.load import compose
from marl.scenario.policy_entries import parse_entry
from marl.scenario.reference import SECTIONS, everything, keys_of
from marl.scenario.resolve import resolve
from marl.scenario.schema import scenario_schema
from marl.scenario.unused_keys import check_policy_keys
from marl.tune.config import TuneConfig, tune_config

POLE, PENDULUM, GAME = "CartPole-v1", "Pendulum-v1", "matrix_game"


class Row(NamedTuple):
    """A key of a class, a value of it that needs something, and the keys beside it without and with what it needs."""

    owner: str
    key: str
    value: Any
    needs: str
    without: dict[str, Any]
    having: dict[str, Any]


def algo(owner: str, usual: str, *rows: tuple[str, Any, str, dict[str, Any], dict[str, Any]]) -> Iterator[Row]:
    for key, value, needs, without, having in rows:
        yield Row(owner, key, value, needs, {"name": usual, **without}, {"name": usual, **having})


A2C, PG, BC, VDN, QMIX, IMPALA = ({"name": name} for name in ("a2c", "pg", "bc", "vdn", "qmix", "impala"))
OWN_LRS = {"actor_lr": 0.1, "critic_lr": 0.1}
SAC_LRS = {**OWN_LRS, "alpha_lr": 0.1}
SCHEDULE = [(0, 0.1), (100, 0.01)]
CRITIC = "objective: a2c, ppo or vtrace"
COMA = {"critic_values": "actions", "critic_sees": "group"}
LR, SAC_LR = "no actor_lr or no critic_lr", "no actor_lr, no critic_lr or no alpha_lr"
LSTM, MODEL = {"use_lstm": True}, {"custom_model": "mine"}
MEMORY = "use_lstm: true, use_gru: true, use_attention: true or custom_model"
LOOKS_BACK = "use_lstm: true, use_gru: true or custom_model"
ATTENTION = {
    "attention_num_transformer_units": 2, "attention_dim": 8, "attention_num_heads": 2, "attention_head_dim": 4,
    "attention_memory_inference": 3, "attention_memory_training": 0, "attention_position_wise_mlp_dim": 5,
    "attention_init_gru_gate_bias": 1.0, "attention_use_n_prev_actions": 1, "attention_use_n_prev_rewards": 1,
}  # fmt: skip
STAGES = [{"env_config": {"a": 1}}]
WITH_TREE, WITH_RESPONSES = "method: auto or tree", "method: auto or trained"
WITH_POSITIONS = "method: auto, merged or projected"
SOLVED = "kind: prioritised, league, psro or p2sro"

MUTATIONS = {"lr": {"choice": [0.1, 0.2]}}
POPULATION = {"scheduler": "pbt", "mutations": MUTATIONS}
VALUES = [{"at": 5.0, "values": {"lr": 0.1}}]

NEEDS: list[Row] = [
    *algo(
        "TabularConfig", "q_learning",
        ("lr", 0.5, "averaging: false", {"averaging": True}, {}),
        ("lr_schedule", SCHEDULE, "averaging: false", {"averaging": True}, {}),
        ("first_visit", True, "backup: return", {}, {"name": "monte_carlo"}),
        ("bootstrap_at_time_limit", False, "backup other than return", {"name": "monte_carlo"}, {}),
    ),
    *algo("LearnerConfig", "ppo", ("custom_loss_config", {"a": 1}, "custom_loss", {}, {"custom_loss": "mine"})),
    Row("IntrinsicConfig", "lr", 0.1, "kind: rnd", {"kind": "count"}, {"kind": "rnd"}),
    Row("IntrinsicConfig", "hiddens", [3], "kind: rnd", {"kind": "count"}, {"kind": "rnd"}),
    Row("IntrinsicConfig", "embedding", 3, "kind: rnd", {"kind": "count"}, {"kind": "rnd"}),
    Row("IntrinsicConfig", "update_share", 0.5, "kind: rnd", {"kind": "count"}, {"kind": "rnd"}),
    Row("IntrinsicConfig", "minibatch_size", 3, "kind: rnd", {"kind": "count"}, {"kind": "rnd"}),
    Row("IntrinsicConfig", "decimals", 1, "kind: count", {"kind": "rnd"}, {"kind": "count"}),
    Row("OptimizerConfig", "eps", 0.1, "type: adam or rmsprop", {"type": "sgd"}, {"type": "rmsprop"}),
    Row("OptimizerConfig", "momentum", 0.9, "type: sgd or rmsprop", {}, {"type": "sgd"}),
    *(
        row
        for name in ("dqn", "ddpg", "sac", "nfsp")
        for row in algo(
            "ReplayConfig", name,
            ("prioritized_replay_alpha", 0.5, "prioritized_replay: true", {}, {"prioritized_replay": True}),
            ("prioritized_replay_beta", 0.5, "prioritized_replay: true", {}, {"prioritized_replay": True}),
        )
    ),
    *algo(
        "CentralCriticConfig", "ppo",
        ("critic_sees", "group", CRITIC, PG, {}),
        ("critic_values", "actions", "objective: a2c or ppo", PG, {}),
        ("critic_sees_actions", True, "critic_values: actions", {"critic_sees": "group"}, COMA),
        ("critic_sees_actions", True, "critic_sees: group or all", {"critic_values": "actions"}, COMA),
        ("normalize_advantages", False, "critic_values: state", {"critic_values": "actions"}, {}),
        ("sequential_update", True, "critic_values: state", {"critic_values": "actions"}, {}),
        ("gae_lambda", 0.5, CRITIC, PG, {}),
        ("bootstrap_at_time_limit", False, CRITIC, PG, {}),
        ("vf_loss_coeff", 0.1, CRITIC, PG, {}),
        ("vf_huber_delta", 1.0, CRITIC, PG, {}),
        ("normalize_values", True, CRITIC, PG, {}),
        ("sequential_update", True, "objective: ppo", A2C, {}),
        ("num_sgd_iter", 3, "objective: ppo", A2C, {}),
        ("sgd_minibatch_size", 7, "objective: ppo", A2C, {}),
        ("clip_param", 0.1, "objective: ppo", A2C, {}),
        ("vf_clip_param", 1.0, "objective: ppo", A2C, {}),
        ("kl_coeff", 0.1, "objective: ppo", A2C, {}),
        ("kl_target", 0.02, "objective: ppo", A2C, {"kl_coeff": 0.1}),
        ("kl_target", 0.02, "kl_coeff above 0", {}, {"kl_coeff": 0.1}),
        ("vtrace_rho_bar", 2.0, "objective: vtrace", {}, IMPALA),
        ("vtrace_c_bar", 2.0, "objective: vtrace", {}, IMPALA),
        ("magnet_tau", 0.5, "magnet_coeff above 0", {}, {"magnet_coeff": 0.1}),
        ("magnet_every", 5, "magnet_coeff above 0", {}, {"magnet_coeff": 0.1}),
        ("backward_kl_coeff", 0.1, "objective: ppo", A2C, {}),
        ("backward_kl_coeff_schedule", SCHEDULE, "objective: ppo", A2C, {}),
    ),
    *algo(
        "MaddpgConfig", "ddpg",
        ("lr", 0.5, LR, OWN_LRS, {"actor_lr": 0.1}),
        ("lr_schedule", SCHEDULE, LR, OWN_LRS, {"critic_lr": 0.1}),
        ("target_noise_clip", 0.3, "target_noise above 0", {}, {"target_noise": 0.1}),
    ),
    *algo(
        "SacConfig", "sac",
        ("lr", 0.5, SAC_LR, SAC_LRS, OWN_LRS),
        ("lr_schedule", SCHEDULE, SAC_LR, {**OWN_LRS, "alpha_lr": 0}, OWN_LRS),
        ("target_entropy_share", 0.3, "target_entropy: auto", {"target_entropy": 0.2}, {}),
    ),
    *algo(
        "MarwilConfig", "marwil",
        ("gamma", 0.9, "vf_coeff above 0", BC, {"beta": 0}),
        ("bootstrap_at_time_limit", False, "vf_coeff above 0", BC, {"beta": 0}),
        ("vf_coeff", 0, "beta: 0", {}, {"beta": 0}),
        ("max_advantage_weight", 2.0, "beta above 0", BC, {}),
        ("moving_average_sqd_adv_norm_start", 2.0, "beta above 0", {"beta": 0}, {}),
        ("moving_average_sqd_adv_norm_update_rate", 0.5, "beta above 0", BC, {}),
    ),
    *algo(
        "DeepCfrConfig", "deep_cfr",
        ("value_updates", 7, "regrets_from: values", {}, {"name": "escher"}),
        ("max_branches", 7, "regrets_from: traversals", {"name": "escher"}, {}),
    ),
    *algo(
        "QmixConfig", "dqn",
        ("huber_delta", 1.0, "num_atoms: 1", {"num_atoms": 5}, {}),
        ("negative_error_weight", 0.5, "num_atoms: 1", {"num_atoms": 5}, {}),
        ("num_atoms", 5, "mixer: none", VDN, {}),
        ("v_min", 0.0, "num_atoms above 1", {}, {"num_atoms": 5}),
        ("v_max", 1.0, "num_atoms above 1", {}, {"num_atoms": 5}),
        ("priorities", "divergence", "num_atoms above 1", {"prioritized_replay": True}, {"name": "rainbow"}),
        ("priorities", "divergence", "prioritized_replay: true", {"num_atoms": 5}, {"name": "rainbow"}),
        ("sigma0", 0.1, "noisy: true", {}, {"name": "noisy_dqn"}),
        ("temperature", 0.1, "mixer: none or sum", QMIX, VDN),
        ("temperature", 0.1, "num_atoms: 1", {"num_atoms": 5}, {}),
        ("mixing_embed_dim", 8, "mixer: monotonic", VDN, QMIX),
        ("hypernet_embed", 8, "mixer: monotonic", {}, QMIX),
        ("normalize_state", False, "mixer: monotonic", VDN, QMIX),
        ("normalize_rewards", True, "num_atoms: 1", {"num_atoms": 5}, {}),
        ("normalize_rewards", True, "reward_scale: 1", {"reward_scale": 0.5}, {}),
        ("center_rewards", True, "num_atoms: 1", {"num_atoms": 5}, {}),
    ),
    *(
        Row("ModelConfig", key, value, "conv_filters other than []", {"conv_filters": []}, {})
        for key, value in (("conv_activation", "tanh"), ("dim", 10), ("grayscale", True), ("zero_mean", True))
    ),
    Row("ModelConfig", "conv_padding", "same", "conv_filters", {}, {"conv_filters": [[4, 3, 1]]}),
    Row("ModelConfig", "use_lstm", True, "no custom_model", MODEL, {}),
    Row("ModelConfig", "use_gru", True, "no custom_model", MODEL, {}),
    Row("ModelConfig", "use_gru", True, "use_lstm: false", LSTM, {}),
    Row("ModelConfig", "use_attention", True, "no custom_model", MODEL, {}),
    Row("ModelConfig", "use_attention", True, "use_lstm: false", LSTM, {}),
    Row("ModelConfig", "use_attention", True, "use_gru: false", {"use_gru": True}, {}),
    *(Row("ModelConfig", key, value, "use_attention: true", LSTM, {"use_attention": True}) for key, value in ATTENTION.items()),
    Row("ModelConfig", "lstm_cell_size", 7, "use_lstm: true or use_gru: true", MODEL, {"use_gru": True}),
    Row("ModelConfig", "max_seq_len", 7, MEMORY, {}, MODEL),
    Row("ModelConfig", "lstm_use_prev_action", True, LOOKS_BACK, {}, LSTM),
    Row("ModelConfig", "lstm_use_prev_reward", True, LOOKS_BACK, {}, LSTM),
    Row("ModelConfig", "custom_model_config", {"a": 1}, "custom_model", {}, MODEL),
    Row("ModelConfig", "custom_preprocessor_config", {"a": 1}, "custom_preprocessor", {}, {"custom_preprocessor": "m"}),
    *(
        Row("ExplorationConfig", key, value, f"type: {right}", {"type": wrong}, {"type": right})
        for key, value, right, wrong in (
            ("temperature", 0.5, "SoftQ", "EpsilonGreedy"),
            ("epsilon_base", 0.5, "PerWorkerEpsilonGreedy", "EpsilonGreedy"),
            ("epsilon_alpha", 2.0, "PerWorkerEpsilonGreedy", "EpsilonGreedy"),
            ("ou_theta", 0.5, "OrnsteinUhlenbeckNoise", "GaussianNoise"),
            ("ou_sigma", 0.5, "OrnsteinUhlenbeckNoise", "GaussianNoise"),
            ("initial_stddev", 0.5, "ParameterNoise", "EpsilonGreedy"),
            ("noise_distance", 0.5, "ParameterNoise", "GaussianNoise"),
        )
    ),
    *(
        Row("ExplorationConfig", key, value, "type: EpsilonGreedy or SoftQ", {"type": wrong}, {"type": right})
        for key, value, right, wrong in (
            ("initial_epsilon", 0.5, "EpsilonGreedy", "StochasticSampling"),
            ("final_epsilon", 0.5, "SoftQ", "PerWorkerEpsilonGreedy"),
            ("epsilon_timesteps", 5, "EpsilonGreedy", "GaussianNoise"),
            ("epsilon_decay", 5, "SoftQ", "NoisyLayers"),
        )
    ),
    *(
        Row("ExplorationConfig", key, value, "type: GaussianNoise or OrnsteinUhlenbeckNoise", {"type": wrong}, {"type": right})
        for key, value, right, wrong in (
            ("initial_scale", 2.0, "GaussianNoise", "StochasticSampling"),
            ("final_scale", 2.0, "OrnsteinUhlenbeckNoise", "ParameterNoise"),
            ("scale_timesteps", 5, "GaussianNoise", "EpsilonGreedy"),
        )
    ),
    Row(
        "ExplorationConfig", "epsilon_timesteps", 5, "no epsilon_decay",
        {"type": "EpsilonGreedy", "epsilon_decay": 5}, {"type": "EpsilonGreedy"},
    ),
    Row(
        "ExplorationConfig", "random_timesteps", 5,
        "type other than EpsilonGreedy, PerWorkerEpsilonGreedy, SoftQ or NoisyLayers",
        {"type": "SoftQ"}, {"type": "GaussianNoise"},
    ),
    Row("ScriptedConfig", "language_model", {"model": "x"}, "name: language_model", {"name": "random"}, {"name": "language_model"}),
    Row("LanguageModelConfig", "samples", 5, "chances: samples", {"chances": "logprobs"}, {}),
    Row("ScriptedConfig", "action", 1, "name: fixed", {"name": "random"}, {"name": "fixed"}),
    Row("PopulationConfig", "meta_solver", "uniform", SOLVED, {"kind": "self_play"}, {"kind": "psro"}),
    Row("PopulationConfig", "alpha", 3.0, SOLVED, {"kind": "fictitious"}, {"kind": "psro", "meta_solver": "alpha_rank"}),
    Row("PopulationConfig", "alpha", 3.0, "meta_solver: alpha_rank", {"kind": "psro"},
        {"kind": "psro", "meta_solver": "alpha_rank"}),
    Row("PopulationConfig", "window", 3, "kind: self_play", {"kind": "psro"}, {"kind": "self_play"}),
    Row("PopulationConfig", "weighting", "even", "kind: prioritised or league", {"kind": "psro"}, {"kind": "league"}),
    Row("PopulationConfig", "power", 1.0, "kind: prioritised or league", {"kind": "psro"}, {"kind": "prioritised"}),
    Row("PopulationConfig", "power", 1.0, "weighting: hard", {"kind": "league", "weighting": "even"}, {"kind": "league"}),
    Row("PopulationConfig", "win_share", 0.5, "kind: league", {"kind": "prioritised"}, {"kind": "league"}),
    Row("PopulationConfig", "member_rounds", 2, "kind: p2sro or anytime_psro", {"kind": "psro"}, {"kind": "p2sro"}),
    Row("PopulationConfig", "exploiter_rounds", 2, "kind: league", {"kind": "psro"}, {"kind": "league"}),
    *(
        Row("ExploitabilityConfig", f"best_response_{key}", value, WITH_RESPONSES, {"method": "exact"}, {})
        for key, value in (("algo", "dqn"), ("timesteps", 50), ("workers", 1))
    ),
    Row("ExploitabilityConfig", "max_nodes", 5, WITH_TREE, {"method": "best_response"}, {"method": "exact"}),
    Row("ExploitabilityConfig", "max_positions", 5, WITH_POSITIONS, {"method": "tree"}, {"method": "merged"}),
    Row("ExploitabilityConfig", "max_seconds", 5.0, "method: auto or merged", {"method": "tree"}, {"method": "merged"}),
    Row("ExploitabilityConfig", "chance_samples", 5, "method: auto, tree, merged or projected", {"method": "trained"},
        {"method": "tree"}),
    Row("ExploitabilityConfig", "projection_episodes", 5, "method: auto or projected", {"method": "tree"},
        {"method": "projected"}),
    Row("ExploitabilityConfig", "best_response_episodes", 5, "method: auto, trained or projected", {"method": "tree"},
        {"method": "projected"}),
    Row("ExploitabilityConfig", "best_response_workers", 1, "process: run", {"process": "own"}, {"process": "run"}),
    Row("ExploitabilityConfig", "share", 0.5, "process: own", {"process": "run"}, {"process": "own"}),
    *(
        Row("TuneConfig", key, value, "scheduler: asha", {}, {"scheduler": "asha"})
        for key, value in (("grace_period", 5.0), ("reduction_factor", 2.0))
    ),
    Row("TuneConfig", "time_attr", "timesteps_total", "scheduler: asha, pbt or schedule", {}, {"scheduler": "asha"}),
    *(
        Row("TuneConfig", key, value, "scheduler: pbt", {}, POPULATION)
        for key, value in (
            ("perturbation_interval", 5.0), ("mutations", MUTATIONS), ("quantile_fraction", 0.5),
            ("resample_probability", 0.5), ("perturbation_factors", [0.5, 2.0]),
        )
    ),
    Row("TuneConfig", "schedule", VALUES, "scheduler: schedule", {}, {"scheduler": "schedule"}),
    Row("TuneConfig", "scheduler", "pbt", "mutations", {}, {"mutations": MUTATIONS}),
    Row("TuneConfig", "scheduler", "schedule", "schedule", {}, {"schedule": VALUES}),
    Row("TuneConfig", "max_failures", 1, "scheduler: fifo or asha", POPULATION, {}),
    Row("RolloutConfig", "pool", "ray", "num_workers above 0", {}, {"num_workers": 1}),
    Row("RolloutConfig", "collection", "async", "num_workers above 0", {}, {"num_workers": 1}),
    Row("RolloutConfig", "collection", "async", "pool other than in_process", {"num_workers": 1, "pool": "in_process"},
        {"num_workers": 1, "pool": "ray"}),
    Row("RolloutConfig", "collection", "async", "no input", {"num_workers": 1, "input": "data"}, {"num_workers": 1}),
    Row("RolloutConfig", "collection", "overlap", "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "clip_rewards", True, "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "explore", False, "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "keep_infos", True, "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "soft_horizon", True, "horizon", {}, {"horizon": 5}),
    Row("RolloutConfig", "soft_horizon", True, "no input", {"input": "data", "horizon": 5}, {"horizon": 5}),
    Row("RolloutConfig", "output", "new", "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "fake_sampler", True, "no input", {"input": "data"}, {}),
    Row("RolloutConfig", "fake_sampler", True, "no output", {"output": "new"}, {}),
    Row("RolloutConfig", "output_format", "json", "output", {}, {"output": "new"}),
    Row("RolloutConfig", "off_policy_estimator", ["is"], "input", {}, {"input": "data"}),
    Row(
        "RolloutConfig", "off_policy_interval", 3, "off_policy_estimator", {},
        {"input": "data", "off_policy_estimator": ["is"]},
    ),
    Row(
        "RolloutConfig", "off_policy_gamma", 0.9, "off_policy_estimator", {},
        {"input": "data", "off_policy_estimator": ["is"]},
    ),
    Row("RolloutConfig", "env_task_fn", "mine:tasks", "no input", {"input": "data"}, {}),
    Row("Scenario", "stacked", True, "num_workers: 0 or pool: in_process", {"num_workers": 1}, {}),
    Row("Scenario", "stacked", True, "num_learners: 1", {"num_learners": 2}, {}),
    Row("Scenario", "stacked", True, "device: cpu", {"device": "auto"}, {}),
    Row("Scenario", "stacked", True, "env other than external", {"env": "external"}, {}),
    Row("TuneConfig", "stacked", True, "scheduler: fifo, pbt or schedule", {"scheduler": "asha"}, {}),
    Row("TuneConfig", "stacked", True, "max_failures: 0", {"max_failures": 1}, {}),
    Row("TuneConfig", "stacked", True, "no resources_per_trial", {"resources_per_trial": {"cpu": 1}}, {}),
    Row("Scenario", "curriculum", STAGES, "no population", {"population": {"kind": "psro"}}, {}),
    Row("Scenario", "curriculum", STAGES, "exploitability.interval: 0",
        {"exploitability": {"interval": 3}}, {"exploitability": {"interval": 0}}),
    Row("Scenario", "curriculum", STAGES, "no input", {"input": "data"}, {}),
    *(
        Row("Scenario", "population", {"kind": "psro"}, f"no {key}", keys, {})
        for key, keys in (
            ("multiagent.policy_mapping_fn", {"policy_mapping_fn": "shared"}),
            ("multiagent.policies_to_train", {"policies_to_train": ["a"]}),
            ("load", {"load": {"a": "run"}}),
            ("input", {"input": "data"}),
        )
    ),
    Row("Scenario", "exploitability", {"max_nodes": 5}, "exploitability.interval above 0", {}, {}),
    Row("Scenario", "num_gpus", 1.0, "device: cuda or auto", {"device": "cpu"}, {"device": "auto"}),
    Row("Scenario", "external", {"lock_step": True}, "env: external", {}, {"env": "external"}),
    Row("ServerConfig", "tls_cert", "cert.pem", "tls_key", {}, {"tls_key": "key.pem"}),
    Row("ServerConfig", "tls_key", "key.pem", "tls_cert", {}, {"tls_cert": "cert.pem"}),
    Row("GraphicalConfig", "observe", "last", "repetitions above 1", {}, {"repetitions": 2}),
    Row("CongestionConfig", "observe", "last", "repetitions above 1", {}, {"repetitions": 2}),
]  # fmt: skip


class PolicyRow(NamedTuple):
    """The same for what a key needs of the policy that it is for; ``fits`` is an algorithm and an env that have it."""

    owner: str
    key: str
    value: Any
    needs: str
    wrong: tuple[str, str]
    fits: tuple[str, str]
    beside: dict[str, Any] = {}  # noqa: RUF012  (a tuple's default)


SAMPLING, BY_VALUES = "stochastic policies (ppo, a2c, marwil, ...)", "policies by action values (dqn, vdn, qmix, ...)"
ES, PPO = ("es", POLE), ("ppo", POLE)
REGRETS = ("deep_cfr", POLE)
POLICY_NEEDS: list[PolicyRow] = [
    *(PolicyRow("ModelConfig", "shared", {"encoder": "x"}, f"only for {SAMPLING} and {BY_VALUES}", wrong, fits)
      for wrong, fits in ((("ddpg", PENDULUM), ("ppo", POLE)), (("nfsp", POLE), ("dqn", POLE)), (("sac", POLE), PPO))),
    *(PolicyRow("ModelConfig", "vf_share_layers", True, f"only for {SAMPLING}", (name, POLE), PPO)
      for name in ("dqn", "vdn", "qmix", "apex", "nfsp", "ddpg", "sac")),
    PolicyRow("ModelConfig", "vf_share_layers", True, "not for es", ES, PPO),
    PolicyRow("ModelConfig", "vf_share_layers", True, "objective other than pg", ("pg", POLE), ("a2c", POLE)),
    PolicyRow("ModelConfig", "vf_share_layers", True, "critic_sees: own", ("mappo", POLE), PPO),
    PolicyRow("ModelConfig", "vf_share_layers", True, "vf_coeff above 0", ("bc", POLE), ("marwil", POLE)),
    *(PolicyRow("ModelConfig", "free_log_std", True, f"only for {SAMPLING} and the policies of sac", wrong, fits)
      for wrong, fits in ((("dqn", POLE), ("ppo", PENDULUM)), (("ddpg", PENDULUM), ("sac", PENDULUM)))),
    *(PolicyRow("ModelConfig", "free_log_std", True, "only for coordinates (Box actions)", (name, POLE), (name, PENDULUM))
      for name in ("ppo", "sac")),
    PolicyRow("ModelConfig", "max_seq_len", 7, "not for es", ES, PPO, {"use_lstm": True}),
    PolicyRow("ModelConfig", "attention_memory_training", 7, "not for es", ES, PPO, {"use_attention": True}),
    *(PolicyRow("ModelConfig", "custom_action_dist", "mine", f"only for {SAMPLING}", (name, POLE), PPO)
      for name in ("dqn", "nfsp", "ddpg", "sac")),
    PolicyRow("MaddpgConfig", "gumbel_temperature", 0.5, "only for choices (Discrete actions)",
              ("ddpg", PENDULUM), ("ddpg", POLE)),
    PolicyRow("SacConfig", "target_entropy_share", 0.3, "only for choices (Discrete actions)",
              ("sac", PENDULUM), ("sac", POLE)),
    PolicyRow("ExplorationConfig", "type", "NoisyLayers", "noisy: true", ("softq", POLE), ("rainbow", POLE)),
    PolicyRow("ExplorationConfig", "type", "ParameterNoise", "noisy other than true", ("noisy_dqn", POLE), ("dqn", POLE)),
    PolicyRow("ExplorationConfig", "type", "ParameterNoise", "noisy other than true", ("rainbow", POLE), ("ddpg", POLE)),
    PolicyRow("RolloutConfig", "collection", "async", "not for es", ES, PPO, {"num_workers": 1}),
    PolicyRow("RolloutConfig", "collection", "overlap", "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "rollout_fragment_length", 10, "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "batch_mode", "truncate_episodes", "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "clip_rewards", True, "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "keep_infos", True, "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "soft_horizon", True, "not for es", ES, PPO, {"horizon": 5}),
    PolicyRow("RolloutConfig", "explore", False, "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "output", "new", "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "fake_sampler", True, "not for es", ES, PPO),
    PolicyRow("RolloutConfig", "input", "data", "not for es", ES, ("marwil", POLE)),
    PolicyRow("Scenario", "population", {"kind": "psro"}, "not for es", ("es", GAME), ("ppo", GAME)),
    PolicyRow("ModelConfig", "vf_share_layers", True, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "collection", "async", "not for deep_cfr", REGRETS, PPO, {"num_workers": 1}),
    PolicyRow("RolloutConfig", "collection", "overlap", "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "rollout_fragment_length", 10, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "batch_mode", "truncate_episodes", "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "clip_rewards", True, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "keep_infos", True, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "soft_horizon", True, "not for deep_cfr", REGRETS, PPO, {"horizon": 5}),
    PolicyRow("RolloutConfig", "explore", False, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "output", "new", "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "fake_sampler", True, "not for deep_cfr", REGRETS, PPO),
    PolicyRow("RolloutConfig", "input", "data", "not for deep_cfr", REGRETS, ("marwil", POLE)),
    PolicyRow("Scenario", "population", {"kind": "psro"}, "not for deep_cfr", ("deep_cfr", GAME), ("ppo", GAME)),
]  # fmt: skip
OF_NO_USE: list[tuple[str, str, Any]] = [
    *(("es", key, value) for key, value in (
        ("gamma", 0.5), ("custom_loss", "mine"), ("custom_loss_config", {"a": 1}), ("train_batch_size", 7),
        ("intrinsic", {"kind": "rnd"}), ("bootstrap_at_time_limit", False),
    )),
    *(("sarsa", key, value) for key, value in (
        ("grad_clip", 1.0), ("optimizer", {"type": "sgd"}), ("custom_loss", "mine"), ("custom_loss_config", {"a": 1}),
        ("train_batch_size", 7),
    )),
    ("marwil", "intrinsic", {"kind": "rnd"}),
    *(("deep_cfr", key, value) for key, value in (
        ("custom_loss", "mine"), ("custom_loss_config", {"a": 1}), ("intrinsic", {"kind": "rnd"}),
        ("bootstrap_at_time_limit", False),
    )),
]  # fmt: skip


def tried(owner: str, keys: dict[str, Any]) -> None:
    """Give these keys of a section, in a scenario where the section is one of its own."""
    if owner == "TuneConfig":
        tune_config(keys, "file")
    elif owner in ("GraphicalConfig", "CongestionConfig"):
        config = {"GraphicalConfig": GraphicalConfig, "CongestionConfig": CongestionConfig}[owner]
        try:
            config(**{"graph": {"a": 1}, **keys} if config is GraphicalConfig else keys)
        except ValidationError as error:
            raise explain(error, "env_config") from None
    elif owner == "LanguageModelConfig":
        tried("ScriptedConfig", {"name": "language_model", "language_model": keys})
    elif owner == "ScriptedConfig":
        parse_entry(compose({"env": POLE, "policies": {"a": {"scripted": keys}}}), "a")
    else:
        compose({"env": POLE, **placed(owner, keys)})


def placed(owner: str, keys: dict[str, Any]) -> dict[str, Any]:
    """Keys of a section where they stand in a scenario."""
    sections = {
        "ModelConfig": "model", "ExplorationConfig": "exploration_config", "PopulationConfig": "population",
    }  # fmt: skip
    if owner in sections:
        return {sections[owner]: keys}
    if owner == "OptimizerConfig":
        return {"algo": {"name": "ppo", "optimizer": keys}}
    if owner == "IntrinsicConfig":
        return {"algo": {"name": "ppo", "intrinsic": keys}}
    if owner == "ServerConfig":
        return {"env": "external", "external": keys}
    if owner == "ExploitabilityConfig":
        return {"exploitability": {"interval": 1, **keys}}
    return keys if owner in ("RolloutConfig", "Scenario") else {"algo": keys}


def placed_of_policy(row: PolicyRow) -> dict[str, Any]:
    """Flat, as most keys may stand; `type` would not tell of what."""
    if row.owner == "ExplorationConfig":
        return placed(row.owner, {row.key: row.value})
    return {row.key: row.value}


def name_of(row: Row | PolicyRow) -> str:
    return f"{row.owner}.{row.key}: {row.needs}"


@pytest.mark.parametrize("row", NEEDS, ids=name_of)
def test_a_key_without_what_it_needs_is_refused_with_what_was_got_and_what_to_do(row: Row) -> None:
    with pytest.raises(ConfigError) as refused:
        tried(row.owner, {**row.without, row.key: row.value})
    told = str(refused.value)
    assert f"{row.key}: {in_yaml(row.value)} needs {row.needs}, but " in told
    assert f"or drop {row.key}" in told


@pytest.mark.parametrize("row", NEEDS, ids=name_of)
def test_a_key_with_what_it_needs_is_taken(row: Row) -> None:
    value = {**row.value, "interval": 1} if row.key == "exploitability" else row.value
    tried(row.owner, {**row.having, row.key: value})


@pytest.mark.parametrize("row", POLICY_NEEDS, ids=name_of)
def test_a_key_is_refused_for_policies_that_have_no_use_for_it(row: PolicyRow) -> None:
    name, env = row.wrong
    with pytest.raises(ConfigError) as refused:
        resolve(compose({"env": env, "algo": name, **placed_of_policy(row), **row.beside}))
    told = str(refused.value)
    verb = "is" if row.needs.startswith(("only for", "not for")) else "needs"
    assert f"{row.key}: {in_yaml(row.value)} {verb} {row.needs}, but " in told
    assert f", or drop {row.key}." in told
    assert told.startswith("policy '")


@pytest.mark.parametrize("row", POLICY_NEEDS, ids=name_of)
def test_the_same_key_is_taken_for_policies_that_have(row: PolicyRow) -> None:
    name, env = row.fits
    resolve(compose({"env": env, "algo": name, **placed_of_policy(row), **row.beside}))


@pytest.mark.parametrize(("name", "key", "value"), OF_NO_USE)
def test_keys_that_an_algorithm_only_inherits_are_refused(name: str, key: str, value: Any) -> None:
    of_whom = {"es": "es", "sarsa": "a table", "marwil": "imitation", "deep_cfr": "regrets"}[name]
    with pytest.raises(ConfigError, match=rf"{key}: .* means nothing here: .*{of_whom}.*\. Drop {key}"):
        compose({"env": POLE, "algo": {"name": name, key: value}})
    assert compose({"env": POLE, "algo": {"name": name, key: ALGOS[name].family.config.defaults()[key]}})


# -- nothing is missing ----------------------------------------------------------------------------------------------


def classes() -> list[type[Config]]:
    """Every class of keys, and those that they inherit from."""
    used = {*SECTIONS.values(), Scenario, TuneConfig, GraphicalConfig, CongestionConfig}
    used |= {ALGOS[name].family.config for name in ALGOS}
    parents = {parent for one in used for parent in one.__mro__ if issubclass(parent, Config)}
    return sorted(parents, key=lambda one: one.__name__)


def own_declarations(config: type[Config]) -> Iterator[tuple[str, Any]]:
    """What a class declares itself, of its own keys and of inherited ones."""
    yield from vars(config).get("inherited_needs", {}).items()
    for key, declared in config.declared().items():
        if key in config.__annotations__:
            yield key, declared


def test_the_tables_above_hold_every_declared_need() -> None:
    found, of_policies, unused = set(), set(), set()
    for config in classes():
        for key, declared in own_declarations(config):
            found |= {(config.__name__, key, str(need)) for need in declared.needs}
            of_policies |= {
                (config.__name__, key, str(need)) for need in (*declared.policy_needs, *declared.algo_needs)
            }
            unused |= {(config.__name__, key)} if declared.unused else set()
    assert found == {(row.owner, row.key, row.needs) for row in NEEDS}
    assert of_policies == {(row.owner, row.key, row.needs) for row in POLICY_NEEDS}
    assert unused == {(ALGOS[name].family.config.__name__, key) for name, key, _ in OF_NO_USE}


def test_help_and_reference_tell_what_keys_need() -> None:
    text = everything()
    for sentence in (
        "Needs objective: ppo, and kl_coeff above 0.", "Needs use_lstm: true or use_gru: true.", "ray needs num_workers above 0.",
        "Only for coordinates (Box actions).", "Of no use here: es has no loss.", "Needs kind: self_play.",
    ):  # fmt: skip
        assert sentence in text
    meanings = {key.name: key.meaning for key in keys_of(SECTIONS["model"])}
    assert meanings["custom_model_config"] == "Handed to the custom model. Needs custom_model."


def test_the_json_schema_tells_what_keys_need() -> None:
    schema = scenario_schema({"tune": TuneConfig})
    model = schema["$defs"]["ModelConfig"]["properties"]
    assert model["custom_model_config"]["description"].endswith("Needs custom_model.")
    assert schema["$defs"]["algo_ppo"]["properties"]["kl_target"]["needs"] == [
        "Needs objective: ppo, and kl_coeff above 0."
    ]
    assert "Of no use here" in schema["$defs"]["algo_es"]["properties"]["gamma"]["description"]
    assert "Of no use here" not in schema["$defs"]["algo_ppo"]["properties"]["gamma"]["description"]


def test_several_mistakes_are_told_at_once_each_with_one_reason() -> None:
    with pytest.raises(ConfigError) as refused:
        compose({"env": POLE, "algo": {"name": "a2c", "clip_param": 0.1, "kl_target": 0.5}})
    assert str(refused.value) == (
        "config: algo a2c: clip_param: 0.1 needs objective: ppo, but objective is a2c. Set objective, or drop clip_param. "
        "kl_target: 0.5 needs objective: ppo, but objective is a2c. Set objective, or drop kl_target."
    )


def test_what_an_algorithm_sets_itself_was_not_the_users_wish() -> None:
    ddpg = ALGOS["ddpg"]
    sharp = replace(ddpg, defaults={**ddpg.defaults, "gumbel_temperature": 0.5})
    kind = AgentType("k", ("a",), spaces.Box(-1, 1, (3,)), spaces.Box(-1, 1, (1,)))
    specs = {"a": PolicySpec("deterministic", 0)}
    check_policy_keys({"a": Role(sharp, sharp.configure(), ModelConfig(), frozenset({0}))}, specs, [kind])
    for preset, keys in ((ddpg, {"gumbel_temperature": 0.5}), (sharp, {"gumbel_temperature": 0.4})):
        with pytest.raises(ConfigError, match="is only for choices"):
            check_policy_keys(
                {"a": Role(preset, preset.configure(**keys), ModelConfig(), frozenset({0}))}, specs, [kind]
            )
