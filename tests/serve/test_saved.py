"""A stored run with clients: its addresses and files are followed only if they are given again."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from marl.driving import contract_of, drive
from marl.envs.registry import make_env
from marl.errors import ConfigError
from marl.runs.saved import SavedRun, check_given_again, places_again
from marl.training.trainer import Trainer
from tests.serve.runs import running

AGENTS, _ = contract_of(make_env("CartPole-v1"))
KEYS: dict[str, Any] = {"env_config": {"agents": AGENTS}, "evaluation": {"interval": 0}, "algo": "ppo"}


def test_a_token_file_and_a_host_of_a_stored_run_have_to_be_given_again(tmp_path: Path) -> None:
    token = tmp_path / "token"
    config = {**KEYS, "external": {"host": "0.0.0.0", "port": 0, "token_file": str(token)}}
    with Trainer(env="external", config=config) as trainer:
        saved = SavedRun.open(trainer.save(tmp_path / "kept"))
    with pytest.raises(ConfigError, match=r"external.host: '0.0.0.0', the address at which it listens"):
        check_given_again(saved.scenario, [], tmp_path)
    with pytest.raises(ConfigError, match=r"external.token_file"):
        check_given_again(saved.scenario, ["external.host"], tmp_path)
    check_given_again(saved.scenario, ["external.host", "external.token_file"], tmp_path)
    assert places_again(saved.scenario) == ["--set external.host=0.0.0.0", f"--set external.token_file={token}"]
    assert saved.to_play()["external"] is None


def test_a_run_that_listens_on_this_machine_alone_goes_on_without_a_word(tmp_path: Path) -> None:
    with Trainer(env="external", config={**KEYS, "external": {"port": 0}}) as trainer:
        saved = SavedRun.open(trainer.save(tmp_path / "kept"))
    check_given_again(saved.scenario, [], tmp_path)
    assert places_again(saved.scenario) == []


def test_the_port_of_a_run_may_change_when_it_goes_on(tmp_path: Path) -> None:
    with Trainer(env="external", config={**KEYS, "external": {"port": 0, "lock_step": True}}) as trainer:
        folder = trainer.save(tmp_path / "kept")
    changed = {**KEYS, "external": {"port": 1234, "lock_step": True, "max_sessions": 7}}
    with Trainer(env="external", config=changed, fresh=False) as trainer:
        trainer.restore(folder)
    with Trainer(env="external", config={**KEYS, "external": {"port": 0}}, fresh=False) as trainer:
        with pytest.raises(Exception, match=r"external.lock_step"):
            trainer.restore(folder)


def test_segments_that_only_checkpoints_for_playing_would_need_are_forgotten(tmp_path: Path) -> None:
    config = {
        **KEYS,
        "train_batch_size": 16,
        "sgd_minibatch_size": 16,
        "keep_resumable": 1,
        "external": {"port": 0, "lock_step": True},
    }
    with Trainer(env="external", config=config, directory=tmp_path) as trainer:
        url = trainer.workers.serve()
        with running([partial(drive, make_env("CartPole-v1"), url, patience=2.0)]):
            for _ in range(3):
                trainer.train()
                trainer.save()
            trainer.stop()
    assert len(list((tmp_path / "checkpoints").glob("checkpoint_*"))) == 2
    assert len(list((tmp_path / "journal").glob("segment_*"))) == 1


def test_a_run_whose_evaluations_have_an_env_of_their_own_can_be_played(tmp_path: Path) -> None:
    more = {
        "evaluation": {"interval": 10, "env": "CartPole-v1"},
        "goal": {"evaluation.episode_reward_mean": 450},
        "stop": {"timesteps_total": 7, "evaluation.episode_reward_mean": 450},
    }
    with Trainer(env="external", config={**KEYS, **more, "external": {"port": 0}}) as trainer:
        folder = trainer.save(tmp_path / "kept")
    assert list(SavedRun.open(folder).setup.policies) == ["default_policy"]
    assert SavedRun.open(folder).to_play()["stop"] == {"timesteps_total": 7}
