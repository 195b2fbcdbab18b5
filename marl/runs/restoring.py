"""A state from a file is put to use: a hash vouches for its bytes, not for their meaning.

Another version of marl or of the env may have written the file, or somebody who wishes no good. So what many read is looked
at as soon as it is read, and whatever fails later is said to come from that file.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from marl.data.episode import EpisodeStats
from marl.errors import CheckpointError, UserError
from marl.failures import machine_failure

log = logging.getLogger(__name__)
LARGEST = 2**63 - 1  # of whole numbers


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
        what = f"part {part!r}" if part else "what it holds"
        raise CheckpointError(
            f"{folder}: {what} does not fit this run ({type(error).__name__}: {error}). Another version of marl or of "
            "the env wrote it, or it was changed since. Use another checkpoint, or start a new run with `load: "
            f"{{POLICY: {folder}}}`."
        ) from error


def strange_part(part: str, tree: Any) -> str | None:
    """What is wrong with the outline of a part that many read, ``run`` or ``policies``: hashes say nothing of who wrote it."""
    if part == "run":
        missing = [key for key in ("scenario", "counters") if not isinstance(_entry(tree, key), dict)]
        return f"it has no {missing[0]}" if missing else _strange_run(tree)
    if part == "policies":
        if not isinstance(tree, dict) or not all(isinstance(name, str) for name in tree):
            return "it does not hold policies by their names"
        for name, weights in tree.items():
            if not isinstance(weights, dict) or not all(isinstance(array, np.ndarray) for array in weights.values()):
                return f"the weights of policy {name!r} are not arrays by their names"
    return None


def _entry(tree: Any, key: str) -> Any:
    return tree.get(key) if isinstance(tree, dict) else None


def _strange_run(run: dict[str, Any]) -> str | None:
    """What a run cannot have counted or seen; entries that are missing are another's business: older files hold fewer."""
    for place, kinds in ((run["counters"], COUNTERS), (run, SEEN)):
        for name, kind in kinds.items():
            if name in place and not kind.fits(place[name]):
                return f"its {name} is {_short(place[name])}, expected {kind.words}"
    return None


def _short(value: Any) -> str:
    return (
        repr(value) if isinstance(value, int | float | str) and len(repr(value)) < 40 else f"a {type(value).__name__}"
    )


class AgentType(NamedTuple):
    """Which values an entry may have."""

    fits: Callable[[Any], bool]
    words: str


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value <= LARGEST


def _is_number(value: Any) -> bool:
    return type(value) is float or (isinstance(value, int) and abs(value) <= LARGEST)


def _are_metrics(value: Any) -> bool:
    return _has_names(value) and all(_has_names(row) and all(map(_is_metric, row.values())) for row in value.values())


def _is_metric(value: Any) -> bool:
    return _is_number(value) or (isinstance(value, np.ndarray) and value.dtype.kind in "biuf")


def _is_result(value: Any) -> bool:
    return _has_names(value) and _only_moderate(value)


def _has_names(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(name, str) for name in value)


def _only_moderate(value: Any) -> bool:
    """Whether all whole numbers in it can be turned into floats."""
    if isinstance(value, dict):
        return all(map(_only_moderate, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_only_moderate, value))
    return not isinstance(value, int) or abs(value) <= LARGEST


def _are_episodes(value: Any) -> bool:
    """Whether it holds the columns of ``EpisodeStats``, and they fit each other."""
    needed = {field.name for field in fields(EpisodeStats)} - {"remarks"}
    if not _has_names(value) or not needed <= value.keys() <= {*needed, "remarks"}:
        return False
    agents, remarks = value["agents"], value.get("remarks", [])
    if not isinstance(agents, list | tuple) or not all(isinstance(name, str) for name in agents):
        return False
    episodes = _length(value, ("rewards", "f"), ("lengths", "iu"))
    entries = _length(value, ("agent", "iu"), ("episode", "iu"), ("policy", "iu"), ("returns", "f"))
    if episodes is None or entries is None:
        return False
    if not isinstance(remarks, list) or len(remarks) not in (0, episodes) or not all(map(_has_names, remarks)):
        return False
    ends = {"agent": len(agents), "episode": episodes, "policy": LARGEST}
    return all(not entries or (value[name].min() >= 0 and value[name].max() < end) for name, end in ends.items())


def _length(columns: dict[str, Any], *kinds: tuple[str, str]) -> int | None:
    """The common length of some columns; None where they are no columns of their kinds, or differ in length."""
    arrays = [columns[name] for name, _ in kinds]
    if not all(isinstance(array, np.ndarray) and array.ndim == 1 for array in arrays):
        return None
    right = all(array.dtype.kind in kind for array, (_, kind) in zip(arrays, kinds, strict=True))
    return len(arrays[0]) if right and len({len(array) for array in arrays}) == 1 else None


COUNT = AgentType(_is_count, "a whole number, 0 or more")
TIME = AgentType(lambda value: _is_number(value) and math.isfinite(value) and value >= 0, "a finite number, 0 or more")
TEXT = AgentType(lambda value: isinstance(value, str), "a text")
COUNTERS = {  # of a trainer
    "decisions_lost": COUNT,
    "iteration": COUNT,
    "timesteps_total": COUNT,
    "agent_timesteps_total": COUNT,
    "episodes_total": COUNT,
    "time_total_s": TIME,
    "best_evaluation": AgentType(lambda value: value is None or _is_number(value), "a number or null"),
    "trial_id": TEXT,
    "experiment_id": TEXT,
}
RESULT = "named entries with numbers of at most 64 bits"
SEEN = {  # besides the counters
    "recent": AgentType(_are_episodes, "columns of episodes that fit each other"),
    "last_metrics": AgentType(_are_metrics, "numbers by their names for each policy"),
    "last_evaluation": AgentType(lambda value: value is None or _is_result(value), f"null or {RESULT}"),
    "last_result": AgentType(_is_result, RESULT),
}
