"""Paths and hosts in a stranger's checkpoint: nobody follows them, and the owner of a run only has to give his again."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from marl import Trainer
from marl.cli.last_words import resume_command
from marl.errors import ConfigError
from marl.runs.checkpoint import find_checkpoint, read_part
from marl.runs.saved import without_places
from tests.forgeries import TINY, edit_part, forge, real_run
from tests.trust.conftest import Command


@pytest.fixture
def listening() -> Any:
    """A port on which nobody should knock."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.settimeout(0.0)
        yield server


def test_an_output_in_a_checkpoint_is_not_written_to(run: Path, tmp_path: Path, marl: Command) -> None:
    path = forge(run, tmp_path / "forged", output=str(tmp_path / "elsewhere"))
    code, _, said = marl("run", "--resume", path)
    assert code == 2
    assert f"output: '{tmp_path / 'elsewhere'}'" in said
    assert f"--set output={tmp_path / 'elsewhere'} to go on as before, --set output=null" in said
    assert not (tmp_path / "elsewhere").exists()
    with pytest.raises(ConfigError, match="output=None to go on without"):
        Trainer.from_checkpoint(path)
    assert marl("run", "--resume", path, "--set", "output=null")[0] == 0
    assert not (tmp_path / "elsewhere").exists()


def weights(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = read_part(find_checkpoint(run), "policies")["default_policy"]
    return found


def test_the_owner_gives_his_output_again_and_goes_on_exactly(tmp_path: Path, marl: Command) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    for directory in (whole, cut):
        real_run(directory, output=str(tmp_path / f"{directory.name}_output"))
    with Trainer.from_checkpoint(whole, output=str(tmp_path / "whole_output")) as trainer:
        for _ in range(2):
            trainer.train()
        expected = trainer.get_weights()["default_policy"]
        command = _resume_command_of(trainer, whole)
    assert command == f"marl run --resume {whole} --set output={tmp_path / 'whole_output'}"
    code, _, said = marl("run", "--resume", cut, "--set", f"output={tmp_path / 'cut_output'}")
    assert code == 0, said
    assert all(np.array_equal(array, expected[key]) for key, array in weights(cut).items())
    assert list((tmp_path / "cut_output").glob("trajs_*.npz"))


def _resume_command_of(trainer: Trainer, directory: Path) -> str:
    trainer.store.directory = directory
    words = resume_command(trainer).split(" ")
    return " ".join(word for place, word in enumerate(words) if "--allow" not in words[max(0, place - 1) : place + 1])


def test_recordings_in_a_checkpoint_are_not_read(tmp_path: Path, marl: Command) -> None:
    real_run(tmp_path / "recorded", output=str(tmp_path / "data"))
    keys = {key: TINY[key] for key in ("fcnet_hiddens", "stop", "evaluation", "log_sys_usage")}
    config = {**keys, "input": str(tmp_path / "data"), "train_batch_size": 16}
    with Trainer("bc", env="matrix_game", config=config, directory=tmp_path / "run") as trainer:
        trainer.train()
        trainer.save()
    code, _, said = marl("run", "--resume", tmp_path / "run")
    assert code == 2
    assert f"--set input={tmp_path / 'data'}" in said
    code, out, said = marl("run", "--resume", tmp_path / "run", "--set", f"input={tmp_path / 'data'}")
    assert code == 0, said
    assert "iter 3" in out


def test_nobody_knocks_at_a_cluster_that_a_checkpoint_names(
    run: Path, tmp_path: Path, marl: Command, listening: socket.socket
) -> None:
    address = f"127.0.0.1:{listening.getsockname()[1]}"
    path = forge(run, tmp_path / "forged", address=address, num_workers=1)
    code, _, said = marl("run", "--resume", path)
    assert code == 2
    assert f"--set address={address}" in said
    with pytest.raises(BlockingIOError):
        listening.accept()


def test_who_only_looks_at_a_run_follows_none_of_its_places() -> None:
    told = {
        "env": "x",
        "address": "a:1",
        "input": "in",
        "output": "out",
        "load": {"p": "there"},
        "output_format": "json",
        "external": {"host": "0.0.0.0", "token_file": "there"},
        "loggers": [{"mlflow": {"tracking_uri": "http://elsewhere"}}],
    }
    blank = {"env": "x", "address": None, "input": None, "output": None, "load": {}, "output_format": "npz"}
    blank["external"] = None
    blank["loggers"] = []
    assert without_places(told) == blank


def test_a_resumed_run_does_not_load_other_runs(run: Path, tmp_path: Path, marl: Command) -> None:
    path = forge(run, tmp_path / "forged", load={"default_policy": str(tmp_path / "nowhere")})
    assert marl("run", "--resume", path)[0] == 0


def test_with_its_scenario_file_a_run_goes_on_as_ever(tmp_path: Path, marl: Command) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(
        "env: matrix_game\nalgo: {name: ppo, train_batch_size: 16, sgd_minibatch_size: 16, num_sgd_iter: 1}\n"
        "model: {fcnet_hiddens: [4]}\nevaluation: {interval: 0}\nstop: {training_iteration: 1}\n"
        f"output: {tmp_path / 'data'}\n"
    )
    code, out, said = marl("run", file, "--local-dir", tmp_path / "results")
    assert code == 0, said
    directory = out.strip().splitlines()[-1].removeprefix("results: ")
    code, out, said = marl("run", file, "--resume", directory, "--stop-iters", "2")
    assert code == 0, said
    assert "iter 2" in out


def test_a_search_is_not_continued_into_places_of_its_file(tmp_path: Path, marl: Command) -> None:
    search = tmp_path / "search"
    search.mkdir()
    keys = {"env": "matrix_game", "load": {"default_policy": "/somewhere"}, "stop": {"training_iteration": 1}}
    trial = {"trial_id": "a_0", "directory": "one", "params": {"seed": 0}, "status": "PENDING", "index": 0, "error": ""}
    stored = {"version": 1, "trainable": "scenario", "keys": keys, "tune": {}, "stop": {}, "trials": [trial]}
    (search / "tune.json").write_text(json.dumps(stored))
    code, _, said = marl("tune", "--resume", search)
    assert code == 2
    assert '--set \'load={"default_policy": "/somewhere"}\'' in said


# -- ways out of a folder ----------------------------------------------------------------------------------------------


def test_a_new_run_directory_lies_where_the_user_says(run: Path, tmp_path: Path, marl: Command) -> None:
    path = forge(run, tmp_path / "forged", name="../../name")
    edit_part(find_checkpoint(path), "run", lambda part: part["counters"].update(trial_id="../../../trial"))
    code, out, said = marl("run", "--resume", path, "--local-dir", tmp_path / "mine" / "results")
    assert code == 0, said
    directory = Path(out.strip().splitlines()[-1].removeprefix("results: "))
    assert directory.resolve().is_relative_to(tmp_path / "mine" / "results")


@pytest.mark.parametrize("name", ["..", ".", "../up", "a/b"])
def test_a_policy_is_exported_into_the_folder_whatever_it_is_called(name: str, tmp_path: Path) -> None:
    with Trainer("ppo", env="matrix_game", config={**TINY, "policies": [name]}) as trainer:
        (folder,) = trainer.export_model(tmp_path / "out" / "here")
    assert folder.resolve().parent == (tmp_path / "out" / "here").resolve()
    assert (folder / "policy.json").is_file()


@pytest.mark.parametrize("link", ["result.json", "progress.csv", "media", "checkpoints/extra"])
def test_a_link_out_of_a_run_directory_is_not_written_through(
    link: str, run: Path, tmp_path: Path, marl: Command
) -> None:
    path, mine = tmp_path / "forged", tmp_path / "mine.txt"
    shutil.copytree(run, path)
    mine.write_text("mine")
    (path / link).unlink(missing_ok=True)
    (path / link).symlink_to(mine)
    code, _, said = marl("run", "--resume", path)
    assert code == 2
    assert f"is a link to {mine}" in said
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(("link", "ends"), [("params.json", 0), ("result.json", 1)])
def test_links_in_a_circle_are_replaced_or_named(
    link: str, ends: int, run: Path, tmp_path: Path, marl: Command
) -> None:
    path = forge(run, tmp_path / "forged")
    (path / link).unlink()
    (path / link).symlink_to(path / link)
    code, _, said = marl("run", "--resume", path)
    assert code == ends
    assert "Traceback" not in said
    assert (link in said) == bool(ends)
