"""Keys that are of no use to the policies of a run are refused: the part of the declared needs that asks who plays."""

from __future__ import annotations

from collections.abc import Mapping

from marl.algos.plan import Role
from marl.config import Config
from marl.data.task import AgentType, PolicyID
from marl.errors import ConfigError
from marl.needs import AlgoNeed, PolicyNeed, above, asks, given, missing, needs, shown
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
    block = field.partition(".")[0]
    wanting = missing(FIELD_NEEDS[block], scenario) if block in FIELD_NEEDS else ""
    if wanting:
        raise ConfigError(f"{where}: {field} {wanting}.")


def check_policy_keys(name: PolicyID, role: Role, kind: AgentType) -> None:
    """Keys of a policy's model and algorithm have to mean something to the way in which it acts and learns."""
    _check("model.", role.model, name, role, kind)
    _check("", role.config, name, role, kind)


def check_run_keys(scenario: Scenario, roles: Mapping[PolicyID, Role], kinds: Mapping[PolicyID, AgentType]) -> None:
    """Keys of the run have to mean something to every policy that learns in it."""
    for name, role in roles.items():
        _check("", scenario, name, role, kinds[name])


def _check(where: str, section: Config, name: PolicyID, role: Role, kind: AgentType) -> None:
    defaults = section.defaults()
    for key, declared in section.declared().items():
        value = getattr(section, key)
        # What the algorithm itself sets was not the user's wish.
        if section is role.config and value == role.preset.defaults.get(key):
            continue
        wanting = [
            _not_such_a_policy(need, role, kind) for need in declared.policy_needs if asks(need, value, defaults[key])
        ]
        wanting += [_missing_of_algo(need, role) for need in declared.algo_needs if asks(need, value, defaults[key])]
        for reason in filter(None, wanting):
            raise ConfigError(f"{where}{shown(key, value)} {reason}, or drop {key} for policy {name!r}.")


def _missing_of_algo(need: AlgoNeed, role: Role) -> str:
    known = [condition for condition in need.any_of if condition.key in type(role.config).model_fields]
    if not known:
        return ""
    return missing(need, role.config)


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
    because = f" ({need.why})" if need.why else ""
    return f"is {need}, but the policy {got}{because}. {remedy}"
