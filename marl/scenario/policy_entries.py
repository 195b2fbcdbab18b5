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
from marl.policies.language_config import LanguageModelConfig
from marl.scenario.config import MODEL_KEYS, Overrides, Scenario
from marl.scenario.policy_tuples import check_spaces
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
    scripted = given.pop("scripted", None)
    if scripted is not None:
        return _scripted(scenario, where, scripted, given)
    preset, algo_keys = _algorithm(scenario, given.pop("algo", None), f"{where}.algo")
    try:
        return _learning(scenario, preset, algo_keys, given, where)
    except ValidationError as error:
        known = {*preset.family.config.model_fields, *MODEL_KEYS, "algo", "scripted", "exploration_config"}
        raise explain(error, where, known, OLD_KEYS) from None


def _algorithm(scenario: Scenario, own: object, where: str) -> tuple[Preset, dict[str, Any]]:
    """The algorithm of a policy and the keys that it begins with; ``own`` is the policy's ``algo``, if it has one."""
    if own is None:
        return scenario.preset, scenario.algo_keys
    if isinstance(own, str):
        own = {"name": own}
    keys = _as_map(where, own)
    preset = ALGOS[str(keys.pop("name", scenario.preset.name))]
    if preset.name != scenario.preset.name:
        return preset, keys
    return preset, {**scenario.algo_keys, **keys}


def _learning(
    scenario: Scenario, preset: Preset, algo_keys: dict[str, Any], given: Overrides, where: str
) -> PolicyEntry:
    """The entry of a policy that learns; ``given`` are its keys without ``algo``."""
    explore = given.pop("exploration_config", None)
    model_keys = scenario.model.model_dump()
    algo_keys = dict(algo_keys)
    for key in list(given):
        if key in MODEL_KEYS:
            model_keys[key] = given.pop(key)
    model = ModelConfig(**model_keys)
    for key in ("lr", "entropy_coeff"):  # a constant of its own replaces an inherited schedule
        if key in given:
            algo_keys.pop(f"{key}_schedule", None)
    algo_keys |= given
    preset.configure(**algo_keys)  # refuses what it does not know
    exploration = _inherited(scenario, preset)
    if explore is not None:
        exploration = ExplorationConfig(**_as_map(f"{where}.exploration_config", explore))
        _check_fits(exploration, preset, f"{where}.exploration_config")
    return PolicyEntry(preset, algo_keys, model, exploration, None)


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


def _scripted(scenario: Scenario, where: str, scripted: object, rest: Overrides) -> PolicyEntry:
    if rest:
        raise ConfigError(
            f"{where} is scripted, so it cannot have {', '.join(rest)}. Put these under `scripted:` or drop them."
        )
    if not isinstance(scripted, Mapping):  # `scripted: random` is short for `scripted: {name: random}`
        scripted = {"name": scripted}
    keys = _as_map(f"{where}.scripted", scripted)
    try:
        config = _reading(scenario, ScriptedConfig(**keys))
    except ValidationError as error:
        raise explain(error, f"{where}.scripted", ScriptedConfig.model_fields) from None
    return PolicyEntry(preset=None, algo_keys={}, model=ModelConfig(), exploration=None, scripted=config)


def _reading(scenario: Scenario, config: ScriptedConfig) -> ScriptedConfig:
    """A language model reads the texts of the scenario's env, unless it is told another one."""
    if config.name != "language_model":
        return config
    asked = config.language_model or LanguageModelConfig()
    if asked.env is None and isinstance(scenario.env, str):
        asked = asked.model_copy(update={"env": scenario.env, "env_config": dict(scenario.env_config)})
    return config.model_copy(update={"language_model": asked})


def policy_spec(
    scenario: Scenario, name: PolicyID, parsed: PolicyEntry, role: Role | None, seats: frozenset[int], task: Task
) -> PolicySpec:
    """What the policy is built from, by workers and learners alike."""
    kind = task.kind_of(min(seats))
    check_spaces(name, scenario.multiagent.given_spaces(name), task.kinds[kind])
    # By its name, so that the first weights of a policy do not depend on which others there are. Python's own hash
    # differs between processes.
    seed = zlib.crc32(f"{scenario.seed}/{name}".encode())
    if role is None:
        return PolicySpec("scripted", kind, scripted=parsed.scripted, seed=seed)
    agent_id = parsed.model.agent_id
    if agent_id == "auto":
        agent_id = _plays_teammates(role, seats, task)
    exploration = parsed.exploration
    if exploration is None and role.preset.exploration:
        exploration = ExplorationConfig.model_validate({"type": role.preset.exploration})
    return PolicySpec(
        acts=role.preset.family.acts,
        kind=kind,
        model=parsed.model,
        exploration=exploration,
        scripted=None,
        agent_id=bool(agent_id),
        seed=seed,
        options=role.config.acting,
    )


def _plays_teammates(role: Role, seats: frozenset[int], task: Task) -> bool:
    """Whether one network plays several agents of a team. They have to be told apart, or all would do the same."""
    if not role.config.looks_at_groups:
        return False
    # A critic that sees everybody makes one team of them, whatever the groups are.
    if getattr(role.config, "critic_sees", "") == "all" and len(seats) > 1:
        return True
    return any(len(seats.intersection(members)) > 1 for members in task.groups.values())
