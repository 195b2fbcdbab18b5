"""A run that goes on with another rounding than it was computed with says so, and only then."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from marl import Trainer
from marl.errors import CheckpointError
from marl.runs.arithmetic import ARITHMETIC
from marl.runs.checkpoint import find_checkpoint, read_part, write_checkpoint
from marl.runs.notes import read_notes
from tests.command import marl

OLD = Path(__file__).parents[1] / "golden" / "old_runs" / "qmix"  # of before checkpoints said it
SENTENCE = (
    "checkpoint_000002 was written by an older version of marl: the run goes on with new rounding, so from here on it will "
    "not repeat the old run bit for bit."
)
PARTS = ("run", "policies", "learners", "workers", "replay")


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return Path(shutil.copytree(OLD, tmp_path / "old"))


def with_arithmetic(folder: Path, number: Any) -> None:
    """The same checkpoint as if it had been written with another arithmetic."""
    parts = {part: read_part(folder, part) for part in PARTS}
    parts["run"]["arithmetic"] = number
    write_checkpoint(folder, parts)


def test_a_resumed_old_checkpoint_says_once_that_it_goes_on_with_new_rounding(
    old: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert "arithmetic" not in read_part(find_checkpoint(old), "run")
    done = marl("run", "--resume", old, "--stop-iters", 3)
    assert done.code == 0
    assert [record.getMessage() for record in caplog.records] == [SENTENCE]
    assert "rounding" not in done.out + done.err  # pytest takes the lines of the log away; nothing else repeats it
    kept = [(note["kind"], note["text"], note["iteration"]) for note in read_notes(old)]
    assert kept == [("note", SENTENCE, 2)]


def test_what_an_old_run_goes_on_to_write_is_of_the_new_arithmetic_and_says_nothing(
    old: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), Trainer.from_checkpoint(old) as trainer:
        assert [record.getMessage() for record in caplog.records] == [SENTENCE]
        trainer.train()
        again = trainer.save(tmp_path / "again")
    assert read_part(again, "run")["arithmetic"] == ARITHMETIC
    caplog.clear()
    with caplog.at_level(logging.WARNING), Trainer.from_checkpoint(again):
        assert "rounding" not in caplog.text


def test_a_run_that_moves_to_a_new_directory_keeps_the_note_there(old: Path, tmp_path: Path) -> None:
    with Trainer.from_checkpoint(old) as trainer:
        trainer.store.open(tmp_path / "new")
    assert [note["text"] for note in read_notes(tmp_path / "new")] == [SENTENCE]
    assert read_notes(old) == []


def test_a_checkpoint_of_a_newer_version_goes_on_with_older_rounding(
    old: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with_arithmetic(find_checkpoint(old), ARITHMETIC + 1)
    with caplog.at_level(logging.WARNING), Trainer.from_checkpoint(old):
        assert "by a newer version of marl: the run goes on with older rounding" in caplog.text


@pytest.mark.parametrize("number", ["2", -1, None, True])
def test_an_arithmetic_that_is_no_count_is_a_damaged_checkpoint(old: Path, number: Any) -> None:
    checkpoint = find_checkpoint(old)
    with_arithmetic(checkpoint, number)
    with pytest.raises(CheckpointError, match=r"its arithmetic is .*, expected a whole number, 0 or more"):
        Trainer.from_checkpoint(checkpoint)
