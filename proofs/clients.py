"""Clients of a run whose env is external, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marl.training.trainer import Trainer

CLIENT = "import sys, marl; marl.drive(sys.argv[1], sys.argv[2], patience=5.0)"


@contextmanager
def playing(trainer: Trainer, clients: int) -> Iterator[None]:
    """So many processes play the env of the evaluations for the trainer; without any, nothing happens."""
    processes: list[subprocess.Popen[bytes]] = []
    try:
        if clients:
            pool: Any = trainer.workers  # those of clients have an address
            words = [sys.executable, "-c", CLIENT, str(trainer.scenario.evaluation.env), pool.serve()]
            processes = [subprocess.Popen(words) for _ in range(clients)]
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()
