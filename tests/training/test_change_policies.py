"""Policies come and go while a run trains, saved and resumed; with it self-play and leagues are a few lines of callbacks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.errors import CheckpointError, ConfigError
from marl.runs.result import without_wall_clock

SMALL: dict[str, Any] = {
    "train_batch_size": 64,
    "sgd_minibatch_size": 32,
    "num_sgd_iter": 1,
    "fcnet_hiddens": [8],
    "num_envs_per_worker": 2,
    "evaluation": {"interval": 0},
    "policies": {"main": {}},
    "policy_mapping_fn": {"*": "main"},
}
AGAINST = {"player_0": "main", "player_1": ["old_1"]}
PENNIES = {"env": "matrix_game", "env_config": {"game": "matching_pennies"}}


def trainer(algo: str = "ppo", **changes: Any) -> marl.Trainer:
    return marl.Trainer(algo, config={**SMALL, **PENNIES, **changes})


def same(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return all(np.array_equal(a[name], b[name]) for name in a)


def test_a_snapshot_joins_stays_as_it_is_and_the_original_learns_on() -> None:
    with trainer() as run:
        run.train()
        before = run.get_policy("main").get_weights()
        moments = run.learners[0].state_dict()
        copy = run.add_policy("old_1", like="main", policy_mapping_fn=AGAINST, policies_to_train=["main"])
        assert same(copy.get_weights(), before)
        assert str(run.learners[0].state_dict()) == str(moments)  # the optimiser goes on
        result = run.train()
        assert same(run.get_policy("old_1").get_weights(), before)
        assert not same(run.get_policy("main").get_weights(), before)
        assert set(result["policy_reward_mean"]) == {"main", "old_1"}
        assert result["policy_reward_mean"]["main"] == pytest.approx(-result["policy_reward_mean"]["old_1"])
        assert result["training_iteration"] == 2


def test_rewards_of_episodes_before_the_change_stay_with_their_policies() -> None:
    with trainer() as run:
        run.train()
        told = run.recent.policy_returns(0).tolist()
        run.add_policy("first", like="main", policy_mapping_fn={"player_0": "first", "player_1": "main"})
        index = list(run.policies).index("main")
        assert run.recent.policy_returns(index).tolist() == told
        run.remove_policy("main", policy_mapping_fn={"*": "first"})
        assert run.recent.policy_returns(0).tolist() == []


def test_a_policy_leaves_and_its_learner_with_it() -> None:
    with trainer(
        policies={"main": {}, "other": {}}, policy_mapping_fn={"player_0": "main", "player_1": "other"}
    ) as run:
        run.train()
        weights = run.get_policy("main").get_weights()
        run.remove_policy("other", policy_mapping_fn={"*": "main"})
        assert list(run.policies) == ["main"]
        assert same(run.get_policy("main").get_weights(), weights)
        assert [list(learner.policies) for learner in run.learners] == [["main"]]
        assert list(run.train()["policy_reward_mean"]) == ["main"]


def test_another_mapping_holds_from_the_next_episode_on() -> None:
    with trainer(
        policies={"main": {}, "other": {}}, policy_mapping_fn={"player_0": "main", "player_1": "other"}
    ) as run:
        run.train()
        run.set_policy_mapping({"player_0": "other", "player_1": "main"})
        batch = run.workers.collect(4).batch
        players = batch.policy_index[batch.present].reshape(-1, 2)
        names = {tuple(batch.policy_ids[i] for i in row) for row in players}
        assert names == {("other", "main")}


@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_a_changed_run_is_saved_and_goes_on_exactly(algo: str, tmp_path: Path) -> None:
    changes: dict[str, Any] = {}
    if algo == "dqn":
        changes = {"timesteps_per_iteration": 64, "learning_starts": 32, "train_batch_size": 16}
    base = {key: value for key, value in SMALL.items() if algo == "ppo" or "sgd" not in key}
    config = {**base, **PENNIES, **changes}

    def grown() -> marl.Trainer:
        run = marl.Trainer(algo, config=config)
        run.train()
        run.add_policy("old_1", like="main", policy_mapping_fn=AGAINST, policies_to_train=["main"])
        run.train()
        return run

    with grown() as run:
        checkpoint = run.save(tmp_path / "checkpoint")
        expected = [without_wall_clock(run.train()) for _ in range(2)]
        weights = run.get_weights()
    with marl.Trainer.from_checkpoint(checkpoint) as again:
        found = [without_wall_clock(again.train()) for _ in range(2)]
        assert [r["policy_reward_mean"] for r in found] == [r["policy_reward_mean"] for r in expected]
        assert all(same(again.get_weights()[name], weights[name]) for name in weights)
        assert again.policies_to_train == {"main"}
    with marl.Trainer(algo, config=config) as plain:  # as it was built first: it follows the checkpoint
        plain.restore(checkpoint)
        for _ in range(2):
            plain.train()
        assert all(same(plain.get_weights()[name], weights[name]) for name in weights)


class SelfPlay(marl.Callbacks):
    """After every second iteration a snapshot joins the opponents, of which one is drawn per episode."""

    def __init__(self) -> None:
        self.snapshots = 0

    def on_train_result(self, *, trainer: Any, result: Any, **_: Any) -> None:
        if result["training_iteration"] % 2 == 0:
            self.snapshots += 1
            opponents = [f"old_{i}" for i in range(1, self.snapshots + 1)]
            mapping = {"player_0": "main", "player_1": opponents}
            trainer.add_policy(opponents[-1], like="main", policy_mapping_fn=mapping, policies_to_train=["main"])
        result["opponents"] = self.snapshots

    def get_state(self) -> Any:
        return self.snapshots

    def set_state(self, state: Any) -> None:
        self.snapshots = state


def test_self_play_is_a_callback_and_survives_a_restart(tmp_path: Path) -> None:
    with trainer(callbacks=SelfPlay) as run:
        assert [run.train()["opponents"] for _ in range(3)] == [0, 1, 1]
        checkpoint = run.save(tmp_path / "checkpoint")
        expected = [run.train()["policy_reward_mean"] for _ in range(2)]
        assert set(run.policies) == {"main", "old_1", "old_2"}
    with marl.Trainer.from_checkpoint(checkpoint, allow=["tests"]) as again:
        found = [again.train()["policy_reward_mean"] for _ in range(2)]
        assert found == expected
        assert set(again.policies) == {"main", "old_1", "old_2"}


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_workers_on_ray_play_with_the_new_policies_as_those_of_this_process_do() -> None:
    rewards = []
    for pool in ("ray", "in_process"):
        with trainer(num_workers=2, pool=pool) as run:
            run.train()
            run.add_policy("old_1", like="main", policy_mapping_fn=AGAINST, policies_to_train=["main"])
            rewards.append([run.train()["policy_reward_mean"] for _ in range(2)])
    assert rewards[0] == rewards[1]


def test_what_cannot_be_changed_is_refused_and_the_run_goes_on() -> None:
    with trainer() as run:
        refused = [
            (lambda: run.add_policy("main"), "there is a policy 'main' already"),
            (lambda: run.add_policy("old_1"), "plays nobody"),
            (lambda: run.add_policy("old_1", like="mian", policy_mapping_fn=AGAINST), "Did you mean 'main'"),
            (lambda: run.add_policy("old_1", {"lrr": 1}, policy_mapping_fn=AGAINST), "unknown key 'lrr'"),
            (lambda: run.remove_policy("nobody"), "no policy 'nobody' to remove"),
            (lambda: run.remove_policy("main"), "'main' is the only policy"),
            (lambda: run.set_policy_mapping({"*": "nobody"}), "nobody"),
        ]
        for call, text in refused:
            with pytest.raises(marl.errors.UserError, match=text):
                call()
        assert list(run.policies) == ["main"]
        assert run.train()["policy_reward_mean"] == {"main": 0.0}


def test_policies_that_would_join_a_learner_are_refused() -> None:
    keys = {"groups": {"team": ["agent_0", "agent_1"]}, "policies": {"main": {}}, "policy_mapping_fn": {"*": "main"}}
    config = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, **keys}
    with marl.Trainer("qmix", env="two_step_game", config=config) as run:
        with pytest.raises(ConfigError, match="would share a learner"):
            run.add_policy("new", like="main", policy_mapping_fn={"agent_0": "main", "agent_1": "new"})
        run.train()


def test_a_mapping_that_a_file_cannot_tell_has_to_be_given_again(tmp_path: Path) -> None:
    with trainer() as run:
        run.add_policy(
            "old_1",
            like="main",
            policy_mapping_fn=lambda agent: AGAINST["player_0"] if agent == "player_0" else "old_1",
        )
        run.train()
        checkpoint = run.save(tmp_path / "checkpoint")
    with trainer() as plain, pytest.raises(CheckpointError, match="Name the policy_mapping_fn"):
        plain.restore(checkpoint)
