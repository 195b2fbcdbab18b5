"""The scenario in a checkpoint, which may come from a stranger: read, and followed only as far as it is safe.

Names in it are a matter of ``marl.trust``. Places, that is paths and hosts, are not followed at all: to look at policies
nobody needs them, and who goes on with a run gives them again.
"""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from marl.errors import CheckpointError, ConfigError, printable
from marl.inputs import real_path
from marl.runs.checkpoint import read_part
from marl.scenario.load import apply
from marl.trust import current

PLACES = {
    "address": "the Ray cluster that it joins",
    "input": "the recorded episodes that it learns from",
    "output": "the directory that it writes episodes to",
}
"""Keys of a scenario that are paths or hosts."""
PLACES_OF_NEW_RUNS = {**PLACES, "load": "the checkpoints that its policies start from"}
"""Only a run that begins follows ``load``: one that is resumed has weights of its own."""


def stored_scenario(folder: Path) -> dict[str, Any]:
    """The scenario of a checkpoint's run, with nothing in it that could upset a terminal."""
    run = read_part(folder, "run")
    scenario = run.get("scenario") if isinstance(run, dict) else None
    if not isinstance(scenario, dict) or not isinstance(scenario.get("env"), str):
        raise CheckpointError(f"{folder} is damaged: its part 'run' holds no scenario. Take another checkpoint.")
    check_texts(scenario, f"{folder}, scenario")
    return scenario


def check_texts(value: object, where: str) -> None:
    """Refuse texts with characters that a terminal obeys: they name nothing, and would be printed."""
    for text in _texts(value):
        if printable(text) != text:
            raise CheckpointError(f"{printable(where)} holds {text!a}, which has control characters. It is not used.")


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _texts(item)


def check_stays_inside(directory: Path) -> None:
    """Refuse to write into a run directory out of which a link leads: a stranger's would write over files elsewhere."""
    if current() is None:  # the user gave the scenario, and knows his directory
        return
    home = real_path(directory)
    for folder, below, files in os.walk(directory):
        for name in [*below, *files]:
            entry = Path(folder) / name
            if entry.is_symlink() and not real_path(entry).is_relative_to(home):
                raise CheckpointError(
                    f"{printable(entry)} is a link to {printable(entry.readlink())}, out of the run directory, so the run is "
                    "not continued there. Put the files in its place, or give the scenario file: marl run FILE --resume RUN."
                )


def without_places(described: Mapping[str, Any]) -> dict[str, Any]:
    """The scenario for somebody who only looks: it reads no recordings, writes none, joins no cluster."""
    return {**described, "load": {}, "output_format": "npz", **dict.fromkeys(PLACES)}


def with_env_again(described: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """``without_places``, and with what the user says of the env again: ``{"env_config.filename": PATH}``.

    The env of evaluations is left out: who looks at policies does not evaluate.
    """
    raw = without_places(described)
    raw["evaluation"] = {**(raw.get("evaluation") or {}), "env": None, "env_config": None}
    for key, value in changes.items():
        if key.split(".")[0] not in ("env", "env_config"):
            raise ConfigError(f"--set {key}=... changes nothing here. What counts: env, env_config.KEY. Drop it.")
        apply(raw, key, value)
    return raw


def check_given_again(
    described: Mapping[str, Any],
    given: Collection[str],
    where: object,
    places: Mapping[str, str] = PLACES,
    in_python: bool = False,
) -> None:
    """Refuse to go on with a run whose places were not given again by the user; ``given`` are the keys that he gave."""
    for key, meaning in places.items():
        value = described.get(key)
        if not value or key in given:
            continue
        option = f"{key}={value!r}" if in_python else f"--set {place_option(key, value)}"
        without = f"{key}=None" if in_python else f"--set {key}=null"
        raise ConfigError(
            f"the scenario in {where} has {key}: {value!r}, {meaning}. A place that stands in a file is not followed "
            f"unless you give it again: {printable(option)} to go on as before, {without} to go on without it."
        )


def place_option(key: str, value: object) -> str:
    """``output=DIR`` as it is typed behind ``--set``."""
    return shlex.quote(f"{key}={value if isinstance(value, str) else json.dumps(value)}")


def places_again(described: Mapping[str, Any]) -> list[str]:
    """The options with which the owner of a run goes on with it."""
    return [f"--set {place_option(key, described[key])}" for key in PLACES if described.get(key)]
