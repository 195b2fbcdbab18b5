"""Clients that play on while learners learn: every decision once, and each learner gets what it can use."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl.client import PolicyClient, PolicyClientError
from marl.driving import contract_of, drive
from marl.errors import ConfigError
from marl.serve.fragments import Fragment
from marl.training.trainer import Trainer
from tests.serve.ledger_env import LedgerEnv
from tests.serve.runs import running

BASE: dict[str, Any] = {"evaluation": {"interval": 0}, "seed": 1, "log_sys_usage": False}
DQN = {**BASE, "algo": "dqn", "learning_starts": 16, "train_batch_size": 8, "timesteps_per_iteration": 200}
PPO = {**BASE, "algo": "ppo", "train_batch_size": 40, "sgd_minibatch_size": 20, "num_sgd_iter": 2}


def free(keys: dict[str, Any], slots: int) -> dict[str, Any]:
    agents, state_size = contract_of(LedgerEnv(0))
    config = {"agents": agents, "state_size": state_size}
    return {**keys, "num_envs_per_worker": slots, "env_config": config, "external": {"port": 0}}


class Watched:
    """A trainer with clients, and every fragment that its pool has taken, with what its learners got of it."""

    def __init__(self, keys: dict[str, Any], slots: int, **options: Any) -> None:
        self.envs = [LedgerEnv(number + 1) for number in range(slots)]
        self.fragments: list[Fragment] = []
        self.batches: list[Any] = []
        self.fresh: list[tuple[int, int]] = []  # env steps that learners got, and those of the newest weights
        self.trainer = Trainer(env="external", config=free(keys, slots))
        pool: Any = self.trainer.workers
        take, collect = pool._next_fragment, pool.collect

        def taken() -> Fragment:
            self.fragments.append(take())
            return self.fragments[-1]

        def collected(steps: int) -> Any:
            found = collect(steps)
            self.batches.append(found.batch)
            fragment = self.fragments[-1]
            newest = fragment.versions[fragment.rollout.batch.context :] == pool.version
            self.fresh.append((found.batch.env_steps, int(newest.sum())))
            return found

        pool._next_fragment, pool.collect = taken, collected
        url = pool.serve()
        self.jobs = [lambda env=env: drive(env, url, patience=2.0, **options) for env in self.envs]

    def train(self, iterations: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        with running(self.jobs):
            for _ in range(iterations):
                result = self.trainer.train()
            self.trainer.stop()
        return result

    @property
    def asked(self) -> dict[tuple[int, int, int], int]:
        found: dict[tuple[int, int, int], int] = {}
        for env in self.envs:
            found |= env.asked
        return found


def decisions(batch: Any) -> list[tuple[tuple[int, int, int], int]]:
    """What was decided and became known in a batch, by what the observation says."""
    found = []
    for t, e, a in np.argwhere(batch.active).tolist():
        episode, step, agent = batch.obs[0][t, e, a].tolist()
        found.append(((int(episode), int(step), int(agent)), int(batch.actions[0][t, e, a])))
    return found


def test_every_decision_of_every_client_is_learned_from_once_and_as_it_was_taken() -> None:
    watched = Watched({**DQN, "rollout_fragment_length": 7}, slots=3)
    watched.train(2)
    learned = [one for batch in watched.batches for one in decisions(batch)]
    keys = [key for key, _ in learned]
    assert len(keys) == len(set(keys)), "something was learned from twice"
    assert all(watched.asked[key] == action for key, action in learned)
    # Per slot, all decisions up to the last fragment are there: only what is still open or not handed over is missing.
    for slot in range(3):
        rows = [(int(b.obs[0][t, 0, 0, 0]), int(b.t[t, 0])) for b in watched.batches if b.first_lane == slot
                for t in range(b.context, len(b.t))]  # fmt: skip
        for before, after in pairwise(rows):
            continues = after == (before[0], before[1] + 1)
            assert continues or after[1] == 0, "a row is missing between two fragments"
    alive = {key for key in watched.asked if key not in set(keys)}
    newest = {key[0] for key in alive}
    assert len(newest) <= 2 * 3 + 3, "decisions of episodes in the past were lost"


def test_versions_of_a_slot_only_grow_and_on_policy_learners_get_the_newest_alone() -> None:
    watched = Watched({**PPO, "rollout_fragment_length": 10}, slots=2)
    result = watched.train(6)
    for slot in range(2):
        versions = np.concatenate([f.versions[f.rollout.batch.context :] for f in watched.fragments if f.slot == slot])
        assert (np.diff(versions) >= 0).all()
    assert all(got == fresh for got, fresh in watched.fresh)
    collected = sum(f.rollout.batch.env_steps for f in watched.fragments)
    dropped = int(result["info"]["stale_steps_dropped"])
    assert result["timesteps_total"] + dropped == collected
    assert result["info"]["num_clients"] == 2


def test_a_learner_with_a_replay_drops_nothing() -> None:
    watched = Watched({**DQN, "timesteps_per_iteration": 60}, slots=2)
    result = watched.train(2)
    assert result["info"]["stale_steps_dropped"] == 0
    assert result["timesteps_total"] == sum(f.rollout.batch.env_steps for f in watched.fragments)


def test_episodes_that_are_only_played_are_not_learned_from() -> None:
    watched = Watched({**DQN, "timesteps_per_iteration": 60}, slots=2)
    played = LedgerEnv(9)
    url = watched.trainer.workers.service.url
    watched.jobs.append(lambda: drive(played, url, training=False, episodes=5, patience=2.0))
    watched.train(3)
    assert len(played.asked) > 10
    learned = {key for batch in watched.batches for key, _ in decisions(batch)}
    assert not {key for key in learned if key[0] >= 9000}


def own_step(client: PolicyClient, episode: str, t: int, env: LedgerEnv, obs: Any, rewards: Any, **more: Any) -> Any:
    agents = {agent: {"obs": seen.tolist()} for agent, seen in obs.items()}
    for agent, reward in rewards.items():
        agents.setdefault(agent, {})["reward"] = reward
    actions = {agent: (env.t + i) % 3 for i, agent in enumerate(obs)}
    client.log(episode=episode, t=t, agents=agents, actions=actions, **more)
    return actions


def play_own(url: str, env: LedgerEnv, episodes: int, **more: Any) -> None:
    """A client that acts by itself and only reports."""
    client = PolicyClient(url, patience=2.0)
    client.final = ("closing",)
    for _ in range(episodes):
        episode = client.start()["episode"]
        (obs, _), rewards, t, over = env.reset(), {}, 0, False
        while not over:
            actions = own_step(client, episode, t, env, obs, rewards, **more)
            obs, rewards, ended, _, _ = env.step(actions)
            t, over = t + 1, ended["__all__"]
        last = {
            agent: {"obs": seen.tolist(), "reward": rewards[agent], "terminated": True} for agent, seen in obs.items()
        }
        client.end(episode=episode, t=t, agents=last)


def test_what_clients_did_themselves_is_learned_from_as_it_was_done() -> None:
    watched = Watched({**DQN, "timesteps_per_iteration": 60}, slots=1)
    env = watched.envs[0]
    url = watched.trainer.workers.service.url

    def job() -> None:
        with suppress(PolicyClientError):  # the run has ended
            play_own(url, env, 1000)

    watched.jobs = [job]
    watched.train(2)
    learned = [one for batch in watched.batches for one in decisions(batch)]
    assert len(learned) > 50
    assert all(watched.asked[key] == action == (key[1] + key[2]) % 3 for key, action in learned)


def test_an_on_policy_learner_refuses_what_clients_did_themselves_unless_they_say_by_which_weights() -> None:
    watched = Watched({**PPO, "train_batch_size": 20}, slots=1)
    url = watched.trainer.workers.service.url
    with pytest.raises(
        PolicyClientError, match="log has no logp, and policy 'default_policy' learns by ppo"
    ) as refused:
        play_own(url, watched.envs[0], 1)
    assert refused.value.code == "not_learnable"
    watched.trainer.stop()


def test_a_policy_with_memory_refuses_what_did_not_go_through_it() -> None:
    watched = Watched({**PPO, "model": {"use_lstm": True, "lstm_cell_size": 4}}, slots=1)
    with pytest.raises(PolicyClientError, match="has a memory") as refused:
        play_own(watched.trainer.workers.service.url, watched.envs[0], 1)
    assert refused.value.code == "not_learnable"
    watched.trainer.stop()


def test_agents_with_a_memory_and_a_hierarchy_learn_while_clients_play_on() -> None:
    watched = Watched({**PPO, "model": {"use_lstm": True, "lstm_cell_size": 4, "max_seq_len": 5}}, slots=2)
    result = watched.train(2)
    assert result["info"]["num_updates"] > 0


def test_a_failure_of_the_users_own_callback_ends_the_run_with_its_words() -> None:
    def boom(info: Any) -> None:
        raise ValueError("no more of this")

    with Trainer(env="external", config={**free(DQN, 1), "callbacks": {"on_episode_end": boom}}) as trainer:
        url = trainer.workers.serve()
        thread = threading.Thread(target=drive, args=(LedgerEnv(1), url), daemon=True)
        thread.start()
        with pytest.raises(Exception, match="no more of this"):
            trainer.train()


def test_policies_cannot_be_changed_while_clients_play_on() -> None:
    with Trainer(env="external", config=free(DQN, 1)) as trainer, pytest.raises(ConfigError, match="lock_step: true"):
        trainer.workers.change_policies(trainer.setup.rollout, trainer.policies)


def test_a_resumed_run_goes_on_with_its_versions_and_draws_other_episodes(tmp_path: Path) -> None:
    keys = free({**DQN, "timesteps_per_iteration": 40}, 2)
    lives: list[list[int | None]] = []
    steps: list[int] = []
    versions: list[int] = []
    for life in range(2):
        envs = [LedgerEnv(number) for number in (1, 2)]
        with Trainer(env="external", config=keys, directory=tmp_path, fresh=life == 0) as trainer:
            if life:
                trainer.restore(tmp_path)
            url = trainer.workers.serve()
            with running([partial(drive, env, url, patience=2.0) for env in envs]):
                steps.append(trainer.train()["timesteps_total"])
                trainer.save()
                versions.append(trainer.workers.state_dict()["version"])
                trainer.stop()
        lives.append([seed for env in envs for seed in env.seeds])
        # Nothing of it is ever played again, so it does not grow with the run.
        assert len(list((tmp_path / "journal").glob("segment_*"))) == 1
    assert steps[1] > steps[0]
    assert versions[1] > versions[0]
    # Also an env that asks for its state before its first episode is reset, with the seed 0.
    assert not (set(lives[0]) & set(lives[1])) - {0, None}


def test_a_run_that_goes_on_has_room_for_new_episodes_where_old_ones_were_open(tmp_path: Path) -> None:
    steps = []
    for fresh in (True, False):
        with Trainer(env="external", config=free(PPO, 1), directory=tmp_path, fresh=fresh) as trainer:
            if not fresh:
                trainer.restore(tmp_path)
            url = trainer.workers.serve()
            # Each time another client; that of the first time is in an episode when the run stops, and never comes back.
            with running([partial(drive, LedgerEnv(1), url, patience=1.0)]):
                steps.append(trainer.train()["timesteps_total"])
                trainer.save()
                trainer.stop()
    assert steps[1] > steps[0]
