"""``marl watch`` as a command: what it says, whom it tells its token, and how it ends."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil
import pytest

from marl.watch.command import DEFAULT_PORT
from tests.command import marl

PATIENCE_S = 60.0
# Stands for a browser: notes the words that it was started with and what its file holds, and stays a while.
BROWSER = """#!/bin/sh
echo "$@" > {notes}.words
file=$(echo "$1" | sed 's,^file://,,')
stat -c %a "$file" > {notes}.mode
cat "$file" > {notes}.file
mv {notes}.file {notes}
"""

EFFECT = {"request": {"run": "one"}, "agent": "a", "step": 0, "instead": {"action": 1}}


@contextmanager
def watching(
    *words: object, command: tuple[str, ...] = (sys.executable, "-m", "marl.cli"), **environment: str
) -> Iterator[tuple[str, str, subprocess.Popen[str]]]:
    """A running ``marl watch``: its address, the token, the process."""
    process = subprocess.Popen(
        [*command, "watch", *map(str, words)], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, **environment},
    )  # fmt: skip
    assert process.stdout is not None
    said = ""
    try:
        while not said.endswith("go on.\n"):
            line = process.stdout.readline()
            assert line, said
            said += line
        found = re.search(r"open (http://\S+)/#token=(\S+)", said)
        assert found is not None, said
        yield found[1], found[2], process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def wait_for_file(file: Path, *, there: bool = True) -> None:
    end = time.monotonic() + PATIENCE_S
    while file.exists() is not there:
        assert time.monotonic() < end, file
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)  # nobody in a container may bury it
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_with_0_and_leaves_no_process_and_no_file(tmp_path: Path, number: signal.Signals) -> None:
    results, notes, script = tmp_path / "results", tmp_path / "notes", tmp_path / "browser"
    results.mkdir()
    script.write_text(BROWSER.format(notes=notes))
    script.chmod(0o755)
    with watching(results, "--port", 0, BROWSER=f"{script} %s") as (url, token, process):
        wait_for_file(notes)
        assert token in notes.read_text()
        assert token not in notes.with_suffix(".words").read_text()
        assert notes.with_suffix(".mode").read_text().strip() == "600"
        if number == signal.SIGINT:  # a browser comes with the token, and the file has done its work
            headers = {"authorization": f"Bearer {token}"}
            assert httpx.get(f"{url}/api/jobs/1", headers=headers, trust_env=False).status_code == 404
            end = time.monotonic() + PATIENCE_S
            while list(results.iterdir()):
                assert time.monotonic() < end
                time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        rest, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, rest) == (0, "stopped.\n")
        assert list(results.iterdir()) == []
        assert all(is_gone(child.pid) for child in children)


def marl_command() -> tuple[str, ...]:
    """As people start it, where it is installed; processes that play import the program anew, whichever it is."""
    script = shutil.which("marl", path=str(Path(sys.executable).parent))
    if script is None:
        return sys.executable, "-m", "marl.cli"
    return (script,)


@pytest.mark.slow
def test_in_the_middle_of_everything_it_ends_with_0_and_leaves_no_process(tmp_path: Path) -> None:
    mark = str(tmp_path)  # all that it starts inherits it
    with watching(tmp_path, "--port", 0, "--no-browser", command=marl_command(), MARL_TEST_MARK=mark) as (
        url,
        token,
        process,
    ):
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=PATIENCE_S) as client:
            # A process that plays has begun, and answers; four more are just beginning.
            assert client.get("/api/runs/scenarios").json()["scenarios"]
            assert client.post("/api/explain/demo", json={"steps": 100_000}).status_code == 200
            client.post("/api/whatif/effect", json=EFFECT)
            assert len(marked(mark)) >= 3
            process.send_signal(signal.SIGTERM)
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, rest) == (0, "stopped.\n")
        assert marked(mark) == []


def marked(mark: str) -> list[int]:
    """Processes that were started with this in their environment."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get("MARL_TEST_MARK") == mark and not is_gone(process.pid):
                found.append(process.pid)
    return found


@pytest.mark.slow
def test_the_token_is_nowhere_in_what_it_logs(tmp_path: Path) -> None:
    with watching(tmp_path, "--port", 0, "--no-browser") as (url, token, process):
        with httpx.Client(base_url=url, headers={"authorization": f"Bearer {token}"}, trust_env=False) as client:
            client.get("/")
            client.get("/api/jobs/1")
            client.get(f"/api/{token}")
            client.post("/api/saved", content=b"no")
        process.send_signal(signal.SIGTERM)
        rest, _ = process.communicate(timeout=PATIENCE_S)
        assert token not in rest


@pytest.mark.slow
def test_processes_that_play_end_with_a_server_that_was_killed() -> None:
    command = [sys.executable, "-m", "tests.watch.tasks"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        worker = int(server.stdout.readline())
        assert not is_gone(worker)
        server.kill()
        end = time.monotonic() + PATIENCE_S
        while not is_gone(worker):
            assert time.monotonic() < end, "the worker still plays"
            time.sleep(0.05)


@pytest.mark.slow
def test_a_second_one_takes_another_port_unless_it_was_asked_for_this_one(tmp_path: Path) -> None:
    try:
        taken = socket.create_server(("127.0.0.1", DEFAULT_PORT))
    except OSError:
        taken = None  # by another marl watch, which does as well
    try:
        with watching(tmp_path, "--no-browser") as (url, _, _):
            assert not url.endswith(f":{DEFAULT_PORT}")
            assert httpx.get(url, trust_env=False).status_code == 200
        asked = marl("watch", tmp_path, "--no-browser", "--port", DEFAULT_PORT)
        assert asked.code == 2
        assert len(asked.errors) == 1
        assert f"port {DEFAULT_PORT} is in use by another program" in asked.err
    finally:
        if taken is not None:
            taken.close()


def test_bad_input_is_one_sentence_and_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = {
        "there is no folder": [tmp_path / "nothing"],
        "file": [tmp_path / "file"],
        "--token-file FILE": [tmp_path, "--host", "0.0.0.0"],
        "tls_key": [tmp_path, "--tls-cert", tmp_path / "file"],
    }
    for expected, words in cases.items():
        done = marl("watch", *words, "--no-browser", "--port", 0)
        assert done.code == 2, (words, done)
        assert len(done.errors) == 1
        assert expected in done.err
        assert "Traceback" not in done.err


def test_without_its_packages_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)
    done = marl("watch", tmp_path, "--no-browser")
    assert done.code == 2
    assert 'pip install "marl[serve]"' in done.err
    assert len(done.errors) == 1


def test_the_server_itself_imports_no_networks() -> None:
    """Processes that play do, when they are needed: the page is there seconds earlier, and its server is small."""
    code = "import sys, marl.cli.watch, marl.watch.command, marl.watch.app; print([m for m in ('torch', 'ray') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.stdout == "[]\n", done.stdout + done.stderr
