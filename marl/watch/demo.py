"""The demo: QMIX, VDN and independent DQN train on the two-step game, each in its own process, while the page looks on."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marl.serve.refused import Refused, internal
from marl.watch.demo_notes import ALGOS, FOLDER, STEPS, read_notes
from marl.watch.two_step_truth import best_return, true_values
from marl.watch.workers import Worker

TASK = "marl.watch.tasks.explain:train"
GAMMA = 0.99  # of the shipped scenario
PATIENCE_S = 3.0  # for a run to end by itself when the page closes


@dataclass
class Training:
    """One of the runs."""

    algo: str
    worker: Worker
    state: str = "running"
    steps: int = 0
    run: str = ""  # its name in the results, as soon as it has one
    error: str = ""

    def tell(self, done: float, total: float | None, text: str) -> None:
        del total
        self.steps, self.run = int(done), text


@dataclass
class Demo:
    """All three, started and stopped together."""

    root: Path
    wanted: bool = False  # whether it is to begin by itself with the first look at the page
    seed: int = 0
    steps: int = STEPS
    trainings: list[Training] = field(default_factory=list)
    began: float = 0.0
    _stop: Path | None = None  # a file that tells the processes to end after their iteration
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def running(self) -> bool:
        return any(training.state == "running" for training in self.trainings)

    def start(self, seed: int, steps: int) -> None:
        """Train anew; nothing is done while it runs already."""
        # Two tabs, or a page that was loaded again, must not start six processes.
        if self.running:
            return
        self._end_processes()
        self.wanted = False
        self.seed, self.steps, self.began = seed, steps, time.monotonic()
        # Outside of the results: nothing is left there of a demo that was killed.
        self._stop = Path(tempfile.mkdtemp(prefix="marl_demo_")) / "stop"
        self.trainings = [Training(algo, Worker(f"demo {algo}")) for algo in ALGOS]
        self._tasks = [asyncio.create_task(self._train(training)) for training in self.trainings]

    async def _train(self, training: Training) -> None:
        arguments = {
            "root": str(self.root), "algo": training.algo, "seed": self.seed, "steps": self.steps, "stop": str(self._stop),
        }  # fmt: skip
        try:
            found = await training.worker.call(TASK, arguments, training.tell)
            training.state = "done" if found["done"] else "stopped"
        except Refused as refused:
            training.state, training.error = "failed", str(refused)
        except Exception as error:  # else it would be shown as running for ever
            training.state, training.error = "failed", str(internal(error))
        finally:
            training.worker.close()  # a process holds 300 MB that nobody needs any more

    def stop(self) -> None:
        """End after the iterations that are under way; what was learned until then is kept."""
        if self._stop is not None and self.running:
            self._stop.touch()

    def close(self) -> None:
        """The page closes: runs end in order where they do so soon."""
        self.stop()
        deadline = time.monotonic() + PATIENCE_S
        while self.running and time.monotonic() < deadline:
            time.sleep(0.05)
        self._end_processes()

    def _end_processes(self) -> None:
        for training in self.trainings:
            training.worker.close()
        if self._stop is not None:
            shutil.rmtree(self._stop.parent, ignore_errors=True)
            self._stop = None

    # -- as JSON -----------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """How it stands, with everything that has been noted so far."""
        return {
            "state": self._state(),
            "wanted": self.wanted,
            "seed": self.seed,
            "steps": self.steps,
            "folder": FOLDER,
            # Of the game as it comes, so that there is something to look at before anything is learned.
            "gamma": GAMMA,
            "truth": true_values({}, GAMMA),
            "best": best_return({}),
            "runs": list(self._runs()),
        }

    def _state(self) -> str:
        states = [training.state for training in self.trainings]
        for state in ("running", "failed", "stopped"):
            if state in states:
                return state
        return "done" if states else "idle"

    def _runs(self) -> Iterator[dict[str, Any]]:
        for training in self.trainings:
            told: dict[str, Any] = {
                "algo": training.algo,
                "state": training.state,
                "error": training.error,
                "points": [],
            }
            # Through files and not through the pipe: a run can be looked at again after the server has ended.
            noted = read_notes(self.root / training.run)
            if training.run and noted is not None:
                about, points = noted
                told |= {**about, "points": points}
            yield told
