"""``marl bench``: measurements on this machine."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from marl.cli.config import numbers
from marl.cli.options import read_json
from marl.diagnostics.load import load_now

if TYPE_CHECKING:
    from marl.diagnostics.bench_learners import Timing

bench = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Measure what is fast on this machine.")


@bench.callback()
def group() -> None:
    """Measure what is fast on this machine, and say it."""


@bench.command()
def learners(
    env: Annotated[str, typer.Option(help="The env, as behind `env:` in a scenario.")] = "CartPole-v1",
    algo: Annotated[str, typer.Option("--algo", "--run", metavar="ALGO", help="The algorithm.")] = "ppo",
    workers: Annotated[str, typer.Option(help="num_workers to try; 0: in this process.")] = "0,1,2",
    learners: Annotated[str, typer.Option(help="num_learners to try.")] = "1,2",
    case: Annotated[
        str,
        typer.Option(help="What takes the time: collecting, learning, or own: the keys as they are given."),
    ] = "collecting,learning",
    iterations: Annotated[int, typer.Option(min=1, help="Per setting; the fastest counts.")] = 3,
    config: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="JSON|@FILE", help="More keys of the scenario as JSON, or @file.json."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Measure when more workers and more learners are faster here.

    The tables show milliseconds of each part of an iteration for every number of workers and learners: once where
    collecting takes most of the time and once where learning does. Exit codes: 0 when all was measured, 2 for bad
    input, 130 after Ctrl-C.
    """
    from marl.analysis.progress import named_bar
    from marl.diagnostics.bench_learners import advice, doubts, measure
    from marl.diagnostics.bench_learners import as_json as plain

    keys = {**read_json(config), "env": env}
    # Each number and each case once: measuring it twice would only take longer.
    num_workers = sorted(set(numbers(workers, "--workers", 0)))
    num_learners = sorted(set(numbers(learners, "--learners", 1)))
    cases = list(dict.fromkeys(part.strip() for part in case.split(",")))
    # The load before we begin: afterwards it would be our own.
    load, cpus = load_now(), os.cpu_count() or 1
    try:
        with named_bar("measuring") as tell:
            timings = list(measure(algo, keys, cases, num_workers, num_learners, iterations, tell))
    except KeyboardInterrupt:
        print("stopped.", file=sys.stderr)
        raise typer.Exit(130) from None
    # Measured case by case, so neighbours belong together.
    by_case = {name: list(found) for name, found in groupby(timings, lambda one: one.case)}
    said = {name: advice(found) for name, found in by_case.items()}
    unsure = {name: doubts(found, load, cpus) for name, found in by_case.items()}
    if as_json:
        about = {"env": env, "algo": algo, "iterations": iterations, "cpus": cpus, "load": load}
        print(json.dumps({**about, "timings": plain(timings), "advice": said, "doubts": unsure}))
        return
    for name, found in by_case.items():
        _show(f"{name}: {env} by {algo} on {cpus} CPUs, milliseconds per iteration", found)
        print(said[name])
        if unsure[name]:
            print(f"Do not rely on it: {'; '.join(unsure[name])}. Measure again when the machine is idle.")


def _show(title: str, timings: Sequence[Timing]) -> None:
    """One table; a line between numbers of learners."""
    from rich.console import Console
    from rich.table import Table

    from marl.diagnostics.bench_learners import HEADINGS, rows

    table = Table(title=title)
    for heading in HEADINGS:
        table.add_column(heading, justify="right")
    before = timings[0]
    for cells, one in zip(rows(timings), timings, strict=True):
        if one.num_learners != before.num_learners:
            table.add_section()
        table.add_row(*cells)
        before = one
    # Where the output is no terminal, rich takes 80 columns, in which the headings do not fit.
    width = max(Console().width, 100)
    Console(width=width, emoji=False, highlight=False).print(table)
