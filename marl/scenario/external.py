"""Runs whose env is played by clients: what does not go together with that, and which algorithms learn from it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from marl.algos.config import LearnerConfig
from marl.algos.family import Preset
from marl.algos.plan import Role
from marl.data.task import GroupID, PolicyID
from marl.envs.external.contract import EXTERNAL, Contract
from marl.errors import ConfigError
from marl.scenario.config import Scenario


class Learns(StrEnum):
    """What an algorithm can learn from where clients play on while it learns."""

    NEWEST = "newest"  # only what its newest weights have played
    ALL = "all"  # also what older weights have played
    NOTHING = "nothing"  # it does not learn from single episodes


class Refusal(NamedTuple):
    """A key that means nothing where clients play."""

    key: str
    why: str
    remedy: str


REFUSED = (
    Refusal(
        "num_workers",
        "clients play, in programs of their own",
        "Drop num_workers; num_envs_per_worker is the number of episodes that are played at once",
    ),
    Refusal(
        "fresh_env_per_episode",
        "nobody here can build the client's world anew",
        "Let the client build it in each episode",
    ),
    Refusal("env_timeout_s", "a client may think for any time", "Use external: {episode_timeout_s: ...}"),
    Refusal("curriculum", "nobody here can change the client's world", "Let clients change what they play"),
    Refusal("env_task_fn", "nobody here can change the client's world", "Let clients change what they play"),
    Refusal("population", "its members also meet in matches, which no client plays", "Drop population"),
    Refusal("input", "recordings are read, not played", "Drop input, or name the env that was recorded"),
    Refusal("record_env", "only the client can draw its world", "Film it there"),
    Refusal("render_env", "only the client can draw its world", "Show it there"),
)


def is_external(scenario: Scenario) -> bool:
    """Whether clients play the env of a scenario."""
    return bool(scenario.env == EXTERNAL)


def waits_for_agents(scenario: Scenario) -> bool:
    """Whether the first client says who plays."""
    return is_external(scenario) and Contract.of(scenario.env_config) is None


def check_external(scenario: Scenario) -> None:
    """Refuse keys that mean nothing where clients play, before anything listens."""
    if is_external(scenario):
        _check_keys(scenario, "env: external")


def with_program(scenario: Scenario) -> Scenario:
    """The scenario of an env that plays by itself (``marl.ExternalEnv``): evaluations, which have to be played, are off."""
    _check_keys(scenario, "an ExternalEnv")
    evaluation = scenario.evaluation
    if evaluation.env is not None or not evaluation.interval:
        return scenario
    return scenario.model_copy(update={"evaluation": evaluation.model_copy(update={"interval": 0})})


def _check_keys(scenario: Scenario, kind: str) -> None:
    for refused in REFUSED:
        if scenario.changed(refused.key):
            value = getattr(scenario, refused.key)
            shown = f"{refused.key} is {value!r}" if isinstance(value, int | float) else f"{refused.key} is given"
            raise ConfigError(f"{shown}, but with {kind} {refused.why}. {refused.remedy}.")
    asked = is_external(scenario) or "interval" in scenario.evaluation.model_fields_set
    if scenario.evaluation.interval and scenario.evaluation.env is None and asked:
        raise ConfigError(
            f"evaluation.interval is {scenario.evaluation.interval}, but an external env is played by its clients and not "
            "here. Set evaluation: {interval: 0}, or give evaluation.env: an env with the same agents and spaces that can be "
            "played here."
        )
    if scenario.exploitability.interval:
        raise ConfigError(
            "exploitability.interval is above 0, but nobody here can go through the tree of an external env. Set it to 0."
        )


def learns_from(preset: Preset, config: LearnerConfig) -> Learns:
    """What an algorithm takes of what clients report while it learns."""
    if preset.family.name in ("es", "deep_cfr"):
        return Learns.NOTHING
    # A ratio of probabilities mends what an older policy has done differently; imitation does not care who played.
    mends = getattr(config, "objective", "") == "vtrace" or config.learns_from_recordings
    if preset.family.on_policy and not mends:
        return Learns.NEWEST
    return Learns.ALL


def strict_policies(roles: Mapping[PolicyID, Role]) -> frozenset[PolicyID]:
    """Policies that learn from nothing but what their newest weights have played."""
    found = [name for name, role in roles.items() if learns_from(role.preset, role.config) is Learns.NEWEST]
    return frozenset(found)


def check_learners(roles: Mapping[PolicyID, Role]) -> None:
    """Refuse algorithms that cannot learn from clients."""
    for name, role in roles.items():
        if learns_from(role.preset, role.config) is Learns.NOTHING:
            raise ConfigError(
                f"policy {name!r} learns by {role.preset.name}, which has to play games of its own on envs that it can "
                "start at will; clients of an external env do not wait for that. Use ppo, impala, dqn or another algorithm."
            )


def groups_of(scenario: Scenario) -> dict[GroupID, list[str]]:
    """The groups that the agents of an external env name, where the scenario itself says none."""
    if not is_external(scenario) or scenario.multiagent.groups:
        return {}
    contract = Contract.of(scenario.env_config)
    groups: dict[GroupID, list[str]] = {}
    if contract is None:
        return groups
    for name, agent in contract.agents.items():
        if agent.group is not None:
            groups.setdefault(agent.group, []).append(name)
    return groups
