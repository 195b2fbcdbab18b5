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
    about = {"sources": [str(real_path(Path(source).expanduser())) for source in sources], "metric": metric}
    if out is not None:
        there = _held(out)
        if there is not None and there != about:
            raise ConfigError(f"{out} holds another comparison: {_why(there, about)}.{_remedy(there, about, out)}")
        return Place(out, out, about)
    base = default_results() / "compare" / safe_name("_vs_".join(Path(source).stem for source in sources))
    runs = None
    for number in count(1):
        folder = base if number == 1 else base.with_name(f"{base.name}_{number}")
        there = _held(folder)
        if runs is None and there is not None and there.get("sources") == about["sources"]:
            runs = folder
        if there is None or there == about:
            return Place(folder, runs or folder, about)
    raise AssertionError("counting never ends")


def _held(folder: Path) -> dict[str, Any] | None:
    """What is compared in a folder; None: nothing. Empty where there is a comparison that does not say of what."""
    if not (folder / ABOUT).exists() and not (folder / RESULT).exists():
        return None
    try:
        found = read_json(folder / ABOUT)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _why(there: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    if there.get("sources") != here["sources"]:
        mine, theirs = (", ".join(map(str, about.get("sources") or ["what nobody knows"])) for about in (here, there))
        return f"of {theirs}; this one is of {mine}"
    return f"by {_field(there)}; this one is by {_field(here)}"


def _field(about: Mapping[str, Any]) -> str:
    return str(about.get("metric") or "what evaluations are judged by")


def _remedy(there: Mapping[str, Any], here: Mapping[str, Any], out: Path) -> str:
    if there.get("sources") != here["sources"]:
        return " Choose another place by --out, or delete that one."
    return f" Choose another place by --out. Runs that were trained in {out} need not be trained again: give their folders."
