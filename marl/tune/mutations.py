"""Keys that trials may change while they train, and what their values may become.

A mutation is a mark of a search (``{loguniform: [1.0e-5, 0.1]}``) under a dotted key. It says what a value may be drawn from,
and where it ends when it is changed a little.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin
from zlib import crc32

import numpy as np

from marl.errors import ConfigError, did_you_mean
from marl.scenario.config import ALL_ALGO_KEYS
from marl.scenario.load import apply, section_of, sort_keys
from marl.scenario.search_marks import Mark, find_marks
from marl.tune.search import DRAWS, check_mark

Values: TypeAlias = dict[str, Any]
"""Dotted keys and their values."""
FIXED = frozenset(
    {
        "buffer_size", "hypernet_embed", "initial_alpha", "initial_value", "kl_coeff", "max_states", "mixing_embed_dim",
        "moving_average_sqd_adv_norm_start", "n_step", "num_atoms", "reservoir_size", "sigma0", "v_max", "v_min",
    }
)  # fmt: skip
"""Numbers of algorithms that are part of a learner's state, or decide how large it is, how it begins or what it means."""


@dataclass(frozen=True)
class Mutation:
    """One key, and the kind and the values of its mark."""

    key: str
    kind: str
    values: Sequence[Any]

    def drawn(self, rng: np.random.Generator) -> Any:
        return DRAWS[self.kind](rng, list(self.values))

    def perturbed(self, value: Any, factor: float) -> Any:
        """The value changed a little, within the ends of the mark."""
        return PERTURB[self.kind](value, self.values, factor)

    @property
    def extremes(self) -> list[Any]:
        """Values that show whether a run could be built with all of them."""
        ends = list(self.values)
        if self.kind == "randint":
            ends[1] -= 1
        return [*ends, self.drawn(np.random.default_rng(0))]


def _scaled(value: float, ends: Sequence[float], factor: float) -> float:
    return float(min(max(value * factor, ends[0]), ends[1]))


def _scaled_whole(value: int, ends: Sequence[int], factor: float) -> int:
    scaled = round(value * factor)
    if scaled == value:  # small numbers would never move
        scaled += _direction(factor)
    return int(min(max(scaled, ends[0]), ends[1] - 1))


def _direction(factor: float) -> int:
    """1 for more, -1 for less, 0 for a factor that changes nothing."""
    return int(np.sign(factor - 1))


def _neighbour(value: Any, values: Sequence[Any], factor: float) -> Any:
    if value not in values:  # the scenario may begin with another one
        return values[0]
    place = list(values).index(value) + _direction(factor)
    last = len(values) - 1
    return values[min(max(place, 0), last)]


PERTURB: dict[str, Callable[[Any, Sequence[Any], float], Any]] = {
    "choice": _neighbour,
    "uniform": _scaled,
    "loguniform": _scaled,
    "randint": _scaled_whole,
}


def explore(
    mutations: Sequence[Mutation], values: Values, factors: Sequence[float], resample: float, luck: Sequence[int]
) -> Values:
    """Other values near these ones, or somewhere else; ``luck`` decides, together with the key alone."""
    changed: Values = {}
    for mutation in mutations:
        # A generator per key: one key more or less does not change what becomes of the others.
        rng = np.random.default_rng([*luck, crc32(mutation.key.encode())])
        # A value that is no number, such as target_entropy: auto, cannot be changed a little.
        if rng.random() < resample or not isinstance(values[mutation.key], int | float):
            changed[mutation.key] = mutation.drawn(rng)
            continue
        factor = factors[int(rng.integers(len(factors)))]
        changed[mutation.key] = mutation.perturbed(values[mutation.key], factor)
    return changed


# -- reading ---------------------------------------------------------------------------------------------------------


def read_mutations(given: Mapping[str, Any], keys: Mapping[str, Any]) -> list[Mutation]:
    """The mutations of a search over these keys; refused where a key cannot change while a run trains."""
    found = []
    for key, values in given.items():
        path = path_of(key)
        check_changes(key, path, keys)
        marks = [mark for mark in find_marks(values, path) if mark.path == path]
        kinds = [mark.kind for mark in marks if mark.kind in PERTURB]
        if len(kinds) != 1:
            raise ConfigError(
                f"tune: mutations: {key} is {values!r}; expected what it may become, as one of {', '.join(PERTURB)}, such as "
                "{loguniform: [0.0001, 0.1]}."
            )
        (mark,) = marks
        check_mark(Mark(("mutations", key), mark.kind, mark.values))
        if not all(isinstance(value, int | float) for value in mark.values):
            raise ConfigError(f"tune: mutations: {key} may become {mark.values!r}; expected numbers.")
        mutation = Mutation(
            key=".".join(path),
            kind=mark.kind,
            values=tuple(mark.values),
        )
        found.append(mutation)
    return found


def path_of(key: str) -> tuple[str, ...]:
    """Where a dotted or flat key stands in a scenario with sections."""
    section = section_of(key.split(".")[0])
    if section is None:
        return tuple(key.split("."))
    return (section, *key.split("."))  # policies.wolves.lr is short for multiagent.policies.wolves.lr


def check_changes(key: str, path: Sequence[str], keys: Mapping[str, Any]) -> None:
    """Refuse keys that the state of a run depends on: what was learned would not fit their new values."""
    *parents, last = path
    in_algo = parents == ["algo"] or parents[:2] == ["multiagent", "policies"]
    if not in_algo or not _is_number(last):
        numbers = [name for name in ALL_ALGO_KEYS if _is_number(name)]
        raise ConfigError(
            f"tune: {key} cannot change while a trial trains: its weights, replay and episodes depend on it, or it is no "
            f"number of an algorithm. Keys that can: lr, gamma, entropy_coeff, ...{did_you_mean(last, numbers)}"
        )
    if value_at(sort_keys(keys), (*parents, f"{last}_schedule")) is not None:
        raise ConfigError(f"tune: {key} cannot change: {last}_schedule decides what it is. Drop {last}_schedule.")


def _is_number(key: str) -> bool:
    """Whether it is a key of algorithms that holds a number, and one that may change."""
    if key in FIXED or key not in ALL_ALGO_KEYS:
        return False
    return any(_takes_number(annotation) for annotation in _annotations(key))


def _annotations(key: str) -> list[Any]:
    from marl.algos.family import ALGOS
    from marl.scenario.config import ALGO_KEYS

    found = []
    for name, names in ALGO_KEYS.items():
        if key in names:
            found.append(ALGOS[name].family.config.model_fields[key].annotation)
    return found


def _takes_number(annotation: Any) -> bool:
    if annotation in (int, float):
        return True
    parts = get_args(annotation)
    if get_origin(annotation) is Union:
        return any(_takes_number(part) for part in parts)
    has_limits = hasattr(annotation, "__metadata__")
    return has_limits and _takes_number(parts[0])


# -- values in keys --------------------------------------------------------------------------------------------------


def value_at(keys: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The value at a path; None where there is none."""
    place: Any = keys
    for part in path:
        if not isinstance(place, Mapping):
            return None
        place = place.get(part)
    return place


def with_marks(keys: Mapping[str, Any], mutations: Sequence[Mutation]) -> dict[str, Any]:
    """The keys with a mark for every mutation, so that each trial has a value: its own, the scenario's or a draw."""
    marked = sort_keys(keys)
    for mutation in mutations:
        present = value_at(marked, mutation.key.split("."))
        if present is None:
            apply(marked, mutation.key, {mutation.kind: list(mutation.values)})
        elif not isinstance(present, Mapping):
            apply(marked, mutation.key, {"choice": [present]})
    return marked


def check_searched(keys: Mapping[str, Any], mutations: Sequence[Mutation]) -> None:
    """Trials that copy each other differ in what they mutate and in their seeds alone."""
    known = {*(mutation.key for mutation in mutations), "seed"}
    for mark in find_marks(sort_keys(keys)):
        name = ".".join(map(str, mark.path))
        if name not in known:
            raise ConfigError(
                f"tune: {name} is searched, but not among the mutations, and trials of a population copy each other. Add it "
                "to mutations, or give it one value."
            )


def with_values(config: Mapping[str, Any], values: Values) -> dict[str, Any]:
    """The keys of a trial with other values."""
    changed = sort_keys(config)
    for key, value in values.items():
        apply(changed, key, value)
    return changed
