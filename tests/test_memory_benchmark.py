"""``benchmarks/memory_learning.py``: a comparison that was stopped anywhere goes on, and smoke runs stay apart."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import memory_learning

ROW = {"delay": 5, "memory": "lstm", "seed": 700, "curve": [[960, 1.0]], "cpu_s": 1.0}


def compare(file: Path, monkeypatch: pytest.MonkeyPatch, *more: str) -> list[int]:
    """Seeds that were trained."""
    trained: list[int] = []

    def learn(memory: str, delay: int, seed: int, quick: bool) -> dict[str, object]:
        trained.append(seed)
        return {"curve": [[960, 0.5]] if quick else [[960, 1.0], [1920, 1.0]], "cpu_s": 1.0}

    monkeypatch.setattr(memory_learning, "learn", learn)
    given = ["memory_learning", str(file), "--only", "lstm", "--delays", "5", "--seeds", "700", "701", *more]
    monkeypatch.setattr(sys, "argv", given)
    memory_learning.main()
    return trained


def test_half_a_line_of_a_killed_comparison_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runs.jsonl"
    file.write_text(json.dumps(ROW) + "\n" + json.dumps({**ROW, "seed": 701})[:30])
    assert compare(file, monkeypatch) == [701]
    assert compare(file, monkeypatch) == []


def test_smoke_runs_do_not_stand_for_real_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "runs.jsonl"
    assert compare(file, monkeypatch, "--quick") == [700, 701]
    assert compare(file, monkeypatch, "--svg", str(tmp_path / "curves.svg")) == [700, 701]
    assert compare(file, monkeypatch, "--quick") == []
