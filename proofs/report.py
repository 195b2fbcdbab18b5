"""The report: ``docs/proofs.md`` from the cached results, and a learning curve per proof."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from marl.runs.atomic import write_atomically
from proofs.declaration import Places, Proof, Table
from proofs.freshness import standing_of
from proofs.results import Results, SeedResult, read_results
from proofs.sources import package_sources

INTRO = """\
# Learning proofs

Written by `python -m proofs` (`make proofs`) from `proofs/results/`; what is proven stands in `proofs/proofs.yaml`.
Every number is the mean of the greedy evaluation episodes of one evaluation. *Reached by* is the number of env steps at
the first evaluation that met the goal, *best* and *last* are over all evaluations of a seed; seeds are in their order.
Matches follow the training, on PettingZoo's own env, against an opponent that draws from its legal moves; goals look at
greedy play, and *illegal moves* counts the moves of both sides that the env's mask forbids.
Rows about exploitability hold the exact NashConv of what the run would play (smaller is better); *best* is the smallest.

A proof is *fresh* if declaration and scenario still say the same, key by key, and the first iterations of every seed come
out as they did: `proofs/results/` keeps hashes of their weights and results, and `python -m proofs --check` replays them, in
seconds each. So a rename, a comment or a new key with a default that changes nothing leave a proof alone, and `make proofs`
runs again what really changed. What only shows later in a run is not seen by that. Verdicts below are of fresh proofs unless
they say:

- *stale*: first iterations come out otherwise, or declaration or scenario were changed, or no hashes were kept yet.
- *unchecked*: modules that it needs have changed since the last replay.
- *other machine*: the replay differs, but processor, torch or numpy are others, which round in other places. Run it there
  where it was measured, or measure it anew with `--force`. (Numbers that agree up to a thousandth count as the same.)

Replayed are: of a run, the iterations until its weights have moved twice and it was evaluated, but no more than about three
seconds of them, then an evaluation, the learned tables and a few matches where the proof has such; recordings are made anew.
Where workers or clients play on while the learner learns, the same without them, in one process, because what they collect
depends on the clock. Of a search, two iterations of all trials with a perturbation between them.
"""


def write_report(proofs: Sequence[Proof], places: Places) -> Path:
    """The table of all proofs that have results, and their pictures, where these are older than the results."""
    rows, sections, package = [], [], package_sources()
    for proof in proofs:
        measured = places.results / f"{proof.name}.json"
        results = read_results(measured)
        if results is None or not results.seeds:
            rows.append(
                f"| {proof.name} | {proof.goal} | {proof.budget:,} | 0/{len(proof.all_seeds)} | | | | not run |"
            )
            continue
        state = standing_of(results, proof, places, package).state
        verdict = results.judge(proof) if state == "fresh" else f"{results.judge(proof)} ({state})"
        rows.append(_row(proof, results, verdict))
        picture = places.pictures / f"{proof.name}.png"
        if not picture.exists() or picture.stat().st_mtime < measured.stat().st_mtime:
            draw(proof, results, picture)
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


def draw(proof: Proof, results: Results, path: Path) -> None:
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
