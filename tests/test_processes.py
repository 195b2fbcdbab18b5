"""Processes that start warm are processes: they have what a new interpreter has, they end as it does, and nobody outlives us."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from tests.processes import run, run_code, start_code

pytestmark = pytest.mark.slow  # the server imports the whole package

WHO = """
import json, os, random, sys, numpy as np
print(json.dumps([os.getpid(), os.getcwd(), os.environ["COLOUR"], sys.argv, sys.path[0], __name__, random.random(), np.random.rand()]))
"""
WAIT = "import time; print('here', flush=True); time.sleep(600)"


def test_a_process_has_a_pid_a_folder_an_environment_arguments_and_luck_of_its_own(tmp_path: Path) -> None:
    found = []
    for colour in ("red", "green"):
        process = start_code(WHO, colour, 1, cwd=tmp_path, env={**os.environ, "COLOUR": colour})
        said, _ = process.communicate(60)
        pid, folder, environment, arguments, path, name, *luck = json.loads(said)
        assert pid == process.pid != os.getpid()
        assert folder == path == str(tmp_path)
        assert (environment, arguments, name) == (colour, ["-c", colour, "1"], "__main__")
        found += luck
    assert len(set(found)) == 4


@pytest.mark.parametrize(
    ("code", "ends_with"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("import sys; sys.exit('no')", 1),
        ("1 / 0", 1),
        ("import os; os.abort()", -6),
    ],
)
def test_exit_codes_are_those_of_an_interpreter(code: str, ends_with: int) -> None:
    assert run_code(code).returncode == ends_with


def test_out_and_err_are_apart_and_what_is_registered_for_the_end_runs() -> None:
    done = run_code("import atexit, sys; atexit.register(print, 'end'); print('begin'); print('oh', file=sys.stderr)")
    assert (done.stdout, done.stderr) == ("begin\nend\n", "oh\n")
    assert run("list").stdout.startswith("algorithms")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(number: signal.Signals) -> None:
    process = start_code(WAIT)
    assert process.stdout.readline() == "here\n"
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(60) == -number


OUTLIVED = """
import os
from tests.processes import start_code
process = start_code({code!r})
process.stdout.readline()
print(process.pid, flush=True)
os._exit(0)
"""


def test_it_does_not_outlive_whoever_started_it() -> None:
    orphan = int(run_code(OUTLIVED.format(code=WAIT), timeout=300).stdout)
    while psutil.pid_exists(orphan) and psutil.Process(orphan).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.05)
