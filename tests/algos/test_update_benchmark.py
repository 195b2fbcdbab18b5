"""The benchmark of updates covers every preset and reports what it promises. How fast anything is, is not asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from marl.algos.presets import ALGOS

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_every_preset_is_measured_next_to_a_bare_loop(tmp_path: Path) -> None:
    target = tmp_path / "updates.json"
    command = [sys.executable, "benchmarks/updates.py", "--quick", "--json", str(target)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(target.read_text())

    assert set(numbers["presets"]) == {name for name in ALGOS if ALGOS[name].family.name != "tabular"}
    for row in numbers["presets"].values():
        assert row["bare"] is not None
        for rate in (row["learner"], row["bare"], row["training"]):
            assert rate["cpu"] > 0
            assert rate["wall"] > 0
        assert row["times"] == pytest.approx(row["bare"]["cpu"] / row["learner"]["cpu"])
    assert [(bar["preset"], bar["bar"]) for bar in numbers["bars"]] == [("ppo", 1.3), ("dqn", 1.5)]
    assert all(bar["met"] is (bar["value"] <= bar["bar"]) for bar in numbers["bars"])
