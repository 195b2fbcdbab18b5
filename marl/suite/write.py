"""What a suite leaves behind besides its runs: numbers, a picture, the section of a page, the file for marl-eval."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marl.analysis.plot.chart import Chart, Panel, Series
from marl.analysis.plot.paint import draw_chart
from marl.analysis.plot.points import STEPS, label_of
from marl.analysis.plot.style import WIDTHS, Look, Size
from marl.runs.files import safe_name
from marl.runs.pictures import draw_or_warn
from marl.storage import make_folder, write_atomically
from marl.suite.marl_eval import for_marl_eval
from marl.suite.peers import Peer, read_peers
from marl.suite.plan import Plan
from marl.suite.published import read_published, with_published, write_published
from marl.suite.results import CellResult, Curves, read_suite
from marl.suite.table import put_into, section

LOOK = Look(size=Size(WIDTHS["page"], None), font_size=8.0)
POINTS = 80  # of a drawn line, at most


@dataclass(frozen=True)
class Written:
    """Where everything is, and what was found."""

    results: Sequence[CellResult]
    section: str
    files: Sequence[Path]
    left_out: Sequence[str]  # of the file for marl-eval


def check_writable(plan: Plan, page: Path | None) -> None:
    """Refuse what could not be written or read in the end, before anything is trained."""
    read_peers(plan.loaded)
    if page is not None:
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        put_into(before, plan.config.suite, "")
        read_published(page.parent / "pictures" / f"suite_{safe_name(plan.config.suite)}.json")


def write_all(plan: Plan, page: Path | None) -> Written:
    """Write what the runs have come to so far: into the suite's folder, and into a page where one is given."""
    config = plan.config
    results, peers = read_suite(plan), read_peers(plan.loaded)
    make_folder(plan.folder)
    name = safe_name(config.suite)
    where = plan.folder if page is None else page.parent / "pictures"
    if page is not None:
        results = with_published(results, where / f"suite_{name}.json")
    picture = _drawn(plan, results, peers, where / f"suite_{name}.svg")
    base = plan.folder if page is None else page.parent
    shown = None if picture is None else os.path.relpath(picture, base).replace(os.sep, "/")
    text = section(config, results, peers, shown)
    evaluated = for_marl_eval(config.suite, results)
    files = [] if picture is None else [picture]
    written: dict[str, Any] = {"suite.json": as_json(plan, results), "marl_eval.json": evaluated.content}
    for file, content in written.items():
        write_atomically(plan.folder / file, json.dumps(content, indent=1) + "\n")
        files.append(plan.folder / file)
    own_page = plan.folder / "table.md"
    write_atomically(own_page, text + "\n")
    files.append(own_page)
    if page is not None:
        before = page.read_text(encoding="utf-8") if page.exists() else ""
        write_atomically(page, put_into(before, config.suite, text))
        write_published(config.suite, results, where / f"suite_{name}.json")
        files += [page, where / f"suite_{name}.json"]
    return Written(results, text, files, evaluated.left_out)


def as_json(plan: Plan, results: Sequence[CellResult]) -> dict[str, Any]:
    """The table for programs."""
    config = plan.config
    cells = []
    for result in results:
        cell = result.cell
        cells.append(
            {
                "env": cell.env,
                "algo": cell.algo,
                "metric": cell.metric,
                "excluded": cell.excluded or None,
                "complete": result.complete,
                "last": None if result.last is None else result.last.as_json(),
                "best": None if result.best is None else result.best.as_json(),
                "scores": {str(run.seed): run.line[-1][1] for run in result.measured},
                "steps": {str(run.seed): run.steps for run in result.runs},
                "stopped_early": {str(run.seed): run.stopped_early for run in result.early},
                "published": None if cell.published is None else cell.published.model_dump(),
                "goal": cell.goal,
                "goal_state": result.goal_state or None,
                "budget": cell.budget,
                "stacked": result.stacked,
                "tried": cell.tried,
                "cpu_s": result.cpu_s,
                "wall_s": result.wall_s,
                "failed": list(result.failed),
            }
        )
    return {
        "suite": config.suite,
        "metric": config.metric,
        "confidence": config.confidence,
        "interval": "percentile bootstrap of the IQM over seeds",
        "cells": cells,
    }


def _drawn(plan: Plan, results: Sequence[CellResult], peers: Sequence[Peer], path: Path) -> Path | None:
    """The learning curves, a panel per env; None where there is nothing to draw, or no matplotlib."""
    chart = chart_of(plan, results, peers)
    if chart is None:
        return None
    return draw_or_warn(path, lambda: draw_chart(chart, LOOK, [path])[0])


def chart_of(plan: Plan, results: Sequence[CellResult], peers: Sequence[Peer]) -> Chart | None:
    config = plan.config
    panels = []
    metrics = {one.cell.env: one.cell.metric for one in results}
    for env in config.envs:
        series = [_series(one.cell.algo, one.curves, config.confidence) for one in results if _in(one, env)]
        for peer in peers:
            for algo in config.algos:
                found = peer.cells.get(f"{env}/{algo}")
                if found is not None:
                    series.append(_series(f"{algo}, {peer.name}", found.curves, config.confidence))
        if series:
            panels.append(Panel(env, label_of(STEPS), label_of(metrics[env]), series))
    if not panels:
        return None
    caption = f"Interquartile means over seeds with {config.confidence:.0%} bootstrap intervals."
    return Chart("curves", panels, caption, {"metric": config.metric, "confidence": config.confidence})


def _in(result: CellResult, env: str) -> bool:
    return result.cell.env == env and result.curves is not None


def _series(name: str, curves: Curves | None, confidence: float) -> Series:
    assert curves is not None  # those without were left out
    thinned = curves.thinned(POINTS)
    low, high = thinned.band(confidence)
    return Series(name, thinned.steps, thinned.middle, low, high, len(thinned.values), thinned.values)
