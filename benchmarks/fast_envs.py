"""How fast the fast envs are next to the originals of mpe2, lbforaging and rware: ratios from one run.

Rates are env steps of single copies per second of CPU time: random actions drawn in advance, a seeded reset where an episode
ended. The original is one env, a parallel env stepped through its dicts or a Gymnasium env through its lists; the fast env
steps 256 or 1024 copies at once through the array interface. Rounds of all are interleaved and the best of each counts,
because the machine is rarely alone. Originals that are not installed are left out.

    python benchmarks/fast_envs.py [--quick] [--only lbf] [--json FILE]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from rich.console import Console
from rich.table import Table

from marl.envs.registry import make_batched_env


class Case(NamedTuple):
    """A fast env and its original: a module with a ``parallel_env``, or ``package:id`` of Gymnasium's registry."""

    env: str
    env_config: Mapping[str, Any]
    original: str

    @property
    def name(self) -> str:
        return str(self.env_config.get("id", self.env))

    @property
    def package(self) -> str:
        return self.original.partition(":")[0].partition(".")[0]


FORAGING = ("5x5-2p-1f-coop", "8x8-2p-2f-coop", "10x10-3p-3f", "15x15-4p-3f", "2s-8x8-2p-2f-coop")
WAREHOUSES = ("tiny-2ag", "tiny-4ag", "small-4ag", "medium-4ag")
PARTICLES = (
    "simple_spread_v3", "simple_tag_v3", "simple_speaker_listener_v4", "simple_adversary_v3", "simple_push_v3",
    "simple_crypto_v3", "simple_reference_v3", "simple_world_comm_v3",
)  # fmt: skip
CASES = [
    *(Case(f"fast:{game[:-3]}", {}, f"mpe2.{game}") for game in PARTICLES),
    *(Case("fast:lbf", {"id": f"Foraging-{game}-v3"}, f"lbforaging:Foraging-{game}-v3") for game in FORAGING),
    *(Case("fast:rware", {"id": f"rware-{game}-v2"}, f"rware:rware-{game}-v2") for game in WAREHOUSES),
]
COPIES = (256, 1024)
# Times the original, 256 copies, in every case.
BARS = {"fast:simple_spread": 100.0, "fast:lbf": 50.0, "fast:rware": 50.0}
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
    if ":" in path:
        return of_gymnasium(*path.split(":"))
    return of_mpe2(path)


def of_gymnasium(package: str, env_id: str) -> Play:
    """One env of lists, without the wrappers of ``gym.make``."""
    importlib.import_module(package)  # registers the id
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        env: Any = gym.make(env_id, disable_env_checker=True).unwrapped
    rng = np.random.default_rng(SEED)
    env.reset(seed=SEED)
    sizes = [space.n for space in env.action_space]

    def play(steps: int) -> None:
        drawn = rng.integers(0, sizes, (steps, len(sizes))).tolist()
        seeds = rng.integers(0, 2**31 - 1, steps).tolist()
        for chosen, seed in zip(drawn, seeds, strict=True):
            if env.step(chosen)[2]:
                env.reset(seed=seed)

    return play


def of_mpe2(path: str) -> Play:
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


def fast(case: Case, copies: int) -> Play:
    """Many copies of a fast env."""
    env, rng = make_batched_env(case.env, copies, dict(case.env_config)), np.random.default_rng(SEED)
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


def runners(case: Case, quick: bool) -> list[Runner]:
    part = 10 if quick else 1
    first = Runner(case.package, 1, 2_000 // part, original(case.original))
    return [first, *(Runner(f"{n} copies", n, 500 // part, fast(case, n)) for n in COPIES)]


# -- measuring and showing -----------------------------------------------------------------------------------------


def measure(case: Case, quick: bool) -> dict[str, Row]:
    """Best of interleaved rounds, after a short warm-up; the first one is the original."""
    timed = runners(case, quick)
    for runner in timed:
        runner.play(50)
    rounds = [[runner.rate() for runner in timed] for _ in range(1 if quick else 5)]
    best = [max(rates) for rates in zip(*rounds, strict=True)]
    return {runner.name: Row(rate, rate / best[0]) for runner, rate in zip(timed, best, strict=True)}


def table(rows: Mapping[str, Mapping[str, Row]]) -> Table:
    shown = Table("env", "what", title="Env steps per CPU second, and how many times the original's")
    for heading in ("rate", "ratio"):
        shown.add_column(heading, justify="right")
    for env, row in rows.items():
        for name, (rate, ratio) in row.items():
            shown.add_row(env, name, f"{rate:,.0f}", f"{ratio:,.0f}", end_section=name == list(row)[-1])
    return shown


def bars(cases: Sequence[Case], rows: Mapping[str, Mapping[str, Row]]) -> dict[str, dict[str, Any]]:
    """Of each env that has a bar, the worst of its cases with 256 copies."""
    found: dict[str, dict[str, Any]] = {}
    for env, bar in BARS.items():
        ratios = [rows[case.name]["256 copies"].ratio for case in cases if case.env == env]
        if ratios:
            found[env] = {"bar": bar, "value": min(ratios), "met": min(ratios) >= bar}
    return found


def as_json(rows: Mapping[str, Mapping[str, Row]], quick: bool, met: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "quick": quick,
        "machine": {"processor": platform.processor() or platform.machine(), "python": platform.python_version()},
        "envs": {env: {name: values._asdict() for name, values in row.items()} for env, row in rows.items()},
        "bars": dict(met),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Fast envs next to their originals.")
    parser.add_argument("--quick", action="store_true", help="a smoke run: small numbers of steps, no best of several")
    parser.add_argument("--only", default="", metavar="TEXT", help="envs alone whose name holds this text, such as lbf")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    options = parser.parse_args()
    asked = [case for case in CASES if options.only in case.env]
    cases = [case for case in asked if importlib.util.find_spec(case.package)]
    rows = {case.name: measure(case, options.quick) for case in cases}
    console = Console()
    console.print(table(rows))
    reached = bars(cases, rows)
    for env, told in reached.items():
        met = "met    " if told["met"] else "NOT MET"
        console.print(
            f"{met} {env}, 256 copies, against the original: {told['value']:,.0f} times (bar: {told['bar']:g})"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(as_json(rows, options.quick, reached), indent=2) + "\n")


if __name__ == "__main__":
    main()
