"""The doctor knows what is missing."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from marl.diagnostics.doctor import _results, packages


def test_a_part_of_a_package_that_only_an_extra_asks_for_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    there = importlib.metadata.version

    def version(name: str) -> str:
        if name == "pyarrow":  # asked for by ray[tune] alone
            raise importlib.metadata.PackageNotFoundError(name)
        return there(name)

    assert "extra tune" not in {finding.what for finding in packages()}
    monkeypatch.setattr(importlib.metadata, "version", version)
    told = {finding.what: str(finding) for finding in packages()}
    assert "ray[tune] not installed" in told["extra tune"]


def test_a_place_that_cannot_be_written_to_is_named_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MARL_RESULTS_DIR", "/proc/results")
    with pytest.raises(PermissionError, match=r"/proc/results cannot be written to .*set MARL_RESULTS_DIR"):
        _results()
