"""The commands that look at runs and results: ``marl runs``, ``marl explain``, ``marl compare``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from marl.cli.options import Sets, Stacked, count_or_seeds
from marl.errors import printable

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def runs(
    directory: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Argument(metavar="[DIR]", help="Where to look. Default: MARL_RESULTS_DIR or ~/marl_results."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs with their state, progress, best result and goal; `marl run --resume ID` goes on with one."""
    from rich.console import Console

    from marl.analysis.runs import list_runs, runs_table
    from marl.runs.directories import default_results

    place = directory or default_results()
    found = list_runs(place)
    if as_json:
        print(json.dumps({"runs": [run.as_json() for run in found]}, indent=2))
        return
    if not found:
        print(f"no runs in {place}")
        return
    screen = None
    if sys.stdout.isatty():
        screen = Console().width
    # The table itself fits the screen; in a file nothing is cut off.
    Console(width=100_000, emoji=False, highlight=False).print(runs_table(found, screen))
    for run in found:
        # Below the table, where a sentence has room.
        if run.error:
            print(printable(f"{run.id}: {run.error}"))


def explain(
    field: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[FIELD]", help="A field of result.json, a block of fields, or the end of a name."),
    ] = None,
) -> None:
    """Say what a field of a result means, such as `marl explain episode_reward_mean`; without one, what all mean."""
    from marl.runs.fields import explain as meaning

    print(meaning(field))


def compare(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="A B...", help="Scenario files to train, run directories, or folders of runs."),
    ],
    seeds: Annotated[str, typer.Option(help="Seeds per scenario: a number of them, 0..4, or 0,3,7.")] = "5",
    metric: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(metavar="FIELD", help="Field to compare. Default: what evaluations are judged by."),
    ] = None,
    at: Annotated[Optional[int], typer.Option(min=1, help="Compare at so many env steps.")] = None,  # noqa: UP045
    confidence: Annotated[float, typer.Option(min=0.5, max=0.999, help="Of intervals and verdicts.")] = 0.95,
    resamples: Annotated[int, typer.Option(min=100, help="Resamples of the bootstrap.")] = 2_000,
    stacked: Stacked = False,
    sets: Sets = None,
    out: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(metavar="DIR", help="Runs, picture and numbers go here. Default: in the results, compare/A_vs_B."),
    ] = None,
    figures: Annotated[
        Optional[list[Path]],  # noqa: UP045
        typer.Option(
            "--figure", "-o", metavar="FILE", help="Draw the curves into this PDF, SVG or PNG too; repeatable."
        ),
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="column|page|WxH", help="Of --figure: 3.25 or 6.75 inches wide, or inches.")
    ] = "column",
    as_json: AsJson = False,
) -> None:
    """Compare several algorithms or settings over seeds: learning curves with intervals, and who is better.

    Scenarios are trained first, once per seed; the same command goes on where it was stopped. What cannot be compared is
    refused before that. Exit codes: 0 when all is compared, 2 for bad input, 130 after Ctrl-C.
    """
    from rich.console import Console

    from marl.analysis.compare.compare import compare as compared
    from marl.analysis.compare.directory import RESULT, choose_place
    from marl.analysis.compare.page import chart_of, comparison_table, draw_comparison, verdicts
    from marl.analysis.compare.runs import check_plan, gather, plan_comparison
    from marl.analysis.plot.figure import Files, write_chart
    from marl.analysis.plot.style import Look, read_size
    from marl.analysis.progress import named_bar
    from marl.runs.atomic import write_atomically
    from marl.runs.damage import noted
    from marl.runs.pictures import draw_or_warn

    files, look = Files(figures or []), Look(size=read_size(size))
    plan = plan_comparison(sources, count_or_seeds(seeds), sets or [], stacked)
    place = choose_place(sources, metric, out)
    # All that can be refused is refused here: training takes hours.
    check_plan(plan, place.runs, metric, at)
    # From here on the place is written to; two comparisons at once would mix their runs.
    place.claim()
    try:
        with noted() as damaged, named_bar("training") as report:
            found = gather(plan, place.runs, report)
    except KeyboardInterrupt:
        print(f"stopped. The same command goes on with what is in {place.runs}.", file=sys.stderr)
        raise typer.Exit(130) from None
    result = compared(found, metric, at=at, confidence=confidence, resamples=resamples)
    picture = draw_or_warn(place.folder / "compare.png", lambda: draw_comparison(result, place.folder / "compare.png"))
    write_atomically(place.folder / RESULT, json.dumps(result.as_json(), indent=1) + "\n")
    # After the numbers: a place that cannot be written to must not cost them.
    write_chart(chart_of(result), look, files)
    written = [str(path) for path in files.figures]
    if as_json:
        drawn = None if picture is None else str(picture)
        asked_for = {"figures": written} if written else {}
        print(json.dumps({**result.as_json(), "picture": drawn, **asked_for, **damaged.as_json()}))
        return
    Console(width=100_000, emoji=False, highlight=False).print(comparison_table(result))
    shown = [] if picture is None else [f"picture: {picture}"]
    shown += [f"figure: {path}" for path in written]
    print(printable("\n".join([*verdicts(result), *shown, f"results: {place.folder}"])))
