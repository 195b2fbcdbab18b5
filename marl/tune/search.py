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


def variants(keys: Mapping[str, Any], num_samples: int, seed: int, seeded: bool = True) -> list[Variant]:
    """One variant per trial: ``num_samples`` times the product of all grids.

    With ``seeded`` the trials of sample ``k`` get the seed ``seed + k``, unless the seed itself is searched: equal
    values with equal seeds would be the same run twice.
    """
    marks = list(find_marks(keys))
    for mark in marks:
        _check(mark)
    grids = [mark for mark in marks if mark.kind == "grid_search"]
    drawn = [mark for mark in marks if mark.kind != "grid_search"]
    names = short_names([mark.path for mark in marks])
    found: list[Variant] = []
    for sample, chosen in product(range(num_samples), product(*(mark.values for mark in grids))):
        values = {mark.path: value for mark, value in zip(grids, chosen, strict=True)}
        values |= {mark.path: _draw(mark, seed, len(found)) for mark in drawn}
        config: dict[str, Any] = dict(keys)
        for mark in marks:
            config = _with(config, mark.path, values[mark.path])
        params = {names[mark.path]: values[mark.path] for mark in marks}
        if seeded and num_samples > 1 and ("seed",) not in values:
            config["seed"] = params["seed"] = seed + sample
        found.append(Variant(config, params))
    return found


def short_names(paths: Sequence[Path]) -> dict[Path, str]:
    """Each path by as many of its last words as tell it from the others: ``lr``, ``car/lr``."""
    names = {}
    for path in paths:
        lengths = range(1, len(path) + 1)
        words = next(
            path[-n:] for n in lengths if sum(other[-n:] == path[-n:] for other in paths) == 1 or n == len(path)
        )
        names[path] = "/".join(map(str, words))
    return names


def _draw(mark: Mark, seed: int, trial: int) -> Any:
    key = crc32("/".join(map(str, mark.path)).encode())
    return DRAWS[mark.kind](np.random.default_rng([seed, trial, key]), mark.values)


def _with(tree: Any, path: Path, value: Any) -> Any:
    """The tree with one value replaced; what is not on the way there is shared."""
    if not path:
        return value
    changed = list(tree) if isinstance(tree, list | tuple) else copy(tree)
    changed[path[0]] = _with(tree[path[0]], path[1:], value)  # type: ignore[index]
    return changed


def _check(mark: Mark) -> None:
    where, values = ".".join(map(str, mark.path)), mark.values
    if mark.kind in ("grid_search", "choice"):
        if not isinstance(values, list | tuple) or not values:
            raise ConfigError(
                f"{where}: {mark.kind} is {values!r}; expected a list of values, such as [0.001, 0.0001]."
            )
        return
    kinds = int if mark.kind == "randint" else int | float
    numbers = isinstance(values, list | tuple) and [isinstance(v, kinds) and not isinstance(v, bool) for v in values]
    if numbers != [True, True] or not values[0] < values[1]:
        what = "whole numbers" if mark.kind == "randint" else "numbers"
        raise ConfigError(f"{where}: {mark.kind} is {values!r}; expected two {what}, the smaller one first.")
    if mark.kind == "loguniform" and values[0] <= 0:
        raise ConfigError(f"{where}: loguniform is {values!r}; expected positive numbers. Use uniform for others.")
