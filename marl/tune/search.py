"""From keys with marks to the keys of each trial.

Every ``grid_search`` multiplies the trials by its values; of the other marks each trial draws a value of its own. A draw
depends on the seed, the trial and the key alone: another key more or less does not change it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from itertools import product
from types import UnionType
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from marl.errors import ConfigError
from marl.scenario.search_marks import Mark, Path, find_marks

Search: TypeAlias = dict[str, list[Any]]
"""A search as it stands in a config: its kind and what it is given."""


def grid_search(values: Sequence[Any]) -> Search:
    """Try every value, together with every value of the other grids."""
    return {"grid_search": list(values)}


def choice(values: Sequence[Any]) -> Search:
    """Draw one of these values for each trial."""
    return {"choice": list(values)}


def uniform(low: float, high: float) -> Search:
    """Draw a number between two others for each trial."""
    return {"uniform": [low, high]}


def loguniform(low: float, high: float) -> Search:
    """Draw a positive number whose logarithm is evenly spread."""
    return {"loguniform": [low, high]}


def randint(low: int, high: int) -> Search:
    """Draw a whole number from ``low`` to ``high - 1``."""
    return {"randint": [low, high]}


DRAWS: dict[str, Callable[[np.random.Generator, list[Any]], Any]] = {
    "choice": lambda rng, values: values[int(rng.integers(len(values)))],
    "uniform": lambda rng, ends: float(rng.uniform(*ends)),
    "loguniform": lambda rng, ends: math.exp(rng.uniform(math.log(ends[0]), math.log(ends[1]))),
    "randint": lambda rng, ends: int(rng.integers(*ends)),
}


@dataclass(frozen=True)
class Variant:
    """The keys of one trial, and under short names those of them that were searched."""

    config: dict[str, Any]
    params: dict[str, Any]


def variants(
    keys: Mapping[str, Any], num_samples: int, seed: int, seeded: bool = True, one_seed_each: bool = False
) -> list[Variant]:
    """One variant per trial: ``num_samples`` times the product of all grids.

    With ``seeded`` the trials of sample ``k`` get the seed ``seed + k``, unless the seed itself is searched: equal
    values with equal seeds would be the same run twice. ``one_seed_each``: trial ``i`` gets ``seed + i`` instead, for trials
    that copy each other: with equal seeds a copy would see the same episodes again.
    """
    marks = list(find_marks(keys))
    for mark in marks:
        check_mark(mark)
    names = short_names([mark.path for mark in marks])
    choices = [_grid_values(mark) for mark in marks]
    found: list[Variant] = []
    for _, chosen in product(range(num_samples), product(*choices)):
        config, params = dict(keys), {}
        for mark, value in zip(marks, chosen, strict=True):
            if mark.kind != "grid_search":
                value = _draw(mark, seed, trial=len(found))
            config = _with(config, mark.path, value)
            params[names[mark.path]] = value
        found.append(Variant(config, params))
    if seeded and ("seed",) not in names:
        _give_seeds(found, seed, num_samples, one_seed_each)
    return found


def _give_seeds(found: list[Variant], seed: int, num_samples: int, one_seed_each: bool) -> None:
    if num_samples == 1 and not one_seed_each:
        return  # the scenario's seed is the only one
    points = len(found) // num_samples  # of the grid, which is gone through once per sample
    for trial, variant in enumerate(found):
        number = trial // points
        if one_seed_each:
            number = trial
        variant.config["seed"] = variant.params["seed"] = seed + number


def _grid_values(mark: Mark) -> Sequence[Any]:
    """What a mark multiplies the trials by; one place for a value that each trial draws."""
    if mark.kind != "grid_search":
        return [None]
    values: Sequence[Any] = mark.values
    return values


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Each path by as many of its last words as tell it from the others: ``lr``, ``car/lr``."""
    names = {}
    for path in paths:
        words = path
        for length in range(1, len(path) + 1):
            words = path[-length:]
            alike = [other for other in paths if other[-length:] == words]
            if len(alike) == 1:
                break
        names[path] = "/".join(map(str, words))
    return names


def _draw(mark: Mark, seed: int, trial: int) -> Any:
    # Python's own hash of a text differs between processes; a checksum does not, so a resumed search draws the same.
    key = crc32("/".join(map(str, mark.path)).encode())
    rng = np.random.default_rng([seed, trial, key])
    return DRAWS[mark.kind](rng, mark.values)


def _with(tree: Any, path: Path, value: Any) -> Any:
    """The tree with one value replaced; what is not on the way there is shared."""
    if not path:
        return value
    changed = copy(tree)
    if isinstance(tree, tuple):
        changed = list(tree)
    changed[path[0]] = _with(tree[path[0]], path[1:], value)
    return changed


def check_mark(mark: Mark) -> None:
    where, values = ".".join(map(str, mark.path)), mark.values
    if mark.kind in ("grid_search", "choice"):
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(
                f"{where}: {mark.kind} is {values!r}; expected a list of values, such as [0.001, 0.0001]."
            )
        return
    kind: type[int] | UnionType = int | float
    what = "numbers"
    if mark.kind == "randint":
        kind, what = int, "whole numbers"
    if not _are_two(kind, values) or not values[0] < values[1]:
        raise ConfigError(f"{where}: {mark.kind} is {values!r}; expected two {what}, the smaller one first.")
    if mark.kind == "loguniform" and values[0] <= 0:
        raise ConfigError(f"{where}: loguniform is {values!r}; expected positive numbers. Use uniform for others.")


def _are_two(kind: type[int] | UnionType, values: Any) -> bool:
    if not isinstance(values, list | tuple) or len(values) != 2:
        return False
    return all(_is_end(kind, value) for value in values)


def _is_end(kind: type[int] | UnionType, value: Any) -> bool:
    # A bool is an int to Python, but `randint: [false, true]` is a mistake.
    if isinstance(value, bool):
        return False
    return isinstance(value, kind) and math.isfinite(value)  # nothing can be drawn between 0 and infinity
