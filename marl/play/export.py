"""One policy as two small files: ``policy.json`` says what it is, ``weights.safetensors`` what it learned.

The files need neither the run nor its env: the JSON holds the recipe of the networks, the spaces of the agents and the
units of their actions. ``marl.load_policy(DIR)`` gives an ``Actor``, which is asked for one action at a time. A folder of
an export holds one folder per policy, of its name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.numpy

from marl.data.action_units import ActionUnits
from marl.data.seal import check_seal
from marl.data.space_json import space_from_json
from marl.data.task import AgentType, Array, PolicyID
from marl.errors import CheckpointError, ConfigError, DataError, SpaceMismatchError, UserError, did_you_mean
from marl.inputs import check_texts, read_bytes, read_json
from marl.play.actor import Actor
from marl.policies.build import build_policy, find_policy
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.policies.loading import check_weights, set_weights
from marl.policies.policy import Policy
from marl.registry import only_modules

ABOUT, WEIGHTS = "policy.json", "weights.safetensors"
ONNX, GRAPH = "onnx", "policy.onnx"  # a format for others, which is only written here
FORMAT = 2
UNSEALED = 1  # formats up to this one have no seal


@dataclass(frozen=True)
class Exported:
    """A policy as it lies on the disk."""

    folder: Path
    about: Mapping[str, Any]
    spec: PolicySpec
    kind: AgentType
    weights: Mapping[str, Array]
    units: ActionUnits  # how its actions become those of the env

    @property
    def name(self) -> PolicyID:
        return str(self.about["policy"])

    def build(self) -> Policy:
        try:
            policy = build_policy(self.spec, self.kind)
            set_weights(policy, self.weights, str(self.folder))
        except UserError:
            raise
        except Exception as error:  # of torch, of a space: the recipe says what cannot be built
            raise _damaged(self.folder, error) from error
        return policy


def exported_folders(path: Path) -> dict[PolicyID, Path]:
    """The policies at a path by their names: the one itself, or those in its folders."""
    if (path / ABOUT).is_file():
        return {_about(path)["policy"]: path}
    return {_about(file.parent)["policy"]: file.parent for file in sorted(path.glob(f"*/{ABOUT}"))}


def read_exported(path: Path, name: PolicyID | None = None) -> Exported:
    """The policy at a path; of several the one that ``name`` says."""
    there = exported_folders(path.expanduser())
    if not there:
        raise CheckpointError(
            f"{path} holds no exported policy (no {ABOUT}). Export one: marl export RUN --out {path}."
        )
    if name is None and len(there) > 1:
        first = next(iter(there))
        raise CheckpointError(f"{path} holds the policies {', '.join(there)}. Say which one: {path}#{first}.")
    if name is not None and name not in there:
        raise CheckpointError(f"{path} has no policy {name!r}. It has {', '.join(there)}.{did_you_mean(name, there)}")
    return _read(there[name] if name is not None else next(iter(there.values())))


def _about(folder: Path) -> dict[str, Any]:
    path = folder / ABOUT
    try:
        about: dict[str, Any] = read_json(path)
        version = about["format"]
        if version in (UNSEALED, FORMAT):
            check_seal(about, required=version > UNSEALED)
        check_texts(about, str(path))
        if not isinstance(about["policy"], str):
            raise ValueError(f"the policy is called {about['policy']!r}")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read ({error!r}). Export the policy again.") from error
    if version == ONNX:
        raise CheckpointError(
            f"{path} describes {GRAPH}, which onnxruntime plays. marl plays what is exported with --format safetensors."
        )
    if version not in (UNSEALED, FORMAT):
        raise CheckpointError(
            f"{path} has format {version}; this marl reads formats {UNSEALED} and {FORMAT}. Export the policy again."
        )
    return about


def _read(folder: Path) -> Exported:
    about = _about(folder)
    try:
        recipe = about["recipe"]
        spec = PolicySpec(
            recipe["acts"], 0, ModelConfig(**recipe["model"]),
            ExplorationConfig(**recipe["exploration"]) if recipe["exploration"] else None,
            ScriptedConfig(**recipe["scripted"]) if recipe["scripted"] else None,
            recipe["agent_id"], options=recipe["options"], population=recipe["population"],
        )  # fmt: skip
        if not isinstance(about["masked"], bool):
            raise TypeError(f"masked is {about['masked']!r}")
        seen, moves = (space_from_json(about[key]) for key in ("observation_space", "action_space"))
        kind = AgentType(about["agents"][0], tuple(about["agents"]), seen, moves, about["masked"])
        content = read_bytes(folder / WEIGHTS, growth=2.0)
        if hashlib.sha256(content).hexdigest() != about["sha256"]:
            raise DataError(f"{WEIGHTS} is not what {ABOUT} was written for")
        units = ActionUnits(**{key: about[key] for key in ("normalize_actions", "clip_actions")})
        return Exported(folder, about, spec, kind, safetensors.numpy.load(content), units)
    except ConfigError:
        raise
    except Exception as error:  # whatever stands in a file, reading it ends with a sentence
        raise _damaged(folder, error) from error


def _damaged(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(f"{folder} is damaged ({error}). Export the policy again.")


def load_policy(path: Path | str, *, allow: Collection[str] = ()) -> Actor:
    """An exported policy, ready to be asked: ``marl.load_policy("DIR").compute_action(obs)``.

    ``DIR#name`` takes one of several. Modules of the user that the policy names (custom models, scripts) have to be allowed.
    """
    folder, _, name = str(path).partition("#")
    with only_modules(frozenset(allow)):
        found = read_exported(Path(folder), name or None)
        return Actor(found.build(), found.units)


def read_weights_for(
    policies: Mapping[PolicyID, Policy], path: Path, names: Sequence[PolicyID] | None = None
) -> dict[PolicyID, dict[str, Array]]:
    """Exported weights for these policies: those of the same names, or ``names``; one alone may have any name.

    Everything is checked here, so that nothing is changed when one of them does not fit.
    """
    there = exported_folders(path.expanduser())
    if not there:
        raise CheckpointError(f"{path} holds no exported policy (no {ABOUT}). Write it by trainer.export_model(DIR).")
    chosen = [name for name in there if name in policies] if names is None else list(names)
    if not chosen:
        raise CheckpointError(
            f"{path} holds {', '.join(there)}, none of which this run has ({', '.join(policies)}). Say which one is "
            "meant: import_model(path, policies=[ID])."
        )
    weights = {}
    for name in chosen:
        # One for one: a policy may have another name in the run that it was trained in.
        only = next(iter(there)) if len(there) == len(chosen) == 1 else name
        found, policy = read_exported(path, only), find_policy(policies, name)
        _check_same_spaces(found, policy.kind, name)
        check_weights(policy, found.weights, f"{found.folder} as policy {name!r}")
        weights[name] = dict(found.weights)
    return weights


def _check_same_spaces(found: Exported, mine: AgentType, name: PolicyID) -> None:
    theirs = found.kind
    if spaces_of(theirs) != spaces_of(mine):
        raise SpaceMismatchError(
            f"{found.folder} plays {theirs.observation_space}, {theirs.action_space}, but policy {name!r} of this run plays "
            f"{mine.observation_space}, {mine.action_space}. Import a policy of agents with equal spaces."
        )


def spaces_of(kind: AgentType) -> tuple[Any, ...]:
    """What has to be equal where a policy of other agents is to play; names may differ."""
    return kind.observation_space, kind.action_space, kind.masked
