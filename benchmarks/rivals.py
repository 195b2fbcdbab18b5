"""marl next to its rivals and next to an older marl: the same work on one core, in turns, as ratios from one run.

    python benchmarks/rivals.py [--rows 1,2,7] [--repeats N] [--json FILE] [--envs DIR] [--against COMMIT] [--before]
    python benchmarks/rivals.py --table FILE     # the numbers of a run as a table for a page
    python benchmarks/rivals.py --list

Each rival has an environment of its own below ``--envs``, which the first run makes with pip; a row whose rival cannot be
installed or started is left out, with the reason. Both sides of a row are processes of one thread on one core. They are
started and warmed up, then play in turns (A B A B ...), and CPU seconds of the process are taken around each round: start-up
and compilation do not count unless the row says whole process. The ratio is that of the best rounds; beside it stand the ratio
of the medians and the smallest and largest of neighbouring rounds. ``--before`` lets the older marl play along where it can.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from rival_envs import CannotMeasure
from rival_rows import Clock, Row, Side, rows
from rival_sides import Places, Round, Runner, started

ENVS = Path("~/.cache/marl-benchmarks").expanduser()
AGAINST = "0efe2c9"
HEADINGS = ("work", "marl", "rival", "ratio", "medians", "rounds", "goal", "")


# -- measuring -----------------------------------------------------------------------------------------------------


def sides_of(row: Row, before: bool) -> dict[str, Side]:
    sides = {"ours": row.ours, "rival": row.rival}
    if before and row.ours.where == "marl" and "--stacked" not in row.ours.arguments and row.rival.where != "older":
        sides["before"] = replace(row.ours, where="older", name="older marl")
    return sides


def measure(row: Row, repeats: int, places: Places, before: bool = False) -> dict[str, Any]:
    """Rounds in turns; what is told of each side and the ratio."""
    sides = sides_of(row, before)
    with ExitStack() as stack:
        runners = {who: stack.enter_context(started(side, places)) for who, side in sides.items()}
        played: dict[str, list[Round]] = {who: [] for who in sides}
        for _ in range(repeats):
            for who, runner in runners.items():
                played[who].append(runner.play())
    found = {who: side_found(sides[who], runners[who], played[who], row.clock) for who in sides}
    result: dict[str, Any] = {
        "work": row.work,
        "unit": row.unit,
        "clock": row.clock,
        "goal": row.goal,
        "costs": row.costs,
    }
    result |= {"sides": found, **compared(played["ours"], played["rival"], row.clock, row.costs)}
    result["met"] = row.met(result["ratio"])
    if "before" in played:
        result["ratio_before"] = compared(played["before"], played["rival"], row.clock, row.costs)["ratio"]
    return result


def side_found(side: Side, runner: Runner, played: Sequence[Round], clock: Clock) -> dict[str, Any]:
    rates = [one.rate(clock) for one in played]
    rewards = [runner.first_reward, *(one.reward for one in played)]
    return {
        "name": side.name, "versions": dict(runner.versions), "best": max(rates), "median": statistics.median(rates),
        "rewards": [reward for reward in rewards if reward is not None], "rounds": [one._asdict() for one in played],
    }  # fmt: skip


def compared(ours: Sequence[Round], rival: Sequence[Round], clock: Clock, costs: bool) -> dict[str, Any]:
    """Rate of ours as a multiple of the rival's, or time where it ``costs``."""
    mine, others = [one.rate(clock) for one in ours], [one.rate(clock) for one in rival]
    if costs:
        mine, others = others, mine
    pairs = [a / b for a, b in zip(mine, others, strict=True)]
    return {
        "ratio": max(mine) / max(others), "ratio_of_medians": statistics.median(mine) / statistics.median(others),
        "spread": [min(pairs), max(pairs)],
    }  # fmt: skip


# -- showing -------------------------------------------------------------------------------------------------------


def markdown(results: Mapping[str, Mapping[str, Any]]) -> str:
    """A table for a page."""
    before = any("ratio_before" in one for one in results.values())
    headings = [*HEADINGS[:3], *(("before",) if before else ()), *HEADINGS[3:]]
    lines = [headings, ["---"] * len(headings)]
    for key, one in results.items():
        lines.append(cells(key, one, before))
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cells(key: str, one: Mapping[str, Any], before: bool) -> list[str]:
    if "skipped" in one:
        return [f"{key}. {one['work']}", f"not measured: {one['skipped']}", *[""] * (len(HEADINGS) - 2 + before)]
    rates = [rate_cell(one, who) for who in ("ours", "rival")]
    low, high = one["spread"]
    sign = "<=" if one["costs"] else ">="
    earlier = [f"{one['ratio_before']:.2f}" if "ratio_before" in one else ""] if before else []
    ratios = [f"**{one['ratio']:.2f}**", f"{one['ratio_of_medians']:.2f}", f"{low:.2f} to {high:.2f}"]
    return [
        f"{key}. {one['work']}",
        *rates,
        *earlier,
        *ratios,
        f"{sign} {one['goal']:g}",
        "met" if one["met"] else "not met",
    ]


def rate_cell(one: Mapping[str, Any], who: str) -> str:
    """``marl: 52,000 env steps per CPU s``; seconds where time is what is compared."""
    side, unit = one["sides"][who], "CPU s" if one["clock"] == "cpu" else "s"
    if one["costs"]:
        return f"{side['name']}: {1 / side['best']:.2f} {unit}"
    return f"{side['name']}: {side['best']:,.0f} {one['unit']} per {unit}"


def learned(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What episodes paid in the first and in the last round: a rival that does not learn would be no rival."""
    said = []
    for key, one in results.items():
        for side in one.get("sides", {}).values():
            if side["rewards"]:
                said.append(f"{key}. {side['name']}: {side['rewards'][0]:.1f} to {side['rewards'][-1]:.1f}")
    return said


def machine() -> dict[str, Any]:
    return {
        "processor": platform.processor() or platform.machine(), "cpus": os.cpu_count(), "python": platform.python_version(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
    }  # fmt: skip


# -- the command ---------------------------------------------------------------------------------------------------


def chosen(text: str | None) -> list[Row]:
    """``1,2,7``: the rows of these numbers; without a text all of them."""
    known = rows()
    if text is None:
        return known
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if not any(name in (row.key, str(row.number)) for row in known):
            raise SystemExit(f"no row {name!r}. Known: {', '.join(row.key for row in known)}.")
    return [row for row in known if row.key in names or str(row.number) in names]


def run(options: argparse.Namespace, scratch: Path) -> dict[str, dict[str, Any]]:
    places = Places(options.envs, scratch, options.against, options.core)
    results: dict[str, dict[str, Any]] = {}
    for row in chosen(options.rows):
        began = time.perf_counter()
        try:
            results[row.key] = one = measure(row, options.repeats or row.repeats, places, options.before)
            print(
                f"{row.key}. {row.work}: {one['ratio']:.2f} ({'met' if one['met'] else 'NOT MET'}: {row.goal:g})",
                end="",
            )
        except CannotMeasure as reason:
            results[row.key] = one = {"work": row.work, "skipped": str(reason)}
            print(f"{row.key}. {row.work}: left out: {reason}", end="")
        one["seconds"] = time.perf_counter() - began
        print(f"  [{one['seconds']:.0f} s]", flush=True)
    return results


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", metavar="N,N", help="only these; default: all")
    parser.add_argument("--repeats", type=int, help="rounds of each side; default: 1 to 7, by row")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers there as well")
    parser.add_argument(
        "--envs", type=Path, metavar="DIR", default=ENVS, help=f"environments of rivals; default: {ENVS}"
    )
    parser.add_argument("--against", metavar="COMMIT", default=AGAINST, help=f"the older marl; default: {AGAINST}")
    parser.add_argument("--before", action="store_true", help="also let the older marl play, where it can")
    parser.add_argument(
        "--core", type=int, default=(os.cpu_count() or 1) - 1, help="the core to run on; default: the last"
    )
    parser.add_argument("--list", action="store_true", help="say which rows there are, and measure nothing")
    parser.add_argument(
        "--table", type=Path, metavar="FILE", help="print the numbers of FILE as a table, and measure nothing"
    )
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] = tuple(sys.argv[1:])) -> None:
    options = parse(arguments)
    if options.list:
        for row in chosen(options.rows):
            print(f"{row.key:>3}  {row.work}: {row.ours.name} against {row.rival.name}")
        return
    if options.table is not None:
        print(markdown(json.loads(options.table.read_text())["rows"]))
        return
    before = machine()
    with tempfile.TemporaryDirectory() as scratch:
        results = run(options, Path(scratch))
    print("", markdown(results), "", "Mean rewards of episodes, first and last round:", *learned(results), sep="\n")
    if options.json is not None:
        told = {"machine": before, "load_after": machine()["load"], "against": options.against, "rows": results}
        options.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
