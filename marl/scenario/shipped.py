"""The scenarios that come with the package: ``marl run two_step_game`` works in any folder.

They are the files of the repository's ``scenarios/``; a built wheel holds them as ``marl/scenarios``.
"""

from __future__ import annotations

from pathlib import Path


def shipped_scenarios() -> dict[str, Path]:
    """Name to file."""
    package = Path(__file__).parents[1]
    in_checkout = package.parent / "scenarios"
    folder = package / "scenarios"
    if not folder.is_dir() and (package.parent / "pyproject.toml").is_file():
        folder = in_checkout
    return {file.stem: file for file in sorted(folder.glob("*.yaml"))}
