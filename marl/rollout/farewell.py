"""Ray died: says what a run can no longer say by itself, and tidies up after it.

A small process beside a run that started Ray. When the raylet dies while a driver talks to it, Ray ends the driver at once
(``_Exit``), so neither ``except`` nor ``finally`` is reached there. This process holds the other end of a pipe to which the
driver writes notes, as lines of JSON. An empty line means that the driver ends in the regular way. If the pipe closes without
it, the driver is gone: where Ray had died before, the words of the last note are said; in any case what is left of Ray's
processes and files is removed.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from typing import TypedDict

import psutil

PATIENCE_S = 10.0  # Ray's processes notice by themselves that their driver is gone; those that do not are ended then


class Note(TypedDict):
    """What the driver wants to be said and done if it should vanish."""

    words: str
    heart: list[tuple[int, float]]  # raylet and GCS, each as process id and time of its start
    others: list[tuple[int, float]]  # all other processes of this Ray that are known
    folder: str


def main() -> None:
    lines = sys.stdin.readlines()
    if lines and lines[-1].strip():
        _clear_up(json.loads(lines[-1]))


def _clear_up(note: Note) -> None:
    heart, others = _alive(note["heart"]), _alive(note["others"])
    if len(heart) < len(note["heart"]):
        print(note["words"], file=sys.stderr, flush=True)
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # whoever reads it need not wait any longer
    _, left = psutil.wait_procs([*heart, *others], timeout=PATIENCE_S)
    for process in left:
        with suppress(psutil.Error):
            process.kill()
    shutil.rmtree(note["folder"], ignore_errors=True)


def _alive(known: list[tuple[int, float]]) -> list[psutil.Process]:
    """Those that still run; a process id that was given to somebody else since does not count."""
    found = []
    for pid, started in known:
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            if process.create_time() == started and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


if __name__ == "__main__":
    main()
