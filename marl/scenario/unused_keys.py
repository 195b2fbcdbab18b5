"""Keys that are of no use to the policies of a run are refused: the part of the declared needs that asks who plays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from marl.algos.plan import Role
from marl.config import Config
from marl.data.task import AgentType, PolicyID
from marl.errors import ConfigError
from marl.needs import AlgoNeed, Declared, PolicyNeed, above, asks, because, given, missing, needs, shown
from marl.policies.config import ModelConfig, PolicySpec
from marl.policies.value_table import TABLE
from marl.scenario.config import Scenario

FIELD_NEEDS = {
    "evaluation": needs(above("evaluation.interval", 0)),
    "best_evaluation": needs(above("evaluation.interval", 0)),
    "exploitability": needs(above("exploitability.interval", 0)),
    "population": needs(given("population")),
    "curriculum": needs(given("curriculum")),
}
"""What a scenario needs so that its results have a block of fields."""


def check_measured(scenario: Scenario, field: str, where: str) -> None:
    """Refuse a result field of a block that results of this scenario will not have."""
    block, _, _ = field.partition(".")
    if block not in FIELD_NEEDS:  # every result has it
        return
    wanting = missing(FIELD_NEEDS[block], scenario)
    if wanting:
        raise ConfigError(f"{where}: {field} {wanting}.")


def check_policy_keys(
    roles: Mapping[PolicyID, Role], specs: Mapping[PolicyID, PolicySpec], kinds: Sequence[AgentType]
) -> None:
    """Keys of models and algorithms have to mean something to the way in which a policy acts and learns."""
    for name, role in roles.items():
        kind = kinds[specs[name].kind]
        if role.preset.family.acts == TABLE:
            _refuse_model(role.model, name, role)
        _check(role.model, "model.", name, role, kind)
        _check(role.config, "", name, role, kind)
        exploration = specs[name].exploration
        if exploration is not None:
            _check(exploration, "exploration_config.", name, role, kind)


def _refuse_model(model: ModelConfig, name: PolicyID, role: Role) -> None:
    """A table has no layers; which agent it plays (``agent_id``) is all that it can be shown."""
    keys = [key for key in model.changed(*ModelConfig.model_fields) if key != "agent_id"]
    if keys:
        raise ConfigError(
            f"policy {name!r}: model.{shown(keys[0], getattr(model, keys[0]))} is for networks, but {role.preset.name} learns "
            f"a table. Use dqn, or drop {', '.join(keys)}."
        )


def check_run_keys(
    scenario: Scenario, roles: Mapping[PolicyID, Role], specs: Mapping[PolicyID, PolicySpec], kinds: Sequence[AgentType]
) -> None:
    """Keys of the run have to mean something to every policy that learns in it."""
    for name, role in roles.items():
        _check(scenario, "", name, role, kinds[specs[name].kind])


def _check(section: Config, where: str, name: PolicyID, role: Role, kind: AgentType) -> None:
    for key, declared in section.declared().items():
        value = getattr(section, key)
        # What the algorithm itself sets was not the user's wish.
        if section is role.config and value == role.preset.defaults.get(key):
            continue
        reason = _reason(declared, value, section.defaults()[key], role, kind)
        if reason:
            raise ConfigError(f"policy {name!r}: {where}{shown(key, value)} {reason}, or drop {key}.")


def _reason(declared: Declared, value: Any, default: Any, role: Role, kind: AgentType) -> str:
    """Why the policy has no use for this value; empty where it has."""
    for policy_need in declared.policy_needs:
        reason = _not_such_a_policy(policy_need, role, kind)
        if reason and asks(policy_need, value, default):
            return reason
    for algo_need in declared.algo_needs:
        reason = _missing_of_algo(algo_need, role)
        if reason and asks(algo_need, value, default):
            return reason
    return ""


def _missing_of_algo(need: AlgoNeed, role: Role) -> str:
    keys = type(role.config).model_fields
    for condition in need.any_of:
        if condition.key in keys:
            return missing(need, role.config)
    return ""


def _not_such_a_policy(need: PolicyNeed, role: Role, kind: AgentType) -> str:
    """What the policy would have to be, what it is, and what to do; empty where it is as it has to be."""
    family, actions = role.preset.family, []
    if kind.columns.numbers:
        actions.append("coordinates")
    if kind.columns.choices:
        actions.append("choices")
    if need.holds(family.acts, family.name, actions):
        return ""
    got, remedy = f"learns by {role.preset.name}", "Use another algorithm"
    if need.test == "plays":
        got, remedy = f"plays agents with {kind.action_space}", "Give it to policies of such agents"
    return f"is {need}, but it {got}{because(need)}. {remedy}"
