"""Where the sides of ``rivals.py`` run: an environment of its own for each rival, and the code of an older commit of marl.

Nothing of it is a dependency of the project: ``pip`` puts the pinned versions into folders outside of it, once.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PINS: dict[str, tuple[str, ...]] = {
    "jax": ("jax==0.10.2", "jaxlib==0.10.2", "jaxmarl==0.2.0", "numpy==2.4.6"),
    "rllib": ("ray[rllib]==2.60.0", "torch==2.13.0", "mpe2==1.1.1", "pettingzoo==1.27.0", "numpy==2.4.6"),
    "benchmarl": ("benchmarl==1.5.2", "torchrl==0.11.1", "tensordict==0.11.0", "vmas==1.5.2", "torch==2.13.0"),
    "overcooked_ai": ("overcooked-ai==1.1.0", "numpy==1.26.4", "scipy==1.14.1"),
    "sb3": ("stable-baselines3==2.9.2", "gymnasium==1.4.0", "torch==2.13.0", "numpy==2.4.6"),
}
MARKER = "installed.txt"
"""In an environment: the pins that it was made from."""


class CannotMeasure(Exception):
    """A row has to be left out, and why."""


def python_of(rival: str, folder: Path) -> Path:
    """The Python of a rival's environment, which is made first if it is not there or has other versions."""
    place, pins = folder / rival, "\n".join(PINS[rival])
    python = place / "bin" / "python"
    marker = place / MARKER
    if not (marker.exists() and marker.read_text() == pins):
        print(f"installing {' '.join(PINS[rival])} into {place}", file=sys.stderr)
        if not python.exists():
            _run(f"no environment for {rival}", sys.executable, "-m", "venv", str(place))
        _run(f"{rival} cannot be installed", str(python), "-m", "pip", "install", "--quiet", *PINS[rival])
        marker.write_text(pins)
    return python


def _run(trouble: str, *command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"{trouble}: {last_line(done.stderr)}")


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "it said nothing")


def older_code(ref: str, folder: Path) -> Path:
    """The files of a commit, in a folder; the repository stays as it is."""
    place = folder / "older"
    if place.exists():
        return place
    packed = folder / "older.tar"
    archive = ["git", "archive", "--output", str(packed), ref, "marl", "scenarios"]
    done = subprocess.run(archive, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise CannotMeasure(f"no commit {ref!r} to compare with: {last_line(done.stderr)}")
    shutil.unpack_archive(packed, place, filter="data")
    return place
