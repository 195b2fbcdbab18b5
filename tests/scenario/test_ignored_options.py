"""A key that would be ignored is refused, with what to do about it; its default may always stand there."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from gymnasium import spaces

from marl.algos.presets import ALGOS
from marl.data.task import AgentType
from marl.errors import ConfigError
from marl.policies.build import build_policy
from marl.policies.config import ModelConfig, PolicySpec
from marl.scenario.describe import describe
from marl.scenario.load import compose
from marl.training.trainer import Trainer

POLE, PENDULUM, GAME = "CartPole-v1", "Pendulum-v1", "two_step_game"
SMALL: dict[str, Any] = {"fcnet_hiddens": [4], "evaluation": {"interval": 0}, "num_workers": 0}
NOISE = {"exploration_config": {"type": "GaussianNoise"}}
SCHEDULE = [[0, 0.1], [100, 0.01]]

ALPHA = {"prioritized_replay_alpha": 0.5}
BETA = {"prioritized_replay_beta": 0.5}
REFUSED: list[tuple[str, str, dict[str, Any], str]] = [
    *((algo, POLE, {"vf_share_layers": True}, "drop vf_share_layers") for algo in ("dqn", "vdn", "qmix", "apex")),
    ("dqn", POLE, {"free_log_std": True}, "drop free_log_std"),
    *(("nfsp", POLE, {key: value}, f"drop {key}") for key, value in (
        ("vf_share_layers", True), ("free_log_std", True), ("custom_action_dist", "mine"), ("shared", {"encoder": "x"}),
    )),
    ("nfsp", POLE, ALPHA, "alpha: 0.5 needs prioritized_replay: true, but prioritized_replay is false"),
    ("dqn", POLE, {"custom_action_dist": "mine"}, "drop custom_action_dist"),
    ("ppo", POLE, {"free_log_std": True}, r"is only for coordinates .*, but it plays agents with Discrete\(2\).*drop free_log_std"),
    ("ppo", PENDULUM, {"free_log_std": True, **NOISE}, r"GaussianNoise sets their deviation\. Drop it"),
    ("sac", POLE, {"free_log_std": True}, "drop free_log_std"),
    ("pg", POLE, {"vf_share_layers": True}, "needs objective other than pg, but objective is pg .*pg learns no values.*drop vf_share_layers"),
    ("bc", POLE, {"max_advantage_weight": 2.0}, "max_advantage_weight: 2 needs beta above 0, but beta is 0.*drop max_advantage_weight"),
    ("bc", POLE, {"moving_average_sqd_adv_norm_start": 2.0}, "adv_norm_start: 2 needs beta above 0, but beta is 0"),
    ("bc", POLE, {"moving_average_sqd_adv_norm_update_rate": 0.5}, "update_rate: 0.5 needs beta above 0, but beta is 0"),
    ("bc", POLE, {"gamma": 0.9}, "gamma: 0.9 needs vf_coeff above 0, but vf_coeff is 0"),
    ("marwil", POLE, {"beta": 0, "max_advantage_weight": 2.0}, "max_advantage_weight: 2 needs beta above 0, but beta is 0"),
    ("vdn", GAME, {"mixing_embed_dim": 8}, "mixing_embed_dim: 8 needs mixer: monotonic, but mixer is sum .qmix.*or drop mixing_embed_dim"),
    ("dqn", GAME, {"mixing_embed_dim": 8}, "mixing_embed_dim: 8 needs mixer: monotonic, but mixer is none"),
    *((algo, POLE, ALPHA, "alpha: 0.5 needs prioritized_replay: true, but prioritized_replay is false") for algo in ("dqn", "ddpg", "sac")),
    *((algo, POLE, BETA, "beta: 0.5 needs prioritized_replay: true, but prioritized_replay is false") for algo in ("dqn", "ddpg", "sac")),
    ("ppo", POLE, {"kl_target": 0.02}, "kl_target: 0.02 needs kl_coeff above 0, but kl_coeff is 0. Set kl_coeff"),
    ("ppo", POLE, {"magnet_tau": 0.5}, "magnet_tau: 0.5 needs magnet_coeff above 0, but magnet_coeff is 0. Set magnet_coeff"),
    ("ppo", POLE, {"max_seq_len": 7}, "max_seq_len: 7 needs use_lstm: true, use_gru: true, use_attention: true or custom_model, but .*custom_model is not given"),
    ("ppo", POLE, {"lstm_cell_size": 7}, "lstm_cell_size: 7 needs use_lstm: true or use_gru: true, but"),
    ("ppo", POLE, {"lstm_cell_size": 7, "custom_model": "mine"}, "lstm_cell_size: 7 needs use_lstm: true or use_gru: true, but"),
    ("es", POLE, {"max_seq_len": 7, "use_lstm": True}, "max_seq_len: 7 is not for es.*no sequences.*drop max_seq_len"),
    ("ppo", POLE, {"optimizer": {"momentum": 0.9}}, "momentum: 0.9 needs type: sgd or rmsprop, but type is adam.*or drop momentum"),
    ("ppo", POLE, {"optimizer": {"type": "sgd", "eps": 0.1}}, "eps: 0.1 needs type: adam or rmsprop, but type is sgd.*or drop eps"),
    ("ddpg", PENDULUM, {"lr_schedule": SCHEDULE, "actor_lr": 0.1, "critic_lr": 0.1}, "lr_schedule: .* needs no actor_lr or no critic_lr, but actor_lr is 0.1 and critic_lr is 0.1"),
    ("ddpg", PENDULUM, {"lr": 0.1, "actor_lr": 0.1, "critic_lr": 0.1}, "lr: 0.1 needs no actor_lr or no critic_lr, but actor_lr is 0.1 and critic_lr is 0.1"),
    ("sac", PENDULUM, {"lr_schedule": SCHEDULE, "actor_lr": 0.1, "critic_lr": 0.1, "alpha_lr": 0}, "lr_schedule: .* needs no actor_lr, no critic_lr or no alpha_lr"),
    ("td3", POLE, {"target_noise": 0.3}, r"target_noise: 0\.3 is only for coordinates .*Drop target_noise"),
    ("td3", POLE, {"target_noise_clip": 0.3}, r"target_noise_clip: 0\.3 is only for coordinates .*Drop target_noise_clip"),
    ("ddpg", PENDULUM, {"target_noise_clip": 0.3}, "target_noise_clip: 0.3 needs target_noise above 0, but target_noise is 0"),
    ("ddpg", PENDULUM, {"gumbel_temperature": 0.5}, r"gumbel_temperature: 0\.5 is only for choices .*drop gumbel_temperature"),
    ("sac", PENDULUM, {"target_entropy_share": 0.3}, "share of the entropy of Discrete actions.*drop target_entropy_share"),
    ("sac", POLE, {"target_entropy_share": 0.3, "target_entropy": 0.2}, "target_entropy_share: 0.3 needs target_entropy: auto, but target_entropy is 0.2"),
    *((algo, POLE, {"custom_loss_config": {"weight": 1}}, "Set custom_loss, or drop custom_loss_config")
      for algo in ("ppo", "dqn", "ddpg", "sac", "marwil")),
    ("ppo", POLE, {"custom_model_config": {"size": 1}}, "Set custom_model, or drop custom_model_config"),
    ("ppo", POLE, {"custom_preprocessor_config": {"size": 1}}, "Set custom_preprocessor, or drop"),
    ("ddpg", PENDULUM, {"normalize_actions": False}, "normalize_actions is false.*Drop normalize_actions"),
    ("sac", PENDULUM, {"normalize_actions": False}, "normalize_actions is false.*Drop normalize_actions"),
]  # fmt: skip


@pytest.mark.parametrize(("algo", "env", "keys", "text"), REFUSED, ids=lambda part: str(part)[:60])
def test_a_key_that_would_be_ignored_is_refused_before_the_start(
    algo: str, env: str, keys: dict[str, Any], text: str
) -> None:
    with pytest.raises(ConfigError, match=text):
        Trainer(algo, config={**SMALL, "env": env, **keys})


COUNTED: list[tuple[str, str, dict[str, Any]]] = [
    *((algo, POLE if algo in ("dqn", "apex", "td3", "maddpg", "sac") else GAME, {}) for algo in ALGOS
      if ALGOS[algo].family.name != "tabular"),  # they have no layers: tests/algos/test_tabular.py
    ("td3", PENDULUM, {"target_noise": 0.3, "target_noise_clip": 0.3}),
    ("td3", POLE, {"gumbel_temperature": 0.5, "lr_schedule": SCHEDULE, "actor_lr": 0.1}),
    ("sac", PENDULUM, {"free_log_std": True, "target_entropy": -2.0, "alpha_lr": 0.1, "lr": 0.1}),
    ("sac", POLE, {"target_entropy_share": 0.3, "normalize_actions": False}),
    ("ppo", PENDULUM, {"free_log_std": True, "normalize_actions": False, "optimizer": {"type": "sgd", "momentum": 0.9}}),
    ("ppo", POLE, {"use_gru": True, "lstm_cell_size": 7, "max_seq_len": 7, "kl_coeff": 0.2, "kl_target": 0.02}),
    ("apex", POLE, {**ALPHA, **BETA}),
    ("qmix", GAME, {"mixing_embed_dim": 8}),
    ("marwil", POLE, {"beta": 0, "gamma": 0.9}),
]  # fmt: skip


@pytest.mark.parametrize(("algo", "env", "keys"), COUNTED, ids=lambda part: str(part)[:60])
def test_the_complete_form_of_a_run_with_keys_that_count_loads_and_builds_again(
    algo: str, env: str, keys: dict[str, Any]
) -> None:
    complete = describe(compose({**SMALL, "algo": algo, "env": env, **keys}))
    again = yaml.safe_load(yaml.safe_dump(complete))
    with Trainer(algo, config=again) as trainer:
        assert describe(trainer.scenario) == complete


@pytest.mark.parametrize("acts", ["value", "stochastic", "deterministic", "squashed", "nfsp"])
@pytest.mark.parametrize("observation_filter", ["NoFilter", "MeanStdFilter"])
def test_every_policy_with_a_filter_says_that_it_keeps_statistics(acts: str, observation_filter: Any) -> None:
    kind = AgentType("k", ("a",), spaces.Box(-1, 1, (3,)), spaces.Discrete(2))
    spec = PolicySpec(acts, 0, ModelConfig(fcnet_hiddens=[4], observation_filter=observation_filter))
    assert build_policy(spec, kind).keeps_statistics is (observation_filter == "MeanStdFilter")


def test_the_temperature_of_sac_does_not_decay() -> None:
    config = {**SMALL, "env": POLE, "optimizer": {"weight_decay": 0.1}}
    with Trainer("sac", config=config) as trainer:
        (pupil,) = trainer.learners[0].actor_critics.values()
        decays = {name: block.config.weight_decay for name, block in pupil.optimisers.items()}
    assert decays == {"actor": 0.1, "critic": 0.1, "alpha": 0.0}


def test_a_key_of_other_algorithms_is_not_called_unknown() -> None:
    with pytest.raises(ConfigError, match=r"sac has no key 'clip_param'; it belongs to .*ppo"):
        Trainer("sac", env="CartPole-v1", config={"clip_param": 0.1})


def test_a_mistyped_flat_key_gets_a_guess_and_no_list_of_a_hundred_names() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean 'train_batch_size'") as told:
        Trainer("ppo", env="CartPole-v1", config={"train_batchsize": 100})
    assert len(str(told.value)) < 200


def test_hypernetworks_are_refused_where_nothing_is_mixed_by_one() -> None:
    with pytest.raises(ConfigError, match=r"hypernet_embed: 8 needs mixer: monotonic, but mixer is sum"):
        Trainer("vdn", env="two_step_game", config={"hypernet_embed": 8})
