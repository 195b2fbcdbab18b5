"""Whoever takes the newest checkpoint of a run says so if it is damaged and an older one is used instead."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marl import Trainer
from marl.analysis.crossplay import cross_play
from marl.analysis.exploit import exploitability_of
from marl.analysis.report.build import ReportOptions, build_report
from marl.cli.app import app
from marl.errors import CheckpointError
from marl.play.changes import Changes
from marl.play.playback import RolloutOptions, play
from marl.play.write_export import export_checkpoint
from marl.populations.exploit_config import ExploitabilityConfig
from marl.runs.damage import noted
from tests.processes import run as marl

TINY: dict[str, Any] = {
    "env": "matrix_game", "train_batch_size": 64, "fcnet_hiddens": [8], "evaluation": {"interval": 0}, "checkpoint_freq": 1,
    "multiagent": {"policy_mapping_fn": "per_agent"},
}  # fmt: skip
FEW = ReportOptions(episodes=2, with_random=False)
DAMAGE = "policies.safetensors is damaged: its SHA-256 begins with"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Path:
    directory: Path = tmp_path_factory.mktemp("trained")
    with Trainer("ppo", config=TINY, directory=directory) as trainer:
        trainer.train()
        trainer.train()
    return directory


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """Two checkpoints; one byte of the newer one's policies is wrong."""
    place = Path(shutil.copytree(trained, tmp_path / "run"))
    file = place / "checkpoints" / "checkpoint_000002" / "policies.safetensors"
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    return place


def load_another(run: Path) -> None:
    loaded = {"player_0": str(run), "player_1": str(run)}
    Trainer("ppo", config={**TINY, "load": loaded}).stop()


READERS: dict[str, Callable[[Path], Any]] = {
    "rollout": lambda run: play(run, RolloutOptions(1), say=lambda _: None),
    "a policy of a rollout": lambda run: play(
        run / "checkpoints" / "checkpoint_000001", RolloutOptions(1), changes=Changes(policies={"player_0": str(run)}), say=lambda _: None
    ),
    "exploit": lambda run: exploitability_of(run, ExploitabilityConfig()),
    "crossplay": lambda run: cross_play([run, "random"], episodes=2),
    "report": lambda run: build_report("matrix_game", [run], wishes=FEW, directory=run / "report"),
    "export": lambda run: export_checkpoint(run, run / "exported"),
    "load": load_another,
    "from_checkpoint": lambda run: Trainer.from_checkpoint(run).stop(),
}  # fmt: skip


@pytest.mark.parametrize("reader", list(READERS))
def test_every_reader_names_a_damaged_newest_checkpoint_once(reader: str, run: Path, caplog: Any) -> None:
    with noted() as damaged:
        READERS[reader](run)
    newest = run / "checkpoints" / "checkpoint_000002"
    (one,) = damaged.found
    assert (one.checkpoint, one.used) == (newest, newest.with_name("checkpoint_000001"))
    assert one.damage.startswith(DAMAGE)
    (warning,) = [record.message for record in caplog.records if "passed over" in record.message]
    assert warning.startswith(f"{newest} is passed over: {DAMAGE}")
    assert warning.endswith("checkpoint_000001 is used instead.")


@pytest.mark.parametrize(
    "command",
    [["rollout", "RUN", "--episodes", "1"], ["exploit", "RUN"], ["crossplay", "RUN", "random", "--episodes", "2"],
     ["report", "matrix_game", "RUN", "--episodes", "2", "--out", "RUN/report"]],
    ids=lambda command: command[0],
)  # fmt: skip
def test_json_holds_what_was_passed_over_and_nothing_where_all_is_well(
    command: list[str], run: Path, trained: Path
) -> None:
    def found(place: Path) -> dict[str, Any]:
        words = [word.replace("RUN", str(place)) for word in command]
        done = CliRunner().invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    (told,) = found(run)["damaged_checkpoints"]
    assert told["checkpoint"].endswith("checkpoint_000002")
    assert told["damage"].startswith(DAMAGE)
    assert told["used"].endswith("checkpoint_000001")
    if command[0] == "report":
        assert json.loads((run / "report" / "report.json").read_text())["damaged_checkpoints"] == [told]
    else:
        assert "damaged_checkpoints" not in found(trained)


def test_a_rollout_says_on_the_standard_error_which_weights_it_plays(run: Path) -> None:
    done = marl("rollout", run, "--episodes", 1)
    assert done.returncode == 0
    assert f"checkpoint_000002 is passed over: {DAMAGE}" in done.stderr
    assert "checkpoint_000001 is used instead" in done.stderr
    assert "passed over" not in done.stdout


def test_a_damaged_checkpoint_that_is_named_is_refused(run: Path) -> None:
    with pytest.raises(CheckpointError, match=rf"{DAMAGE}.*beside it: checkpoint_000001"):
        play(run / "checkpoints" / "checkpoint_000002", RolloutOptions(1), say=lambda _: None)


def test_a_report_on_all_checkpoints_names_the_damaged_one_and_goes_on_with_the_others(run: Path, caplog: Any) -> None:
    wishes = ReportOptions(episodes=2, with_random=False, all_checkpoints=True)
    with noted() as damaged:
        report = build_report("matrix_game", [run], wishes=wishes, directory=run / "report")
    assert [one["iteration"] for one in report.numbers["entrants"]] == [1]
    newest = run / "checkpoints" / "checkpoint_000002"
    (told,) = damaged.as_json()["damaged_checkpoints"]
    assert (told["checkpoint"], told["used"]) == (str(newest), None)
    assert f"{newest} is passed over: {DAMAGE}" in caplog.text
    assert "The others are used." in caplog.text
    (run / "checkpoints" / "checkpoint_000001" / "manifest.json").unlink()
    with pytest.raises(
        CheckpointError, match=r"none .* is complete \(checkpoint_000001: it has no manifest.json; check"
    ):
        build_report("matrix_game", [run], wishes=wishes)
