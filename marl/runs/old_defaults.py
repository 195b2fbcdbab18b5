"""Keys that a stored scenario does not know, with what they were worth before there were such keys.

A checkpoint holds all keys of its run. One that was written before a key existed would take the key's default of today, and
go on as another run, or not load at all, where that default changes what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def with_old_defaults(scenario: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario of a checkpoint with the keys that it lacks."""
    found = dict(scenario)
    if isinstance(found.get("algo"), dict):
        found["algo"] = _of_values(found["algo"])
    return found


def _of_values(algo: Mapping[str, Any]) -> dict[str, Any]:
    """Action values counted in rewards, their mixers saw states as they are, and time limits were bootstrapped."""
    if "mixer" not in algo or "normalize_rewards" in algo:
        return dict(algo)
    before: dict[str, Any] = {"normalize_rewards": False, "bootstrap_at_time_limit": True}
    if algo["mixer"] == "monotonic":
        before["normalize_state"] = False
    return {**before, **algo}
