"""What a run had to say is kept with its results."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from marl.runs.notes import NOTES, keep_note, read_notes
from marl.training.display import Quiet
from marl.training.noting import noted_in


class Shown(Quiet):
    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_notes_and_warnings_are_kept_while_a_run_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "marl")  # of what is told on the screen, only warnings are kept
    shown = Shown()
    with noted_in(tmp_path, shown, lambda: 7) as display:
        display.note("first")
        logging.getLogger("marl.rollout").warning("worker %d was replaced", 1)
        logging.getLogger("marl.rollout").info("nothing to keep")
    logging.getLogger("marl.rollout").warning("too late")
    assert shown.notes == ["first"]
    told = [(note["kind"], note["text"], note["iteration"]) for note in read_notes(tmp_path)]
    assert told == [("note", "first", 7), ("warning", "worker 1 was replaced", 7)]


def test_a_run_without_notes_has_no_file_of_them(tmp_path: Path) -> None:
    with noted_in(tmp_path, Quiet(), lambda: 0):
        pass
    assert not (tmp_path / NOTES).exists()
    assert read_notes(tmp_path) == []


def test_damaged_notes_are_passed_over_and_a_full_disk_ends_no_run(tmp_path: Path) -> None:
    keep_note(tmp_path, "one")
    with (tmp_path / NOTES).open("ab") as file:
        file.write(b'{"text": 3}\n[]\n\xff\n{"text": "ha')
    assert [note["text"] for note in read_notes(tmp_path)] == ["one"]
    keep_note(tmp_path / "nowhere", "lost")
