"""The record of executed lines on disk: made once per test file, renewed when the test file changes, and asked for tests."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mutation.places import Places
from mutation.workshop import Workshop

# Ray's tests cost seconds each; they are recorded only where nothing else reaches the code.
PASSES = {"fast": "not slow and not ray", "slow": "slow and not ray", "ray": "ray and not slow"}
NEARBY = ("data", "algos", "rollout", "policies", "gametheory", "truths", "populations", "golden", "mappers")
WITH_SLOW = (*NEARBY, "training", "envs")
PASSES_OF_FOLDERS = {**dict.fromkeys(WITH_SLOW, ("fast", "slow")), "rollout": ("fast", "slow", "ray")}
OTHER_PASSES = ("fast",)
# What stands outside of functions is compared with pages and records by tests that execute nothing of it.
DESCRIBING = ("tests/golden/test_defaults.py", "tests/test_algorithms_page.py", "tests/scenario/test_schema.py")
NOT_RECORDED = ("docs", "test_fresh_install.py")  # they look at pages and at an installation, and take minutes
LONGEST = 1_200.0  # seconds of a whole test file


def due(places: Places, only: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Test files and passes without a valid record, the folders next to the mutated rooms first."""
    found = []
    for path in sorted((places.root / "tests").rglob("test_*.py"), key=_distance(places.root)):
        name = path.relative_to(places.root).as_posix()
        folder = name.split("/")[1]
        if folder in NOT_RECORDED or (only and not name.startswith(tuple(only))):
            continue
        for part in PASSES_OF_FOLDERS.get(folder, OTHER_PASSES):
            if _mentions(path, part) and not _valid(_file(places, name, part), path):
                found.append((name, part))
    return sorted(found, key=lambda one: (one[1] == "ray", one[0].split("/")[1] not in NEARBY, one[1]))


def _mentions(path: Path, part: str) -> bool:
    return part == "fast" or f"mark.{part}" in path.read_text(encoding="utf-8")


def _distance(root: Path) -> Callable[[Path], tuple[int, str]]:
    def distance(path: Path) -> tuple[int, str]:
        folder = path.relative_to(root).parts[1]
        return (NEARBY.index(folder) if folder in NEARBY else len(NEARBY), str(path))

    return distance


def record(places: Places, workshop: Workshop, name: str, part: str) -> int:
    """Run one test file and keep which lines its tests execute; gives the number of tests."""
    target = _file(places, name, part)
    answer = workshop.run(["-m", PASSES[part], name], wall=LONGEST, record=list(places.rooms))
    found = {key: answer.get(key, {}) for key in ("keys", "shared", "tests")}
    found["test_file"] = _hash(places.root / name)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(found, separators=(",", ":")), encoding="utf-8")
    return len(found["tests"])


class Lines:
    """Answers which tests execute a line, from all records."""

    def __init__(self, places: Places) -> None:
        self.seconds: dict[str, float] = {}
        self.breadth: dict[str, int] = {}  # lines that a test executes: few lines, near to the point
        self._at: dict[tuple[str, str, int], set[str]] = defaultdict(set)  # unit, its key, offset
        self._known: set[tuple[str, str]] = set()
        self._in_unit: dict[str, set[str]] = defaultdict(set)
        self._in_file: dict[str, set[str]] = defaultdict(set)
        self._in_folder: dict[str, set[str]] = defaultdict(set)
        self._describing: set[str] = set()
        for file in sorted(places.lines.glob("*.json")):
            self._read(json.loads(file.read_text(encoding="utf-8")))

    def _read(self, found: dict[str, Any]) -> None:
        keys = found["keys"]
        self._known.update(keys.items())
        for test, told in found["tests"].items():
            self.seconds[test] = told["seconds"]
            self.breadth[test] = sum(map(len, told["units"].values()))
            if test.startswith(DESCRIBING):
                self._describing.add(test)
            for units in (told["units"], found["shared"]):
                self._note(test, units, keys)

    def _note(self, test: str, units: dict[str, list[int]], keys: dict[str, str]) -> None:
        for unit, offsets in units.items():
            self._in_unit[unit].add(test)
            path = unit.split("::")[0]
            self._in_file[path].add(test)
            self._in_folder[path.rsplit("/", 1)[0]].add(test)
            for offset in offsets:
                self._at[unit, keys[unit], offset].add(test)

    def tests(self, unit: str, key: str, offsets: Sequence[int]) -> set[str]:
        """Tests of these lines; of the whole unit if it has changed since the record, of the file if it is no function.

        What stands outside of functions is executed by an import: constants, fields and their defaults.
        """
        path = unit.split("::")[0]
        if (unit, key) in self._known and not unit.endswith("::"):
            at_definition = self._describing if 0 in offsets else set()  # a default stands in the line of its def
            return at_definition.union(*(self._at[unit, key, offset] for offset in offsets))
        if unit in self._in_unit and not unit.endswith("::"):
            return self._in_unit[unit]
        return (self._in_file[path] or self._in_folder[path.rsplit("/", 1)[0]]) | self._describing


def _valid(file: Path, test_file: Path) -> bool:
    if not file.exists():
        return False
    return bool(json.loads(file.read_text(encoding="utf-8")).get("test_file") == _hash(test_file))


def _file(places: Places, name: str, part: str) -> Path:
    return places.lines / f"{name.removesuffix('.py').replace('/', '.')}.{part}.json"


def _hash(test_file: Path) -> str:
    """Of the test file and of what lies beside it and is no test: builders, recorded numbers."""
    beside = [path for path in sorted(test_file.parent.glob("*")) if path.suffix in (".py", ".json")]
    read = [path for path in beside if path == test_file or not path.name.startswith("test_")]
    return hashlib.sha256(b"".join(path.read_bytes() for path in read)).hexdigest()[:12]
