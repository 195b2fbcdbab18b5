"""Which runs are in the results folder, and how each stands: kept in memory, and looked at anew only where files changed.

``refresh`` of a folder in which nothing has happened asks for the dates of a few files per run, and reads none of them.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from marl.analysis.runs import Measured, RunSummary, goal_of, metric_of, summary_of
from marl.inputs import read_json
from marl.runs.directories import DEEPEST, State, state_of
from marl.runs.lock import LOCK
from marl.runs.progress import GROWING
from marl.runs.result import STANDARD_ERRORS
from marl.watch.runs.table import ProgressTable, Signature, signature_of

TRAINED = "episode_reward_mean"
ALWAYS = ("training_iteration", "timesteps_total", "time_total_s", TRAINED)
YOUNG_S = 2.0  # a folder that changed this lately may change again without another date: file systems count in steps
FIRST_LOOK_S = 0.4
PATIENCE_S = 0.25  # several tabs ask at once: they get the same answer


class RunEntry:
    """One run directory and what is known of it."""

    def __init__(self, directory: Path, name: str) -> None:
        self.directory, self.name = directory, name
        self.table = ProgressTable(directory / "progress.csv")
        self.params: Mapping[str, Any] = {}
        self.summary: RunSummary | None = None  # None: its params cannot be read, or are not those of a run
        self.is_glance = True  # not all of its table was read yet
        self._seen: tuple[Signature | None, ...] = ()
        self._files = [str(directory / name) for name in ("params.json", "state.json", LOCK, "result.json")]

    def refresh(self, glance: bool = False) -> bool:
        """Whether anything that the page shows has changed. A glance at a table that was never read sees its end alone."""
        seen = tuple(map(signature_of, self._files))
        params_are_new = not self._seen or seen[0] != self._seen[0]
        is_new = seen != self._seen
        self._seen = seen
        try:
            if params_are_new:
                self.params = read_json(self._files[0])
                self.table.needed = frozenset(self._wanted())
            self.is_glance = glance and not self.table.was_read
            if self.is_glance:
                self.table.peek()
            else:
                is_new = self.table.refresh() or is_new
            # Of a process that was killed no file tells: it is asked for every time.
            state, error = self._state(is_new)
            if not is_new and self.summary is not None and state == self.summary.state:
                return False
            self.summary = summary_of(self.directory, self.params, state, error, self._measured())
        except Exception:  # files may hold anything, and one that is damaged must not hide all other runs
            was_there, self.summary, self.is_glance = self.summary is not None, None, False
            return was_there
        return True

    def _state(self, is_new: bool) -> tuple[State, str]:
        before = self.summary
        is_settled = before is not None and before.state != "running"
        if before is not None and is_settled and not is_new:
            return before.state, before.error
        names = self.table.names
        last = dict(zip(names, self.table.last, strict=False))
        return state_of(self.directory, last)

    def _wanted(self) -> list[str]:
        """The columns that a summary is made of."""
        wanted = [*ALWAYS, *GROWING, metric_of(self.params)]
        for field in goal_of(self.params):
            wanted.append(field)
            wanted.append(STANDARD_ERRORS.get(field, field))
        return wanted

    def _measured(self) -> Measured:
        known: dict[str, float] = {}
        for name in self._wanted():
            value = self.table.newest(name)
            if value is not None and math.isfinite(value):
                known[name] = value
        reward = self._last_reward()
        if self.is_glance:  # the best may stand in what was not read yet
            return Measured(known, reward, TRAINED, None)
        metric = metric_of(self.params)
        best = self.table.largest(metric)
        if best is not None:
            return Measured(known, reward, metric, best)
        best = self.table.largest(TRAINED)
        return Measured(known, reward, TRAINED, best)

    def _last_reward(self) -> float | None:
        """Of the newest row: an iteration in which no episode ended has none."""
        rewards = self.table.column(TRAINED)
        if not len(rewards):
            return None
        last = float(rewards[-1])
        if math.isnan(last):
            return None
        return last

    def to_json(self) -> dict[str, Any]:
        """The summary as the page gets it: named by its place in the results, without places on this machine."""
        told = self.known.as_json()
        del told["directory"]
        told["run"] = self.name
        return told

    @property
    def known(self) -> RunSummary:
        """The summary of a run that has one (``Index.entries``)."""
        assert self.summary is not None
        return self.summary


class Index:
    """All runs of the results folder. Its methods may be called from any thread."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.version = 0  # grows whenever an answer would be another one
        self._entries: dict[str, RunEntry] = {}
        self._folders = Folders(root)
        self._lock = threading.RLock()
        self._looked = -PATIENCE_S
        self._reader = threading.Thread()  # reads what was only glanced at

    def refresh(self) -> int:
        """Look what has changed since; the version of what is known now.

        The first time, long tables that do not fit into ``FIRST_LOOK_S`` are only glanced at; a thread reads them afterwards.
        """
        with self._lock:
            if time.monotonic() - self._looked < PATIENCE_S:
                return self.version
            self._follow_folders()
            began = time.monotonic()
            changed = False
            for entry in self._entries.values():
                in_a_hurry = time.monotonic() - began > FIRST_LOOK_S
                changed = entry.refresh(glance=in_a_hurry) or changed
            self.version += changed
            self._looked = time.monotonic()
            self._read_the_rest()
            return self.version

    @property
    def glances(self) -> int:
        """How many runs are not read to their beginning yet."""
        return sum(entry.is_glance for entry in self._entries.values())

    def _read_the_rest(self) -> None:
        if not self.glances or self._reader.is_alive():
            return
        self._reader = threading.Thread(
            target=self._read_all,
            name="marl watch reader",
            daemon=True,
        )
        self._reader.start()

    def _read_all(self) -> None:
        for entry in list(self._entries.values()):
            with self._lock:  # one at a time: whoever asks meanwhile waits for one table at most
                if entry.is_glance:
                    self.version += entry.refresh()
            time.sleep(0)

    def _follow_folders(self) -> None:
        """Add runs that have come, forget those that are gone."""
        there = dict(self._folders.runs())
        if there.keys() == self._entries.keys():
            return
        entries: dict[str, RunEntry] = {}
        for name, place in there.items():
            known = self._entries.get(name)
            if known is None:
                known = RunEntry(place, name)
            entries[name] = known
        self._entries = entries
        self.version += 1

    def entries(self) -> list[RunEntry]:
        """The runs that can be shown, newest first."""
        with self._lock:
            known = [entry for entry in self._entries.values() if entry.summary is not None]
        known.sort(key=_newest, reverse=True)
        return known

    def get(self, name: str) -> RunEntry | None:
        with self._lock:
            return self._entries.get(name)

    def read(self, entry: RunEntry, fields: list[str]) -> list[Any]:
        """Columns of one run, all of the same rows."""
        with self._lock:
            entry.table.refresh()
            return [entry.table.column(field) for field in fields]


def _newest(entry: RunEntry) -> tuple[str, str]:
    """What runs are sorted by."""
    summary = entry.known
    return summary.newest, entry.name


class Folders:
    """Where runs are below a folder, as ``directories.find_runs`` finds them; one without a new date is not listed again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._known: dict[Path, tuple[int, bool, list[Path]]] = {}

    def runs(self) -> Iterator[tuple[str, Path]]:
        """Names (places below the folder) and directories."""
        known, self._known = self._known, {}
        yield from self._below(self.root, 0, known)

    def _below(self, place: Path, depth: int, known: dict[Path, Any]) -> Iterator[tuple[str, Path]]:
        try:
            written = os.stat(place).st_mtime_ns
            found = known.get(place)
            if found is None or found[0] != written:
                found = (written, *self._look(place))
        except OSError:  # gone, or not ours to read
            return
        _, is_run, folders = found
        # A run directory changes with every checkpoint, but stays one.
        if time.time() - written / 1e9 > YOUNG_S:
            self._known[place] = found
        if is_run:
            yield place.relative_to(self.root).as_posix(), place
        elif depth < DEEPEST:
            for folder in folders:
                yield from self._below(folder, depth + 1, known)

    def _look(self, place: Path) -> tuple[bool, list[Path]]:
        folders = []
        with os.scandir(place) as listing:
            for one in listing:
                name = one.name
                if name == "params.json":
                    return True, []
                is_hidden = name.startswith(".")
                if one.is_dir(follow_symlinks=False) and not is_hidden:
                    folders.append(place / name)
        folders.sort()
        return False, folders
