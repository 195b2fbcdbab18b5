"""The process of one job: ``python -m marl.suite.worker`` reads it from standard input (see ``hosts.Processes``)."""

from __future__ import annotations

import json
import os
import sys
import threading

from marl.suite.train import DONE, STOPPED, Job, run_job

CODES = {DONE: 0, STOPPED: 130}


def _end_with_parent() -> None:
    """Standard input ends when the process that began this one is gone: nobody would hear of the job any more."""
    sys.stdin.read()
    os._exit(1)


def main() -> None:
    job = Job(**json.loads(sys.stdin.readline()))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.exit(CODES.get(run_job(job).status, 1))


if __name__ == "__main__":
    main()
