"""A bar for work whose size may grow, on standard error, so that standard output stays clean."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 30.0


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Call the given function with what is done and what there is to do. Outside of a terminal: a line every half minute."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        told = time.monotonic()

        def tell(done: int, total: int) -> None:
            nonlocal told
            bar.update(task, completed=done, total=total)
            # A bar is drawn by moving the cursor, which fills a log file with control characters.
            if not console.is_terminal and time.monotonic() - told >= SECONDS_BETWEEN_LINES:
                told = time.monotonic()
                console.print(f"{what}: {done:,} of {total:,}", highlight=False)

        yield tell


@contextmanager
def named_bar(what: str) -> Iterator[Callable[[float, str], None]]:
    """Call the given function with the share of the work that is done and what is being worked on.

    Outside of a terminal each new piece of work is one line.
    """
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=1.0)
        told = ""

        def tell(share: float, now: str) -> None:
            nonlocal told
            bar.update(task, completed=share, description=f"{what} {now}")
            if now != told and not console.is_terminal:
                console.print(f"{what} {now}", soft_wrap=True, markup=False)
            told = now

        yield tell
