"""``python -m siege``: attack the package, count. Exit codes: 0 nothing lost, 1 something, 2 bad input, 130 after Ctrl-C."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from siege.campaign import Attack, Campaign
from siege.ledger import CaseResult, Ledger, digest_of_sources, tally
from siege.verdict import group_of

ROOT = Path(__file__).resolve().parent.parent
KINDS = ("kills", "ray kills", "corruption", "forgeries", "scenarios", "command lines")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    console = Console(highlight=False)
    wanted = [kind for kind in KINDS if not given.only or any(kind.startswith(word) for word in given.only)]
    if not wanted:
        print(f"error: --only {' '.join(given.only)}: expected some of {', '.join(KINDS)}.", file=sys.stderr)
        return 2
    place: Path = given.out
    place.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(place / "results.json", given.seed, digest_of_sources(ROOT / "marl", ROOT / "siege"))
    if given.fresh:
        ledger.forget(wanted)
    from siege.warm import warm_up

    warm_up()
    try:
        for kind, build in _attacks(place, wanted, given).items():
            _attack(kind, build, ledger, place, given, console)
    except KeyboardInterrupt:
        console.print("stopped; what was tried is kept. Go on with the same command.")
        return 130
    finally:
        ledger.write()
    console.print(_table(ledger, wanted))
    _print_losses(ledger, wanted, console)
    console.print(f"results: {ledger.file}", soft_wrap=True)
    return 1 if any(not result.survived for kind in wanted for result in ledger.of(kind)) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m siege", description="Attack the package: kills, damage, forgeries, odd input."
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="KIND", help=f"One of {', '.join(KINDS)}; repeatable."
    )
    parser.add_argument("-n", type=int, metavar="N", help="So many cases of each kind. Default: the goal of each kind.")
    parser.add_argument("--seed", type=int, default=0, help="Other seed, other cases.")
    parser.add_argument("--jobs", type=int, default=2, help="Cases side by side.")
    parser.add_argument("--case", type=int, metavar="NUMBER", help="This case alone, again.")
    parser.add_argument(
        "--preys", type=int, default=4, metavar="N", help="How many different runs are damaged and forged."
    )
    parser.add_argument("--victims", type=int, metavar="N", help="How many different runs are killed. Default: all.")
    parser.add_argument("--fresh", action="store_true", help="Forget what was tried before.")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "siege", metavar="DIR", help="Where results go.")
    return parser


def _attacks(place: Path, wanted: Sequence[str], given: argparse.Namespace) -> dict[str, Callable[[], Attack]]:
    """How to build each kind of attack; what several need (finished runs) is made once."""
    from siege.command_lines import CommandLines
    from siege.corruption import Corruption
    from siege.forgery import Forgery
    from siege.inputs import Inputs
    from siege.kills import KillStorm
    from siege.prey import Stable

    stable = Stable(place / "preys", given.preys)
    known: dict[str, Callable[[], Attack]] = {
        "kills": lambda: KillStorm(place / "victims", 0, given.victims),
        "ray kills": lambda: KillStorm(place / "victims", 2, given.victims),
        "corruption": lambda: Corruption(stable.preys()),
        "forgeries": lambda: Forgery(stable.preys()),
        "scenarios": lambda: Inputs(ROOT / "scenarios"),
        "command lines": lambda: CommandLines(stable.one("qmix")),
    }
    return {kind: known[kind] for kind in wanted}


def _attack(
    kind: str, build: Callable[[], Attack], ledger: Ledger, place: Path, given: argparse.Namespace, console: Console
) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, auto_refresh=False) as bar:
        task = bar.add_task(f"{kind}: getting ready", total=None)
        goal = given.n or GOALS[kind]
        numbers = ledger.missing(kind, goal) if given.case is None else [given.case]
        if not numbers:
            return
        campaign = Campaign(build(), place, given.seed)
        # No thread redraws the bar: a process with threads must not be forked.
        bar.update(task, refresh=True, total=goal, completed=goal - len(numbers), description=kind)
        lost = len([result for result in ledger.of(kind) if not result.survived])
        for result in campaign.run(numbers, 1 if kind == "ray kills" else given.jobs):
            ledger.add(result)
            lost += not result.survived
            bar.update(task, advance=1, description=f"{kind}, {lost} lost", refresh=True)
            if not result.survived:
                console.print(f"  {kind} {result.number}: {result.complaint}"[:200], soft_wrap=True, markup=False)


GOALS = {"kills": 100, "ray kills": 6, "corruption": 1000, "forgeries": 500, "scenarios": 1000, "command lines": 1000}


def _table(ledger: Ledger, kinds: Sequence[str]) -> Table:
    table = Table("attack", "cases", "tried", "survived", "lost", "how they ended", title=f"siege, seed {ledger.seed}")
    for kind in kinds:
        found = tally(ledger.of(kind))
        ends = ", ".join(f"{count} {outcome}" for outcome, count in found.outcomes.items())
        table.add_row(kind, *map(str, (found.cases, found.tried, found.survived, found.lost)), ends)
    return table


def _print_losses(ledger: Ledger, kinds: Sequence[str], console: Console) -> None:
    lost = [result for kind in kinds for result in ledger.of(kind) if not result.survived]
    groups = Counter(group_of(result.complaint or "") for result in lost)
    for group, count in groups.most_common():
        first: CaseResult = next(result for result in lost if group_of(result.complaint or "") == group)
        console.print(f"{count} x {group}", markup=False, soft_wrap=True)
        console.print(f"    first: {first.kind} {first.number}: {first.label[:160]}", markup=False, soft_wrap=True)


if __name__ == "__main__":
    sys.exit(main())
