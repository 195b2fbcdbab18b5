"""Whether workers wait for the learners (``collection``): one answer for the whole run, whoever learns in it."""

from __future__ import annotations

from collections.abc import Mapping

from marl.algos.plan import Role
from marl.data.task import PolicyID
from marl.scenario.config import Scenario


def collects_asynchronously(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> bool:
    """``auto``: on Ray workers, where the preset of any learning policy is asynchronous."""
    if scenario.collection == "auto":
        return scenario.on_ray and bool(_eager(roles))
    return scenario.collection == "async"


def describe_collection(scenario: Scenario, roles: Mapping[PolicyID, Role], asynchronous: bool) -> tuple[str, ...]:
    """A line for the header of runs in which it is not what one might expect."""
    if asynchronous:
        return (
            f"collection: asynchronous, {scenario.num_workers} worker(s); info.policy_lag_mean tells how old their weights "
            "were; runs do not repeat exactly",
        )
    if not _eager(roles):
        return ()
    why = "collection is sync" if scenario.collection == "sync" else "workers in this process play one after the other"
    return (f"collection: synchronous although {', '.join(_eager(roles))} can do without waiting: {why}; policy lag 0",)


def _eager(roles: Mapping[PolicyID, Role]) -> list[str]:
    return list(dict.fromkeys(role.preset.name for role in roles.values() if role.preset.asynchronous))
