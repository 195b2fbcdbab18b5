"""Cases side by side: each worker is forked from the warm process and runs one case after the other."""

from __future__ import annotations

import multiprocessing
import random
import shutil
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from siege.ledger import CaseResult


class Attack(Protocol):
    """One kind of attack. A case is decided by its number and the generator that it is handed, by nothing else."""

    kind: str

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult: ...


class Campaign:
    """Runs cases and keeps the folders of those that were lost."""

    def __init__(self, attack: Attack, place: Path, seed: int) -> None:
        self.attack, self.place, self.seed = attack, place, seed

    def run(self, numbers: Iterable[int], jobs: int) -> Iterator[CaseResult]:
        """The results as they come; leaving early ends the workers and everything that they started."""
        _Worker.campaign = self  # the workers are forked, so they have it without being sent anything
        with multiprocessing.get_context("fork").Pool(jobs, _Worker.begin) as pool:
            yield from pool.imap_unordered(_Worker.one, numbers)

    def one(self, number: int) -> CaseResult:
        began = time.monotonic()
        folder = self.place / "cases" / f"{self.attack.kind}_{number}".replace(" ", "_")
        shutil.rmtree(folder, ignore_errors=True)
        draw = random.Random(f"{self.seed} {self.attack.kind} {number}")
        try:
            result = self.attack.case(number, draw, folder)
        except Exception as error:  # a mistake of the siege itself is not the package's
            result = CaseResult(
                self.attack.kind, number, "siege", f"the siege failed: {type(error).__name__}: {error}"[:300]
            )
        result = replace(result, seconds=round(time.monotonic() - began, 2))
        if result.survived:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            self._keep(folder, result)
        return result

    def _keep(self, folder: Path, result: CaseResult) -> None:
        """What is needed to see the failure again."""
        kept = self.place / "failures" / folder.name
        shutil.rmtree(kept, ignore_errors=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with suppress(OSError):
            folder.rename(kept)
        kept.mkdir(exist_ok=True)
        again = f"python -m siege --seed {self.seed} --only {self.attack.kind!r} --case {result.number}"
        text = f"{result.label}\n{result.complaint}\n\nThe case again, from the start:\n    {again}\n"
        (kept / "FAILURE.txt").write_text(text, encoding="utf-8", errors="replace")


class _Worker:
    """What runs in a forked worker."""

    campaign: Campaign

    @staticmethod
    def begin() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's, who ends the workers

    @staticmethod
    def one(number: int) -> CaseResult:
        return _Worker.campaign.one(number)
