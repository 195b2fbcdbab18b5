"""What loggers of services share: a run that is resumed goes on in the same run there, and gets each result once.

A small file in the run directory remembers which run of the service it is and up to which iteration it was told.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from marl.errors import let_through
from marl.inputs import read_json
from marl.runs.files import RunFiles
from marl.storage import write_atomically

log = logging.getLogger(__name__)
# An id becomes part of file names and addresses, and the file that holds it may be a stranger's.
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class ServiceRun(Protocol):
    """A run as a service knows it."""

    id: str
    is_new: bool  # the service did not know it before

    def log(self, result: Mapping[str, Any]) -> None:
        """One result."""

    def finish(self) -> None:
        """No more results for now."""


Begin: TypeAlias = Callable[[str | None], ServiceRun]
"""From the id that the run had before (None: it had none) to the run that it is from now on."""


class Told(NamedTuple):
    """What the service knows of a run."""

    id: str | None = None
    iteration: int = 0  # of the last result


def memory_file(directory: Path, service: str) -> Path:
    return directory / f"{service}_run.json"


def memory_files(directory: Path) -> list[Path]:
    """Those of all services. They belong to one way of the run: one that goes back begins as a new run there."""
    return sorted(directory.glob("*_run.json"))


def read_memory(file: Path) -> Told:
    """What was noted; nothing where there is no such file, or not as it was written."""
    with suppress(OSError, ValueError, KeyError, TypeError):
        noted = read_json(file)
        if _ID.fullmatch(noted["id"]):
            return Told(noted["id"], int(noted["iteration"]))
    return Told()


class Tracker:
    """A logger that hands results on to a service. What fails there is a warning: training does not depend on it."""

    def __init__(self, service: str, directory: Path, begin: Begin) -> None:
        self._service = service
        self._file = memory_file(directory, service)
        before = read_memory(self._file)
        self._run: ServiceRun | None = begin(before.id)
        self._told = before.iteration
        if self._run.is_new:
            self._told = 0
        self._remember(self._run)
        # A run that gets this logger late, or whose service was away for a while, is told as a whole.
        for result in RunFiles(directory).results():
            self.write(result)

    def write(self, result: Mapping[str, Any]) -> None:
        """One result, unless the service has it: after a kill those since the last checkpoint come again."""
        iteration = int(result.get("training_iteration", 0))
        if self._run is None or iteration <= self._told:
            return
        try:
            self._run.log(result)
            self._told = iteration
            self._remember(self._run)
        except BaseException as error:
            let_through(error)
            self._run = None  # not tried again: a service that is away makes every call wait
            log.warning(
                "logger %r failed at the result of iteration %d (%s: %s). The run goes on without it; the results are in "
                "result.json, and a run that is resumed tells the logger what it has missed",
                self._service, iteration, type(error).__name__, error,
            )  # fmt: skip

    def close(self) -> None:
        run, self._run = self._run, None
        if run is not None:
            run.finish()

    def _remember(self, run: ServiceRun) -> None:
        write_atomically(self._file, json.dumps({"id": run.id, "iteration": self._told}) + "\n")


def pictures_of(result: Mapping[str, Any], directory: Path) -> dict[str, list[Path]]:
    """The files of pictures and films that came with a result, by their names."""
    found: dict[str, list[Path]] = {}
    for name, places in (result.get("episode_media") or {}).items():
        # Only the name counts: a stranger's result.json must not make files from elsewhere leave the machine.
        files = [directory / "media" / Path(place).name for place in places]
        found[name] = [file for file in files if file.is_file()]
    return found
