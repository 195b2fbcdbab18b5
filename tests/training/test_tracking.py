"""Weights & Biases (offline) and MLflow (in a local database), each with its real package."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import marl
from marl import Trainer
from marl.errors import ConfigError, ResourceError
from marl.runs.files import RunFiles
from marl.runs.loggers import LOGGERS, RunLoggers
from marl.runs.saved import check_given_again, check_stays_inside, places_again, without_places
from marl.runs.tracking.wandb_run import counted
from marl.trust import only_modules
from tests.training.wandb_files import offline_runs

KEYS: dict[str, Any] = {
    "name": "rps",
    "env": "matrix_game",
    "env_config": {"game": "rock_paper_scissors"},
    "algo": {"name": "ppo", "train_batch_size": 32, "sgd_minibatch_size": 32, "num_sgd_iter": 1},
    "num_envs_per_worker": 4,
    "checkpoint_freq": 0,
}
PARAMS = {"name": None, "seed": 3, "algo": {"name": "ppo", "lr": 0.1}}


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("WANDB_MODE", "WANDB_API_KEY", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    for place in ("CACHE", "CONFIG", "DATA"):
        monkeypatch.setenv(f"WANDB_{place}_DIR", str(tmp_path / "of_wandb"))


def result(iteration: int, reward: float = 1.5, **more: Any) -> dict[str, Any]:
    return {
        "training_iteration": iteration,
        "timesteps_total": 100 * iteration,
        "episode_reward_mean": reward,
        "done": False,
        "policy_reward_mean": {"wolf[*]": 2.0 * reward},
        "nothing": None,
        "hist_stats": {"episode_reward": [1.0, 2.0, 2.0]},
        **more,
    }


def log(directory: Path, entry: Any, results: list[dict[str, Any]], params: dict[str, Any] = PARAMS) -> None:
    """What a run does with its results."""
    files, loggers = RunFiles(directory), RunLoggers([entry])
    loggers.open(directory, params)
    for one in results:
        loggers.write(files.append(one))
    loggers.close()


# -- wandb ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wandb_gets_keys_and_numbers_over_env_steps_and_a_resumed_run_goes_on_in_the_same_run(tmp_path: Path) -> None:
    place = tmp_path / "run"
    loggers = [{"wandb": {"project": "games", "tags": ["small"]}}]
    with Trainer("ppo", config={**KEYS, "loggers": loggers}, directory=place) as trainer:
        trainer.train()
        trainer.save()
        trainer.train()  # comes again: the run is killed before its next checkpoint
    with Trainer("ppo", config={**KEYS, "loggers": loggers}, directory=place) as trainer:
        trainer.restore(place)
        trainer.train()
        trainer.train()
    with only_modules(frozenset()):
        check_stays_inside(place)  # as `marl run --resume` does
    first, second = offline_runs(place)
    assert (first.project, first.name, first.group) == ("games", "run", "rps")
    assert first.config["env"] == "matrix_game"
    assert second.id == first.id
    written = [json.loads(line) for line in (place / "result.json").read_text("utf-8").splitlines()]
    logged = [*first.history, *second.history]
    assert [row["training_iteration"] for row in logged] == [
        1,
        2,
        3,
    ]  # the second iteration came again, and is there once
    for row, expected in zip(logged, written, strict=True):
        assert row["_step"] == expected["training_iteration"]
        assert row["timesteps_total"] == expected["timesteps_total"]
        assert row["episode_reward_mean"] == pytest.approx(expected["episode_reward_mean"])


@pytest.mark.slow
def test_a_run_that_goes_back_is_a_new_run_in_wandb_with_all_of_its_results(tmp_path: Path) -> None:
    place = tmp_path / "run"
    keys = {**KEYS, "loggers": ["wandb"], "checkpoint_freq": 1}
    with Trainer("ppo", config=keys, directory=place) as trainer:
        for _ in range(2):
            trainer.train()
    with Trainer("ppo", config={**keys, "algo": {**KEYS["algo"], "lr": 0.1}}, directory=place) as trainer:
        trainer.restore(place / "checkpoints" / "checkpoint_000001")
        trainer.train()
    runs = offline_runs(place)  # in no order: both may have begun in the same second
    assert len({run.id for run in runs}) == len(runs) == 2
    for run in runs:
        assert [row["training_iteration"] for row in run.history] == [1, 2]
    abandoned = place / "abandoned" / "after_000001" / "wandb_run.json"
    now = place / "wandb_run.json"
    assert {json.loads(file.read_text("utf-8"))["id"] for file in (abandoned, now)} == {run.id for run in runs}


@pytest.mark.slow
def test_wandb_gets_pictures_films_and_histograms_and_none_with_media_false(tmp_path: Path) -> None:
    picture, film = np.zeros((4, 4, 3), np.uint8), np.zeros((2, 4, 4, 3), np.uint8)
    shown = result(1, episode_media={"board": [picture], "film": [film]})
    log(tmp_path / "with", "wandb", [shown])
    log(tmp_path / "without", {"wandb": {"media": False}}, [shown])
    (with_media,), (without,) = offline_runs(tmp_path / "with"), offline_runs(tmp_path / "without")
    (row,) = with_media.history
    assert row["board/_type"] == "images/separated"
    assert row["film/_type"] == "videos"
    assert row["hist_stats/episode_reward/_type"] == "histogram"
    assert sum(row["hist_stats/episode_reward/values"]) == 3
    (folder,) = (tmp_path / "with" / "wandb").glob("offline-run-*")
    assert len(list(folder.glob("files/media/images/*.png"))) == 1
    (row,) = without.history
    assert not [name for name in row if name.startswith(("board", "film", "hist_stats"))]
    assert row["policy_reward_mean/wolf[*]"] == 3.0


@pytest.mark.parametrize(
    "numbers", [[0.1 + 0.2, 0.3], [1e308, -1e308], [1e308], [1e17, 1e17 + 16], [-5.0, -5.0], [0.0], [1.0, 2.0, 3.0]]
)
def test_all_finite_numbers_are_counted_in_histograms(tmp_path: Path, numbers: list[float]) -> None:
    counts, ends = counted(numbers)
    assert counts.sum() == len(numbers)
    assert (np.diff(ends) > 0).all()
    RunFiles(tmp_path).append(result(1, hist_stats={"episode_reward": numbers}))
    (events,) = tmp_path.glob("events.out.tfevents.*")
    assert b"hist_stats/episode_reward" in events.read_bytes()


# -- mlflow --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database in which no run stands: making one takes seconds, so tests begin with a copy."""
    place = tmp_path_factory.mktemp("empty")
    (place / "mlflow").mkdir()
    client(place).search_experiments()
    return place / "mlflow"


def client(place: Path) -> Any:
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracking_uri=f"sqlite:///{place.resolve() / 'mlflow' / 'mlflow.db'}")


def the_run(place: Path, experiment: str = "rps") -> Any:
    there = client(place)
    (run,) = there.search_runs([there.get_experiment_by_name(experiment).experiment_id])
    return run


@pytest.mark.slow
def test_mlflow_gets_keys_and_numbers_at_env_steps_and_a_resumed_run_goes_on_in_the_same_run(tmp_path: Path) -> None:
    place = tmp_path / "run"
    keys = {**KEYS, "loggers": [{"mlflow": {"tags": {"who": "me"}}}]}
    with Trainer("ppo", config=keys, directory=place) as trainer:
        trainer.train()
        trainer.save()
        trainer.train()
    with Trainer("ppo", config={**keys, "algo": {**KEYS["algo"], "lr": 0.1}}, directory=place) as trainer:
        trainer.restore(place)
        trainer.train()
        trainer.train()
        assert the_run(place).info.status == "RUNNING"
    run = the_run(place)
    assert run.info.run_name == "run"
    assert run.info.status == "FINISHED"
    assert run.data.params["env_config.game"] == "rock_paper_scissors"
    assert run.data.tags["who"] == "me"
    assert run.data.tags["resumed.algo.lr"] == "0.1"  # a parameter there never changes
    history = client(place).get_metric_history(run.info.run_id, "timesteps_total")
    assert [(point.step, point.value) for point in history] == [(32, 32.0), (64, 64.0), (96, 96.0)]
    written = json.loads((place / "result.json").read_text("utf-8").splitlines()[-1])
    assert run.data.metrics["episode_len_mean"] == pytest.approx(written["episode_len_mean"])


@pytest.mark.slow
def test_mlflow_takes_any_name_and_keeps_pictures_as_artifacts(tmp_path: Path, empty: Path) -> None:
    shutil.copytree(empty, tmp_path / "mlflow")
    odd = ["", ".", "..", "/a", "a/", "a//b", "../x", "x" * 400, "/" * 400]  # MLflow may keep names as paths of files
    rewards = {"wolf[*]": 3.0, **dict.fromkeys(odd, 7.0)}
    params = {**PARAMS, "policies": {name: {"lr": 1} for name in odd}}
    shown = result(1, episode_media={"board": [np.zeros((4, 4, 3), np.uint8)]}, policy_reward_mean=rewards)
    log(tmp_path, {"mlflow": {"experiment": "others"}}, [shown], params)
    changed = {**PARAMS, "policies": {name: {"lr": 2} for name in odd}}
    log(tmp_path, {"mlflow": {"experiment": "others"}}, [result(2)], changed)  # it goes on with other keys
    run = the_run(tmp_path, "others")
    assert run.data.metrics["policy_reward_mean/a/_/b"] == 7.0
    assert run.data.tags["resumed.policies.a/_/b.lr"] == "2"
    assert run.data.metrics["timesteps_total"] == 200
    assert run.data.metrics["policy_reward_mean/wolf___"] == 3.0
    assert "done" not in run.data.metrics
    assert "nothing" not in run.data.metrics
    assert run.data.params["algo.lr"] == "0.1"
    (kept,) = client(tmp_path).list_artifacts(run.info.run_id, "media")
    assert kept.path == "media/board_100.png"
    assert list((tmp_path / "mlflow" / "artifacts").rglob("board_100.png"))


@pytest.mark.slow
def test_a_database_that_came_with_a_run_directory_names_no_place_elsewhere_for_files(
    tmp_path: Path, empty: Path, caplog: pytest.LogCaptureFixture
) -> None:
    here, moved = tmp_path / "here", tmp_path / "moved"
    shutil.copytree(empty, here / "mlflow")
    log(here, "mlflow", [result(1)])
    here.rename(moved)  # its database still names the old place
    shown = result(2, episode_media={"board": [np.zeros((4, 4, 3), np.uint8)]})
    log(moved, "mlflow", [shown])
    history = client(moved).get_metric_history(the_run(moved, "marl").info.run_id, "timesteps_total")
    assert [point.step for point in history] == [100, 200]
    assert not here.exists()
    assert "MLflow keeps files of this run elsewhere" in caplog.text


# -- what holds for both -------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_logger_that_comes_late_gets_what_was_before_and_a_file_from_elsewhere_stays_here(
    tmp_path: Path, empty: Path
) -> None:
    secret = tmp_path / "secret.png"
    secret.write_bytes(b"not yours")
    place = tmp_path / "run"
    shutil.copytree(empty, place / "mlflow")
    RunFiles(place).append(result(1))
    with (place / "result.json").open("a") as file:
        file.write(json.dumps(result(2, episode_media={"board": ["../secret.png"]})) + "\n")
    (place / "mlflow_run.json").write_text('{"id": "../../x", "iteration": 7}')  # nobody's: it names a way out
    log(place, "mlflow", [result(3)])
    run = the_run(place, "marl")
    history = client(place).get_metric_history(run.info.run_id, "episode_reward_mean")
    assert [point.step for point in history] == [100, 200, 300]
    assert client(place).list_artifacts(run.info.run_id, "media") == []


@pytest.mark.slow
def test_a_service_that_fails_is_a_warning_and_gets_what_it_missed_when_the_run_is_resumed(
    tmp_path: Path, empty: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(empty, tmp_path / "mlflow")
    files, loggers = RunFiles(tmp_path), RunLoggers(["mlflow"])
    loggers.open(tmp_path, PARAMS)
    loggers.write(files.append(result(1)))
    database = tmp_path / "mlflow" / "mlflow.db"
    content = database.read_bytes()
    database.write_bytes(b"the disk had other plans" * 1000)
    loggers.write(files.append(result(2)))
    loggers.write(files.append(result(3)))
    assert caplog.text.count("logger 'mlflow' failed at the result of iteration 2") == 1
    assert "The run goes on without it" in caplog.text
    loggers.close()
    database.write_bytes(content)
    log(tmp_path, "mlflow", [result(4)])
    run = the_run(tmp_path, "marl")
    steps = [point.step for point in client(tmp_path).get_metric_history(run.info.run_id, "episode_reward_mean")]
    assert sorted(steps) == [100, 200, 300, 400]


def test_what_is_wrong_with_a_logger_is_told_before_a_run_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    for loggers, message in (
        ([{"wandb": {"projekt": "x"}}], r"loggers, wandb: unknown key 'projekt'\. Did you mean 'project'\?"),
        ([{"wandb": {"mode": "on"}}], "mode = 'on'"),
        (["wandb", {"wandb": {}}], "'wandb' stands there twice"),
        ([{"csv": {"name": "x"}}], "'csv' has no keys, but got name"),
        ([{"wandb": {}, "mlflow": {}}], "names 2 loggers; expected one name with its keys"),
        (
            ["wandbb"],
            r"unknown logger 'wandbb'\. Known: csv, json, mlflow, tensorboard, wandb\. Did you mean 'wandb'\?",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            Trainer("ppo", config={**KEYS, "loggers": loggers})
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(ResourceError, match=r'needs the package wandb.*pip install "marl\[wandb\]"'):
        Trainer("ppo", config={**KEYS, "loggers": ["wandb"]})


def test_keys_that_lead_out_of_the_machine_are_given_again_by_who_resumes(tmp_path: Path) -> None:
    inside = {
        **KEYS,
        "loggers": ["csv", {"wandb": {"project": "x"}}, {"mlflow": None}, {"package.module:Mine": {"a": 1}}],
    }
    check_given_again(inside, [], tmp_path)
    assert places_again(inside) == []
    for entry in ({"mlflow": {"tracking_uri": "http://elsewhere"}}, {"wandb": {"mode": "online"}}):
        outside = {**KEYS, "loggers": [entry]}
        with pytest.raises(
            ConfigError, match=r"the services that its results are sent to.*--set loggers=\[\] to go on"
        ):
            check_given_again(outside, [], tmp_path)
        check_given_again(outside, ["loggers"], tmp_path)
        assert places_again(outside) == [f"--set 'loggers={json.dumps([entry])}'"]
        assert without_places(outside)["loggers"] == []


# -- files ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loggers", "events"),
    [
        ([], True),
        (["tensorboard"], True),
        (["csv", "json"], False),
        (["JSON"], False),
        (["csv", "TensorBoard", "json"], True),
    ],
)
def test_a_list_that_names_files_chooses_among_them_and_json_and_csv_are_always_there(
    tmp_path: Path, loggers: list[str], events: bool
) -> None:
    with Trainer("ppo", config={**KEYS, "loggers": loggers}, directory=tmp_path) as trainer:
        trainer.train()
    assert (tmp_path / "result.json").is_file()
    assert (tmp_path / "progress.csv").is_file()
    assert bool(list(tmp_path.glob("events.out.tfevents.*"))) is events


def test_pictures_are_kept_without_tensorboard_too(tmp_path: Path) -> None:
    RunFiles(tmp_path, events=False).append(result(1, episode_media={"board": [np.zeros((4, 4, 3), np.uint8)]}))
    assert (tmp_path / "media" / "board_100.png").is_file()
    assert not list(tmp_path.glob("events.out.tfevents.*"))


def test_a_logger_of_one_s_own_gets_the_keys_of_its_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOGGERS, "_items", dict(LOGGERS._items))
    monkeypatch.setattr(LOGGERS, "_added", set(LOGGERS._added))

    class Lines:
        def __init__(self, directory: Path, params: Any, path: str = "lines.txt") -> None:
            self.file = (directory / path).open("a")

        def write(self, result: Any) -> None:
            print(result["timesteps_total"], file=self.file)

        def close(self) -> None:
            self.file.close()

    marl.register_logger("lines_with_keys", Lines)
    log(tmp_path, {"lines_with_keys": {"path": "mine.txt"}}, [result(1)])
    assert (tmp_path / "mine.txt").read_text() == "100\n"
    with pytest.raises(ConfigError, match=r"logger 'lines_with_keys', built for a run, failed: TypeError: .*pathh"):
        log(tmp_path, {"lines_with_keys": {"pathh": "x"}}, [])
    assert list(tmp_path.glob("events.out.tfevents.*"))  # it adds to the files, and takes none away
