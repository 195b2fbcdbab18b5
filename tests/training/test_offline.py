"""Recording a run, learning from it, and going on after a stop."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.data.task import Task
from marl.errors import CheckpointError, ConfigError, DataError
from marl.offline.trajectories import Trajectories, numbered_files, read_episodes, read_trajectories
from marl.play.playback import RolloutOptions, play
from marl.runs.result import without_wall_clock
from marl.training.trainer import Trainer
from tests.training.test_exact_resume import everything
from tests.training.trees import differences

pytestmark = pytest.mark.slow

SMALL = {"fcnet_hiddens": [8], "evaluation": {"interval": 0}, "sgd_minibatch_size": 32}
PPO = {**SMALL, "train_batch_size": 90, "rollout_fragment_length": 7, "num_envs_per_worker": 3}


def record(folder: Path, env: str = "CartPole-v1", iterations: int = 4, **keys: Any) -> Task:
    with Trainer("ppo", env=env, config={**PPO, "output": str(folder), **keys}) as trainer:
        for _ in range(iterations):
            result = trainer.train()
        assert result["episodes_total"] > 0
        return trainer.setup.task


def load(folder: Path, task: Task) -> Trajectories:
    return read_trajectories(numbered_files(folder), task, normalize_actions=True)


def test_every_episode_that_ended_is_recorded_with_its_return(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config={**PPO, "output": str(tmp_path)}) as trainer:
        results = [trainer.train() for _ in range(4)]
    data = load(tmp_path, trainer.setup.task)
    assert len(data) == results[-1]["episodes_total"]
    ended = np.sort(trainer.recent.rewards)
    assert np.sort(data.returns(np.arange(len(data))).sum(axis=1)).tolist() == ended.tolist()


def test_a_resumed_run_leaves_the_same_recordings_as_one_that_never_stopped(tmp_path: Path) -> None:
    def trainer(folder: str) -> Trainer:
        return Trainer("ppo", env="CartPole-v1", config={**PPO, "output": str(tmp_path / folder)})

    with trainer("straight") as straight:
        for _ in range(6):
            straight.train()
    with trainer("stopped") as stopped:
        for _ in range(3):
            stopped.train()
        stopped.save(tmp_path / "checkpoint")
        stopped.train()  # a kill loses this one
    with trainer("stopped") as resumed:
        resumed.restore(tmp_path / "checkpoint")
        for _ in range(3):
            resumed.train()
    one, other = (read_episodes(tmp_path / name / "trajs_0.npz") for name in ("straight", "stopped"))
    assert differences(one, other) == []


@pytest.mark.ray
@pytest.mark.usefixtures("ray_session")
def test_episodes_of_ray_workers_do_not_mix(tmp_path: Path) -> None:
    for pool in ("ray", "in_process"):
        record(tmp_path / pool, num_workers=2, pool=pool)
    one, other = (read_episodes(tmp_path / pool / "trajs_0.npz") for pool in ("ray", "in_process"))
    assert differences(one, other) == []


def test_a_full_directory_is_refused_before_anything_is_played(tmp_path: Path) -> None:
    record(tmp_path)
    with Trainer("ppo", env="CartPole-v1", config={**PPO, "output": str(tmp_path)}) as trainer:
        with pytest.raises(DataError, match="already holds recorded episodes"):
            trainer.train()
        assert trainer.workers.local_worker()._runner is None


# -- learning ----------------------------------------------------------------------------------------------------------


def offline(algo: str, folder: Path, env: str = "CartPole-v1", **keys: Any) -> Trainer:
    small = {**SMALL, "train_batch_size": 90, **keys}
    return Trainer(algo, env=env, config={**small, "input": str(folder)})


def test_a_pass_shows_every_episode_once_and_the_next_one_in_another_order(tmp_path: Path) -> None:
    task = record(tmp_path)
    data = load(tmp_path, task)
    with offline("bc", tmp_path) as trainer:
        rounds = [trainer.source.collect(1) for _ in range(2 * len(data))]
    order = [int(r.batch.eps_id[0, 0]) for r in rounds]
    first, second = order[: len(data)], order[len(data) :]
    assert sorted(first) == sorted(second) == list(range(len(data)))
    assert first != second
    assert sum(r.env_steps for r in rounds[: len(data)]) == data.env_steps
    assert rounds[0].episodes.rewards[0] == data.returns(np.array([first[0]])).sum()


def test_nothing_is_played_but_evaluations(tmp_path: Path) -> None:
    record(tmp_path)
    with offline("marwil", tmp_path, evaluation={"interval": 1, "episodes": 2}) as trainer:
        result = trainer.train()
        assert trainer.workers.local_worker()._runner is None
    assert result["timesteps_total"] >= 90
    assert result["evaluation"]["episodes"] == 2


@pytest.mark.parametrize("algo", ["marwil", "bc", "dqn"])
def test_learning_from_recordings_resumes_exactly(tmp_path: Path, algo: str) -> None:
    record(tmp_path / "data")
    keys: dict[str, Any] = {}
    if algo == "dqn":
        keys = {"train_batch_size": 16, "learning_starts": 20, "buffer_size": 150, "timesteps_per_iteration": 60}
    small = {k: v for k, v in SMALL.items() if algo != "dqn" or k != "sgd_minibatch_size"}

    def trainer() -> Trainer:
        return Trainer(algo, env="CartPole-v1", config={**small, **keys, "input": str(tmp_path / "data")})

    with trainer() as straight:
        lines = [without_wall_clock(straight.train()) for _ in range(6)]
        parts = everything(straight)
    with trainer() as stopped:
        for _ in range(3):
            stopped.train()
        stopped.save(tmp_path / "checkpoint")
    with trainer() as resumed:
        resumed.restore(tmp_path / "checkpoint")
        rest = [without_wall_clock(resumed.train()) for _ in range(3)]
        assert differences(rest, lines[3:]) == []
        assert differences(everything(resumed), parts) == []


def test_a_checkpoint_does_not_go_on_with_other_recordings(tmp_path: Path) -> None:
    record(tmp_path / "a")
    record(tmp_path / "b", iterations=6)
    with offline("bc", tmp_path / "a") as trainer:
        trainer.train()
        trainer.save(tmp_path / "checkpoint")
    with offline("bc", tmp_path / "b") as other, pytest.raises(CheckpointError, match="Give it the same recordings"):
        other.restore(tmp_path / "checkpoint")


def test_the_mapper_says_who_learns_from_whom(tmp_path: Path) -> None:
    record(tmp_path, "two_step_game", policy_mapping_fn="shared")  # one policy played both
    mapping = {"agent_0": "first", "agent_1": "second"}
    with offline("bc", tmp_path, "two_step_game", policy_mapping_fn=mapping) as trainer:
        batch = trainer.source.collect(20).batch
        result = trainer.train()
    for seat, policy in enumerate(("first", "second")):
        assert batch.for_policy(policy)["seat"].tolist() == [seat] * batch.env_steps
    assert sorted(result["info"]["learner"]) == ["first", "second"]


@pytest.mark.parametrize(("env", "keys"), [("traffic", {"horizon": 20}), ("pettingzoo:classic/tictactoe_v3", {})])
def test_agents_that_come_and_go_and_masks_are_learned_from(tmp_path: Path, env: str, keys: dict[str, Any]) -> None:
    record(tmp_path, env, **keys)
    with offline("marwil", tmp_path, env) as trainer:
        results = [trainer.train() for _ in range(2)]
    stats = results[-1]["info"]["learner"]
    assert sorted(stats) == sorted(trainer.policies)
    assert all(np.isfinite(row["learner_stats"]["policy_loss"]) for row in stats.values())
    assert all(row["learner_stats"]["policy_loss"] < 20 for row in stats.values())  # a forbidden action costs 1e9


def test_on_policy_algorithms_and_memories_are_refused(tmp_path: Path) -> None:
    record(tmp_path)
    with pytest.raises(ConfigError, match="learns by ppo, which needs what its own policy did"):
        offline("ppo", tmp_path)
    with pytest.raises(ConfigError, match=r"needs no input, but input is .*what is read is not played.*or drop output"):
        offline("bc", tmp_path, output=str(tmp_path / "again"))
    with pytest.raises(DataError, match="finds no recorded episodes"):
        offline("bc", tmp_path / "nothing")
    with pytest.raises(DataError, match="holds episodes of env 'CartPole-v1'"):
        offline("bc", tmp_path, "two_step_game")


def test_a_pattern_joins_several_recordings(tmp_path: Path) -> None:
    task = record(tmp_path / "a")
    record(tmp_path / "b", seed=1)
    with offline("bc", tmp_path / "*") as trainer:
        trainer.train()
        assert f"learning from {sum(len(load(tmp_path / n, task)) for n in 'ab')} recorded" in trainer.notes[0]


def test_a_rollout_records_what_it_plays(tmp_path: Path) -> None:
    with Trainer("ppo", env="CartPole-v1", config=PPO) as trainer:
        trainer.train()
        checkpoint = Path(trainer.save(tmp_path / "checkpoint"))
    lines: list[str] = []
    play(checkpoint, RolloutOptions(3, explore=(True,), save=tmp_path / "data"), say=lines.append)
    data = load(tmp_path / "data", trainer.setup.task)
    shown = [float(line.split("reward ")[1].split()[0]) for line in lines]
    assert data.returns(np.arange(3)).sum(axis=1).tolist() == shown
    with offline("bc", tmp_path / "data") as cloned:
        assert cloned.train()["timesteps_total"] >= 90


def test_hand_written_data_in_an_env_of_several_kinds(tmp_path: Path) -> None:
    with Trainer("ppo", env="traffic", config=PPO) as trainer:
        kinds = trainer.setup.task.kinds
    lives = {
        kind.agents[0].split("[")[0].replace("*", "7"): {
            "obs": [kind.observation_space.sample() for _ in range(3)],
            "actions": [kind.action_space.sample() for _ in range(2)],
            "rewards": [1.0, 2.0],
            "terminated": False,
        }
        for kind in kinds
    }
    marl.write_trajectories(tmp_path, "traffic", [lives] * 3)
    with offline("bc", tmp_path, "traffic", train_batch_size=6) as cloned:
        stats = cloned.train()["info"]["learner"]
    assert sorted(stats) == sorted(cloned.policies)
