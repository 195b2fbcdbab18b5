"""``python -m mutation``: break the code on purpose, one small change at a time, and count what the tests notice.

Exit codes: 0 when the goal is met, 1 when it is not, 2 for bad input, 130 after Ctrl-C (the same command goes on).
"""

from __future__ import annotations

import argparse
import fcntl
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mutation.judge import judge
from mutation.lines import Lines, due, record
from mutation.places import Places, refresh_copy
from mutation.results import Result, Verdict, append_result, read_results, read_verdicts, score
from mutation.sites import Mutant, all_sites, sample
from mutation.table import rooms_table, survivors_table
from mutation.trust import forget_kills_by, untrusted
from mutation.workshop import Workshop

ROOT = Path(__file__).resolve().parent.parent
GOAL = 0.95


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    """The command line; gives the exit code."""
    given = _parser().parse_args(arguments)
    console, places = Console(highlight=False), Places(root)
    mutants = [one for one in sample(all_sites(places), given.n, given.seed) if given.only in one.path]
    verdicts = read_verdicts(root / "mutation" / "survivors.yaml")
    if given.markdown:
        known = read_results(places)
        print(rooms_table(mutants, known, verdicts), survivors_table(mutants, known, verdicts), sep="\n\n")
        return 0
    if not given.show:
        try:
            with _alone(places), _bar(console) as bar:
                _run(mutants, places, given, bar, verdicts)
        except BlockingIOError:
            print(f"error: Another mutation run holds {places.lock}; wait for it or end it.", file=sys.stderr)
            return 2
        except KeyboardInterrupt:
            console.print("stopped; what was found out is kept. Go on with the same command.")
            return 130
    return _tell(mutants, read_results(places), verdicts, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m mutation", description="Count the random changes that the tests notice."
    )
    parser.add_argument("--n", type=int, default=300, help="How many mutants; default 300.")
    parser.add_argument("--seed", type=int, default=0, help="Which ones; default 0.")
    parser.add_argument("--budget", type=float, default=40.0, help="CPU seconds of tests per mutant; default 40.")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="Only mutants of the sample whose path contains this."
    )
    parser.add_argument(
        "--again", action="store_true", help="Try survivors again that are not explained, after new tests."
    )
    parser.add_argument(
        "--recorded", action="store_true", help="Use the tests whose lines are known already; record no others."
    )
    parser.add_argument("--show", action="store_true", help="Show what is known; run nothing.")
    parser.add_argument("--markdown", action="store_true", help="The same as tables for docs/testing.md; run nothing.")
    return parser


@contextmanager
def _alone(places: Places) -> Iterator[None]:
    places.build.mkdir(parents=True, exist_ok=True)
    with places.lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


def _bar(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console)


def _run(
    mutants: Sequence[Mutant], places: Places, given: argparse.Namespace, bar: Progress, verdicts: dict[str, Verdict]
) -> None:
    files = [] if given.recorded else due(places)
    if not files and not any(_is_due(read_results(places).get(one.key), given.again, verdicts) for one in mutants):
        return
    refresh_copy(places)
    with Workshop(places) as workshop:
        _record(files, places, workshop, bar)
        lines, results = Lines(places), read_results(places)
        todo = [one for one in mutants if _is_due(results.get(one.key), given.again, verdicts)]
        _judge_all(todo, places, lines, workshop, given.budget, bar)
        # A test that fails without any mutant, too, has killed nobody: those are judged again without it.
        killers = {result.by for result in _known(mutants, read_results(places)) if result.outcome == "killed"}
        doubtful = untrusted(killers, places, lines, workshop)
        again = forget_kills_by(doubtful, mutants, read_results(places))
        _judge_all(again, places, lines, workshop, given.budget, bar, doubtful)


def _is_due(known: Result | None, again: bool, verdicts: dict[str, Verdict]) -> bool:
    return known is None or (again and not known.died and known.key not in verdicts)


def _known(mutants: Sequence[Mutant], results: dict[str, Result]) -> list[Result]:
    return [results[one.key] for one in mutants if one.key in results]


def _record(files: Sequence[tuple[str, str]], places: Places, workshop: Workshop, bar: Progress) -> None:
    task = bar.add_task("which test executes which line", total=len(files), visible=bool(files))
    for name, part in files:
        record(places, workshop, name, part)
        bar.advance(task)


def _judge_all(
    todo: Sequence[Mutant], places: Places, lines: Lines, workshop: Workshop, budget: float, bar: Progress,
    distrusted: Sequence[str] = (),
) -> None:  # fmt: skip
    survived = 0
    task = bar.add_task("mutants", total=len(todo), visible=bool(todo))
    for mutant in todo:
        result = judge(mutant, places, lines, workshop, budget, distrusted)
        append_result(places, result)
        survived += not result.died
        if not result.died:
            bar.console.print(_line(result), soft_wrap=True, markup=False)
        bar.update(task, advance=1, description=f"mutants, {survived} survived")


def _line(result: Result) -> str:
    old, new = (" ".join(text.split()) for text in (result.old, result.new))
    return f"{result.outcome}: {result.path}:{result.line} {result.key} ({result.tests} tests)  {old}  ->  {new}"


def _tell(mutants: Sequence[Mutant], results: dict[str, Result], verdicts: dict[str, Verdict], console: Console) -> int:
    found = score(mutants, results, verdicts)
    for result in found.survivors:
        verdict = verdicts.get(result.key)
        console.print(f"[{verdict.kind if verdict else 'unexplained'}] {_line(result)}", soft_wrap=True, markup=False)
    console.print(
        f"{found.died} of {found.counted} mutants died ({found.share:.1%}); {found.equivalent} more change nothing, "
        f"{len(mutants) - len(_known(mutants, results))} are not run yet"
    )
    return 0 if found.share >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
