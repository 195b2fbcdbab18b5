"""The throughput benchmark runs and reports everything it promises. How fast anything is, is not asserted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVS = {"two_step_game", "pettingzoo:mpe2/simple_spread_v3"}


@pytest.mark.slow
def test_the_throughput_benchmark_reports_rates_shares_lengths_and_bars(tmp_path: Path) -> None:
    target = tmp_path / "throughput.json"
    command = [sys.executable, "benchmarks/throughput.py", "--quick", "--json", str(target)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    numbers = json.loads(target.read_text())

    assert numbers["quick"] is True
    assert set(numbers["machine"]) == {"processor", "python"}
    assert set(numbers["worlds"]) == set(numbers["microseconds_by_length"]) == ENVS
    for rates in numbers["worlds"].values():
        assert set(rates) == {"raw", "sampling", "training"}
        for rate in rates.values():
            assert rate["cpu"] > 0
            assert rate["wall"] > 0
            assert set(rate["share"]) == {"cpu", "wall"}
        assert rates["raw"]["share"] == {"cpu": 1.0, "wall": 1.0}
    for costs in numbers["microseconds_by_length"].values():
        assert set(costs) == {"100", "500", "1000"}
        assert all(set(cost) == {"user", "system"} and cost["user"] > 0 for cost in costs.values())
    assert len(numbers["bars"]) == 2
    for bar in numbers["bars"]:
        assert set(bar) == {"text", "bar", "value", "met"}
        assert bar["met"] is (bar["value"] >= bar["bar"])
