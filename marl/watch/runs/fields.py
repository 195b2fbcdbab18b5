"""Fields that can be drawn, each with the sentence of ``marl explain``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from marl.runs.fields import meaning_of
from marl.watch.runs.index import RunEntry

# What people look at first comes first; the others follow as they stand in the table.
FIRST = (
    "episode_reward_mean",
    "evaluation.",
    "policy_reward_mean.",
    "exploitability.",
    "population.",
    "episode_",
    "info.",
)
NO_CURVE = ("seed", "pid", "timestamp", "git.", "versions.", "trial_id", "experiment_id")
LONGEST_LIST = 8  # values of a list that are told


@lru_cache(maxsize=4096)
def told(name: str) -> dict[str, Any]:
    """A field's name, unit and meaning; the last two are empty for what only the user's code knows."""
    meaning = meaning_of(name)
    if meaning is None:
        return {"name": name, "unit": "", "text": ""}
    return {"name": name, "unit": meaning.unit, "text": meaning.text}


def fields_of(entries: Iterable[RunEntry]) -> list[dict[str, Any]]:
    """All fields of which some run has numbers, and in how many runs."""
    counts: dict[str, int] = {}
    for entry in entries:
        for name in _numbers_of(entry.table.names, entry.table.last):
            counts[name] = counts.get(name, 0) + 1
    found = [{**told(name), "runs": count} for name, count in counts.items()]
    found.sort(key=lambda field: _rank(field["name"]))  # stable: equal ones stay in the table's order
    return found


def _rank(name: str) -> int:
    for rank, begin in enumerate(FIRST):
        if name.startswith(begin):
            return rank
    return len(FIRST)


@lru_cache(maxsize=256)
def _numbers_of(names: tuple[str, ...], last: tuple[str, ...]) -> tuple[str, ...]:
    found = []
    for place, name in enumerate(names):
        if name.startswith(NO_CURVE):
            continue
        cell = last[place] if place < len(last) else ""
        # A field that is not measured in every iteration may be missing from the last one: then its row in the table decides.
        is_number = _is_number(cell) if cell else bool(told(name)["unit"] or not told(name)["text"])
        if is_number:
            found.append(name)
    return tuple(found)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def result_fields(result: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Every field of a result with its value and its meaning; long lists are cut."""
    found = []
    for name, value in _leaves(result, ""):
        found.append({**told(name), "value": value})
    return found


def _leaves(tree: Mapping[str, Any], before: str) -> Iterable[tuple[str, Any]]:
    for key, value in tree.items():
        name = f"{before}{key}"
        if name == "config":  # the scenario, which is told by itself
            continue
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{name}.")
        else:
            yield name, _short(value)


def _short(value: Any) -> Any:
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) > LONGEST_LIST:
        return f"{len(value)} values, the first: {', '.join(map(str, value[:LONGEST_LIST]))} ..."
    return value
