"""``python -m proofs``: replay what is proven, run what is not, write the reports. Exit codes: 0 all hold, 1 some do not."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from marl.errors import UserError
from proofs.declaration import Places, Proof, choose, read_proofs
from proofs.envs import Case, CaseResult, read_sweep, verdict_of
from proofs.envs_page import write_envs_page
from proofs.freshness import check, standing_of
from proofs.report import write_report
from proofs.results import Results, SeedResult, Standing, read_results
from proofs.runner import run_proof
from proofs.sources import package_sources

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The command line; gives the exit code: 2 for bad input, 130 after Ctrl-C (run again to go on)."""
    given = _parser().parse_args(arguments)
    console, places = Console(highlight=False), Places(root)
    try:
        proofs, envs = read_proofs(places), read_sweep(places)
        everything: list[Proof | Case] = [*proofs, *envs.cases]
        chosen = choose(everything, given.only)
        claims = [proof for proof in chosen if isinstance(proof, Proof)]
        cases = [case for case in chosen if isinstance(case, Case)]
        if given.list:
            return _list(claims, cases, places, console)
        try:
            if given.check:
                held = _replay(claims, places, given, console)
            else:
                held = _bring_up(claims, cases, places, given, console)
        finally:
            console.print(f"report: {write_report(proofs, places)}", soft_wrap=True)
            write_envs_page(envs, places)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print("stopped; finished seeds are kept. Go on with the same command.")
        return 130
    console.print(f"{sum(held)} of {len(held)} proofs {'are fresh' if given.check else 'hold'}")
    return 0 if all(held) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m proofs",
        description="Replay the first iterations of the learning proofs; run those that come out otherwise or are missing.",
    )
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="Only these; patterns are fine.")
    parser.add_argument("--list", action="store_true", help="Show the proofs and what is known of them; run nothing.")
    parser.add_argument(
        "--check", action="store_true", help="Replay and say what is fresh and what is stale; run no proof."
    )
    parser.add_argument(
        "--one-seed",
        action="store_true",
        help="Replay the first seed of each proof only; a proof is kept as fresh after all of them.",
    )
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="Replays side by side. Default: 2.")
    parser.add_argument("--cheapest", action="store_true", help="In the order of what they took the last time.")
    parser.add_argument(
        "--minutes", type=float, metavar="N", help="Begin no seed that would end later; the same command goes on."
    )
    parser.add_argument("--force", action="store_true", help="Run again even what is fresh.")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="Keep the run directories here; default: nowhere.")
    return parser


def _list(claims: Sequence[Proof], cases: Sequence[Case], places: Places, console: Console) -> int:
    package = package_sources()
    for proof in claims:
        results = read_results(places.results / f"{proof.name}.json")
        known = "not run"
        if results is not None:
            known = f"{results.judge(proof)}, {standing_of(results, proof, places, package).state}"
        size = f"{len(proof.all_seeds):>2} seeds  {proof.budget:>9,} steps"
        console.print(f"{proof.name:<28} {known:<20} {size}  {proof.goal}", soft_wrap=True)
    for case in cases:
        text = "is checked, trained and played without user code"
        console.print(f"{case.name:<38} {verdict_of(case, places, package):<11} {text}", soft_wrap=True)
    return 0


def _replay(claims: Sequence[Proof], places: Places, given: argparse.Namespace, console: Console) -> list[bool]:
    """Which proofs are fresh, by their replays; those that never ran are not."""
    fresh: dict[str, bool] = {proof.name: False for proof in claims}

    def told(proof: Proof, standing: Standing) -> None:
        fresh[proof.name] = standing.state == "fresh"
        console.print(f"{proof.name}: {standing}", soft_wrap=True)

    check(claims, places, given.one_seed, max(1, given.jobs), told)
    return list(fresh.values())


def _bring_up(
    claims: Sequence[Proof], cases: Sequence[Case], places: Places, given: argparse.Namespace, console: Console
) -> list[bool]:
    """Replays first, then runs of what is stale or missing; gives which of all of them hold."""
    until = None if given.minutes is None else time.monotonic() + 60 * given.minutes
    if not given.force:
        _replay(claims, places, given, console)
    ordered = sorted(claims, key=lambda proof: _seconds(proof, places)) if given.cheapest else claims
    held = [_prove(proof, places, until, given, console) for proof in ordered]
    return held + _sweep(cases, places, until, given.force, console)


def _seconds(proof: Proof, places: Places) -> float:
    results = read_results(places.results / f"{proof.name}.json")
    return float("inf") if results is None else results.seconds(proof)


def _prove(proof: Proof, places: Places, until: float | None, given: argparse.Namespace, console: Console) -> bool:
    """Bring one proof up to date; gives whether it holds."""
    before = read_results(places.results / f"{proof.name}.json") or Results()
    state = standing_of(before, proof, places).state if before.seeds else "not run"
    if state in ("fresh", "other machine", "unchecked") and not before.missing(proof) and not given.force:
        console.print(f"{proof.name}: {before.judge(proof)}, {state}, skipped")
        return before.judge(proof) == "ok" and state == "fresh"
    afresh = given.force or state != "fresh"
    results = _run_shown(proof, places, afresh, until, given, console)
    verdict = results.judge(proof)
    console.print(f"{proof.name}: {verdict}, {results.held(proof)} of {len(proof.all_seeds)} seeds hold")
    return verdict == "ok"


def _sweep(cases: Sequence[Case], places: Places, until: float | None, force: bool, console: Console) -> list[bool]:
    """Run the envs that are not up to date, which takes seconds each; gives which of them hold."""
    if not cases:
        return []
    from proofs.sweep import sweep  # loads what no process of a proof has to load

    package = package_sources()

    def told(case: Case, result: CaseResult) -> None:
        complaints = result.complaints(case)
        text = "; ".join(complaints) or f"ok, {result.env_steps} env steps, {result.rollout}"
        console.print(f"{case.name}: {text} ({result.seconds:.1f} s, {result.peak_mb} MB)", soft_wrap=True)

    due = [case for case in cases if force or verdict_of(case, places, package) not in ("ok", "miss")]
    if len(due) < len(cases):
        console.print(f"{len(cases) - len(due)} envs are up to date, skipped")
    for case in due:
        if until is None or time.monotonic() < until:
            sweep([case], places, told)
    return [verdict_of(case, places, package) == "ok" for case in cases]


def _run_shown(
    proof: Proof, places: Places, afresh: bool, until: float | None, given: argparse.Namespace, console: Console
) -> Results:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(proof.name, total=proof.budget)

        def progress(seed: int, steps: int, newest: float | None) -> None:
            value = "" if newest is None else f", evaluation {newest:.4g}"
            bar.update(task, completed=steps, description=f"{proof.name} seed {seed}{value}")

        def done(result: SeedResult) -> None:
            console.print(f"  {_told(proof, result)}")

        return run_proof(
            proof, places, runs=given.runs, afresh=afresh, until=until, progress=progress, done=done
        )  # fmt: skip


def _told(proof: Proof, result: SeedResult) -> str:
    main = proof.fields[0]
    words = [f"seed {result.seed}: {'ok' if result.holds(proof) else 'miss'}"]
    if proof.reaches:
        reached = result.reached_at(proof.reaches, proof.budget)
        words.append("never reached" if reached is None else f"reached by {reached:,} steps")
    if proof.tables:
        words.append(f"largest error {result.table_error(proof.tables):.3f}")
    for tally in result.matches:
        if tally.play == "greedy":
            words.append(f"{tally.seat} won {tally.won} drawn {tally.drawn} lost {tally.lost}")
    words += [f"best {result.best(main):.4g}", f"last {result.last(main):.4g}", f"{result.wall_time_s:.1f} s"]
    return ", ".join(words)


if __name__ == "__main__":
    sys.exit(main())
