"""A FIFO, a device, a socket or a folder where a file belongs: refused at once, never waited for."""

from __future__ import annotations

import json
import os
import shutil
import socket
from pathlib import Path

import numpy as np
import pytest

from marl.errors import CheckpointError, DataError, UserError
from marl.inputs import NotAFileError, TooLargeError, open_input, read_bytes, read_json, read_text
from marl.memory import free_memory
from marl.offline.view import open_recording
from marl.runs.checkpoint import find_checkpoint, read_part, write_checkpoint
from marl.runs.files import RunFiles
from tests.command import marl

pytestmark = pytest.mark.timeout(30)  # a FIFO that is opened in the usual way waits for ever

SCENARIO = """
env: two_step_game
algo: {name: ppo, train_batch_size: 32, sgd_minibatch_size: 32, num_sgd_iter: 1}
model: {fcnet_hiddens: [8]}
stop: {training_iteration: 1}
"""
KINDS = ("fifo", "socket", "device", "folder")


def put(kind: str, path: Path) -> Path:
    """Something that is no file at this path, instead of whatever was there."""
    path.unlink(missing_ok=True)
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as listener:
            os.chdir(path.parent)  # names of sockets are short
            listener.bind(path.name)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    return path


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("kind", KINDS)
def test_only_regular_files_are_opened(kind: str, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"FIFO|device|folder|No such device"):
        open_input(put(kind, tmp_path / "odd"))


def test_links_to_files_are_followed(tmp_path: Path) -> None:
    (tmp_path / "file").write_text('{"a": 1}\r\n')
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert read_json(tmp_path / "link") == {"a": 1}
    assert read_text(tmp_path / "link") == '{"a": 1}\n'


def test_a_file_that_does_not_fit_into_memory_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(free_memory() + 10**12)  # a hole: takes no room on the disk
    with pytest.raises(TooLargeError, match=r"would take .* TB of memory, and .* are free"):
        read_bytes(tmp_path / "huge")


def test_json_of_brackets_is_a_value_error(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 1_000_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read_json(tmp_path / "deep.json")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "command",
    [("run", "ODD"), ("train", "--env", "two_step_game", "--config", "@ODD"), ("check", "two_step_game", "--config", "@ODD"),
     ("run", "--resume", "ODD"), ("rollout", "ODD"), ("replay", "ODD"), ("compare", "ODD", "ODD"), ("export", "ODD", "--out", "x")],
    ids=" ".join,
)  # fmt: skip
def test_commands_refuse_what_is_no_file(command: tuple[str, ...], kind: str, tmp_path: Path) -> None:
    odd = put(kind, tmp_path / "odd.yaml")
    done = marl(*(word.replace("ODD", str(odd)) for word in command))
    assert done.code == 2, done
    assert len(done.errors) == 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("trained")
    (place / "small.yaml").write_text(SCENARIO)
    assert marl("run", place / "small.yaml", "--local-dir", place / "out", "-q").code == 0
    (run,) = (place / "out" / "small").iterdir()
    assert marl("export", run, "--out", place / "exported").code == 0
    assert marl("rollout", run, "--episodes", 2, "--save", place / "recorded").code == 0
    return place


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize("name", ["manifest.json", "run.json", "policies.safetensors", "workers.json"])
def test_parts_of_a_checkpoint_that_are_no_files_are_refused(
    name: str, kind: str, trained: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(next((trained / "out" / "small").iterdir()), tmp_path / "run")
    put(kind, find_checkpoint(run) / name)
    done = marl("run", "--resume", run, "-q", "--stop-iters", 2)
    assert (done.code, len(done.errors)) == (2, 1), done
    assert (done.code, len(marl("rollout", run, "--episodes", 1).errors)) == (2, 1) or name == "workers.json"


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize("name", ["params.json", "result.json", "progress.csv", "state.json"])
def test_lists_and_comparisons_of_runs_pass_over_what_is_no_file(
    name: str, kind: str, trained: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(next((trained / "out" / "small").iterdir()), tmp_path / "runs" / "run")
    put(kind, run / name)
    assert marl("runs", tmp_path / "runs").code == 0
    assert marl("runs", tmp_path / "runs", "--json").code == 0
    assert marl("compare", run, run, "--out", tmp_path / "compared").code in (0, 2)
    if name == "result.json":
        with pytest.raises(UserError, match="cannot be read"):
            RunFiles(run).results()


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize("name", ["policy.json", "weights.safetensors"])
def test_an_export_that_is_no_file_is_refused(name: str, kind: str, trained: Path, tmp_path: Path) -> None:
    import marl as package

    exported = shutil.copytree(trained / "exported", tmp_path / "exported")
    (file,) = exported.rglob(name)
    put(kind, file)
    with pytest.raises(CheckpointError):
        package.load_policy(exported)


@pytest.mark.parametrize("kind", ["fifo", "folder"])
@pytest.mark.parametrize("name", ["trajectories.json", "trajs_0.npz"])
def test_a_recording_that_is_no_file_is_refused(name: str, kind: str, trained: Path, tmp_path: Path) -> None:
    recorded = shutil.copytree(trained / "recorded", tmp_path / "recorded")
    put(kind, recorded / name)
    with pytest.raises(DataError):
        open_recording(recorded)
    done = marl("replay", recorded)
    assert (done.code, len(done.errors)) == (2, 1)


def test_a_hash_is_never_taken_of_a_fifo(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "checkpoint", {"run": {"a": np.zeros(3)}})
    manifest = json.loads((folder / "manifest.json").read_text())
    put("fifo", folder / "run.safetensors")
    assert "run.safetensors" in manifest["files"]
    with pytest.raises(CheckpointError, match="damaged"):
        read_part(folder, "run")
    assert issubclass(NotAFileError, OSError)
