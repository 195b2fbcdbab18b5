"""How busy the machine is with the work of everybody."""

from __future__ import annotations

import os


def load_now() -> float | None:
    """Processes that wanted to compute, on average over the last minute; None where the system does not count them."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):  # Windows has no such function, some containers no such number
        return None
