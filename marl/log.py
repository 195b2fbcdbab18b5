"""What the package says while it works: Python's ``logging`` under the name ``marl``, on the driver and in every worker.

``log_level`` decides how much. WARN: what a user should know, such as a worker that was replaced. INFO: what begins and ends
(envs, checkpoints, iterations). DEBUG: every round. Lines go to the standard error, so that results on the standard output
stay clean; a program that has given the logger ``marl`` (or the root logger) handlers of its own keeps them.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal, TypeAlias

LogLevel: TypeAlias = Literal["DEBUG", "INFO", "WARN", "ERROR"]
PACKAGE = "marl"


class _ToStandardError(logging.Handler):
    """Writes to what ``sys.stderr`` is at the moment: a live table redirects it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr, flush=True)


def set_log_level(level: LogLevel) -> None:
    """Let the package say this much from now on, in this process."""
    logger = logging.getLogger(PACKAGE)
    if level == "WARN":  # the word of configs; Python's own is WARNING
        logger.setLevel(logging.WARNING)
    else:
        logger.setLevel(level)
    # Workers start without any; a program that uses marl may have its own, and would see every line twice.
    if not logger.hasHandlers():
        handler = _ToStandardError()
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
        logger.addHandler(handler)
