"""An external env without agents in its scenario: the first client says who plays."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from typing import Any

import pytest

from marl.driving import contract_of, drive
from marl.envs.registry import make_env
from marl.runs.saved import SavedRun
from marl.serve.first_client import FirstClient
from marl.serve.hub import Hub, Limits
from marl.serve.served import load_served
from marl.training.trainer import Trainer
from tests.serve.by_hand import refusal
from tests.serve.runs import running

KEYS: dict[str, Any] = {
    "algo": "ppo",
    "train_batch_size": 32,
    "sgd_minibatch_size": 16,
    "evaluation": {"interval": 0},
    "external": {"lock_step": True, "port": 0},
}


def test_the_first_client_says_who_plays_and_the_run_remembers_it(
    capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    came = threading.Event()

    def client() -> None:
        address = None
        while address is None:
            address = re.search(r"clients: (\S+)", "".join(said))
            if address is None:
                said.append(capfd.readouterr().err)
        drive("CartPole-v1", address[1])
        came.set()

    said: list[str] = []
    with running([client]):
        with Trainer(env="external", config=KEYS, directory=tmp_path) as trainer:
            trainer.train()
            trainer.save()
    assert came.is_set()
    agents, _ = contract_of(make_env("CartPole-v1"))
    served = load_served(str(tmp_path))
    assert list(served.contract.agents) == ["agent_0"]
    assert list(served.policies) == ["default_policy"]
    kept = SavedRun.open(tmp_path).scenario["env_config"]["agents"]
    assert kept["agent_0"]["action_space"] == agents["agent_0"]["action_space"]
    assert kept["agent_0"]["observation_space"] == agents["agent_0"]["observation_space"]


def test_what_cannot_be_is_refused_before_anybody_is_waited_for() -> None:
    with pytest.raises(Exception, match=r"num_workers is 2, but with env: external clients play"):
        Trainer(env="external", config={**KEYS, "num_workers": 2})


def test_before_a_run_in_lock_step_is_there_an_episode_that_is_only_played_is_refused_at_once() -> None:
    async def play() -> None:
        stage = FirstClient(lock_step=True)
        hub = Hub(stage, Limits())
        agents, _ = contract_of(make_env("CartPole-v1"))
        session = (await hub.answer("hello", {"protocol": "marl/1", "agents": agents}))["session"]
        told = await refusal(hub.answer("start", {"session": session, "episode": "e", "training": False}))
        assert told.code == "not_learnable"
        assert not hub.desk.episodes

    asyncio.run(play())
