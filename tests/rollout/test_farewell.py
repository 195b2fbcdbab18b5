"""The process that tidies up after a run whose Ray took it along: whom it waits for, whom it ends, and what it says."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from marl.rollout import farewell
from marl.rollout.ray_watch import _processes, _runs


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["sleep", "60"])


def known(process: Any) -> tuple[int, float]:
    return process.pid, psutil.Process(process.pid).create_time()


def tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *lines: str) -> str:
    """Gives what was said, to a real file as standard error."""
    monkeypatch.setattr(farewell, "PATIENCE_S", 0.2)
    monkeypatch.setattr(sys, "stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
    file = tmp_path / "stderr"
    with file.open("w") as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        farewell.main()
        print("open", file=stream, flush=True)  # unless it was let go of, so that nobody waits for its end
    return file.read_text()


def test_what_is_left_of_ray_is_ended_and_removed_and_a_death_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ray"
    (folder / "logs").mkdir(parents=True)
    raylet, other, stranger = sleeper(), sleeper(), sleeper()
    dead = sleeper()
    gone = known(dead)
    dead.kill()
    dead.wait()
    reused = (stranger.pid, psutil.Process(stranger.pid).create_time() - 100.0)  # the number went to somebody else
    note = {
        "words": "Ray died.",
        "heart": [known(raylet), gone],
        "others": [known(other), reused],
        "folder": str(folder),
    }
    older = json.dumps({**note, "words": "an older note"})
    assert tell(tmp_path, monkeypatch, older, json.dumps(note)) == "Ray died.\n"
    assert (raylet.wait(5), other.wait(5)) == (-9, -9)
    assert stranger.poll() is None
    assert not folder.exists()
    stranger.kill()
    stranger.wait()


def test_nothing_is_said_while_ray_lives_and_nothing_done_after_a_regular_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "ray"
    folder.mkdir()
    raylet = sleeper()
    note = {"words": "Ray died.", "heart": [known(raylet)], "others": [], "folder": str(folder)}
    assert tell(tmp_path, monkeypatch) == "open\n"  # not even a note
    assert tell(tmp_path, monkeypatch, json.dumps(note), "") == "open\n"
    assert raylet.poll() is None
    assert folder.exists()
    assert tell(tmp_path, monkeypatch, json.dumps(note)) == ""
    assert raylet.wait(5) == -9
    assert not folder.exists()


def test_alive_are_those_with_the_same_start_that_are_no_zombies() -> None:
    process = sleeper()
    number, started = known(process)
    assert [one.pid for one in farewell._alive([(number, started), (number, started + 1.0)])] == [number]
    process.kill()
    while psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
        pass
    assert farewell._alive([(number, started)]) == []
    process.wait()
    assert farewell._alive([(number, started)]) == []


def test_processes_of_a_ray_are_children_that_know_its_folder_and_all_of_theirs(tmp_path: Path) -> None:
    chain = "sh -c 'sh -c \"sleep 60; true\"; true'; true"
    ours = subprocess.Popen(["sh", "-c", chain, str(tmp_path / "mine")])
    others = subprocess.Popen(["sh", "-c", chain, str(tmp_path / "other")])
    both = [psutil.Process(one.pid) for one in (ours, others)]
    while any(len(one.children(recursive=True)) < 3 for one in both):
        time.sleep(0.01)
    families = [[one, *one.children(recursive=True)] for one in both]
    found = _processes(tmp_path / "mine")
    assert sorted(one.pid for one in found) == sorted(one.pid for one in families[0])
    assert len(found) == 4
    assert all(map(_runs, found))
    for family in families:
        for one in family:  # from above, so that nobody ends by itself
            one.kill()
    assert (ours.wait(5), others.wait(5)) == (-9, -9)
    assert not any(map(_runs, families[0][:1]))
