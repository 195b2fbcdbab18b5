"""Who waits for whom: which way of collecting a run has, and who can learn from what it brings."""

from __future__ import annotations

from collections.abc import Mapping

from marl.algos.plan import Role
from marl.data.task import PolicyID
from marl.errors import ConfigError
from marl.scenario.config import Scenario


def collects_asynchronously(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> bool:
    """Whether workers play on while learners learn: one answer for the whole run, whoever learns in it.

    ``auto``: on Ray workers, where the preset of any learning policy is asynchronous.
    """
    if scenario.collection == "auto":
        return scenario.on_ray and bool(_asynchronous_presets(roles))
    return scenario.collection == "async"


def check_overlap(scenario: Scenario, roles: Mapping[PolicyID, Role], by_clients: bool) -> None:
    """Refuse ``collection: overlap`` where older weights' play would be learned from as if it were the policy's own."""
    if scenario.collection != "overlap":
        return
    if by_clients:
        raise ConfigError(
            "collection is overlap, but with an external env clients play, in their own time. Drop collection; clients play "
            "on while learners learn by external: {lock_step: false}."
        )
    if scenario.output and scenario.population is not None:
        raise ConfigError(
            "collection: overlap with a population drops what was played ahead at the end of every round, so the episodes in "
            "output would have gaps. Use collection: sync, or drop output."
        )
    for name, role in roles.items():
        corrected = role.config.corrects_for_lag or role.config.learns_from_recordings
        if role.preset.family.on_policy and not corrected:
            raise ConfigError(
                f"collection is overlap, but policy {name!r} learns by {role.preset.name}, which takes what weights of the "
                "round before played for its own play. Use ppo, mappo or impala, whose ratios correct for that, or "
                "collection: sync."
            )


def describe_collection(scenario: Scenario, roles: Mapping[PolicyID, Role], asynchronous: bool) -> tuple[str, ...]:
    """A line for the header of runs in which it is not what one might expect."""
    if asynchronous:
        return (
            f"collection: asynchronous, {scenario.num_workers} worker(s); info.policy_lag_mean tells how old their weights "
            "were; runs do not repeat exactly",
        )
    if scenario.collection == "overlap":
        return (_describe_overlap(scenario),)
    eager = _asynchronous_presets(roles)
    if not eager:
        return ()
    why = "workers in this process play one after the other"
    if scenario.collection == "sync":
        why = "collection is sync"
    return (f"collection: synchronous although {', '.join(eager)} can do without waiting: {why}; policy lag 0",)


def _describe_overlap(scenario: Scenario) -> str:
    if scenario.on_ray:
        return (
            "collection: overlap, workers play the next round while learners learn; info.policy_lag_mean tells the lag"
        )
    return "collection: overlap, in this process: the numbers of Ray workers that overlap with learning, but no time is saved"


def _asynchronous_presets(roles: Mapping[PolicyID, Role]) -> list[str]:
    names = [role.preset.name for role in roles.values() if role.preset.asynchronous]
    return list(dict.fromkeys(names))
