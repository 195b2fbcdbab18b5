"""git in a stranger's folder: it says the commit, and starts no program that the folder's settings name."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from marl.runs import system_info as machine

Git = Callable[..., str]


@pytest.fixture
def repository(tmp_path: Path) -> tuple[Path, Git]:
    """A repository with one committed file."""
    place = tmp_path / "repository"
    place.mkdir()
    own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}

    def git(*words: str) -> str:
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=True, env={**os.environ, **own})
        return done.stdout.strip()

    git("init", "-q")
    (place / "file.txt").write_text("one\n")
    git("add", "file.txt")
    git("commit", "-qm", "one")
    machine.git.cache_clear()
    return place, git


@pytest.fixture
def program(tmp_path: Path) -> tuple[Path, Path]:
    """A program that leaves a canary behind, and the canary."""
    canary, script = tmp_path / "canary", tmp_path / "program.sh"
    script.write_text(f"#!/bin/sh\necho ran >> {canary}\ncat\n")
    script.chmod(0o755)
    return script, canary


@pytest.mark.parametrize("filtering", ["plain", "with=equals", "with\u2028line"])
def test_filters_of_a_repository_do_not_run(
    filtering: str, repository: tuple[Path, Git], program: tuple[Path, Path]
) -> None:
    (place, git), (script, canary) = repository, program
    with (place / ".git" / "config").open("a", encoding="utf-8") as config:
        config.write(f'[filter "{filtering}"]\n\tclean = {script}\n\tsmudge = {script}\n\trequired = true\n')
    (place / ".git" / "info").mkdir(exist_ok=True)
    (place / ".git" / "info" / "attributes").write_text(f"* filter={filtering}\n", encoding="utf-8")
    (place / "file.txt").write_text("two\n")
    assert machine.git(place) == {"commit": git("rev-parse", "HEAD"), "changed": True}
    assert not canary.exists()


def test_watchers_hooks_and_pagers_of_a_repository_do_not_run(
    repository: tuple[Path, Git], program: tuple[Path, Path]
) -> None:
    (place, git), (script, canary) = repository, program
    head = git("rev-parse", "HEAD")
    hooks = place / "hooks"
    hooks.mkdir()
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (hooks / hook).symlink_to(script)
    for key in ("core.fsmonitor", "core.pager", "core.sshCommand", "core.editor", "diff.external", "pager.status"):
        git("config", key, str(script))
    git("config", "core.hooksPath", str(hooks))
    os.utime(place / "file.txt", (1, 1))  # the index has to be looked at anew
    assert machine.git(place) == {"commit": head, "changed": False}
    assert not canary.exists()


def test_missing_objects_of_a_repository_are_not_fetched(
    repository: tuple[Path, Git], program: tuple[Path, Path]
) -> None:
    (place, git), (script, canary) = repository, program
    head, tree = git("rev-parse", "HEAD"), git("rev-parse", "HEAD^{tree}")
    (place / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    settings = {
        "extensions.partialClone": "origin", "core.repositoryFormatVersion": "1", "remote.origin.promisor": "true",
        "remote.origin.url": str(place), "remote.origin.uploadpack": str(script), "protocol.file.allow": "always",
    }  # fmt: skip
    for key, value in settings.items():
        git("config", key, value)
    found = machine.git(place)
    assert found is None or found["commit"] == head
    assert not canary.exists()


def test_variables_of_the_caller_do_not_lead_git_to_another_repository(
    repository: tuple[Path, Git], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, git = repository
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    found = machine.git(place)
    monkeypatch.delenv("GIT_DIR")
    assert found == {"commit": git("rev-parse", "HEAD"), "changed": False}
