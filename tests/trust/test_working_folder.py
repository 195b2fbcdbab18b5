"""The folder in which a command is typed: its modules are the user's own, and never stand in for installed ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from marl.errors import ConfigError
from marl.registry import import_module, only_modules
from tests.forgeries import forge, trap

ROOT = Path(__file__).parents[2]
SHADOWS = ("torch", "json", "numpy", "yaml", "tensorflow", "matplotlib", "tensorboard", "supersuit", "marl_evil", "cv2")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working folder that Python does not know of."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if name in ("own_world", "colorsys"):
            del sys.modules[name]


def test_a_module_of_the_user_is_found_after_everything_else(here: Path) -> None:
    (here / "own_world.py").write_text("answer = 42\n")
    assert getattr(import_module("own_world", "imports"), "answer", None) == 42
    assert sys.path[-1] == str(here)


def test_a_file_of_the_folder_does_not_stand_in_for_a_module_of_python(here: Path) -> None:
    trap(here, "colorsys", here / "canary")
    assert hasattr(import_module("colorsys", "imports"), "rgb_to_hsv")
    assert not (here / "canary").exists()
    assert str(here) not in sys.path


def test_a_name_of_a_checkpoint_does_not_open_the_folder(here: Path) -> None:
    trap(here, "own_world", here / "canary")
    with only_modules(frozenset()), pytest.raises(ConfigError, match="--allow own_world"):
        import_module("own_world", "imports")
    with only_modules(frozenset()):
        import_module("marl.envs.games.matrix", "imports")
    assert str(here) not in sys.path
    assert not (here / "canary").exists()
    with only_modules(frozenset({"own_world"})):
        import_module("own_world", "imports")
    assert (here / "canary").exists()


@pytest.mark.slow
def test_nothing_beside_a_checkpoint_is_imported(run: Path, tmp_path: Path) -> None:
    """A whole run goes on in a folder full of files with the names of packages that it imports late, or might."""
    canary, folder = tmp_path / "canary", tmp_path / "forged"
    forge(run, folder, env="marl.envs.games.matrix:MatrixGames")
    for name in SHADOWS:
        trap(folder, name, canary)
    command = [sys.executable, "-P", "-m", "marl.cli", "run", "--resume", str(folder)]
    surroundings = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=120)
    assert not canary.exists()
    assert done.returncode == 0, done.stderr
