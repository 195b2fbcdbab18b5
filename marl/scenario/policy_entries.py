"""The entries of ``multiagent.policies``: a policy's own keys on top of the scenario's."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from marl.algos.plan import Role
from marl.algos.presets import ALGOS, Preset
from marl.config import explain
from marl.data.task import PolicyID, Task
from marl.errors import ConfigError
from marl.policies.config import ExplorationConfig, ModelConfig, PolicySpec, ScriptedConfig
from marl.scenario.config import MODEL_KEYS, Overrides, Scenario
from marl.scenario.rllib_keys import OLD_KEYS


@dataclass(frozen=True)
class PolicyEntry:
    """One entry of ``policies``, sorted."""

    preset: Preset | None  # None: scripted
    algo_keys: dict[str, Any]
    model: ModelConfig
    exploration: ExplorationConfig | None
    scripted: ScriptedConfig | None


def parse_entry(scenario: Scenario, name: PolicyID) -> PolicyEntry:
    """A policy's overrides on top of the scenario's keys; another algorithm starts from its own defaults."""
    given: Overrides = dict(scenario.multiagent.policies.get(name, {}))
    where = f"policies.{name}"
    try:
        scripted = given.pop("scripted", None)
        if scripted is not None:
            return _scripted(where, scripted, given)
        preset, algo_keys = scenario.preset, scenario.algo_keys
        other = given.pop("algo", None)
        if other is not None:
            other = _as_map(f"{where}.algo", {"name": other} if isinstance(other, str) else other)
            preset = ALGOS[str(other.pop("name", preset.name))]
            algo_keys = other if preset.name != scenario.preset.name else {**algo_keys, **other}
        explore = given.pop("exploration_config", None)
        model_keys = {key: given.pop(key) for key in list(given) if key in MODEL_KEYS}
        model = ModelConfig(**{**scenario.model.model_dump(), **model_keys})
        for key in ("lr", "entropy_coeff"):  # a constant of its own replaces an inherited schedule
            if key in given and f"{key}_schedule" not in given:
                algo_keys = {k: v for k, v in algo_keys.items() if k != f"{key}_schedule"}
        algo_keys = {**algo_keys, **given}
        preset.configure(**algo_keys)
        exploration = _inherited(scenario, preset)
        if explore is not None:
            exploration = ExplorationConfig(**_as_map(f"{where}.exploration_config", explore))
            _check_fits(exploration, preset, f"{where}.exploration_config")
        return PolicyEntry(preset, algo_keys, model, exploration, None)
    except ValidationError as error:
        known = {*preset.family.config.model_fields, *MODEL_KEYS, "algo", "scripted", "exploration_config"}
        raise explain(error, where, known, OLD_KEYS) from None


def _as_map(where: str, value: object) -> dict[str, Any]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{where} = {value!r} ({type(value).__name__}) does not fit: expected keys and values.")
    return dict(value)


def _inherited(scenario: Scenario, preset: Preset) -> ExplorationConfig | None:
    """The scenario's exploration, where it fits the policy's algorithm."""
    config = scenario.exploration_config
    if config is None:
        return None
    if config.type in preset.family.explorations:
        return config
    if preset.name == scenario.preset.name:
        _check_fits(config, preset, "exploration_config")
    return None


def _check_fits(config: ExplorationConfig, preset: Preset, where: str) -> None:
    fits = preset.family.explorations
    if config.type not in fits:
        raise ConfigError(f"{where}.type {config.type} does not fit {preset.name}; expected {' or '.join(fits)}.")


def _scripted(where: str, scripted: object, rest: Overrides) -> PolicyEntry:
    if rest:
        raise ConfigError(
            f"{where} is scripted, so it cannot have {', '.join(rest)}. Put these under `scripted:` or drop them."
        )
    keys = _as_map(f"{where}.scripted", scripted if isinstance(scripted, Mapping) else {"name": scripted})
    try:
        config = ScriptedConfig(**keys)
    except ValidationError as error:
        raise explain(error, f"{where}.scripted", ScriptedConfig.model_fields) from None
    return PolicyEntry(None, {}, ModelConfig(), None, config)


def policy_spec(
    scenario: Scenario, name: PolicyID, parsed: PolicyEntry, role: Role | None, seats: frozenset[int], task: Task
) -> PolicySpec:
    kind = task.kind_of(min(seats))
    seed = zlib.crc32(f"{scenario.seed}/{name}".encode())
    if role is None:
        return PolicySpec("scripted", kind, scripted=parsed.scripted, seed=seed)
    together = any(len(seats & set(members)) > 1 for members in task.groups.values())
    auto = role.config.looks_at_groups and (
        together or (getattr(role.config, "critic_sees", "") == "all" and len(seats) > 1)
    )
    agent_id = auto if parsed.model.agent_id == "auto" else bool(parsed.model.agent_id)
    acts, options = role.preset.family.acts, role.config.acting
    exploration = parsed.exploration
    if exploration is None and role.preset.exploration:
        exploration = ExplorationConfig.model_validate({"type": role.preset.exploration})
    return PolicySpec(acts, kind, parsed.model, exploration, None, agent_id, seed, options)
