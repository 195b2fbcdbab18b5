"""The death of Ray's processes is noticed, and said where the process that noticed it can no longer speak. Without Ray: programs
that bear the names of its processes die in their place."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from marl.rollout import farewell
from marl.rollout.ray_watch import RayWatch, _by_handles, _by_looking

WORDS = "error: Ray died. Go on with: marl run --resume here"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Ray's folder, with programs in it that only wait."""
    place = tmp_path / "ray"
    place.mkdir()
    for name in ("raylet", "gcs_server", "agent"):
        shutil.copy("/bin/sleep", place / name)
    return place


@pytest.fixture
def processes(folder: Path) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    started = {name: subprocess.Popen([str(folder / name), "60"]) for name in ("raylet", "gcs_server", "agent")}
    yield started
    for process in started.values():
        process.kill()
        process.wait()


def test_the_watch_names_who_died_and_ends_what_is_left(
    folder: Path, processes: dict[str, subprocess.Popen[bytes]]
) -> None:
    watch = RayWatch(folder)
    assert watch.lost == ""
    processes["gcs_server"].kill()
    assert soon(lambda: watch.lost == "GCS")
    assert processes["raylet"].poll() is None
    watch.close(lambda: None)
    assert processes["raylet"].wait(10)
    assert processes["agent"].wait(10)
    assert folder.exists()  # whoever closes the watch removes it


def test_an_end_in_order_is_no_death(
    folder: Path, processes: dict[str, subprocess.Popen[bytes]], capfd: pytest.CaptureFixture[str]
) -> None:
    watch = RayWatch(folder)
    watch.close(processes["raylet"].kill)
    time.sleep(0.3)
    assert watch.lost == ""
    assert processes["agent"].poll() is None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("make", [_by_handles, _by_looking])
def test_a_death_is_noticed_with_handles_of_processes_and_without(
    make: Callable[[Mapping[str, psutil.Process]], Callable[[], str]], processes: dict[str, subprocess.Popen[bytes]]
) -> None:
    died = make({name: psutil.Process(process.pid) for name, process in processes.items()})
    assert died() == ""
    processes["raylet"].kill()
    assert soon(lambda: died() == "raylet")


ENDED_BY_RAY = """
import os, subprocess, sys
from pathlib import Path
from marl.rollout.ray_watch import RayWatch

folder = Path(sys.argv[1])
raylet = subprocess.Popen([str(folder / "raylet"), "60"])
watch = RayWatch(folder)
watch.say(sys.argv[2])
raylet.kill()
raylet.wait()
os._exit(1)  # as Ray does it
"""


def test_a_process_that_ray_ends_without_a_word_has_its_last_words_and_leaves_no_files(folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ENDED_BY_RAY, str(folder), WORDS], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", WORDS + "\n")
    assert soon(lambda: not folder.exists())


@pytest.mark.parametrize(("by_force", "code"), [(True, 1), (False, 3)])
def test_a_run_that_does_not_react_is_ended_by_force_but_a_program_of_the_users_never(
    by_force: bool, code: int, folder: Path
) -> None:
    script = ENDED_BY_RAY.replace("os._exit(1)", "__import__('time').sleep(1.5); sys.exit(3)").replace(
        "watch.say",
        f"import marl.rollout.ray_watch as module; module.PATIENCE_S = 0.2; watch.by_force = {by_force}; watch.say",
    )
    done = subprocess.run([sys.executable, "-c", script, str(folder), WORDS], capture_output=True, text=True)
    assert done.returncode == code
    assert done.stderr == WORDS + "\n"


def test_a_driver_that_was_killed_while_ray_lived_leaves_neither_words_nor_files(
    folder: Path, processes: dict[str, subprocess.Popen[bytes]]
) -> None:
    ray = psutil.Process(processes["raylet"].pid)
    note = farewell.Note(words=WORDS, heart=[(ray.pid, ray.create_time())], others=[], folder=str(folder))
    listener = subprocess.Popen(
        [sys.executable, "-I", farewell.__file__], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert listener.stdin is not None
    assert listener.stderr is not None
    listener.stdin.write(json.dumps(note) + "\n")
    listener.stdin.close()
    assert listener.stderr.read() == ""  # nothing is said, and nobody is kept waiting for it
    assert listener.poll() is None
    processes["raylet"].kill()
    processes["raylet"].wait()
    assert listener.wait(10) == 0
    assert not folder.exists()


def soon(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()
