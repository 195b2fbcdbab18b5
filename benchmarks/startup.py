"""How long a run takes to its first result, next to `import torch` alone: the median of several, taken in turn.

    python benchmarks/startup.py            # 5 of each
    python benchmarks/startup.py --imports  # what the imports of a run cost besides torch, the largest first

The bar: `python -m marl.run` with num_workers 0 has finished its first iteration of the two-step game within twice the time of
`import torch`. CPU seconds are told as well: they say the same on a machine that has other things to do.
"""

from __future__ import annotations

import argparse
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "scenarios" / "two_step_game.yaml"
BAR = 2.0
TORCH = "import torch"
RUN = "first iteration"


class Took(NamedTuple):
    """Seconds."""

    wall: float
    cpu: float


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def until_first_line(*command: str) -> tuple[Took, str]:
    """From the start of a process to the first line that it prints; the rest is not waited for."""
    started, cpu = time.perf_counter(), cpu_of_children()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT)
    assert process.stdout is not None
    first = process.stdout.readline()
    took = time.perf_counter() - started
    process.kill()
    process.communicate()
    return Took(took, cpu_of_children() - cpu), first


def import_torch() -> Took:
    return until_first_line(sys.executable, "-c", "import torch; print('done')")[0]


def first_iteration() -> Took:
    with tempfile.TemporaryDirectory() as folder:
        options = ["--json", "--num-workers", "0", "--local-dir", folder]
        took, first = until_first_line(sys.executable, "-m", "marl.run", str(SCENARIO), *options)
    if not first.startswith("{"):
        raise SystemExit(f"the run printed no result but {first!r}")
    return took


def slow_imports(count: int) -> list[tuple[float, str]]:
    """Milliseconds of what a run imports besides torch, without what it imports in turn."""
    code = "import torch, sys; sys.stderr.write('HERE\\n'); import marl.training.loop, marl.scenario.load, tensorboard"
    text = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, cwd=ROOT
    ).stderr
    rows = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", text.partition("HERE")[2])
    return sorted(((int(micro) / 1000, name) for micro, name in rows), reverse=True)[:count]


def main() -> None:
    parser = argparse.ArgumentParser(description="Time to the first result, next to `import torch`.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--imports", action="store_true", help="list the slowest imports instead")
    options = parser.parse_args()
    if options.imports:
        for milliseconds, name in slow_imports(25):
            print(f"{milliseconds:8.1f} ms  {name}")
        return
    measures = {TORCH: import_torch, RUN: first_iteration}
    for measure in measures.values():
        measure()  # files into the memory of the machine
    took: dict[str, list[Took]] = {name: [] for name in measures}
    for _ in range(options.repeats):
        for name, measure in measures.items():
            took[name].append(measure())
    for kind in Took._fields:
        values = {name: [getattr(one, kind) for one in row] for name, row in took.items()}
        for name, row in values.items():
            print(f"{kind:<4} {name:<16} median {statistics.median(row):.2f} s  ({', '.join(f'{v:.2f}' for v in row)})")
        ratio = statistics.median(values[RUN]) / statistics.median(values[TORCH])
        print(f"{'met    ' if ratio <= BAR else 'NOT MET'} {kind}: {RUN} / {TORCH}: {ratio:.2f} (bar: {BAR:g})")


if __name__ == "__main__":
    main()
