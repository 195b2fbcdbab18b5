"""Searching for good values: several runs side by side on Ray Tune, and the best of them.

``marl.tune.run("ppo", env=..., config={"lr": grid_search([1e-3, 1e-4])}, stop=...)`` or ``marl tune FILE``. A trial is an
ordinary run with an ordinary run directory; Ray Tune decides when each of them starts and whether it may go on. Names are
loaded when they are first used: importing this room imports neither Ray nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

_WHERE = {
    "run": "marl.tune.sweep",
    "TuneConfig": "marl.tune.config",
    "Tuning": "marl.tune.outcome",
    "TrialOutcome": "marl.tune.outcome",
    "Reporter": "marl.tune.reporter",
    "grid_search": "marl.tune.search",
    "choice": "marl.tune.search",
    "uniform": "marl.tune.search",
    "loguniform": "marl.tune.search",
    "randint": "marl.tune.search",
}

if TYPE_CHECKING:
    from marl.tune.config import TuneConfig
    from marl.tune.outcome import TrialOutcome, Tuning
    from marl.tune.reporter import Reporter
    from marl.tune.search import choice, grid_search, loguniform, randint, uniform
    from marl.tune.sweep import run

__all__ = [
    "Reporter",
    "TrialOutcome",
    "TuneConfig",
    "Tuning",
    "choice",
    "grid_search",
    "loguniform",
    "randint",
    "run",
    "uniform",
]


def __getattr__(name: str) -> object:
    if name in _WHERE:
        return getattr(import_module(_WHERE[name]), name)
    raise AttributeError(f"module 'marl.tune' has no attribute {name!r}")
