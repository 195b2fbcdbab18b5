"""The other end of ``mutation.warm``: starts that process in the copy of the project and gives it orders."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from mutation.places import Places
from mutation.warm import Order, ordered

IMPORTED_BEFOREHAND = (
    "numpy", "torch", "scipy.optimize", "scipy.sparse.linalg", "scipy.stats", "networkx", "gymnasium", "pettingzoo",
    "supersuit", "pydantic", "safetensors.torch", "yaml", "rich.progress", "typer", "typer.testing", "hypothesis", "PIL.Image",
    "imageio", "psutil", "xdist", "coverage", "torch.utils.tensorboard",
)  # fmt: skip


class Workshop:
    """A warm process; ``with Workshop(places) as workshop: workshop.run(...)``."""

    def __init__(self, places: Places, imported: Sequence[str] = IMPORTED_BEFOREHAND, patience: float = 6.0) -> None:
        self.patience = patience
        self.report = places.build / "report.json"
        surroundings = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(places.copy), str(Path(__file__).parents[1])]),
            "OMP_NUM_THREADS": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "HYPOTHESIS_STORAGE_DIRECTORY": str(places.build / "hypothesis"),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mutation.warm", *imported],
            cwd=places.copy,
            env=surroundings,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us; we end it ourselves
        )
        self._answer()

    def run(
        self, tests: list[str], wall: float, seconds: dict[str, float] | None = None, record: list[str] | None = None
    ) -> dict[str, Any]:
        """Run tests in a fresh child: ``code`` as of pytest or minus a signal, and what the child reported."""
        order = Order(tests, str(self.report), wall, seconds or {}, record or [], self.patience)
        assert self.process.stdin is not None
        self.process.stdin.write(ordered(order))
        self.process.stdin.flush()
        answer = self._answer()
        told = json.loads(self.report.read_text(encoding="utf-8")) if self.report.exists() else {}
        return {**answer, **told}

    @property
    def said(self) -> str:
        """What the last child printed."""
        file: Path = self.report.with_suffix(".txt")
        return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("The process that runs the tests has ended; start again with the same command.")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End the process and the child that may be under way; a child is a session of its own."""
        children = _children_of(self.process.pid)
        for group in [*children, self.process.pid]:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()


def _children_of(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
