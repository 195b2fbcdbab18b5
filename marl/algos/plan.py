"""Which policies share a learner, and how learners are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from marl.algos.config import LearnerConfig
from marl.algos.family import Preset
from marl.algos.learner import Learner, LearnerSpec
from marl.data.task import PolicyID, Task
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.policies.policy import Policy


@dataclass(frozen=True)
class Role:
    """A learning policy: its algorithm, its keys, and the seats that it may ever play."""

    preset: Preset
    config: LearnerConfig
    model: ModelConfig
    seats: frozenset[int]


@dataclass(frozen=True)
class LearnerPlan:
    """Policies that are trained together."""

    policies: tuple[PolicyID, ...]
    algo: str
    why: str

    def __str__(self) -> str:
        return f"{' + '.join(self.policies)} ({self.algo}{', ' + self.why if self.why else ''})"


def plan_learners(roles: Mapping[PolicyID, Role], task: Task) -> list[LearnerPlan]:
    """Policies of one algorithm are joined when their agents meet in a group that it looks at; others learn alone."""
    leader = {name: name for name in roles}
    met: dict[PolicyID, str] = {}
    for group, seats in task.groups.items():
        joined = [n for n, role in roles.items() if role.config.looks_at_groups and role.seats & set(seats)]
        _check_mixable(group, joined, roles)
        for first, second in pairwise(joined):
            old, new = leader[second], leader[first]
            leader = {n: new if le == old else le for n, le in leader.items()}
        for name in joined:
            met[name] = f"group {group}"
    together = [n for n, role in roles.items() if role.config.looks_at_everybody]
    for first, second in pairwise(together):
        if roles[first].preset.family == roles[second].preset.family:
            old, new = leader[second], leader[first]
            leader = {n: new if le == old else le for n, le in leader.items()}
            met.setdefault(first, "critics see everybody")
    for layers, sharers in _sharers(roles).items():
        _check_sharing(layers, sharers, roles)
        for first, second in pairwise(sharers):
            old, new = leader[second], leader[first]
            leader = {n: new if le == old else le for n, le in leader.items()}
        for name in sharers:
            met.setdefault(name, f"shared layers {layers}")
    plans = []
    for head in dict.fromkeys(leader.values()):
        members = tuple(name for name in roles if leader[name] == head)
        plans.append(LearnerPlan(members, roles[head].preset.name, met.get(head, "")))
    return plans


def _sharers(roles: Mapping[PolicyID, Role]) -> dict[str, list[PolicyID]]:
    """Names of shared layers to the policies that have them."""
    found: dict[str, list[PolicyID]] = {}
    for name, role in roles.items():
        for layers in role.model.shared.values():
            found.setdefault(layers, []).append(name)
    return found


def _check_sharing(layers: str, sharers: Sequence[PolicyID], roles: Mapping[PolicyID, Role]) -> None:
    """Shared layers take one gradient step for all their policies, so these must agree on when and how."""
    for first, second in pairwise(sharers):
        a, b = roles[first], roles[second]
        different = [
            key for key in a.config.shared_keys if getattr(a.config, key, None) != getattr(b.config, key, None)
        ]
        if a.preset.family != b.preset.family:
            different = [f"the algorithm ({a.preset.name}, {b.preset.name})"]
        if different:
            raise ConfigError(
                f"policies {first!r} and {second!r} share the layers {layers!r}, which take one gradient step for both, but "
                f"they differ in {', '.join(different)}. Make these equal, or do not share."
            )


def _check_mixable(group: str, joined: Sequence[PolicyID], roles: Mapping[PolicyID, Role]) -> None:
    """Policies that are mixed together must agree on the algorithm and on all of its keys."""
    for first, second in pairwise(joined):
        a, b = roles[first], roles[second]
        if a.preset.family != b.preset.family:
            raise ConfigError(
                f"group {group!r} is looked at by {a.preset.name} (policy {first!r}) and by {b.preset.name} (policy "
                f"{second!r}). One group takes one algorithm: split the group, or give both policies the same algo."
            )
        different = [key for key in a.config.joined_keys if getattr(a.config, key) != getattr(b.config, key)]
        if different:
            raise ConfigError(
                f"policies {first!r} and {second!r} are mixed in group {group!r} but differ in "
                f"{', '.join(different)}. Mixed policies share one learner: set these keys under algo, not per "
                "policy."
            )


def build_learner(
    plan: LearnerPlan,
    roles: Mapping[PolicyID, Role],
    policies: Mapping[PolicyID, Policy],
    task: Task,
    seed: int,
) -> Learner:
    """The learner of one plan."""
    mine = plan.policies
    brief = LearnerSpec(
        policies={name: policies[name] for name in mine},
        everybody=policies,
        configs={name: roles[name].config for name in mine},
        models={name: roles[name].model for name in mine},
        seats={name: roles[name].seats for name in mine},
        task=task,
        seed=seed,
        algo=plan.algo,
    )
    return roles[mine[0]].preset.family.build(brief)
