"""Where results go."""

from __future__ import annotations

import os
from pathlib import Path


def default_results() -> Path:
    """``MARL_RESULTS_DIR``, else ``~/marl_results``."""
    return Path(os.environ.get("MARL_RESULTS_DIR") or "~/marl_results").expanduser()
