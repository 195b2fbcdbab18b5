"""Where things are: the project, the copy of it that is broken on purpose, and what was found out so far."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOMS = ("marl/data", "marl/algos", "marl/rollout", "marl/policies", "marl/gametheory")
PICTURES = ("drawing.py",)  # looked at by people; nothing is computed from them
NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "build", "__pycache__", "*.egg-info", ".*_cache", ".hypothesis", "marl_results", "site"
)


@dataclass(frozen=True)
class Places:
    """All paths of a mutation run. ``rooms`` are the folders (or files) whose code is mutated."""

    root: Path
    rooms: Sequence[str] = ROOMS
    folder: str = "build/mutation"

    @property
    def build(self) -> Path:
        return self.root / self.folder

    @property
    def copy(self) -> Path:
        """The copy of the project in which mutants live."""
        return self.build / "tree"

    @property
    def lines(self) -> Path:
        """Which test executes which lines: one file per test file."""
        return self.build / "lines"

    @property
    def results(self) -> Path:
        return self.build / "results.jsonl"

    @property
    def lock(self) -> Path:
        return self.build / "lock"

    def sources(self) -> list[str]:
        """All files with code that is mutated, relative to the root."""
        found: list[Path] = []
        for room in self.rooms:
            place = self.root / room
            found += [place] if place.is_file() else sorted(place.rglob("*.py"))
        return [path.relative_to(self.root).as_posix() for path in found if path.name not in PICTURES]


def refresh_copy(places: Places) -> None:
    """Make the copy equal to the project. Unchanged files stay as they are, so their compiled form stays valid."""
    places.copy.mkdir(parents=True, exist_ok=True)
    shutil.copytree(
        places.root, places.copy, ignore=NOT_COPIED, dirs_exist_ok=True, symlinks=True, copy_function=_copy_if_changed
    )
    for path in [*places.copy.rglob("*.py"), *places.copy.rglob("*.yaml")]:
        if not (places.root / path.relative_to(places.copy)).exists():
            path.unlink()


def _copy_if_changed(source: str, target: str) -> str:
    old, new = Path(target), Path(source)
    if old.exists() and old.stat().st_mtime_ns == new.stat().st_mtime_ns and old.stat().st_size == new.stat().st_size:
        return target
    return str(shutil.copy2(source, target))
