"""BenchMARL on the cells of ``suites/vmas.yaml``, with its own defaults at equal frames, for the column of a peer.

    python benchmarks/benchmarl_cells.py [--out suites/vmas_benchmarl.json] [--envs DIR] [--seeds 3] [--frames 3000000]
                                         [--only balance/mappo ...] [--jobs 1]

BenchMARL lives in an environment of its own below ``--envs``, which the first run makes with pip (as ``rivals.py`` does). Each
run is a process of one thread, so ``--jobs 2`` trains two at a time. A run that is in the file already with as many frames is
not made again: the same command goes on where it was stopped. Returns are sums over the agents and the steps of an episode, as
marl counts them, of 32 greedy episodes every 120,000 frames (BenchMARL's own interval; its default are 10 episodes).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

from rival_envs import PINS, CannotMeasure, last_line, python_of

HERE = Path(__file__).parent
ENVS = Path("~/.cache/marl-benchmarks").expanduser()
OUT = HERE.parent / "suites" / "vmas_benchmarl.json"
TASKS = ("balance", "navigation", "sampling")
ALGORITHMS = ("ippo", "mappo", "maddpg", "masac")
VERSION = next(pin.partition("==")[2] for pin in PINS["benchmarl"] if pin.startswith("benchmarl=="))


class Curves:
    """The file of the peer, written after every run."""

    def __init__(self, file: Path) -> None:
        self.file, self._lock = file, Lock()
        self.content: dict[str, Any] = {
            "peer": f"BenchMARL {VERSION}",
            "about": "Its own defaults (networks, rates, batches) in an environment of its own, at equal frames; returns "
            "summed over the agents.",
            "cells": {},
        }
        if file.exists():
            self.content["cells"] = json.loads(file.read_text(encoding="utf-8"))["cells"]

    def has(self, task: str, algorithm: str, seed: int, frames: int) -> bool:
        """Whether the run is there, to its end."""
        found = self.content["cells"].get(task, {}).get(algorithm, {}).get("seeds", {}).get(str(seed))
        return found is not None and found["frames"] >= frames

    def add(self, task: str, algorithm: str, seed: int, run: dict[str, Any]) -> None:
        with self._lock:
            cell = self.content["cells"].setdefault(task, {}).setdefault(algorithm, {"seeds": {}})
            cell["seeds"][str(seed)] = run
            beside = self.file.with_suffix(".new")
            beside.write_text(json.dumps(self.content, indent=1) + "\n", encoding="utf-8")
            beside.replace(self.file)


def train(python: Path, task: str, algorithm: str, seed: int, frames: int, curves: Curves) -> str:
    """One run in a process of its own; gives a line about it."""
    work = {"task": task, "algorithm": algorithm, "seed": seed, "frames": frames}
    name = f"{task}/{algorithm}, seed {seed}"
    command = [str(python), str(HERE / "rivals" / "benchmarl_curve.py"), json.dumps(work)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        return f"{name} failed: {last_line(done.stderr)}"
    run = json.loads(done.stdout.strip().splitlines()[-1])
    curves.add(task, algorithm, seed, run)
    return f"{name}: {run['values'][-1]:.2f} after {run['frames']:,} frames, {run['cpu_s']:,.0f} CPU seconds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT, help="the file of curves")
    parser.add_argument("--envs", type=Path, default=ENVS, help="where BenchMARL's environment is made")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--frames", type=int, default=3_000_000)
    parser.add_argument("--only", nargs="*", default=[], metavar="TASK/ALGORITHM", help="these cells alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args()
    names = [(task, algorithm) for task in TASKS for algorithm in ALGORITHMS]
    unknown = set(options.only) - {f"{task}/{algorithm}" for task, algorithm in names}
    if unknown:
        parser.error(
            f"--only {' '.join(sorted(unknown))}: there is no such cell. Known: {', '.join(map('/'.join, names))}"
        )
    try:
        python = python_of("benchmarl", options.envs)
    except CannotMeasure as trouble:
        sys.exit(str(trouble))
    curves = Curves(options.out)
    with ThreadPoolExecutor(options.jobs) as pool:
        lines = []
        for seed in range(options.seeds):  # every cell once before any of them twice
            for task, algorithm in names:
                wanted = not options.only or f"{task}/{algorithm}" in options.only
                if wanted and not curves.has(task, algorithm, seed, options.frames):
                    lines.append(pool.submit(train, python, task, algorithm, seed, options.frames, curves))
        for line in lines:
            print(line.result(), flush=True)


if __name__ == "__main__":
    main()
