"""A real run that is forged in many ways, and the command line in this process."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from marl.cli import main
from tests.forgeries import real_run

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny run of a built-in game; tests copy it."""
    return real_run(tmp_path_factory.mktemp("owner") / "run")


@pytest.fixture
def marl(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Command:
    """``marl ...``: its exit code, what it printed, what it said on stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["marl", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            main()
        out, err = capfd.readouterr()
        assert isinstance(stopped.value.code, int)
        return stopped.value.code, out, err

    return command
