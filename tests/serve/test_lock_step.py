"""In lock-step a run that learns from clients over the network equals the run in this process, bit for bit."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from marl.client import PolicyClient, PolicyClientError
from marl.errors import StoppedWaitingError
from marl.training.trainer import Trainer
from tests.serve.runs import external, played_elsewhere, played_here, running, same_weights

BASE: dict[str, Any] = {"evaluation": {"interval": 0}, "seed": 3, "log_sys_usage": False}
PPO = {**BASE, "algo": "ppo", "train_batch_size": 64, "sgd_minibatch_size": 32, "num_sgd_iter": 2}
DQN = {**BASE, "algo": "dqn", "learning_starts": 16, "timesteps_per_iteration": 40, "train_batch_size": 8}
QMIX = {**DQN, "algo": "qmix"}
SMALL_ROADS = {"max_cars": 4, "lights": 1, "block_length": 2, "episode_length": 25, "arrival_rate": 0.5}


def same(env: str, keys: dict[str, Any], clients: int, iterations: int = 2) -> list[dict[str, Any]]:
    keys = {**keys, "num_envs_per_worker": clients}
    here_lines, here = played_here(env, keys, iterations)
    lines, elsewhere = played_elsewhere(env, keys, iterations, clients)
    assert lines == here_lines
    assert same_weights(elsewhere, here)
    return lines


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("keys", [PPO, DQN], ids=["ppo", "dqn"])
def test_cartpole_over_the_network_equals_cartpole_here(keys: dict[str, Any], clients: int) -> None:
    lines = same("CartPole-v1", keys, clients, iterations=3)
    assert lines[-1]["episodes_total"] > 0
    assert lines[-1]["info"]["num_updates"] > 0


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("keys", [PPO, QMIX], ids=["ppo", "qmix"])
def test_the_two_step_game_over_the_network_equals_the_one_here(keys: dict[str, Any], clients: int) -> None:
    lines = same("two_step_game", keys, clients)
    assert lines[-1]["info"]["num_updates"] > 0


@pytest.mark.parametrize("clients", [1, 4])
def test_agents_that_come_and_go_are_learned_from_as_if_they_were_here(clients: int) -> None:
    lines = same("traffic", {**PPO, "env_config": SMALL_ROADS, "train_batch_size": 120}, clients)
    assert lines[-1]["episodes_total"] > 0
    assert len(lines[-1]["agent_reward_mean"]) > 4, "no car has come later"


def test_a_horizon_ends_episodes_of_clients_and_they_begin_new_ones() -> None:
    lines = same("CartPole-v1", {**PPO, "horizon": 7}, clients=2)
    assert lines[-1]["episode_len_mean"] == 7.0


def test_a_policy_with_memory_remembers_across_messages() -> None:
    same("CartPole-v1", {**PPO, "model": {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 4}}, clients=2)


def test_whole_episodes_are_handed_over_whole() -> None:
    same("two_step_game", {**BASE, "algo": "pg", "train_batch_size": 32}, clients=2)


def test_a_hierarchy_around_the_clients_env_has_clocks_of_its_own() -> None:
    goals = {"changes": [[-0.1], [0.1]], "tolerance": 0.05}
    levels = [{"name": "top_level", "horizon": 3, "goals": goals}, {"name": "low_level"}]
    keys = {**PPO, "wrappers": [{"hierarchy": {"features": [2], "levels": levels}}], "policy_mapping_fn": "levels"}
    same("CartPole-v1", keys, clients=2)


def refusal(keys: dict[str, Any], kind: str, **message: Any) -> PolicyClientError:
    with Trainer(env="external", config=external("CartPole-v1", {**keys, "num_envs_per_worker": 1})) as trainer:
        client = PolicyClient(trainer.workers.serve(), patience=2.0)
        with running([lambda: suppressed(trainer.train)]), pytest.raises(PolicyClientError) as refused:
            episode = client.start(**message)["episode"]
            agents = {"agent_0": {"obs": [0.0, 0.0, 0.0, 0.0]}}
            client.ask(
                kind, episode=episode, t=0, agents=agents, actions={"agent_0": 1}, logp={"agent_0": -0.7}, version=0
            )
        trainer.workers.stop_waiting()
    return refused.value


def suppressed(job: Any) -> None:
    with suppress(StoppedWaitingError):
        job()


def test_in_lock_step_an_on_policy_learner_takes_no_actions_that_clients_chose_themselves() -> None:
    refused = refusal(PPO, "log")
    assert refused.code == "not_learnable"
    assert "lock_step: false" in str(refused)


def test_in_lock_step_no_episode_is_only_played() -> None:
    refused = refusal(DQN, "log", training=False)
    assert refused.code == "not_learnable"
    assert "marl serve" in str(refused)
