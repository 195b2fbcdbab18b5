"""Runs that were written before a key of their algorithm was there ran without it, whatever its default is today.

A stored scenario holds every key of its algorithm (``describe``), so one that is missing is younger than the run. Most new
keys have a default that leaves things as they were. Those listed here have another one in some presets.

Only of algorithms that have a name here: a class of someone's own (``package.module:Class``) is not imported for this, since
the stored scenario may be a stranger's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from marl.algos.family import ALGOS, Preset
from marl.needs import Condition, one_of

BEFORE: Mapping[str, Any] = {
    "bootstrap_at_time_limit": True,
    "normalize_rewards": False,
    "normalize_state": False,
    "normalize_values": False,
    "take_turns": False,
}
"""What the run did when there was no such key."""
BEFORE_OF_POLICIES: Mapping[str, Any] = {**BEFORE, "hypernet_embed": 0}
"""The same of a policy with an algorithm of its own: only keys that were given are stored of it, so a default that changed is
listed as well."""
WHERE: Mapping[str, tuple[Condition, ...]] = {
    "normalize_rewards": (one_of("num_atoms", 1), one_of("reward_scale", 1.0)),
    "normalize_state": (one_of("mixer", "monotonic"),),
    "hypernet_embed": (one_of("mixer", "monotonic"),),
}
"""On what it depends whether a key has any effect: where it has none it is left alone."""
YOUNGEST = "bootstrap_at_time_limit"
"""Of every algorithm: a run that lacks it is older than all keys above."""


def as_it_ran(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A stored scenario with those keys that would mean something else if they were left to today's defaults."""
    found = dict(stored)
    algo = found.get("algo")
    if not isinstance(algo, Mapping):
        return found
    found["algo"] = _completed(algo, BEFORE)
    section = found.get("multiagent")
    if YOUNGEST in algo or not isinstance(section, Mapping) or not isinstance(section.get("policies"), Mapping):
        return found
    policies = {name: _policy(entry, str(algo.get("name"))) for name, entry in section["policies"].items()}
    found["multiagent"] = {**section, "policies": policies}
    return found


def _policy(entry: Any, name_of_run: str) -> Any:
    """Overrides of one policy; one without another algorithm has the keys of the run."""
    own = entry.get("algo") if isinstance(entry, Mapping) else None
    if isinstance(own, str):
        own = {"name": own}
    if not isinstance(own, Mapping) or own.get("name", name_of_run) == name_of_run:
        return entry
    # A key of the algorithm may also stand beside ``algo``, and has the last word there.
    return {**entry, "algo": _completed(own, BEFORE_OF_POLICIES)}


def _completed(algo: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, Any]:
    full = dict(algo)
    name = str(full.get("name")).lower()
    if name not in ALGOS.names:  # `in ALGOS` also holds for package.module:Class, and to look that up imports it
        return full
    preset = ALGOS[name]
    for key, value in before.items():
        counts = all(condition.holds(_value(full, preset, condition.key)) for condition in WHERE.get(key, ()))
        if key in preset.family.config.model_fields and counts:
            full.setdefault(key, value)
    return full


def _value(algo: Mapping[str, Any], preset: Preset, key: str) -> Any:
    """As stored, or by default; None where the algorithm has no such key."""
    field = preset.family.config.model_fields.get(key)
    by_default = None if field is None else field.default
    return algo.get(key, preset.defaults.get(key, by_default))
