"""Which policies share a learner, and how learners are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from marl.algos.config import LearnerConfig
from marl.algos.family import Preset
from marl.algos.intrinsic.bonuses import Bonuses
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
        joined = _who_looks_at(frozenset(seats), roles)
        _check_mixable(group, joined, roles)
        _put_together(joined, leader)
        met |= dict.fromkeys(joined, f"group {group}")

    # One after the other in a chain: whoever sees everybody needs everybody's target actors in one learner.
    together = [n for n, role in roles.items() if role.config.looks_at_everybody]
    for first, second in pairwise(together):
        if roles[first].preset.family == roles[second].preset.family:
            _put_together((first, second), leader)
            met.setdefault(first, "critics see everybody")

    for layers, sharers in _sharers(roles).items():
        _check_sharing(layers, sharers, roles)
        _put_together(sharers, leader)
        met = dict.fromkeys(sharers, f"shared layers {layers}") | met  # a group that was met before says more

    companies: dict[PolicyID, list[PolicyID]] = {}
    for name, head in leader.items():
        companies.setdefault(head, []).append(name)
    plans = []
    for head, members in companies.items():
        plans.append(LearnerPlan(tuple(members), roles[head].preset.name, met.get(head, "")))
    return plans


def _who_looks_at(seats: frozenset[int], roles: Mapping[PolicyID, Role]) -> list[PolicyID]:
    """Policies that play one of the seats and whose algorithm looks at groups."""
    found = []
    for name, role in roles.items():
        if role.config.looks_at_groups and role.seats & seats:
            found.append(name)
    return found


def _put_together(names: Sequence[PolicyID], leader: dict[PolicyID, PolicyID]) -> None:
    """The first of the names leads all of them, and whoever had one of their leaders."""
    for first, second in pairwise(names):
        old, new = leader[second], leader[first]
        for name, its_leader in leader.items():
            if its_leader == old:
                leader[name] = new


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
    spec = LearnerSpec(
        policies={name: policies[name] for name in mine},
        everybody=policies,
        configs={name: roles[name].config for name in mine},
        models={name: roles[name].model for name in mine},
        seats={name: roles[name].seats for name in mine},
        task=task,
        seed=seed,
        algo=plan.algo,
    )
    learner = roles[mine[0]].preset.family.build(spec)
    learner.ends_at_limits = frozenset(name for name in mine if not roles[name].config.bootstrap_at_time_limit)
    learner.bonuses = Bonuses.of(spec)
    if learner.bonuses.curious and "intrinsic" not in learner.state_dict():
        raise ConfigError(
            f"algorithm {plan.algo} keeps no state of intrinsic rewards, so a run could not be resumed exactly. Let its "
            "state_dict begin with self._common_state() and its load_state_dict with self._load_common_state(state)."
        )
    return learner
