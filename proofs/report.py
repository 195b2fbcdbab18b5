"""The report: ``docs/proofs.md`` from the cached results, and a learning curve per proof."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from marl.runs.atomic import write_atomically
from proofs.declaration import Places, Proof, Table
from proofs.results import Results, SeedResult, fingerprint_of, read_results
from proofs.sources import Sources

INTRO = """\
# Learning proofs

Written by `python -m proofs` (`make proofs`) from `proofs/results/`; what is proven stands in `proofs/proofs.yaml`.
Every number is the mean of the greedy evaluation episodes of one evaluation. *Reached by* is the number of env steps at
the first evaluation that met the goal, *best* and *last* are over all evaluations of a seed; seeds are in their order.
Matches follow the training, on PettingZoo's own env, against an opponent that draws from its legal moves; goals look at
greedy play, and *illegal moves* counts the moves of both sides that the env's mask forbids.
Rows about exploitability hold the exact NashConv of what the run would play (smaller is better); *best* is the smallest.
*stale*: measured with an earlier version of the scenario, the declaration or a module of the package that the run loads.
"""


def write_report(proofs: Sequence[Proof], places: Places, package: Sources) -> Path:
    """The table of all proofs that have results, and their pictures."""
    rows, sections = [], []
    for proof in proofs:
        results = read_results(places.results / f"{proof.name}.json")
        if results is None or not results.seeds:
            rows.append(
                f"| {proof.name} | {proof.goal} | {proof.budget:,} | 0/{len(proof.all_seeds)} | | | | not run |"
            )
            continue
        stale = not results.current(fingerprint_of(proof, places), package)
        verdict = f"{results.judge(proof)}{' (stale)' if stale else ''}"
        rows.append(_row(proof, results, verdict))
        picture = draw(proof, results, places.pictures / f"{proof.name}.png")
        sections.append(_section(proof, results, picture.relative_to(places.report.parent).as_posix()))
    head = [
        "| proof | goal | budget (env steps) | seeds that hold | reached by (env steps) | best | last | verdict |",
        "|---|---|---|---|---|---|---|---|",
    ]
    places.report.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(places.report, "\n".join([INTRO, *head, *rows, "", *sections]))
    return places.report


def _row(proof: Proof, results: Results, verdict: str) -> str:
    seeds, main = finished(proof, results), proof.fields[0]
    reached = [seed.reached_at(proof.reaches, proof.budget) if proof.reaches else None for seed in seeds]
    cells = (
        proof.name,
        proof.goal,
        f"{proof.budget:,}",
        f"{results.held(proof)}/{len(proof.all_seeds)} (needs {proof.needed})",
        " ".join("-" if steps is None else f"{steps:,}" for steps in reached) if proof.reaches else "",
        " ".join(f"{seed.best(main):.4g}" for seed in seeds),
        " ".join(f"{seed.last(main):.4g}" for seed in seeds),
        verdict,
    )
    return f"| {' | '.join(cells)} |"


def _section(proof: Proof, results: Results, picture: str) -> str:
    seeds = finished(proof, results)
    seconds = " ".join(f"{seed.wall_time_s:.0f}" for seed in seeds)
    changes = ", ".join(f"`{key}: {value}`" for key, value in proof.set.items())
    lines = [f"## {proof.name}", "", proof.claim, ""]
    lines += [f"Scenario `{proof.scenario}`{f' with {changes}' if changes else ''}. Seconds per seed: {seconds}.", ""]
    if proof.tables:
        lines += ["| seed | state | learned | expected |", "|---|---|---|---|"]
        for seed in seeds:
            lines += [
                f"| {seed.seed} | {state} | {_numbers(seed.tables[state])} | {_numbers(table)} |"
                for state, table in proof.tables.items()
            ]
        lines.append("")
    if proof.matches:
        lines += _match_table(seeds)
    return "\n".join([*lines, f"![learning curves of {proof.name}]({picture})", ""])


def _match_table(seeds: Sequence[SeedResult]) -> list[str]:
    rows = [
        f"| {seed.seed} | {t.seat} | {t.play} | {t.won} | {t.drawn} | {t.lost} | {t.illegal} of {t.moves:,} |"
        for seed in seeds
        for t in seed.matches
    ]
    return [
        "| seed | plays as | how | won | drawn | lost | illegal moves |",
        "|---|---|---|---|---|---|---|",
        *rows,
        "",
    ]


def _numbers(table: Table) -> str:
    return "; ".join(" ".join(f"{value:.2f}" for value in row) for row in table)


def finished(proof: Proof, results: Results) -> list[SeedResult]:
    """Declared seeds that have a result, in their order."""
    return [results.seeds[seed] for seed in proof.all_seeds if seed in results.seeds]


def draw(proof: Proof, results: Results, path: Path) -> Path:
    """One line per seed, and the goal."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    main = proof.fields[0]
    figure = Figure(figsize=(7, 3.6), dpi=90, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    for seed in finished(proof, results):
        steps = [steps for steps, _ in seed.evaluations]
        axes.plot(steps, [values[main] for _, values in seed.evaluations], marker=".", label=f"seed {seed.seed}")
    for goal in {*proof.reaches.values(), *proof.ends_at.values()}:
        axes.axhline(goal, color="black", linestyle="--", linewidth=0.8)
    axes.set_title(f"{proof.name}: {proof.goal}", fontsize=9)
    axes.set_xlabel("env steps")
    axes.set_ylabel(main.removeprefix("evaluation."), fontsize=8)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, ncols=2)
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, picture.getvalue())
    return path
