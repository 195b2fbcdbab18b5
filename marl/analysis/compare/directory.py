"""Where a comparison is kept: never in the folder of another one, and the same command finds its own again.

``sources.json`` in the folder says what is compared there and by which field. It is written before anything is trained, so a
comparison that was stopped is found again too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from marl.errors import ConfigError
from marl.inputs import read_json, real_path
from marl.runs.atomic import write_atomically
from marl.runs.directories import default_results
from marl.runs.files import safe_name

ABOUT = "sources.json"
RESULT = "compare.json"


@dataclass(frozen=True)
class Place:
    """``folder`` gets the numbers and the picture, ``runs`` what is trained; comparisons by several fields share runs."""

    folder: Path
    runs: Path
    about: Mapping[str, Any]

    def claim(self) -> None:
        """Say what is compared here."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            write_atomically(self.folder / ABOUT, json.dumps(self.about, indent=1) + "\n")
        except OSError as error:
            raise ConfigError(
                f"cannot write to {self.folder}: {error.strerror}. Choose another place by --out DIR."
            ) from error


def choose_place(sources: Sequence[str], metric: str | None, out: Path | None = None) -> Place:
    """``out``, unless another comparison is there; else a folder of the results, with a number where its name is taken."""
    # Whole paths: the same words given in another folder mean other runs.
    paths = [str(real_path(Path(source).expanduser())) for source in sources]
    about = {"sources": paths, "metric": metric}
    if out is not None:
        _check_free(out, about)
        return Place(out, out, about)
    stems = [Path(source).stem for source in sources]
    base = default_results() / "compare" / safe_name("_vs_".join(stems))
    return _first_free(base, about)


def _check_free(out: Path, about: Mapping[str, Any]) -> None:
    """Refuse a folder of the user's choice that holds another comparison."""
    there = _held(out)
    if there is None or there == about:
        return
    if there.get("sources") == about["sources"]:
        why = f"by {_field(there)}; this one is by {_field(about)}"
        remedy = f". Runs that were trained in {out} need not be trained again: give their folders."
    else:
        why = f"of {_sources(there)}; this one is of {_sources(about)}"
        remedy = ", or delete that one."
    raise ConfigError(f"{out} holds another comparison: {why}. Choose another place by --out{remedy}")


def _first_free(base: Path, about: Mapping[str, Any]) -> Place:
    """``base``, ``base_2``, ...: the first that is empty or holds this very comparison."""
    numbers = count(2)
    folder, there = base, _held(base)
    runs: Path | None = None
    while there is not None and there != about:
        # The same sources compared by another field: what was trained for that comparison is not trained again.
        if runs is None and there.get("sources") == about["sources"]:
            runs = folder
        folder = base.with_name(f"{base.name}_{next(numbers)}")
        there = _held(folder)
    return Place(folder, runs or folder, about)


def _held(folder: Path) -> dict[str, Any] | None:
    """What is compared in a folder; None: nothing. Empty where there is a comparison that does not say of what."""
    about = folder / ABOUT
    if not about.exists() and not (folder / RESULT).exists():
        return None
    try:
        found = read_json(about)
    except (OSError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    return found


def _sources(about: Mapping[str, Any]) -> str:
    sources = about.get("sources") or ["what nobody knows"]
    return ", ".join(map(str, sources))


def _field(about: Mapping[str, Any]) -> str:
    return str(about.get("metric") or "what evaluations are judged by")
