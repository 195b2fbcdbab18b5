"""Running a side of ``rivals.py``: round after round in a process that stays up, or one process per round."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import startup
from rival_envs import ROOT, CannotMeasure, last_line, older_code, python_of
from rival_rows import Clock, Side

HERE = Path(__file__).parent
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
    "RAY_USAGE_STATS_ENABLED": "0",
}


class Round(NamedTuple):
    """``count`` units of work in seconds of the process and of the clock on the wall."""

    cpu: float
    wall: float
    count: float
    reward: float | None = None

    def rate(self, clock: Clock) -> float:
        return self.count / (self.cpu if clock == "cpu" else self.wall)


class Runner(Protocol):
    """A side that has been started."""

    versions: Mapping[str, str]
    first_reward: float | None

    def play(self) -> Round: ...


@dataclass(frozen=True)
class Places:
    """Where things are: environments of rivals, files that are gone afterwards, the older commit, the core to run on."""

    envs: Path
    scratch: Path
    against: str
    core: int

    def command(self, side: Side) -> list[str]:
        python = str(python_of(side.where, self.envs)) if side.where not in ("marl", "older") else sys.executable
        scenario = self.scratch / "scenario.yaml"
        scenario.write_text(side.scenario)
        script = [side.script] if side.script == "-m" else [str(HERE / side.script)]
        return [
            python,
            *script,
            *(argument.format(scenario=scenario) if side.scenario else argument for argument in side.arguments),
        ]

    def variables(self, side: Side) -> dict[str, str]:
        variables = {**os.environ, **ONE_THREAD, "MARL_RESULTS_DIR": str(self.scratch / "results")}
        variables.pop("PYTHONPATH", None)
        if side.where in ("marl", "older"):
            code = ROOT if side.where == "marl" else older_code(self.against, self.scratch)
            variables["PYTHONPATH"] = str(code)
        return variables

    def start(self, side: Side, errors: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(side), env=self.variables(side), cwd=self.scratch, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=errors, preexec_fn=self.pin if side.pinned else None,
        )  # fmt: skip

    def pin(self) -> None:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {self.core})


@contextmanager
def started(side: Side, places: Places) -> Iterator[Runner]:
    """Ready to play its first timed round."""
    if side.where == "startup":
        yield Start(side, places)
    elif side.whole:
        yield Whole(side, places)
    else:
        with Standing(side, places) as runner:
            yield runner


class Standing:
    """A process that plays one round for each line (``rivals/clock.py``)."""

    def __init__(self, side: Side, places: Places) -> None:
        self.side = side
        self.errors = tempfile.TemporaryFile("w+", dir=places.scratch)  # noqa: SIM115 (closed by __exit__)
        self.process = places.start(side, self.errors)
        ready = self._hear()
        self.versions: Mapping[str, str] = ready["versions"]
        self.first_reward: float | None = ready["first"].get("reward")

    def play(self) -> Round:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        told = self._hear()
        return Round(told["cpu"], told["wall"], told["count"], told.get("reward"))

    def _hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("{"):  # libraries may have said something while they were imported
                told: dict[str, Any] = json.loads(line)
                return told
        self.process.wait()
        self.errors.seek(0)
        raise CannotMeasure(f"{self.side.name} stopped: {last_line(self.errors.read())}")

    def __enter__(self) -> Standing:
        return self

    def __exit__(self, *_: object) -> None:
        """Without more lines it ends by itself."""
        try:
            self.process.communicate(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        self.errors.close()


@dataclass
class Whole:
    """One process per round, from start to end; rewards are in the last line of JSON that it prints, if there is one."""

    side: Side
    places: Places
    versions: Mapping[str, str] = field(default_factory=dict)
    first_reward: float | None = None

    def play(self) -> Round:
        cpu, wall = startup.cpu_of_children(), time.perf_counter()
        process = self.places.start(self.side, subprocess.PIPE)
        out, errors = process.communicate()
        cpu, wall = startup.cpu_of_children() - cpu, time.perf_counter() - wall
        if process.returncode:
            raise CannotMeasure(f"{self.side.name} ended with code {process.returncode}: {last_line(errors)}")
        told = next((json.loads(line) for line in reversed(out.splitlines()) if line.startswith("{")), {})
        self.versions = told.get("versions", {})
        return Round(cpu, wall, self.side.count, told.get("reward", told.get("episode_reward_mean")))


@dataclass
class Start:
    """To the first line of output, by ``startup.py``."""

    side: Side
    places: Places
    versions: Mapping[str, str] = field(default_factory=dict)
    first_reward: float | None = None

    def __post_init__(self) -> None:
        self.play()  # files into the memory of the machine

    def play(self) -> Round:
        took = getattr(startup, self.side.script)()
        return Round(took.cpu, took.wall, self.side.count)
