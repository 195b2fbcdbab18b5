"""``python -m proofs``: run what is not proven yet, then write the reports. Exit codes: 0 all hold, 1 some do not."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from marl.errors import UserError
from proofs.declaration import Places, Proof, choose, read_proofs
from proofs.envs import Case, CaseResult, read_sweep, verdict_of
from proofs.envs_page import write_envs_page
from proofs.report import write_report
from proofs.results import Results, SeedResult, Verdict, fingerprint_of, read_results
from proofs.runner import run_proof
from proofs.sources import Sources, package_sources
from proofs.sweep import sweep

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The command line; gives the exit code: 2 for bad input, 130 after Ctrl-C (run again to go on)."""
    given = _parser().parse_args(arguments)
    console, places = Console(highlight=False), Places(root)
    try:
        proofs, envs = read_proofs(places), read_sweep(places)
        everything: list[Proof | Case] = [*proofs, *envs.cases]
        chosen = choose(everything, given.only)
        package = package_sources()
        if given.list:
            return _list(chosen, places, package, console)
        try:
            held = [_prove(proof, places, package, given, console) for proof in chosen if isinstance(proof, Proof)]
            cases = [case for case in chosen if isinstance(case, Case)]
            held += _sweep(cases, places, package, given.force, console)
        finally:
            console.print(f"report: {write_report(proofs, places, package)}", soft_wrap=True)
            write_envs_page(envs, places)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        console.print("stopped; finished seeds are kept. Go on with the same command.")
        return 130
    console.print(f"{sum(held)} of {len(held)} proofs hold")
    return 0 if all(held) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m proofs", description="Run the learning proofs that are not up to date.")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="Only these; patterns are fine.")
    parser.add_argument("--list", action="store_true", help="Show the proofs and what is known of them; run nothing.")
    parser.add_argument("--force", action="store_true", help="Run again even what is up to date.")
    parser.add_argument("--runs", type=Path, metavar="DIR", help="Keep the run directories here; default: nowhere.")
    return parser


def _list(proofs: Sequence[Proof | Case], places: Places, package: Sources, console: Console) -> int:
    for proof in proofs:
        if isinstance(proof, Case):
            text = "is checked, trained and played without user code"
            console.print(f"{proof.name:<38} {verdict_of(proof, places, package):<11} {text}", soft_wrap=True)
            continue
        verdict = _verdict(proof, places, package)
        size = f"{len(proof.all_seeds):>2} seeds  {proof.budget:>9,} steps"
        console.print(f"{proof.name:<28} {verdict:<11} {size}  {proof.goal}", soft_wrap=True)
    return 0


def _verdict(proof: Proof, places: Places, package: Sources) -> Verdict | str:
    results = read_results(places.results / f"{proof.name}.json")
    return "not run" if results is None else results.verdict(proof, fingerprint_of(proof, places), package)


def _prove(proof: Proof, places: Places, package: Sources, given: argparse.Namespace, console: Console) -> bool:
    """Bring one proof up to date; gives whether it holds."""
    fingerprint = fingerprint_of(proof, places)
    before = _verdict(proof, places, package)
    if before in ("ok", "miss") and not given.force:
        console.print(f"{proof.name}: {before} (up to date, skipped)")
        return before == "ok"
    console.print(f"{proof.name}: {before}; goal: {proof.goal}")
    results = _run_shown(proof, places, fingerprint, given, console)
    verdict = results.judge(proof)
    console.print(f"{proof.name}: {verdict}, {results.held(proof)} of {len(proof.all_seeds)} seeds hold")
    return verdict == "ok"


def _sweep(cases: Sequence[Case], places: Places, package: Sources, force: bool, console: Console) -> list[bool]:
    """Run the envs that are not up to date; gives which of them hold."""

    def told(case: Case, result: CaseResult) -> None:
        complaints = result.complaints(case)
        text = "; ".join(complaints) or f"ok, {result.env_steps} env steps, {result.rollout}"
        console.print(f"{case.name}: {text} ({result.seconds:.1f} s, {result.peak_mb} MB)", soft_wrap=True)

    due = [case for case in cases if force or verdict_of(case, places, package) not in ("ok", "miss")]
    if len(due) < len(cases):
        console.print(f"{len(cases) - len(due)} envs are up to date, skipped")
    sweep(due, places, told)
    return [verdict_of(case, places, package) == "ok" for case in cases]


def _run_shown(proof: Proof, places: Places, fingerprint: str, given: argparse.Namespace, console: Console) -> Results:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(proof.name, total=proof.budget)

        def progress(seed: int, steps: int, newest: float | None) -> None:
            value = "" if newest is None else f", evaluation {newest:.4g}"
            bar.update(task, completed=steps, description=f"{proof.name} seed {seed}{value}")

        def done(result: SeedResult) -> None:
            console.print(f"  {_told(proof, result)}")

        return run_proof(
            proof, places, fingerprint, runs=given.runs, force=given.force, progress=progress, done=done
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
