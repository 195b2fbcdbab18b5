"""The benchmark of the solvers runs and writes down what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_solver_benchmark_writes_a_ratio_for_every_size(tmp_path: Path) -> None:
    target = tmp_path / "solvers.json"
    subprocess.run(
        [sys.executable, "benchmarks/solvers.py", "--quick", "--json", str(target)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    rows = json.loads(target.read_text())["rows"]
    assert [(row["what"], row["size"]) for row in rows] == [("zero-sum value", 10), ("all equilibria", 4)]
    assert rows[0]["ratio"]["program per player"] > 0
    assert rows[1]["ratio"]["loop over supports"] > 0
