"""``marl suite``: envs x algorithms x seeds from one file, trained, measured and written down as a table."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from marl.cli.options import one_of
from marl.errors import ConfigError, printable

if TYPE_CHECKING:
    from marl.suite.load import LoadedSuite
    from marl.suite.plan import Plan, PlannedCell
    from marl.suite.run import Ran
    from marl.suite.write import Written

Only = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option(
        metavar="ENV/ALGO", help="Train these cells alone: ENV/ALGO with * and ?, an env or an algorithm; repeatable."
    ),
]
Jobs = Annotated[int, typer.Option(min=1, help="Processes that train at the same time; 1: in this one.")]
OnRay = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option(
        "--ray", metavar="local|ADDRESS", help="Train on Ray instead, --jobs at a time: on this machine or a cluster."
    ),
]
Minutes = Annotated[
    Optional[float],  # noqa: UP045
    typer.Option(min=0.01, help="Stop in order after so many minutes; the same command goes on."),
]
Nice = Annotated[int, typer.Option(min=0, max=19, help="Niceness of whatever trains.")]
Budget = Annotated[
    Optional[int],  # noqa: UP045
    typer.Option(min=1, help="Train every run this far at most, in env steps; without it the same command goes on."),
]
Out = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(metavar="DIR", help="Runs, numbers and pictures go here. Default: suite_NAME in the results."),
]
Page = Annotated[
    Optional[Path],  # noqa: UP045
    typer.Option(
        metavar="FILE.md", help="Write the table into this page, between markers; its picture goes beside it."
    ),
]


def suite(
    file: Annotated[Path, typer.Argument(help="A suite file, or the name of a shipped one.")],
    only: Only = None,
    jobs: Jobs = 1,
    ray: OnRay = None,
    minutes: Minutes = None,
    nice: Nice = 0,
    budget: Budget = None,
    out: Out = None,
    page: Page = None,
    check: Annotated[bool, typer.Option("--check", help="Resolve all cells, say what would be done, and end.")] = False,
    no_runs: Annotated[bool, typer.Option("--no-runs", help="Train nothing: write down what there is.")] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Train cells anew whose keys have changed; what is there is moved aside.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Train every env of a file with every algorithm and every seed, and write the results as a table.

    All cells are checked before the first is trained. The same command goes on where it was stopped, and a finished suite is
    written down again. Exit codes: 0 when all is in order (also when --minutes are over), 1 when cells failed, 2 for bad
    input, 130 after Ctrl-C. The last line printed is `results: DIR`.
    """
    from marl.suite.load import chosen, load_suite
    from marl.suite.plan import plan_suite
    from marl.suite.run import How, Ran, run_suite
    from marl.suite.screen import Screen
    from marl.suite.write import check_writable, write_all

    one_of({"--check": check, "--no-runs": no_runs})
    _check_options(nice, page)
    loaded = load_suite(file)
    if budget is not None:
        loaded = _within(loaded, budget)
    wanted = [cell.name for cell in chosen(loaded.cells, only or [])]
    plan = plan_suite(loaded, out, wanted)
    cells = [planned for planned in plan.cells if planned.cell.name in wanted]
    if check:
        _tell_plan(plan, cells, as_json)
        return
    check_writable(plan, page)
    ran = Ran() if no_runs else run_suite(plan, cells, How(jobs, ray, minutes, nice, again), Screen())
    written = write_all(plan, page)
    if as_json:
        print(json.dumps(_as_json(plan, ran, written), indent=1))
    else:
        print(printable("\n".join(_closing_lines(plan, ran, written))))
    raise typer.Exit(_exit_code(ran))


def _check_options(nice: int, page: Path | None) -> None:
    if nice and not hasattr(os, "nice"):
        raise ConfigError("--nice: this system knows no niceness. Leave it out.")
    if page is None:
        return
    if page.suffix != ".md":
        raise ConfigError(f"--page {page}: expected a name that ends in .md.")
    if not page.parent.is_dir():
        raise ConfigError(f"--page {page}: there is no folder {page.parent}.")


def _within(loaded: LoadedSuite, budget: int) -> LoadedSuite:
    """The same suite with runs of so many env steps at most."""
    cells = []
    for cell in loaded.cells:
        cells.append(replace(cell, budget=min(cell.budget or budget, budget)))
    return replace(loaded, cells=cells)


def _tell_plan(plan: Plan, cells: Sequence[PlannedCell], as_json: bool) -> None:
    """What would be trained."""
    rows: list[dict[str, Any]] = []
    for planned in cells:
        cell = planned.cell
        rows.append(
            {
                "cell": cell.name,
                "seeds": list(cell.seeds),
                "open": planned.open_seeds(),
                "budget": cell.budget,
                "goal": cell.goal,
                "stacked": planned.stacked,
                "folder": str(planned.folder),
                "changed": planned.changed() or None,
            }
        )
    if as_json:
        print(json.dumps({"cells": rows}, indent=1))
        return
    steps = sum(len(row["open"]) * row["budget"] for row in rows)
    last = f"{len(rows)} cells in order, at most {steps:,} env steps to play. results: {plan.folder}"
    print(printable("\n".join([*map(_told, rows), last])))


def _told(row: dict[str, Any]) -> str:
    how = "together" if row["stacked"] else "one by one"
    seeds = f"{len(row['open'])} of {len(row['seeds'])} seeds to train {how}"
    said = f"{row['cell']}: {seeds}, {row['budget']:,} env steps each"
    if row["changed"]:
        return f"{said}. Its keys have changed: {row['changed']}"
    return said


def _closing_lines(plan: Plan, ran: Ran, written: Written) -> list[str]:
    lines = [written.section, ""]
    if written.left_out:
        lines.append(
            f"not in marl_eval.json, which needs the same algorithms in all envs: {', '.join(written.left_out)}"
        )
    lines += [f"{title} failed: {error}" for title, error in ran.failed.items()]
    if ran.time_is_up:
        lines.append("the time is up. The same command goes on.")
    elif ran.interrupted:
        lines.append("stopped. The same command goes on.")
    lines += [f"written: {file}" for file in written.files]
    return [*lines, f"results: {plan.folder}"]


def _as_json(plan: Plan, ran: Ran, written: Written) -> dict[str, Any]:
    from marl.suite.write import as_json as numbers

    return {
        **numbers(plan, written.results),
        "failed": ran.failed,
        "interrupted": ran.interrupted,
        "time_is_up": ran.time_is_up,
        "files": [str(file) for file in written.files],
        "directory": str(plan.folder),
    }


def _exit_code(ran: Ran) -> int:
    if ran.interrupted and not ran.time_is_up:
        return 130
    if ran.failed:
        return 1
    return 0
