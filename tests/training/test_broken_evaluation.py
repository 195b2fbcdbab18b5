"""A stop in the middle of an evaluation: the run that goes on is, to the last bit, the one that nobody stopped."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from marl.callbacks.callbacks import Callbacks
from marl.data.episode import EpisodeStats
from marl.runs.restoring import strange_part
from marl.runs.resume import resumable_in
from marl.training.loop import Outcome, run_until_stopped
from marl.training.trainer import Trainer
from siege.same import come_to, differences

PPO: dict[str, Any] = {"train_batch_size": 20, "sgd_minibatch_size": 10, "num_sgd_iter": 1}


class Impatient:
    """Stops the run in the evaluation of an iteration; 0: never."""

    trainer: Trainer
    at = 0

    @classmethod
    def look(cls) -> None:
        if cls.trainer.evaluation.running and cls.trainer.iteration == cls.at:
            cls.at = 0
            signal.raise_signal(signal.SIGTERM)


class Walk(gym.Env[Any, Any]):
    """Pays by what it shows."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, length: int = 5) -> None:
        self.length = length

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.t = 0
        return self._seen(), {}

    def _seen(self) -> Any:
        self.shown = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self.shown

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.t += 1
        if self.t == 3:
            Impatient.look()
        reward = float(self.shown[int(action)])
        return self._seen(), reward, self.t == self.length, False, {}


class Witness(Callbacks):
    """Remembers all results that it is told of, and takes a picture of each episode."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        episode.custom_metrics["steps"] = episode.length
        episode.media["end"] = np.full((4, 4), episode.length, np.uint8)

    def on_train_result(self, *, result: dict[str, Any], **_: Any) -> None:
        self.heard.append([result["training_iteration"], "evaluation" in result])
        result["custom_metrics"]["heard"] = len(self.heard)

    def get_state(self) -> dict[str, Any]:
        return {"heard": self.heard}

    def set_state(self, state: dict[str, Any]) -> None:
        self.heard = state["heard"]


def keys(**changes: Any) -> dict[str, Any]:
    evaluation = {"interval": 2, "episodes": 2}
    algo = {} if "algo" in changes else PPO
    found = {**algo, "fcnet_hiddens": [4], "evaluation": evaluation, "stop": {"training_iteration": 4}, "seed": 3}
    return {**found, **changes}


def live(directory: Path, scenario: dict[str, Any], stop_at: int = 0) -> Outcome:
    """From the start, or from the newest checkpoint, until the run ends or is stopped in an evaluation."""
    folder = resumable_in(directory)
    algo = scenario.get("algo", "ppo")
    config = {key: value for key, value in scenario.items() if key != "algo"}
    with Trainer(algo, env=f"{__name__}:Walk", config=config) as trainer:
        Impatient.trainer, Impatient.at = trainer, stop_at
        trainer.store.enter(directory, folder)
        return run_until_stopped(trainer)


CURRICULUM = {
    "curriculum": [
        {"env_config": {"length": 4}, "until": {"evaluation.episode_reward_mean": -9.0}},
        {"env_config": {"length": 6}},
    ]
}
DQN = {
    "algo": "dqn", "learning_starts": 10, "train_batch_size": 8, "buffer_size": 50, "full_td_error": True,
    "rollout_fragment_length": 5, "timesteps_per_iteration": 20,
}  # fmt: skip
LAST_ONLY = {"evaluation": {"interval": 3, "episodes": 2}}
WITNESS = {"callbacks": f"{__name__}:Witness", "checkpoint_freq": 1}


@pytest.mark.parametrize(
    ("stop_at", "changes"),
    [
        (2, {}),
        (4, {"checkpoint_freq": 3, "stop": {"training_iteration": 6}}),
        (4, {}),  # in the last iteration
        (4, LAST_ONLY),  # made only because the run ends
        (2, WITNESS),
        (2, CURRICULUM),
        (4, DQN),
        (2, {"stop": {"evaluation.episode_reward_mean": -9.0, "training_iteration": 4}}),
    ],
    ids=["first", "between", "last", "only_at_the_end", "callbacks", "curriculum", "dqn", "stop_by_evaluation"],
)
def test_a_run_that_is_stopped_in_an_evaluation_comes_to_the_same_end(
    stop_at: int, changes: dict[str, Any], tmp_path: Path
) -> None:
    scenario = keys(**changes)
    untouched = live(tmp_path / "untouched", scenario)
    stopped = live(tmp_path / "stopped", scenario, stop_at)
    resumed = live(tmp_path / "stopped", scenario)
    assert (untouched.interrupted, stopped.interrupted, resumed.interrupted) == (False, True, False)
    assert differences(come_to(tmp_path / "stopped"), come_to(tmp_path / "untouched")) == []


def test_an_evaluation_may_be_broken_off_again_and_again(tmp_path: Path) -> None:
    live(tmp_path / "untouched", keys())
    for _ in range(3):
        stopped = live(tmp_path / "stopped", keys(), stop_at=2)
        assert (stopped.interrupted, stopped.checkpoint.name) == (True, "checkpoint_000002")
        assert stopped.result["training_iteration"] == 1  # the last one that is over
    live(tmp_path / "stopped", keys())
    assert differences(come_to(tmp_path / "stopped"), come_to(tmp_path / "untouched")) == []


def test_the_result_of_an_open_iteration_is_written_once_although_the_run_is_killed_after_it(tmp_path: Path) -> None:
    live(tmp_path / "untouched", keys())
    killed = tmp_path / "killed"
    live(killed, keys(), stop_at=2)
    shutil.copytree(killed / "checkpoints", tmp_path / "before")
    live(killed, keys())
    # As after kill -9 before the next checkpoint: all results are there, and the checkpoint of before.
    shutil.rmtree(killed / "checkpoints")
    shutil.copytree(tmp_path / "before", killed / "checkpoints")
    live(killed, keys())
    assert differences(come_to(killed), come_to(tmp_path / "untouched")) == []


def test_a_trainer_goes_on_by_itself_where_its_evaluation_was_broken_off(tmp_path: Path) -> None:
    live(tmp_path / "untouched", keys())
    with Trainer("ppo", env=f"{__name__}:Walk", config=keys()) as trainer:
        trainer.store.enter(tmp_path / "stopped", None)
        Impatient.trainer, Impatient.at = trainer, 2
        assert run_until_stopped(trainer).interrupted
        assert [trainer.train()["training_iteration"] for _ in range(3)] == [2, 3, 4]
        trainer.save()
    assert differences(come_to(tmp_path / "stopped"), come_to(tmp_path / "untouched")) == []


def test_numbers_of_the_source_come_with_the_result_that_was_left_open(tmp_path: Path) -> None:
    with Trainer("ppo", env=f"{__name__}:Walk", config=keys()) as trainer:
        trainer.store.enter(tmp_path, None)
        Impatient.trainer, Impatient.at = trainer, 2
        trainer.extra["policy_lag_max"] = 2.0  # as asynchronous collection tells it
        checkpoint = run_until_stopped(trainer).checkpoint
    with Trainer("ppo", env=f"{__name__}:Walk", config=keys()) as resumed:
        resumed.restore(checkpoint)
        Impatient.trainer = resumed
        assert resumed.train()["info"]["policy_lag_max"] == 2.0
        assert "policy_lag_max" not in resumed.train()["info"]


def test_a_longer_run_that_is_stopped_in_an_evaluation_is_not_finished(tmp_path: Path) -> None:
    live(tmp_path, keys())
    assert live(tmp_path, keys(stop={"training_iteration": 6}), stop_at=6).interrupted
    assert json.loads((tmp_path / "state.json").read_text())["state"] == "stopped"


@pytest.mark.parametrize(
    "change",
    [{"steps": -1}, {"episodes": "many"}, {"extra": {"number": "\x1b[31m"}}, {"shown": {}}, {"more": 1}],
    ids=["steps", "episodes", "extra", "shown", "more"],
)
def test_a_forged_open_iteration_is_refused(change: dict[str, Any]) -> None:
    nothing = vars(EpisodeStats.empty())
    honest = {"steps": 20, "agent_steps": 20, "episodes": 0, "shown": nothing, "extra": {"number": 1.0}}
    run = {"scenario": {}, "counters": {}}
    assert strange_part("run", {**run, "unmeasured": honest}) is None
    told = strange_part("run", {**run, "unmeasured": {**honest, **change}})
    assert told == "its unmeasured is a dict, expected an iteration with steps, agent_steps, episodes, shown, extra"
