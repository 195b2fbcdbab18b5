"""Local inference: the client has the policy, the server what came of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl import PolicyClient, PolicyClientError
from marl.envs.registry import make_env
from marl.serve.local import policy_of
from marl.serve.served import load_served
from tests.serve.players import server, trained
from tests.serve.runs import external, running

SMALL: dict[str, Any] = {"model": {"fcnet_hiddens": [16]}, "train_batch_size": 64}
MEMORY: dict[str, Any] = {"model": {"fcnet_hiddens": [16], "use_gru": True, "max_seq_len": 4}, "train_batch_size": 64}
RUNS = {
    "plain": ("CartPole-v1", SMALL),
    "memory": ("CartPole-v1", MEMORY),
    "numbers": ("Pendulum-v1", SMALL),
    "masks": ("pettingzoo:classic/tictactoe_v3", SMALL),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_policy_that_was_downloaded_acts_as_the_server_does(name: str, tmp_path: Path) -> None:
    """Greedily, so that both do the same; also with a memory and over several steps."""
    env, config = RUNS[name]
    run = trained(tmp_path / "run", "ppo", env, **config)
    with server(load_served(str(run))) as there:
        url = there.server.url
        here, remote = PolicyClient(url, inference_mode="local"), PolicyClient(url)
        world = make_env(env)
        obs, _ = world.reset(seed=3)
        first, second = here.start_episode(), remote.start_episode()
        for _ in range(6):
            mine, theirs = here.get_action(first, obs), remote.get_action(second, obs)
            assert mine.keys() == theirs.keys()
            for agent, action in mine.items():
                assert np.allclose(action, theirs[agent], atol=1e-5)
            moves = {a: np.asarray(action, world.action_space(a).dtype) for a, action in theirs.items()}
            obs, rewards, terminated, _, _ = world.step({a: m if m.shape else m.item() for a, m in moves.items()})
            for client, episode in ((here, first), (remote, second)):
                client.log_returns(episode, {agent: float(paid) for agent, paid in rewards.items()})
            if any(terminated.values()):
                break
        assert here.end_episode(first) == remote.end_episode(second)
        here.close()
        remote.close()


@pytest.mark.slow
def test_a_run_learns_from_drivers_that_act_themselves_and_get_newer_weights() -> None:
    keys = {
        "algo": "impala",
        "train_batch_size": 64,
        "evaluation": {"interval": 0},
        "seed": 1,
        "num_envs_per_worker": 2,
    }
    config = external("CartPole-v1", keys, lock_step=False)
    driven: list[Any] = []

    def play(url: str) -> None:
        driven.append(marl.drive("CartPole-v1", url, inference_mode="local", update_interval=0.0, patience=2.0))

    with marl.Trainer(env="external", config=config) as trainer:
        url = trainer.workers.serve()
        with running([lambda: play(url)] * 2):
            result: dict[str, Any] = {}
            for _ in range(4):
                result = trainer.train()
            client = PolicyClient(url, inference_mode="local", update_interval=0.0)
            episode = client.start_episode()
            client.get_action(episode, np.zeros(4, np.float32))
            assert client.local.versions["default_policy"] > 1
            client.close()
            trainer.stop()
    assert result["timesteps_total"] >= 4 * 64
    assert sum(one.steps for one in driven) >= 4 * 64


def test_agents_whose_policy_the_server_draws_are_not_played_here() -> None:
    policies = [{"policy": "a", "agents": ["car_*"]}, {"policy": "b", "agents": ["car_*", "light"]}]
    assert policy_of("light", policies) == "b"
    assert policy_of("anybody", policies[:1]) == "a"
    for agent in ("car_1", "ship"):
        with pytest.raises(PolicyClientError, match="inference_mode='remote'"):
            policy_of(agent, policies)


def test_a_policy_that_does_not_come_is_told(tmp_path: Path) -> None:
    from tests.serve.instant import OBS, serving

    with serving() as there:  # its stage gives no policies away
        client = PolicyClient(there.url, inference_mode="local")
        with pytest.raises(PolicyClientError, match="does not give its policies away") as refused:
            client.get_action(client.start_episode(), {"a": OBS})
        assert refused.value.code == "not_found"
        client.close()
