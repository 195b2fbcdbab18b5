"""How fast the fast envs are next to the originals of mpe2: ratios from one run.

Rates are env steps of single copies per second of CPU time: random actions drawn in advance, a seeded reset where an episode
ended. The original is one parallel env, stepped through its dicts; the fast env steps 256 or 1024 copies at once through the
array interface. Rounds of all are interleaved and the best of each counts, because the machine is rarely alone.

    python benchmarks/fast_worlds.py [--quick] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

from marl.envs.registry import make_batched_env

ORIGINALS = {
    "fast:simple_spread": "mpe2.simple_spread_v3",
    "fast:simple_tag": "mpe2.simple_tag_v3",
    "fast:simple_speaker_listener": "mpe2.simple_speaker_listener_v4",
    "fast:simple_adversary": "mpe2.simple_adversary_v3",
    "fast:simple_push": "mpe2.simple_push_v3",
    "fast:simple_crypto": "mpe2.simple_crypto_v3",
    "fast:simple_reference": "mpe2.simple_reference_v3",
    "fast:simple_world_comm": "mpe2.simple_world_comm_v3",
}
COPIES = (256, 1024)
BAR = 100.0  # times the original: simple_spread, 256 copies
SEED = 0

Play = Callable[[int], None]
"""Plays so many steps in every copy."""


class Runner(NamedTuple):
    """Something to be timed: ``steps`` in each of ``copies`` make one round."""

    name: str
    copies: int
    steps: int
    play: Play

    def rate(self) -> float:
        """Env steps per second of CPU time, in one round."""
        began = time.process_time()
        self.play(self.steps)
        return self.copies * self.steps / (time.process_time() - began)


class Row(NamedTuple):
    """A rate, and how many times the original's it is."""

    rate: float
    ratio: float


# -- what is timed -------------------------------------------------------------------------------------------------


def original(path: str) -> Play:
    """One parallel env of mpe2."""
    env, rng = importlib.import_module(path).parallel_env(), np.random.default_rng(SEED)
    env.reset(seed=SEED)
    agents = env.possible_agents
    sizes = [env.action_space(agent).n for agent in agents]

    def play(steps: int) -> None:
        drawn = rng.integers(0, sizes, (steps, len(agents))).tolist()
        seeds = rng.integers(0, 2**31 - 1, steps).tolist()
        for chosen, seed in zip(drawn, seeds, strict=True):
            env.step(dict(zip(agents, chosen, strict=True)))
            if not env.agents:
                env.reset(seed=seed)

    return play


def fast(name: str, copies: int) -> Play:
    """Many copies of a fast env."""
    env, rng = make_batched_env(name, copies, {}), np.random.default_rng(SEED)
    env.reset(np.arange(copies), np.arange(copies))
    sizes = [int(getattr(kind.action_space, "n", 0)) for kind in env.kinds]

    def play(steps: int) -> None:
        shapes = [(steps, copies, kind.size) for kind in env.kinds]
        drawn = [rng.integers(0, n, shape) for n, shape in zip(sizes, shapes, strict=True)]
        seeds = rng.integers(0, 2**31 - 1, (steps, copies))
        for step in range(steps):
            over = np.flatnonzero(env.step([column[step] for column in drawn]).over)
            if over.size:
                env.reset(over, seeds[step, over])

    return play


def runners(name: str, quick: bool) -> list[Runner]:
    part = 10 if quick else 1
    first = Runner("mpe2", 1, 5_000 // part, original(ORIGINALS[name]))
    return [first, *(Runner(f"{n} copies", n, 2_000 // part, fast(name, n)) for n in COPIES)]


# -- measuring and showing -----------------------------------------------------------------------------------------


def measure(name: str, quick: bool) -> dict[str, Row]:
    """Best of interleaved rounds, after a short warm-up; the first one is the original."""
    timed = runners(name, quick)
    for runner in timed:
        runner.play(50)
    rounds = [[runner.rate() for runner in timed] for _ in range(1 if quick else 5)]
    best = [max(rates) for rates in zip(*rounds, strict=True)]
    return {runner.name: Row(rate, rate / best[0]) for runner, rate in zip(timed, best, strict=True)}


def table(rows: Mapping[str, Mapping[str, Row]]) -> Table:
    shown = Table("world", "what", title="Env steps per CPU second, and how many times the original's")
    for heading in ("rate", "ratio"):
        shown.add_column(heading, justify="right")
    for env, row in rows.items():
        for name, (rate, ratio) in row.items():
            shown.add_row(env, name, f"{rate:,.0f}", f"{ratio:,.0f}", end_section=name == list(row)[-1])
    return shown


def as_json(rows: Mapping[str, Mapping[str, Row]], quick: bool, ratio: float) -> dict[str, Any]:
    return {
        "quick": quick,
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "worlds": {env: {name: values._asdict() for name, values in row.items()} for env, row in rows.items()},
        "bar": {"bar": BAR, "value": ratio, "met": ratio >= BAR},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Fast envs next to the originals of mpe2.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: small numbers of steps, no best of several")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    rows = {name: measure(name, options.quick) for name in ORIGINALS}
    console = Console()
    console.print(table(rows))
    ratio = rows["fast:simple_spread"]["256 copies"].ratio
    met = "met    " if ratio >= BAR else "NOT MET"
    console.print(f"{met} simple_spread, 256 copies, against mpe2: {ratio:,.0f} times (bar: {BAR:g})")
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(rows, options.quick, ratio), indent=2) + "\n")


if __name__ == "__main__":
    main()
