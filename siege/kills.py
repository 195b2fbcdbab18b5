"""The kill storm: runs are ended by signals at any moment, go on by ``marl run --resume``, and have to come to the same end.

A case is one run. It is struck up to three times, at random moments or just before the n-th file operation, and then left
alone. Its parameters, counters, generators and results are compared to the last bit with those of a run that nobody touched.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from marl.errors import CheckpointError
from marl.runs.checkpoint import find_checkpoint
from marl.runs.files import RunFiles
from marl.runs.manifest import iteration_of
from siege.child import Child, Command, Ended, Limits, run
from siege.ledger import CaseResult
from siege.same import come_to, differences
from siege.strike import Strike
from siege.verdict import TRACEBACK, complaint
from siege.victims import SHORT, VICTIMS, write_victim

MANNERS = {"kill -9 at a file operation": 5, "kill -9": 2, "SIGTERM": 1, "SIGINT": 1, "double SIGINT": 1}
MOST_STRIKES = 3
QUICK = 10.0  # seconds in which a run has to end after a signal that asks it to
PATIENCE = Limits(seconds=180.0, memory=2**62, file_size=2**62)  # Ray wants room for its object store
ON_RAY = ("ppo", "qmix", "population")


class Victim(NamedTuple):
    """A scenario, and what it comes to when nobody disturbs it."""

    file: Path
    end: dict[str, Any]
    seconds: float
    moments: int  # file operations of the whole run


class KillStorm:
    """Which victims there are; ``case`` attacks one of them."""

    def __init__(self, folder: Path, workers: int = 0, count: int | None = None) -> None:
        """Run every victim once without disturbing it."""
        self.kind = "ray kills" if workers else "kills"
        shutil.rmtree(folder / self.kind, ignore_errors=True)
        names = (ON_RAY if workers else tuple(VICTIMS))[:count]
        self.victims = {name: _undisturbed(name, folder / self.kind / name, workers) for name in names}

    def case(self, number: int, draw: random.Random, folder: Path) -> CaseResult:
        name = list(self.victims)[number % len(self.victims)]
        storm = _Storm(self.victims[name], draw, folder)
        text = storm.rage()
        manners = ", ".join(storm.strikes) or "ended before it was struck"
        return CaseResult(self.kind, number, f"{name}: {manners}", text, len(storm.strikes), "bit-identical")


def _undisturbed(name: str, folder: Path, workers: int) -> Victim:
    file = write_victim(name, folder, num_workers=workers)
    place, counter = folder / "runs", folder / "moments"
    start = Command(["run", str(file), "--local-dir", str(place), "--quiet"])
    ended = run(start, folder / "output", limits=PATIENCE, at_start=partial(Strike(place).arm, counter))
    if ended.code != 0:
        raise RuntimeError(f"{name} does not even run undisturbed: {ended.said}")
    return Victim(file, come_to(_only_run(place)), ended.seconds, int(counter.read_text()))


def _only_run(place: Path) -> Path:
    (found,) = [entry for entry in place.glob("victim/*") if entry.is_dir()]
    return found


def was_struck(manner: str, ended: Ended) -> bool:
    """Whether the signal met a run: one that ended at that very moment is not killed by signal 9, and no worse for it."""
    return not manner.startswith("kill -9") or ended.code == -signal.SIGKILL


class _Storm:
    """One run, struck several times."""

    def __init__(self, victim: Victim, draw: random.Random, folder: Path) -> None:
        self.victim, self.draw, self.folder, self.place = victim, draw, folder, folder / "runs"
        self.strikes: list[str] = []
        self.lives = 0
        self.wrong: str | None = None  # with the refusal to resume a run that has no checkpoint yet

    def rage(self) -> str | None:
        """Strike, resume, strike again, and let it end; gives what is wrong."""
        for _ in range(self.draw.randint(1, MOST_STRIKES)):
            (manner,) = self.draw.choices(list(MANNERS), list(MANNERS.values()))
            ended, struck = self._live(manner)
            if not struck:  # it had ended before
                text = complaint(ended, (0,))
                if text is not None:
                    return f"before it was struck: {text}"
                break
            self.strikes.append(manner)
            text = self._after(manner, ended) or self._lost_progress()
            if text is not None:
                return f"{manner}: {text}"
        ended, _ = self._live(None)
        text = complaint(ended, (0,))
        if text is not None:
            return f"resume to the end: {text}"
        if self.wrong is not None:
            return f"resume without a checkpoint: {self.wrong}"
        found = differences(come_to(_only_run(self.place)), self.victim.end)
        left = [entry.name for entry in self.place.rglob(".*.marl-*")]
        if found:
            return f"not identical: {found[0]} (and {len(found) - 1} more)"
        return f"leftovers: {left}" if left else None

    def _live(self, manner: str | None) -> tuple[Ended, bool]:
        """From the start, or from the newest checkpoint, until it is struck or has ended."""
        self.lives += 1
        command = self._next_command()
        output = self.folder / f"life_{self.lives}"
        if manner is None:
            return run(command, output, limits=PATIENCE), False
        if manner == "kill -9 at a file operation":
            strike = Strike(self.place, self.draw.randint(1, self.victim.moments))
            ended = run(command, output, limits=PATIENCE, at_start=strike.arm)
            return ended, was_struck(manner, ended)
        return self._signalled(command, output, manner)

    def _signalled(self, command: Command, output: Path, manner: str) -> tuple[Ended, bool]:
        child = Child(command, output, PATIENCE)
        if child.wait(self.draw.uniform(0.0, 0.9 * self.victim.seconds)):
            return child.end(), False
        if manner == "kill -9":
            child.send(signal.SIGKILL)
            ended = child.end()
            return ended, was_struck(manner, ended)
        child.send(signal.SIGTERM if manner == "SIGTERM" else signal.SIGINT)
        if manner == "double SIGINT" and not child.wait(self.draw.uniform(0.0, 0.1)):
            child.send(signal.SIGINT)
        asked = time.monotonic()
        if not child.wait(QUICK):
            child.send(signal.SIGKILL)
        ended = child.end()
        slow = time.monotonic() - asked > QUICK
        return (Ended(ended.code, ended.stdout, ended.stderr, ended.seconds, "hung" if slow else ""), True)

    def _next_command(self) -> Command:
        """Begin, or go on; a run without a checkpoint has to say so, and begins anew."""
        runs = [entry for entry in self.place.glob("victim/*") if entry.is_dir()]
        resume = Command(["run", "--resume", str(runs[0]) if runs else "", "--quiet"])
        if runs and self._newest(runs[0]) is not None:
            return resume
        if runs:
            refused = run(resume, self.folder / f"refused_{self.lives}", limits=PATIENCE)
            self.wrong = complaint(refused, (2,))
        shutil.rmtree(self.place, ignore_errors=True)
        return Command(["run", str(self.victim.file), "--local-dir", str(self.place), "--quiet"])

    @staticmethod
    def _newest(directory: Path) -> int | None:
        try:
            return iteration_of(find_checkpoint(directory))
        except CheckpointError:
            return None

    def _after(self, manner: str, ended: Ended) -> str | None:
        """Signals that ask are obeyed in time and with a message; signal 9 asks nobody."""
        if manner.startswith("kill -9"):
            return None
        if ended.overtime:
            return f"still there after {QUICK:.0f} seconds"
        if TRACEBACK in ended.said:
            return complaint(ended)
        before_the_run = manner == "SIGTERM" and ended.code == -signal.SIGTERM  # nothing had begun
        aborted = ended.code == 1 and "Aborted" in ended.said
        return None if ended.code in (0, 130) or before_the_run or aborted else f"exit code {ended.code}"

    def _lost_progress(self) -> str | None:
        """No more is lost than what was done since the last checkpoint that was due."""
        for directory in self.place.glob("victim/*"):
            done = len(RunFiles(directory).results())
            newest = self._newest(directory) or 0
            if done - newest > SHORT["checkpoint_freq"]:
                return f"{done} results, but the newest checkpoint is of iteration {newest}"
        return None
