"""No field of any result lacks an explanation, and the table explains nothing that does not exist."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marl import Trainer
from marl.algos.presets import ALGOS
from marl.cli.app import app
from marl.errors import ConfigError
from marl.runs.fields import explain, fields_of, meaning_of, table
from marl.runs.result import check_field
from marl.scenario.load import compose, read_yaml

SMALL: dict[str, Any] = {"env": "two_step_game", "fcnet_hiddens": [8], "evaluation": {"interval": 1, "episodes": 2}}
ON_POLICY: dict[str, Any] = {"train_batch_size": 32}
OFF_POLICY: dict[str, Any] = {
    "train_batch_size": 8, "timesteps_per_iteration": 32, "learning_starts": 0, "updates_per_step": 0.25,
    "full_td_error": True,
}  # fmt: skip
TABLES: dict[str, Any] = {"timesteps_per_iteration": 32, "fcnet_hiddens": [256, 256]}  # the default: there are none
EVOLUTION: dict[str, Any] = {"num_perturbations": 2, "episodes_per_perturbation": 1, "timesteps_per_iteration": 8}
WALKS: dict[str, Any] = {"traversals": 2, "regret_updates": 2, "average_updates": 2, "timesteps_per_iteration": 8}
FAMILIES: dict[str, dict[str, Any]] = {
    **dict.fromkeys(
        [
            "pg",
            "a2c",
            "a3c",
            "ia2c",
            "maa2c",
            "coma",
            "ppo",
            "ippo",
            "mappo",
            "happo",
            "mmd",
            "nashpg",
            "rnad",
            "impala",
            "marwil",
            "bc",
        ],
        ON_POLICY,
    ),
    **dict.fromkeys(
        ["dqn", "vdn", "qmix", "apex", "ddpg", "td3", "maddpg", "apex_ddpg", "sac", "masac", "nfsp"], OFF_POLICY
    ),
    **dict.fromkeys(["iql", "hysteretic", "noisy_dqn", "rainbow", "softq"], OFF_POLICY),
    **dict.fromkeys(["q_learning", "sarsa", "monte_carlo"], TABLES),
    "es": EVOLUTION,
    **dict.fromkeys(["deep_cfr", "escher"], WALKS),
}


def seen(trainer: Trainer, directory: Path, iterations: int = 1) -> list[str]:
    """Fields of result.json after some iterations."""
    trainer.store.open(directory)
    for _ in range(iterations):
        trainer.train()
    results = [json.loads(line) for line in (directory / "result.json").read_text().splitlines()]
    found = [field for result in results for field in fields_of(result)]
    return list(dict.fromkeys(found))


def unexplained(fields: list[str]) -> list[str]:
    """Fields without a row, or with one that only says that the user knows."""
    found = {field: meaning_of(field) for field in fields}
    empty = ("custom_metrics", "episode_media")
    return [f for f, row in found.items() if row is None or (row.is_users_own and f.split(".")[-1] not in empty)]


@pytest.mark.parametrize("algo", FAMILIES)
def test_every_number_of_every_algorithm_is_explained(algo: str, tmp_path: Path) -> None:
    with Trainer(algo, config={**SMALL, **FAMILIES[algo]}) as trainer:
        fields = seen(trainer, tmp_path)
        policies = trainer.policies_to_train
    assert unexplained(fields) == []
    assert {field.split(".")[2] for field in fields if field.startswith("info.learner.")} == policies
    assert any(".learner_stats." in field for field in fields)


def test_the_test_above_knows_every_algorithm() -> None:
    assert set(FAMILIES) == set(ALGOS)


def test_populations_and_exploitability_are_explained(tmp_path: Path) -> None:
    keys = {
        "env": "matrix_game", "env_config": {"game": "rock_paper_scissors"}, "fcnet_hiddens": [4], **ON_POLICY,
        "population": {"kind": "psro", "round_timesteps": 32, "matches": 4}, "exploitability": {"interval": 1},
        "evaluation": {"interval": 1, "episodes": 2},
    }  # fmt: skip
    with Trainer("ppo", config=keys) as trainer:
        fields = seen(trainer, tmp_path, iterations=3)
    assert unexplained(fields) == []
    assert {"exploitability.nash_conv", "population.gain_of_round", "timers.population_time_ms"} <= set(fields)


def test_regularised_and_changing_learners_are_explained(tmp_path: Path) -> None:
    keys = {**SMALL, **ON_POLICY, "magnet_coeff": 0.1, "kl_coeff": 0.2, "log_sys_usage": False}
    with Trainer("ppo", config=keys) as trainer:
        fields = seen(trainer, tmp_path)
    assert unexplained(fields) == []
    assert any(field.endswith(".magnet_kl") for field in fields)
    assert any(field.endswith(".cur_kl_coeff") for field in fields)


def test_hierarchies_and_recorded_episodes_are_explained(tmp_path: Path) -> None:
    raw = read_yaml(Path("scenarios/windy_maze_two_levels.yaml"))
    raw |= {"algo": {"name": "ppo", "train_batch_size": 128}, "num_envs_per_worker": 4}
    with Trainer(scenario=compose(raw)) as trainer:
        assert unexplained(seen(trainer, tmp_path / "levels")) == []
    recorded = {"output": str(tmp_path / "data"), **SMALL, **ON_POLICY}
    with Trainer("ppo", config=recorded) as trainer:
        trainer.train()
    with Trainer("bc", config={**SMALL, **ON_POLICY, "input": str(tmp_path / "data")}) as trainer:
        fields = seen(trainer, tmp_path / "read")
    assert unexplained(fields) == []
    assert "info.num_passes" in fields


@pytest.mark.ray
def test_asynchronous_runs_are_explained(tmp_path: Path, ray_session: None) -> None:
    keys = {**SMALL, **ON_POLICY, "num_workers": 2, "collection": "async", "rollout_fragment_length": 8}
    with Trainer("impala", config=keys) as trainer:
        fields = seen(trainer, tmp_path)
    assert unexplained(fields) == []
    assert {"info.policy_lag_mean", "info.policy_lag_max"} <= set(fields)


# --- the table and the command ------------------------------------------------------------------------------


def test_rows_are_sentences_with_a_unit_and_no_name_comes_twice() -> None:
    names = [row.name for row in table()]
    assert len(names) == len(set(names))
    for row in table():
        assert row.text.endswith("."), row
        assert row.text[0].isupper() or row.text.split()[0] in {"marwil:", "nfsp:", "sac's", "exact,"}, row
        assert 20 < len(row.text) < 300, row


def test_names_with_dots_and_the_blocks_of_evaluation_are_found() -> None:
    assert meaning_of("policy_reward_mean.team.answer") == meaning_of("policy_reward_mean.POLICY")
    inner, outer = meaning_of("episode_len_mean"), meaning_of("evaluation.episode_len_mean")
    assert inner is not None
    assert outer is not None
    assert outer.text.endswith(inner.text)
    assert outer.text.startswith("In the evaluation")
    assert meaning_of("episode_rewards") is None
    assert meaning_of("info.nothing") is None


def test_evaluations_are_not_said_to_cover_the_episodes_of_training() -> None:
    inner, outer = meaning_of("episode_reward_mean"), meaning_of("evaluation.episode_reward_mean")
    assert inner is not None
    assert outer is not None
    assert "last 100" in inner.text
    assert "last 100" not in outer.text
    assert "earned together in an episode." in outer.text


def test_a_field_is_explained_by_its_name_its_end_or_its_block() -> None:
    assert "one policy that learns" in explain("info.learner.pol1")
    assert explain("episode_len_mean").startswith("episode_len_mean (env steps)\n    The mean length")
    assert "info.learner.POLICY.learner_stats.td_loss (squared reward)" in explain("td_loss")
    assert explain("timers/sample_time_ms") == explain("timers.sample_time_ms")
    assert len([line for line in explain("sampler_perf").splitlines() if not line.startswith(" ")]) == 5
    assert all(row.name in explain() for row in table())


def test_the_command_explains_and_suggests_the_nearest_name() -> None:
    told = CliRunner().invoke(app, ["explain", "num_target_updates"])
    assert told.exit_code == 0
    assert "info.num_target_updates (updates)" in told.stdout
    with pytest.raises(
        ConfigError, match=r"no result has a field 'episode_reward_meen'. Did you mean 'episode_reward_mean'"
    ):
        explain("episode_reward_meen")


def test_goals_take_any_number_of_the_table_and_nothing_else() -> None:
    for field in ("info.num_updates", "timers.learn_time_ms", "custom_metrics.angle_mean", "perf.cpu_util_percent"):
        check_field(field, ["p"], "goal")
    for field in ("info.num_updatez", "hostname", "hist_stats.episode_reward", "evaluation.timers.learn_time_ms"):
        with pytest.raises(ConfigError, match="no result has a field"):
            check_field(field, ["p"], "goal")
