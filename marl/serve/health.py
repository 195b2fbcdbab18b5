"""Whether a server can be used."""

from __future__ import annotations

import threading
from typing import Literal


class Health:
    """Whether the server can be used: ``starting`` until policies are there, ``ok``, or ``failed``; and why."""

    def __init__(self) -> None:
        self.status: Literal["starting", "ok", "failed"] = "starting"
        self.reason = ""
        self.failed = threading.Event()

    def ok(self) -> None:
        """It can be used; what has failed stays so."""
        if not self.failed.is_set():
            self.status, self.reason = "ok", ""

    def fail(self, reason: str) -> None:
        if not self.failed.is_set():  # the first reason is the cause of the later ones
            self.status, self.reason = "failed", reason
            self.failed.set()
