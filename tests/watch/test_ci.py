"""What ``.ci/run`` does about the browser, and what tests say where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.watch.browser import skip_without_browser

RUN = Path(__file__).parents[2] / ".ci" / "run"
NEEDED = ("bash", "dirname", "touch", "chmod")
SHOW = '#!/bin/sh\necho "$@ MARL_BROWSER_TESTS=$MARL_BROWSER_TESTS"\n'
INSTALL = '#!/bin/sh\nfor n in chromium chromedriver; do touch "{folder}/$n"; chmod 755 "{folder}/$n"; done\n'


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """All programs of a machine: a make that tells what it was started with, and no browser."""
    for name in NEEDED:
        found = shutil.which(name)
        assert found is not None
        (tmp_path / name).symlink_to(found)
    program(tmp_path, "make", SHOW)
    program(tmp_path, "id", "#!/bin/sh\necho 1000\n")
    return tmp_path


def ran(folder: Path, **environment: str) -> list[str]:
    done = subprocess.run(
        [str(folder / "bash"), str(RUN)], env={"PATH": str(folder), **environment}, capture_output=True, text=True, timeout=60
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_a_browser_and_without_a_right_to_install_it_says_so(folder: Path) -> None:
    said, made = ran(folder)
    assert "cannot be installed" in said
    assert made == "test MARL_BROWSER_TESTS="


def test_in_ci_a_missing_browser_is_a_failure(folder: Path) -> None:
    assert ran(folder, CI="true")[-1] == "test MARL_BROWSER_TESTS=needed"


def test_root_installs_it(folder: Path) -> None:
    program(folder, "id", "#!/bin/sh\necho 0\n")
    program(folder, "apt-get", INSTALL.format(folder=folder))
    said, made = ran(folder)
    assert said.startswith("installed")
    assert made == "test MARL_BROWSER_TESTS=needed"


def test_a_failed_install_fails_in_ci_only(folder: Path) -> None:
    program(folder, "id", "#!/bin/sh\necho 0\n")
    program(folder, "apt-get", "#!/bin/sh\nexit 100\n")
    assert ran(folder)[-1] == "test MARL_BROWSER_TESTS="
    assert ran(folder, CI="true")[-1] == "test MARL_BROWSER_TESTS=needed"


def test_one_that_is_there_is_used(folder: Path) -> None:
    for name in ("google-chrome", "chromedriver"):
        program(folder, name, SHOW)
    assert ran(folder) == ["test MARL_BROWSER_TESTS=needed"]


def test_tests_say_why_they_are_skipped_and_fail_where_the_browser_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(os.environ, "PATH", str(tmp_path))
    monkeypatch.delitem(os.environ, "MARL_BROWSER_TESTS", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no Chromium"):
        skip_without_browser()
    monkeypatch.setitem(os.environ, "MARL_BROWSER_TESTS", "needed")
    with pytest.raises(pytest.fail.Exception, match="no Chromium"):
        skip_without_browser()
