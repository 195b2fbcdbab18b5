"""Restoring: a state from a file is put to use. A hash vouches for its bytes, not for their meaning.

Another version of marl or of the env may have written the file, or somebody who wishes no good. So what many read is looked
at as soon as it is read, and whatever fails later is said to come from that file.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Array
from marl.errors import CheckpointError, UserError
from marl.failures import machine_failure

log = logging.getLogger(__name__)
LARGEST = 2**63 - 1  # of whole numbers
NUMBERS = "biuf"  # numpy's letters for bool, whole numbers with and without a sign, and fractions


@contextmanager
def put_to_use(folder: Path, part: str | None = None) -> Iterator[None]:
    """Whatever goes wrong while a part (None: the whole state) is put to use, the message says where it came from.

    A hash vouches for bytes, not for their meaning: another version, or somebody else, may have written the file.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        if machine_failure(error) is not None:  # a full disk is not the file's fault
            raise
        log.debug("%s, part %s, does not fit", folder, part, exc_info=True)
        what = "what it holds"
        if part:
            what = f"part {part!r}"
        raise CheckpointError(
            f"{folder}: {what} does not fit this run ({type(error).__name__}: {error}). Another version of marl or of "
            "the env wrote it, or it was changed since. Use another checkpoint, or start a new run with `load: "
            f"{{POLICY: {folder}}}`."
        ) from error


def strange_part(part: str, tree: Any) -> str | None:
    """What is wrong with the outline of a part that many read, ``run`` or ``policies``: hashes say nothing of who wrote it."""
    if part == "run":
        return _strange_run(tree)
    if part == "policies":
        return _strange_policies(tree)
    return None


def _strange_policies(policies: Any) -> str | None:
    if not _has_names(policies):
        return "it does not hold policies by their names"
    for name, weights in policies.items():
        strange = f"the weights of policy {name!r} are not arrays by their names"
        if not isinstance(weights, dict):
            return strange
        for array in weights.values():
            if not isinstance(array, np.ndarray):
                return strange
    return None


def _strange_run(run: Any) -> str | None:
    """What a run cannot have counted or seen; entries that are missing are another's business: older files hold fewer."""
    if not isinstance(run, dict):
        return "it has no scenario"
    for key in ("scenario", "counters"):
        if not isinstance(run.get(key), dict):
            return f"it has no {key}"
    strange = _strange_entry(run["counters"], COUNTERS)
    if strange is not None:
        return strange
    return _strange_entry(run, SEEN)


def _strange_entry(entries: dict[str, Any], expected: dict[str, Expected]) -> str | None:
    for name, kind in expected.items():
        if name not in entries:  # of an older version, which did not write it
            continue
        value = entries[name]
        if not kind.fits(value):
            return f"its {name} is {_short(value)}, expected {kind.words}"
    return None


def _short(value: Any) -> str:
    # What a stranger wrote goes to a terminal: nothing long, and nothing whose repr is not known to be harmless.
    short = f"a {type(value).__name__}"
    if isinstance(value, int | float | str):
        text = repr(value)
        if len(text) < 40:
            short = text
    return short


class Expected(NamedTuple):
    """Which values an entry may have."""

    fits: Callable[[Any], bool]
    words: str


def _is_count(value: Any) -> bool:
    # `type` and not `isinstance`: True would pass for 1.
    if type(value) is not int:
        return False
    return 0 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    if type(value) is float:
        return True
    # Beyond 64 bits a whole number cannot be turned into a float or an array's entry.
    if not isinstance(value, int):
        return False
    return abs(value) <= LARGEST


def _is_time(value: Any) -> bool:
    if not _is_number(value):
        return False
    return bool(0 <= value < math.inf)  # nan is in no order with anything


def _are_metrics(value: Any) -> bool:
    """Numbers (or arrays of them) by their names, for each policy."""
    if not _has_names(value):
        return False
    for row in value.values():
        if not _has_names(row):
            return False
        if not all(map(_is_metric, row.values())):
            return False
    return True


def _is_metric(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype.kind in NUMBERS
    return _is_number(value)


def _are_numbers(value: Any) -> bool:
    if not _has_names(value):
        return False
    return all(map(_is_number, value.values()))


def _is_unmeasured(value: Any) -> bool:
    """Whether it is what an iteration brought whose evaluation was broken off."""
    if not isinstance(value, dict) or value.keys() != UNMEASURED.keys():
        return False
    return all(kind.fits(value[name]) for name, kind in UNMEASURED.items())


def _is_result(value: Any) -> bool:
    if not _has_names(value):
        return False
    return _only_moderate(value)


def _has_names(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    return _are_texts(value)


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _only_moderate(value: Any) -> bool:
    """Whether all whole numbers in it can be turned into floats."""
    if isinstance(value, int):
        return abs(value) <= LARGEST
    inside: Iterable[Any] = ()
    if isinstance(value, dict):
        inside = value.values()
    elif isinstance(value, list | tuple):
        inside = value
    return all(map(_only_moderate, inside))


def _are_episodes(value: Any) -> bool:
    """Whether it holds the columns of ``EpisodeStats``, and they fit each other."""
    # Files of older versions have no remarks.
    needed = {field.name for field in fields(EpisodeStats)} - {"remarks"}
    if not _has_names(value):
        return False
    if not needed <= value.keys() <= {*needed, "remarks"}:
        return False
    agents = value["agents"]
    if not isinstance(agents, list | tuple):
        return False
    if not _are_texts(agents):
        return False
    episodes = _length(value, {"rewards": "f", "lengths": "iu"})
    entries = _length(value, {"agent": "iu", "episode": "iu", "policy": "iu", "returns": "f"})
    if episodes is None or entries is None:
        return False
    if not _are_remarks(value.get("remarks", []), episodes):
        return False
    ends = {"agent": len(agents), "episode": episodes, "policy": LARGEST}
    return all(_are_indices(value[name], end) for name, end in ends.items())


def _are_remarks(remarks: Any, episodes: int) -> bool:
    """Whether it is a list of named remarks, one for each episode or none at all."""
    if not isinstance(remarks, list):
        return False
    if len(remarks) not in (0, episodes):
        return False
    return all(map(_has_names, remarks))


def _are_indices(column: Array, end: int) -> bool:
    # A negative one would count from the end, a large one would be out of bounds; of nothing there is no smallest.
    if not len(column):
        return True
    if column.min() < 0:
        return False
    return bool(column.max() < end)


def _length(columns: dict[str, Any], kinds: dict[str, str]) -> int | None:
    """The common length of some columns; None where they are no columns of their kinds, or differ in length."""
    lengths = set()
    for name, kind in kinds.items():
        array = columns[name]
        if not isinstance(array, np.ndarray) or array.ndim != 1:
            return None
        if array.dtype.kind not in kind:
            return None
        lengths.add(len(array))
    if len(lengths) > 1:
        return None
    return lengths.pop()


COUNT = Expected(_is_count, "a whole number, 0 or more")
TIME = Expected(_is_time, "a finite number, 0 or more")
TEXT = Expected(lambda value: isinstance(value, str), "a text")
COUNTERS = {  # of a trainer
    "decisions_lost": COUNT,
    "iteration": COUNT,
    "timesteps_total": COUNT,
    "agent_timesteps_total": COUNT,
    "episodes_total": COUNT,
    "time_total_s": TIME,
    "best_evaluation": Expected(lambda value: value is None or _is_number(value), "a number or null"),
    "trial_id": TEXT,
    "experiment_id": TEXT,
}
EPISODES = Expected(_are_episodes, "columns of episodes that fit each other")
UNMEASURED = {  # of an iteration whose evaluation was broken off
    "steps": COUNT,
    "agent_steps": COUNT,
    "episodes": COUNT,
    "shown": EPISODES,
    "extra": Expected(_are_numbers, "numbers by their names"),
}
RESULT = "named entries with numbers of at most 64 bits"
SEEN = {  # besides the counters
    "arithmetic": COUNT,
    "recent": EPISODES,
    "unmeasured": Expected(_is_unmeasured, f"an iteration with {', '.join(UNMEASURED)}"),
    "last_metrics": Expected(_are_metrics, "numbers by their names for each policy"),
    "last_evaluation": Expected(lambda value: value is None or _is_result(value), f"null or {RESULT}"),
    "last_result": Expected(_is_result, RESULT),
}
