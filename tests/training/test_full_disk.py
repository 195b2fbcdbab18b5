"""A disk that is full at some write: one message, the way to go on, and nothing is lost."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from marl.errors import CheckpointWriteError, StorageError
from marl.offline.trajectories import read_episodes, recorded_files
from marl.play.video import Video
from marl.runs.checkpoint import find_checkpoint, read_part, write_checkpoint
from marl.runs.files import RunFiles
from marl.runs.result import without_wall_clock
from marl.storage import append_to, storing, write_atomically
from tests.command import Done, disk_for, marl
from tests.training.trees import differences

SCENARIO = """
env: two_step_game
algo: {{name: ppo, train_batch_size: 64, sgd_minibatch_size: 32, num_sgd_iter: 1}}
model: {{fcnet_hiddens: [8]}}
num_envs_per_worker: 4
evaluation: {{interval: 2, episodes: 2}}
checkpoint_freq: 1
stop: {{training_iteration: 4}}
output: {output}
output_format: {format}
"""


def scenario(place: Path, form: str) -> Path:
    file = place / "small.yaml"
    file.write_text(SCENARIO.format(output=place / "recorded", format=form))
    return file


def run_directory(place: Path) -> Path:
    (found,) = (place / "out" / "small").iterdir()
    return found


def outcome(place: Path) -> dict[str, Any]:
    """All that a run leaves, without clocks and names that differ from run to run."""
    directory = run_directory(place)
    lines = (directory / "result.json").read_text().splitlines()
    checkpoint = find_checkpoint(directory)
    run = read_part(checkpoint, "run")
    for name in ("time_total_s", "trial_id", "experiment_id"):
        run["counters"].pop(name)
    run.pop("scenario")
    run["last_result"] = timeless(run["last_result"])
    episodes = [read_episodes(file) for file in recorded_files(place / "recorded")]
    return {
        "results": [timeless(json.loads(line)) for line in lines],
        "run": run,
        **{part: read_part(checkpoint, part) for part in ("policies", "learners", "workers")},
        "recorded": [rows for file in episodes for rows in file],
    }


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    kept = without_wall_clock(result)
    return {name: value for name, value in kept.items() if name not in ("trial_id", "experiment_id", "config")}


@cache
def straight(form: str) -> Any:
    """What the same run leaves when nothing goes wrong."""
    with TemporaryDirectory() as place:
        done = marl("run", scenario(Path(place), form), "--local-dir", Path(place) / "out", "-q")
        assert done.code == 0, done.err
        return outcome(Path(place))


# Bytes that a file may have. The first to fail are: params.json, the first result, a recording, the events of a second
# iteration, those of a third.
@pytest.mark.parametrize(
    ("form", "room", "code"),
    [("npz", 0, 2), ("npz", 5_000, 2), ("json", 12_000, 2), ("npz", 16_000, 1), ("npz", 40_000, 1)],
)
def test_a_run_on_a_full_disk_says_so_once_and_goes_on_exactly_when_there_is_room(
    form: str, room: int, code: int, tmp_path: Path
) -> None:
    file = scenario(tmp_path, form)
    with disk_for(room):
        done = marl("run", file, "--local-dir", tmp_path / "out", "-q")
    says_one_thing(done)
    assert done.code == code
    if code == 2:  # there was no checkpoint yet
        assert not list((tmp_path / "out" / "small").iterdir())
        return
    directory = run_directory(tmp_path)
    assert f"marl run --resume {directory}" in done.errors[0]
    again = marl("run", file, "--resume", directory, "-q")
    assert again.code == 0, again.err
    assert differences(outcome(tmp_path), straight(form)) == []


def says_one_thing(done: Done) -> None:
    assert len(done.errors) == 1, done.err
    assert "File too large" in done.errors[0]
    assert "Traceback" not in done.err
    assert "WARNING" not in done.err


def test_a_result_that_does_not_fit_leaves_no_half_line(tmp_path: Path) -> None:
    files = RunFiles(tmp_path)
    files.append({"training_iteration": 1, "timesteps_total": 10})
    with disk_for((tmp_path / "result.json").stat().st_size + 20), pytest.raises(StorageError, match=r"result\.json"):
        files.append({"training_iteration": 2, "timesteps_total": 20, "text": "x" * 100})
    assert [result["training_iteration"] for result in files.results()] == [1]
    assert (tmp_path / "result.json").read_text().endswith("}\n")
    files.append({"training_iteration": 2, "timesteps_total": 20})
    assert [result["training_iteration"] for result in files.results()] == [1, 2]


def test_a_full_disk_leaves_the_old_file_and_nothing_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_atomically(file, "old")
    with disk_for(5), pytest.raises(StorageError, match=r"page\.html: File too large \(.* MB are free there\)"):
        write_atomically(file, "much longer")
    assert file.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["page.html"]


def test_a_full_device_is_told_by_its_own_words(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No space left on device"), storing(Path("/dev/full")):
        Path("/dev/full").write_text("anything")
    (tmp_path / "line").symlink_to("/dev/full")
    with pytest.raises(StorageError):  # a link in a run directory is not followed
        append_to(tmp_path / "line", "anything")


def test_a_link_that_somebody_put_beside_a_file_is_not_written_through(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (tmp_path / ".params.json.tmp").symlink_to(precious)
    with pytest.raises(StorageError):
        write_atomically(tmp_path / "params.json", "theirs")
    assert precious.read_text() == "mine"


def test_a_checkpoint_that_does_not_fit_leaves_the_older_one(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "here", {"workers": {"a": 1}})
    with disk_for(2_000), pytest.raises(CheckpointWriteError, match="Older checkpoints are untouched"):
        write_checkpoint(tmp_path / "here", {"workers": {"a": np.zeros(1_000)}})
    assert read_part(tmp_path / "here", "workers") == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["here"]


@pytest.mark.parametrize("ending", ["gif", "mp4"])
def test_a_video_that_does_not_fit_leaves_nothing(ending: str, tmp_path: Path) -> None:
    picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3)).astype(np.uint8)
    place = tmp_path / f"film.{ending}"
    with disk_for(1_000), pytest.raises(StorageError, match=f"film.{ending}"), Video(place) as video:
        for _ in range(3):
            video.add(picture, "noise")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [("init", "two_step_game", "--out", "new.yaml"), ("schema", "--out", "new.json"), ("report", "two_step_game", "--out", "new")],
    ids=lambda command: command[0],
)  # fmt: skip
def test_commands_that_write_a_file_say_that_the_disk_is_full(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with disk_for(100):
        done = marl(*command)
    assert done.code == 2
    says_one_thing(done)
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_an_export_that_does_not_fit_is_refused_and_leaves_the_run_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = scenario(tmp_path, "npz")
    assert marl("run", file, "--local-dir", tmp_path / "out", "-q", "--stop-iters", 1).code == 0
    before = sorted(os.listdir(run_directory(tmp_path)))
    with disk_for(100):
        done = marl("export", run_directory(tmp_path), "--out", tmp_path / "policies")
    assert done.code == 2
    says_one_thing(done)
    assert sorted(os.listdir(run_directory(tmp_path))) == before
