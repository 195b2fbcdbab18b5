"""The version of the arithmetic: which rounding a run is computed with.

Within one version a resumed run equals one that never stopped, bit for bit. A release that computes the same mathematics by
other operations (another order of sums, another formula of tanh) rounds differently in the last digits, and these grow while
a run trains. So checkpoints carry a number, and whoever goes on from one with another number is told, once.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

ARITHMETIC = 2
"""Raise it with every change of the order or the formulas of floating-point operations in acting or learning.

1: networks through autograd, torch's tanh. 2: networks by hand (``policies/mlp.py``), tanh by the logistic function.
"""
FIRST = 1  # of checkpoints that do not say it


def other_rounding(folder: Path, run: Mapping[str, Any]) -> str:
    """What to tell of a checkpoint whose run was computed otherwise, by its part ``run``; empty if it was computed as here."""
    written = run.get("arithmetic", FIRST)
    if written == ARITHMETIC:
        return ""
    then, now = "an older", "new"
    if written > ARITHMETIC:
        then, now = "a newer", "older"
    return (
        f"{folder.name} was written by {then} version of marl: the run goes on with {now} rounding, so from here on it will "
        "not repeat the old run bit for bit."
    )
