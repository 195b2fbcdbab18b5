"""Whose recorded episodes lie in a directory: ``trajectories.json`` names the env, the agents, their spaces and policies."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.seal import check_seal, sealed
from marl.data.task import AgentType, Floats, PolicyID, Task
from marl.errors import DataError
from marl.inputs import read_json
from marl.storage import write_atomically

MANIFEST = "trajectories.json"
VERSION = 2
UNSEALED = 1  # versions up to this one have no seal


def write_manifest(
    directory: Path, task: Task, env: str, policies: Sequence[PolicyID], normalized: bool, told: Sequence[int] = ()
) -> None:
    """Say whose episodes lie here. ``normalized``: bounded coordinates of actions are stored as -1..1. ``told``: numbers of
    the column ``policy`` whose decisions have their true ``action_logp``."""
    described = {
        "version": VERSION,
        "env": env,
        "policies": list(policies),
        "normalized_actions": normalized,
        "told_logp": list(told),
        "state_size": task.state_size,
        "kinds": [_described(kind) for kind in task.kinds],
    }
    write_atomically(directory / MANIFEST, json.dumps(sealed(described), indent=1) + "\n")


def read_manifest(directory: Path) -> dict[str, Any]:
    """What ``trajectories.json`` says."""
    path = directory / MANIFEST
    try:
        manifest: dict[str, Any] = read_json(path)
        version = manifest["version"]
        if version in (UNSEALED, VERSION):
            check_seal(manifest, required=version > UNSEALED)
            _check_outline(manifest)
    except FileNotFoundError:
        raise DataError(
            f"{directory} has no {MANIFEST}, so nobody knows whose episodes these are. Recordings have one (output: DIR); "
            "your own data get one by marl.write_trajectories."
        ) from None
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} cannot be read ({error!r}). Record the episodes again.") from error
    if version not in (UNSEALED, VERSION):
        raise DataError(f"{path} has version {version}; this marl reads versions {UNSEALED} and {VERSION}.")
    return manifest


def told_logp(manifest: Mapping[str, Any]) -> list[int]:
    """The numbers of the column ``policy`` whose decisions have their true ``action_logp``; older recordings do not say."""
    told = manifest.get("told_logp", [])
    if not isinstance(told, list) or not all(isinstance(number, int) for number in told):
        raise DataError(f"{MANIFEST} says told_logp: {told!r}; expected a list of numbers. Record the episodes again.")
    return told


def _check_outline(manifest: Mapping[str, Any]) -> None:
    """Everything that readers ask of it is there."""
    for key, wanted in _OUTLINE.items():
        if not isinstance(manifest[key], wanted):
            raise TypeError(f"{key} is {manifest[key]!r}")
    for kind in manifest["kinds"]:
        for key in ("name", "agents", "masked", "obs", "actions", "observation_space", "action_space"):
            kind[key]  # a KeyError, or a TypeError where it is no mapping


_OUTLINE: dict[str, type] = {
    "env": str, "policies": list, "normalized_actions": bool, "state_size": int, "kinds": list,
}  # fmt: skip


def check_fits(manifest: Mapping[str, Any], task: Task, directory: Path, needs_state: bool) -> None:
    """Refuse episodes of another env."""
    theirs = manifest["kinds"]
    # First how a kind differs, which tells a user more than how many kinds there are.
    for recorded, kind in zip(theirs, task.kinds, strict=False):
        mine = _described(kind)
        for key in ("agents", "masked", "obs", "actions"):
            if recorded[key] != mine[key]:
                raise DataError(
                    f"{directory} holds episodes of env {manifest['env']!r}, which differ from this run's in {key} of the "
                    f"agents {kind.name!r}: recorded {recorded[key]} ({recorded['observation_space']}, "
                    f"{recorded['action_space']}), here {mine[key]} ({mine['observation_space']}, {mine['action_space']}). "
                    "Learn from recordings of the same agents and spaces."
                )
    if len(theirs) != len(task.kinds):
        raise DataError(
            f"{directory} holds episodes of env {manifest['env']!r} with {len(theirs)} kinds of agents "
            f"({', '.join(k['name'] for k in theirs)}); this run has {len(task.kinds)} "
            f"({', '.join(k.name for k in task.kinds)}). Learn from recordings of the same agents and spaces."
        )
    # Most algorithms do not look at it, and runs without such an algorithm do not record it.
    if needs_state and manifest["state_size"] != task.state_size:
        raise DataError(
            f"{directory} was recorded with a global state of {manifest['state_size']} numbers, and this run needs "
            f"{task.state_size}. Record again with an algorithm that looks at the state, or learn by one that does not."
        )


def _described(kind: AgentType) -> dict[str, Any]:
    """What has to agree, and the spaces in words for whoever reads it."""
    low, high = kind.columns.bounds
    return {
        "name": kind.name,
        "agents": list(kind.agents),
        "masked": kind.masked,
        "obs": [kind.obs_width, np.dtype(kind.obs_dtype).name],
        "actions": {"sizes": list(kind.columns.sizes), "low": _finite(low), "high": _finite(high)},
        "observation_space": str(kind.observation_space),
        "action_space": str(kind.action_space),
    }


def _finite(bound: Floats) -> list[float | None]:
    """JSON of other programs knows no infinity: null is a coordinate without a bound."""
    numbers: list[float | None] = []
    for number in bound.tolist():
        if math.isfinite(number):
            numbers.append(float(number))
        else:
            numbers.append(None)
    return numbers
