"""Policies of a run into files, one folder each. ``marl.play.export`` reads them, without the rooms that are needed here."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import safetensors.numpy

from marl.data.seal import sealed
from marl.data.space_json import space_to_json
from marl.data.task import AgentID, AgentType, Array, PolicyID
from marl.errors import CheckpointError, ConfigError, ResourceError, did_you_mean
from marl.play.export import ABOUT, FORMAT, GRAPH, ONNX, WEIGHTS
from marl.policies.build import build_policy
from marl.policies.loading import set_weights
from marl.runs.saved import SavedRun, with_env_again
from marl.scenario.describe import can_be_replayed, to_plain
from marl.scenario.env import env_name
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent
from marl.storage import write_atomically
from marl.trust import words_of

SAFETENSORS = "safetensors"


@dataclass(frozen=True)
class Files:
    """One policy as it is going to lie on the disk: a description, and the file that it vouches for."""

    about: Mapping[str, Any]
    file: str
    content: bytes


def export_policies(
    folder: Path,
    setup: Setup,
    weights: Mapping[PolicyID, Mapping[str, Array]],
    names: Sequence[PolicyID] | None = None,
    format: str = SAFETENSORS,
) -> list[Path]:
    """Write the named policies (None: all), each into a folder of its name; returns these folders."""
    chosen = list(weights) if names is None else list(names)
    for name in chosen:
        if name not in weights:
            raise ConfigError(
                f"there is no policy {name!r}. Policies: {', '.join(weights)}.{did_you_mean(name, weights)}"
            )
    # All are made before any is written: one that cannot be exported leaves no half of an export.
    make = _writer_of(format)
    made = {name: make(name, setup, weights[name]) for name in chosen}
    return [_write(folder.expanduser() / _folder_name(name), made[name]) for name in chosen]


def _writer_of(format: str) -> Callable[[PolicyID, Setup, Mapping[str, Array]], Files]:
    writers = {SAFETENSORS: _as_safetensors, ONNX: _as_onnx}
    if format not in writers:
        raise ConfigError(f"format {format!r} is not written. Expected {SAFETENSORS} or {ONNX}.")
    if format == ONNX:
        _need_onnx()
    return writers[format]


def _folder_name(name: PolicyID) -> str:
    """The policy's name as that of a folder, never a way out of the folder of the export."""
    quoted = quote(name, safe="")
    if not quoted:
        return "_"
    if not quoted.strip("."):
        return quoted.replace(".", "%2E")  # `..` would lead out of it
    return quoted


def _as_safetensors(name: PolicyID, setup: Setup, weights: Mapping[str, Array]) -> Files:
    spec = setup.policies[name]
    recipe = {
        "acts": spec.acts,
        "model": to_plain(spec.model),
        "exploration": to_plain(spec.exploration),
        "scripted": to_plain(spec.scripted),
        "agent_id": spec.agent_id,
        "options": to_plain(spec.options),
        "population": spec.population,
    }
    if not can_be_replayed(recipe):
        raise ConfigError(
            f"policy {name!r} is made of Python objects that cannot be found by name, so it cannot be exported. Put them into "
            "a module, and name them package.module:name."
        )
    # safetensors stores memory as it lies there, so a view has to be laid out anew; ascontiguousarray would give
    # single numbers a dimension that they do not have.
    content = safetensors.numpy.save({name: np.asarray(array, order="C") for name, array in weights.items()})
    return Files({"format": FORMAT, **_described(name, setup), "recipe": recipe}, WEIGHTS, content)


def _as_onnx(name: PolicyID, setup: Setup, weights: Mapping[str, Array]) -> Files:
    from marl.play.onnx_export.policy import onnx_of

    spec = setup.policies[name]
    policy = build_policy(spec, setup.task.kinds[spec.kind])
    set_weights(policy, weights, f"policy {name!r}")
    made = onnx_of(name, policy, spec, setup.rollout.config)
    return Files({"format": ONNX, **_described(name, setup), **made.about}, GRAPH, made.content)


def _need_onnx() -> None:
    """ONNX files are written by the package of this name, which only those install who want them."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ResourceError(
            f'ONNX files need the package onnx, which is not installed ({error}). Install it: pip install "marl[onnx]"'
        ) from error


def _played_by(name: PolicyID, setup: Setup, kind: AgentType) -> list[AgentID]:
    """The seats whose agents the policy may play in what the run proposes; of a population only the answers play."""
    mapper = setup.proposed_mapper
    return [seat for seat in kind.agents if name in candidates(mapper, example_agent(seat))]


def _described(name: PolicyID, setup: Setup) -> dict[str, Any]:
    """What holds in every format: who acts, in which spaces and units."""
    spec = setup.policies[name]
    kind, config = setup.task.kinds[spec.kind], setup.rollout.config
    return {
        "policy": name,
        "env": env_name(setup.scenario.env),
        "algo": setup.roles[name].preset.name if name in setup.roles else None,
        "agents": list(kind.agents),
        "plays": _played_by(name, setup, kind),
        "observation_space": space_to_json(kind.observation_space),
        "action_space": space_to_json(kind.action_space),
        "masked": kind.masked,
        "normalize_actions": config.normalize_actions,
        "clip_actions": config.clip_actions,
    }


def _write(folder: Path, files: Files) -> Path:
    digest = hashlib.sha256(files.content).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The description last: wherever it stands, its weights stand too.
        write_atomically(folder / files.file, files.content)
        write_atomically(folder / ABOUT, json.dumps(sealed({**files.about, "sha256": digest}), indent=1) + "\n")
    except OSError as error:
        raise CheckpointError(f"cannot export to {folder}: {error}. Choose a folder that can be written to.") from error
    return folder


def export_checkpoint(
    path: Path,
    folder: Path,
    names: Sequence[PolicyID] | None = None,
    allow: frozenset[str] = frozenset(),
    changes: Mapping[str, Any] | None = None,
    format: str = SAFETENSORS,
) -> list[Path]:
    """Export policies of a run or checkpoint, which is read and left as it is.

    ``changes`` give keys of its env again, ``{"env_config.filename": PATH}``: places in a file are not followed.
    """
    remedy = "Build the trainer as before, restore it, and call trainer.export_model(DIR)."
    run = SavedRun.open(path, allow, words_of(changes), remedy=remedy)
    setup = run.resolve(with_env_again(run.to_play(), changes or {}))
    with run.trusted():
        return export_policies(folder, setup, run.weights, names, format)
