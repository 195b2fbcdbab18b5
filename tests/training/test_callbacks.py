"""Callbacks in whole runs: what reaches results, learners, files and checkpoints, with and without Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl.errors import CallbackError, CheckpointError, ConfigError
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.result import without_wall_clock
from marl.scenario.describe import can_be_replayed, describe
from marl.training.trainer import Trainer
from tests.test_command_line import marl as command
from tests.training.own_callbacks import Angles
from tests.training.trees import differences

PPO = {"train_batch_size": 60, "sgd_minibatch_size": 30, "num_sgd_iter": 1, "rollout_fragment_length": 9}
SMALL = {"fcnet_hiddens": [8], "num_envs_per_worker": 2, "evaluation": {"interval": 0}, "seed": 5}
CARTPOLE = {"env": "CartPole-v1", **PPO, **SMALL}
HERE = "tests.training.own_callbacks"


def results(trainer: Trainer, iterations: int) -> list[dict[str, Any]]:
    return [without_wall_clock(trainer.train()) for _ in range(iterations)]


def pay(episode: Any, env_index: int) -> None:
    """Episodes 0, 1, 2, ... are worth 0, 1, 2, ...; every second one has a second number."""
    number = episode.episode_id
    episode.custom_metrics["number"] = number
    if number % 2:
        episode.custom_metrics["odd"] = -number
    episode.hist_data["twice"] = [number, number]


def test_custom_metrics_are_mean_min_and_max_over_the_episodes_that_set_them() -> None:
    """Two steps per episode, two copies, eight steps: episodes 0 to 7 end, of which 1, 3, 5, 7 are odd."""
    keys = {"env": "two_step_game", **SMALL, "train_batch_size": 16, "callbacks": {"on_episode_end": pay}}
    with Trainer("ppo", config=keys) as trainer:
        result = trainer.train()
        block = trainer.evaluate()
    assert result["custom_metrics"] == {
        "number_mean": 3.5, "number_min": 0.0, "number_max": 7.0, "odd_mean": -4.0, "odd_min": -7.0, "odd_max": -1.0,
    }  # fmt: skip
    assert sorted(result["hist_stats"]["twice"]) == sorted([*range(8), *range(8)])
    assert block["custom_metrics"]["number_max"] == 19.0  # its episodes are counted from 0
    assert block["hist_stats"]["twice"][:4] == [0.0, 0.0, 1.0, 1.0]


def test_results_without_callbacks_have_no_custom_metrics() -> None:
    with Trainer("ppo", config=CARTPOLE) as trainer:
        result = trainer.train()
    assert result["custom_metrics"] == {}
    assert result["episode_media"] == {}


class Sights(marl.Callbacks):
    """Numbers and pictures of every episode."""

    def on_episode_end(self, *, episode: Any, **_: Any) -> None:
        episode.custom_metrics["size"] = episode.length
        episode.hist_data["sizes"] = [episode.length]
        episode.media["board"] = np.full((4, 6, 3), 200, np.uint8)

    def on_train_result(self, *, result: Any, **_: Any) -> None:
        result["callback_ok"] = True

    def on_evaluate_end(self, *, evaluation_metrics: Any, **_: Any) -> None:
        evaluation_metrics["twice"] = 2 * evaluation_metrics["episode_reward_mean"]


def test_notes_and_pictures_land_in_the_files_of_the_run(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    keys = {**CARTPOLE, "callbacks": Sights, "evaluation": {"interval": 1, "episodes": 2}}
    with Trainer("ppo", config=keys, directory=tmp_path) as trainer:
        trainer.train()
        trainer.save()
    (line,) = [json.loads(text) for text in (tmp_path / "result.json").read_text().splitlines()]
    assert line["callback_ok"] is True
    assert line["evaluation"]["twice"] == 2 * line["evaluation"]["episode_reward_mean"]
    assert line["custom_metrics"]["size_mean"] == line["episode_len_mean"]
    assert "custom_metrics/size_mean" in (tmp_path / "progress.csv").read_text().splitlines()[0]
    assert set(line["episode_media"]) == {"board", "evaluation/board"}
    for place in [*line["episode_media"]["board"], *line["episode_media"]["evaluation/board"]]:
        assert (tmp_path / place).read_bytes().startswith(b"\x89PNG")
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    tags = events.Tags()
    assert "custom_metrics/size_mean" in tags["scalars"]
    assert "hist_stats/sizes" in tags["histograms"]
    assert {"board", "evaluation/board"} <= set(tags["images"])


def test_rewards_of_a_hook_are_those_that_learners_learn_from() -> None:
    learned: list[Any] = []

    def sevens(postprocessed_batch: Any) -> None:
        postprocessed_batch["rewards"] = 7.0

    hooks = {
        "on_postprocess_trajectory": sevens,
        "on_learn_on_batch": lambda train_batch: learned.append(train_batch["rewards"].tolist()),
    }
    with Trainer("ppo", config={**CARTPOLE, "callbacks": hooks}) as trainer:
        trainer.train()
    assert len(learned[0]) >= 60
    assert set(learned[0]) == {7.0}


OFF = {"learning_starts": 20, "train_batch_size": 8, "timesteps_per_iteration": 60, "rollout_fragment_length": 5}
TWO_STEP = {"env": "two_step_game", **SMALL}
PENDULUM = {"env": "Pendulum-v1", **SMALL}
FAMILIES: dict[str, dict[str, Any]] = {
    "ppo": {**TWO_STEP, **PPO},
    "pg": {**TWO_STEP, "train_batch_size": 40},
    "marwil": {**TWO_STEP, "train_batch_size": 40},
    "dqn": {**TWO_STEP, **OFF},
    "nfsp": {**TWO_STEP, **OFF},
    "maddpg": {**TWO_STEP, **OFF},
    "ddpg": {**PENDULUM, **OFF},
    "sac": {**PENDULUM, **OFF},
}


@pytest.mark.parametrize("algo", list(FAMILIES))
def test_every_family_shows_its_training_batches_and_reports_what_the_hook_found(algo: str) -> None:
    sums: list[float] = []

    def add_up(policy: Any, policy_id: str, train_batch: Any, result: Any) -> None:
        assert isinstance(policy, marl.Policy)
        sums.append(float(np.sum(train_batch["actions"])))
        result["sum_actions"] = sums[-1]
        with pytest.raises(ValueError, match="read-only"):
            train_batch["actions"][:] = 0

    with Trainer(algo, config={**FAMILIES[algo], "callbacks": {"on_learn_on_batch": add_up}}) as trainer:
        result = trainer.train()
    assert sums
    assert {block["learner_stats"]["sum_actions"] for block in result["info"]["learner"].values()} <= set(sums)


def test_a_mixed_team_shows_its_batches_kind_by_kind() -> None:
    shapes: set[Any] = set()
    hooks = {"on_learn_on_batch": lambda train_batch: shapes.add(train_batch["actions.0"].shape)}
    with Trainer("qmix", config={**TWO_STEP, **OFF, "callbacks": hooks}) as trainer:
        trainer.train()
    assert shapes == {(8, 2)}


def test_a_hook_on_results_changes_the_envs_of_all_workers_and_may_end_the_run() -> None:
    def harder(trainer: Any, result: Any) -> None:
        trainer.workers.foreach_env(lambda env: env.set_task(trainer.iteration))
        result["custom_metrics"]["stage_max"] = trainer.iteration

    keys = {
        "env": "fast:simple_tag", "env_config": {"curriculum": True}, **SMALL, **PPO, "num_workers": 2, "pool": "in_process",
        "callbacks": {"on_train_result": harder}, "stop": {"custom_metrics.stage_max": 2},
    }  # fmt: skip
    with Trainer("ppo", config=keys) as trainer:
        assert [trainer.train()["done"] for _ in range(2)] == [False, True]
        stages = trainer.workers.foreach_worker(lambda worker: worker.env.next_stage.tolist())
    assert stages == [[2, 2], [2, 2]]


def test_a_hook_is_told_of_every_checkpoint(tmp_path: Path) -> None:
    told: list[Any] = []
    keys = {**CARTPOLE, "callbacks": {"on_checkpoint": lambda path: told.append(path)}, "checkpoint_freq": 2}
    with Trainer("ppo", config=keys, directory=tmp_path / "run") as trainer:
        for _ in range(4):
            trainer.train()
        trainer.save(tmp_path / "mine")
    assert [path.name for path in told] == ["checkpoint_000002", "checkpoint_000004", "mine"]
    assert all(find_checkpoint(path) for path in told[1:])


def resumed_equals_straight(keys: dict[str, Any], tmp_path: Path) -> None:
    with Trainer("ppo", config=keys) as straight:
        expected = results(straight, 6)
        state = straight.workers.state_dict()
    with Trainer("ppo", config=keys) as first:
        before = results(first, 3)
        first.save(tmp_path / "half")
    with Trainer("ppo", config=keys) as second:
        second.restore(tmp_path / "half")
        after = results(second, 3)
        assert differences(second.workers.state_dict(), state) == []
    assert differences([*before, *after], expected) == []
    assert expected[-1]["custom_metrics"]["trajectories_max"] > 4


@pytest.mark.parametrize("workers", [0, 2])
def test_notes_metrics_and_the_state_of_callbacks_survive_a_restart_bit_for_bit(workers: int, tmp_path: Path) -> None:
    keys = {**CARTPOLE, "callbacks": Angles, "num_workers": workers, "pool": "in_process"}
    resumed_equals_straight({**keys, "evaluation": {"interval": 2, "episodes": 3}}, tmp_path)


@pytest.mark.ray
def test_the_same_with_two_ray_workers_whose_numbers_are_those_of_workers_in_this_process(
    tmp_path: Path, ray_session: None
) -> None:
    keys = {**CARTPOLE, "callbacks": Angles, "num_workers": 2}
    resumed_equals_straight(keys, tmp_path)
    with Trainer("ppo", config={**keys, "pool": "in_process"}) as here, Trainer("ppo", config=keys) as there:
        first, second = results(here, 3), results(there, 3)
    for one in (*first, *second):
        one.pop("config")
    assert differences(first, second) == []


@pytest.mark.ray
def test_a_worker_that_dies_goes_on_with_the_same_notes(ray_session: None) -> None:
    import ray

    keys = {**CARTPOLE, "callbacks": Angles, "num_workers": 2}
    with Trainer("ppo", config=keys) as straight:
        expected = results(straight, 4)
    with Trainer("ppo", config=keys) as hurt:
        found = results(hurt, 2)
        ray.kill(hurt.workers.actors[2])  # type: ignore[attr-defined]
        found += results(hurt, 2)
    assert differences(found, expected) == []


@pytest.mark.ray
def test_a_hook_that_fails_on_a_ray_worker_names_it(ray_session: None) -> None:
    def fail(episode: Any, worker: Any) -> None:
        if worker.index == 2 and episode.length == 3:
            raise RuntimeError("too far")

    keys = {**CARTPOLE, "callbacks": {"on_episode_step": fail}, "num_workers": 2}
    with Trainer("ppo", config=keys) as trainer, pytest.raises(CallbackError) as caught:
        trainer.train()
    assert (
        "callbacks.on_episode_step failed (episode 2199023255552, step 3, copy 0, worker 2): RuntimeError: too far"
        in str(caught.value)
    )


def test_a_run_is_described_by_the_name_of_its_callbacks(tmp_path: Path) -> None:
    with Trainer("ppo", config={**CARTPOLE, "callbacks": Angles}) as trainer:
        assert describe(trainer.scenario)["callbacks"] == f"{HERE}:Angles"
        trainer.train()
        trainer.save(tmp_path / "one")
    with Trainer("ppo", config={**CARTPOLE, "callbacks": Angles()}) as trainer:
        assert not can_be_replayed(describe(trainer.scenario))
        trainer.save(tmp_path / "two")
    with pytest.raises(ConfigError, match="--allow tests"):
        Trainer.from_checkpoint(tmp_path / "one")
    with Trainer.from_checkpoint(tmp_path / "one", allow=["tests"]) as again:
        assert isinstance(again.hooks.owner, Angles)
    with pytest.raises(CheckpointError, match="cannot be found by name"):
        Trainer.from_checkpoint(tmp_path / "two")


def test_what_a_hook_puts_into_results_never_ends_a_checkpoint(tmp_path: Path) -> None:
    keys = {**CARTPOLE, "callbacks": {"on_train_result": lambda result: result.update(odd={1: object()})}}
    with Trainer("ppo", config=keys) as trainer:
        trainer.train()
        trainer.save(tmp_path / "one")
    assert read_part(tmp_path / "one", "run")["last_result"]["odd"]["1"].startswith("<object object")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"algo": "es", "callbacks": {"on_sample_end": lambda samples: None}},
            "on_sample_end would never be called, because es",
        ),
        (
            {"algo": "es", "callbacks": {"on_learn_on_batch": lambda result: None}},
            "on_learn_on_batch would never be called",
        ),
        ({"callbacks": {"on_episode": print}}, "there is no hook 'on_episode'"),
        ({"callbacks": "tests.training.own_callbacks:Nothing"}, "has no 'Nothing'"),
    ],
)
def test_callbacks_that_cannot_work_are_refused_before_the_run(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Trainer(config={"env": "CartPole-v1", "fcnet_hiddens": [8], **keys})


@pytest.mark.slow
def test_a_failing_hook_ends_a_run_with_code_2_and_leaves_its_last_checkpoint(tmp_path: Path) -> None:
    scenario = tmp_path / "failing.yaml"
    scenario.write_text(
        f"env: CartPole-v1\nalgo: {{name: ppo, train_batch_size: 40}}\nmodel: {{fcnet_hiddens: [8]}}\ncheckpoint_freq: 1\n"
        f"callbacks: {HERE}:FailsLater\nstop: {{training_iteration: 5}}\n"
    )
    done = command("run", scenario, "--local-dir", tmp_path / "runs")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "FailsLater.on_train_result failed (iteration 3): ZeroDivisionError" in done.stderr
    (folder,) = (tmp_path / "runs" / "failing").iterdir()
    assert find_checkpoint(folder).name == "checkpoint_000002"
    assert len((folder / "result.json").read_text().splitlines()) == 2
    refused = command("run", "--resume", folder)
    assert refused.returncode == 2
    assert "--allow tests" in refused.stderr
