"""Everything that the files of one run tell: its keys, its last result, checkpoints, notes and warnings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError
from marl.inputs import open_input, parse_json
from marl.runs.manifest import BEST, numbered, read_manifest
from marl.runs.notes import NOTES, read_notes
from marl.runs.result import unsure_of
from marl.watch.runs.fields import fields_of, result_fields, told
from marl.watch.runs.index import RunEntry
from marl.watch.runs.table import signature_of

TO_RESUME = {"learners.json", "workers.json", "replay.json"}
TRACEBACK = "error.txt"
BLOCK = 64 * 1024
LONGEST_LINE = 32 * 1024 * 1024
MOST_CHECKPOINTS = 200
MOST_FILES = 200
LONGEST_TEXT = 20_000  # letters of a traceback


class Details:
    """The details of runs, made anew where a file of theirs has changed."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Any, dict[str, Any]]] = {}

    def get(self, entry: RunEntry) -> dict[str, Any]:
        """As the page gets them; the summary is that of the table."""
        places = ("params.json", "result.json", "state.json", "checkpoints", NOTES, TRACEBACK)
        seen = tuple(signature_of(entry.directory / name) for name in places)
        kept = self._kept.get(entry.name)
        if kept is None or kept[0] != seen:
            self._kept.clear()  # one run is looked at at a time
            kept = self._kept[entry.name] = (seen, detail_of(entry))
        return {**kept[1], "summary": entry.to_json()}


def detail_of(entry: RunEntry) -> dict[str, Any]:
    run = entry.directory
    result = last_result(run / "result.json")
    checkpoints = checkpoints_of(run)
    return {
        "run": entry.name,
        "params": entry.params,
        "fields": fields_of([entry]),
        "policies": _policies(entry.params, result),
        "result": result_fields(result),
        "checkpoints": checkpoints,
        "notes": [*_warnings(entry, result, checkpoints), *reversed(read_notes(run))],
        "traceback": _text_of(run / TRACEBACK),
        "files": _files(run),
    }


def _policies(params: Mapping[str, Any], result: Mapping[str, Any]) -> list[str]:
    """Those that have played, or that the scenario names."""
    played = _block(result, "policy_reward_mean")
    if played:
        return list(played)
    multiagent = _block(params, "multiagent")
    named = _block(multiagent, "policies")
    return list(map(str, named))


def _block(tree: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """A section, which files of strangers may not have."""
    found = tree.get(name)
    if not isinstance(found, Mapping):
        return {}
    return found


def last_result(file: Path) -> dict[str, Any]:
    """The newest whole line of ``result.json``; empty where there is none."""
    try:
        with open_input(file) as stream:
            lines = _last_lines(stream)
    except OSError:
        return {}
    for line in reversed(lines):
        try:
            found = parse_json(line)
        except ValueError:  # half a line: the run is writing it, or was killed
            continue
        if isinstance(found, dict):
            return found
    return {}


def _last_lines(stream: Any) -> list[bytes]:
    """The end of a file with at least two whole lines in it, read in blocks: the file may have gigabytes."""
    size = stream.seek(0, os.SEEK_END)
    length = BLOCK
    while True:
        stream.seek(max(0, size - length))
        content: bytes = stream.read()
        lines = list(filter(None, content.split(b"\n")))
        if length >= size:
            return lines
        whole = lines[1:]  # the first one is cut
        if len(whole) > 1:
            return whole
        if length > LONGEST_LINE:
            return whole
        length *= 4


# -- checkpoints ---------------------------------------------------------------------------------------------------------


def checkpoints_of(run: Path) -> list[dict[str, Any]]:
    """``best``, then numbered ones, newest first. Their files are not verified here: that takes as long as reading them."""
    folders = list(reversed(numbered(run / "checkpoints")))[:MOST_CHECKPOINTS]
    best = run / "checkpoints" / BEST
    if best.is_dir():
        folders.insert(0, best)
    return [_checkpoint(folder) for folder in folders]


def _checkpoint(folder: Path) -> dict[str, Any]:
    damage, files, size, written = "", set(), 0, None
    try:
        files = set(read_manifest(folder).files)
        for name in files:
            size += (folder / name).stat().st_size
        written = folder.stat().st_mtime
    except CheckpointError as error:
        damage = error.reason
    except OSError as error:
        damage = f"a file of it is missing or cannot be read ({error.strerror})"
    return {
        "name": folder.name,
        "bytes": size,
        "written": written,
        "resumable": not damage and files >= TO_RESUME,
        "damage": damage,
    }


# -- warnings ------------------------------------------------------------------------------------------------------------


def _warnings(entry: RunEntry, result: Mapping[str, Any], checkpoints: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is wrong with the run as it stands."""
    found: list[dict[str, Any]] = []
    summary = entry.known
    if summary.error:
        found.append({"kind": "error", "text": summary.error})
    for one in checkpoints:
        if not one["damage"]:
            continue
        text = f"{one['name']} cannot be used: {one['damage']}."
        found.append({"kind": "warning", "text": text})
    for text in unsure_of(result, summary.goal):
        found.append({"kind": "note", "text": text})
    decisions = _block(result, "info").get("num_decisions_lost")
    if decisions:
        meaning = told("info.num_decisions_lost")["text"]
        text = f"info.num_decisions_lost is {decisions}. {meaning}"
        found.append({"kind": "note", "text": text})
    return found


def _text_of(file: Path) -> str:
    try:
        with open_input(file) as stream:
            return stream.read(LONGEST_TEXT).decode("utf-8", "replace")
    except OSError:
        return ""


def _files(run: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    # The run, or a file of it, may be removed meanwhile.
    with suppress(OSError):
        with os.scandir(run) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
        for one in entries[:MOST_FILES]:
            if not one.is_file(follow_symlinks=False):
                continue
            size = one.stat(follow_symlinks=False).st_size
            found.append({"name": one.name, "bytes": size})
    return found
