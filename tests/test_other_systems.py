"""What other systems lack is done without. Simulated: the function is taken away, or answers as it does there."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from marl import Trainer
from marl.diagnostics.bench_learners import doubts
from marl.diagnostics.load import load_now
from marl.runs.atomic import put_in_place, temporary_beside
from marl.storage import sync, write_atomically


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders cannot be opened, and a file that is only read cannot be waited for."""
    real_open, real_sync, for_writing = os.open, os.fsync, set[int]()

    def open_as_there(path: Any, flags: int, *more: Any, **keys: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(13, "Permission denied", str(path))
        descriptor = real_open(path, flags, *more, **keys)
        for_writing.discard(descriptor)
        if flags & (os.O_WRONLY | os.O_RDWR):
            for_writing.add(descriptor)
        return descriptor

    def sync_as_there(descriptor: int) -> None:
        if descriptor not in for_writing:
            raise OSError(9, "Bad file descriptor")
        real_sync(descriptor)

    monkeypatch.delattr(os, "O_DIRECTORY")
    monkeypatch.setattr(os, "open", open_as_there)
    monkeypatch.setattr(os, "fsync", sync_as_there)


@pytest.mark.usefixtures("windows")
def test_files_and_folders_are_written_where_folders_cannot_be_opened(tmp_path: Path) -> None:
    write_atomically(tmp_path / "file", "content")
    sync(tmp_path / "file")
    sync(tmp_path)
    folder = tmp_path / "folder"
    for content in ("old", "new"):  # a new one, then one in place of another
        temporary = temporary_beside(folder)
        temporary.mkdir()
        (temporary / "part").write_text(content)
        put_in_place(temporary, folder)
        assert (folder / "part").read_text() == content


@pytest.mark.usefixtures("windows")
def test_a_checkpoint_is_written_and_read_where_there_are_neither_folders_to_open_nor_locks_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "fcntl", None)  # importing it fails
    monkeypatch.setitem(sys.modules, "resource", None)
    tiny = {"train_batch_size": 32, "sgd_minibatch_size": 32, "fcnet_hiddens": [4], "evaluation": {"interval": 0}}
    with Trainer("ppo", env="two_step_game", config=tiny, directory=tmp_path / "run") as trainer:
        trainer.train()
        saved = trainer.save()
    with Trainer.from_checkpoint(saved) as again:
        assert again.iteration == 1


def test_a_system_that_counts_no_load_raises_no_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    assert load_now() is None
    assert doubts([], None, 2) == []


def test_a_load_that_cannot_be_read_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Any:
        raise OSError("unobtainable")

    monkeypatch.setattr(os, "getloadavg", unknown)
    assert load_now() is None
