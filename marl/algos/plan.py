"""Which policies share a learner, and how learners are built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from marl.algos.central_critic.config import CentralCriticConfig
from marl.algos.central_critic.learner import CentralCriticLearner
from marl.algos.config import LearnerConfig
from marl.algos.learner import Learner
from marl.algos.presets import Preset
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.learner import QmixLearner
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


def looks_at_groups(config: LearnerConfig) -> bool:
    """Whether the algorithm mixes a group's values or shows a critic more than one agent."""
    if isinstance(config, QmixConfig):
        return config.mixer != "none"
    assert isinstance(config, CentralCriticConfig)
    return config.critic_sees != "own" or config.share_reward


def needs_state(config: LearnerConfig) -> bool:
    """Whether the algorithm looks at the world's global state."""
    if isinstance(config, QmixConfig):
        return config.mixer == "monotonic"
    assert isinstance(config, CentralCriticConfig)
    return config.critic_sees == "state"


def plan_learners(roles: Mapping[PolicyID, Role], task: Task) -> list[LearnerPlan]:
    """Policies of one algorithm are joined when their agents meet in a group that it looks at; others learn alone."""
    leader = {name: name for name in roles}
    met: dict[PolicyID, str] = {}
    for group, seats in task.groups.items():
        joined = [n for n, role in roles.items() if looks_at_groups(role.config) and role.seats & set(seats)]
        _check_mixable(group, joined, roles)
        for first, second in pairwise(joined):
            old, new = leader[second], leader[first]
            leader = {n: new if le == old else le for n, le in leader.items()}
        for name in joined:
            met[name] = f"group {group}"
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


STEP_KEYS = (
    "objective", "lr", "lr_schedule", "train_batch_size", "num_sgd_iter", "sgd_minibatch_size", "grad_clip", "optimizer",
)  # fmt: skip


def _check_sharing(layers: str, sharers: Sequence[PolicyID], roles: Mapping[PolicyID, Role]) -> None:
    """Shared layers take one gradient step for all their policies, so these must agree on when and how."""
    for first, second in pairwise(sharers):
        a, b = roles[first], roles[second]
        keys = list(type(a.config).model_fields) if isinstance(a.config, QmixConfig) else STEP_KEYS
        different = [key for key in keys if getattr(a.config, key, None) != getattr(b.config, key, None)]
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
        if isinstance(a.config, QmixConfig) and a.config != b.config:
            different = [key for key in type(a.config).model_fields if getattr(a.config, key) != getattr(b.config, key)]
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
    mine = {name: policies[name] for name in plan.policies}
    config = roles[plan.policies[0]].config
    if isinstance(config, QmixConfig):
        teams, alone = _teams(plan, roles, task, config)
        return QmixLearner(mine, task, config, seed, list(policies), teams, alone)
    configs = {name: roles[name].config for name in plan.policies}
    models = {name: roles[name].model for name in plan.policies}
    return CentralCriticLearner(mine, task, configs, models, seed)  # type: ignore[arg-type]


def _teams(
    plan: LearnerPlan, roles: Mapping[PolicyID, Role], task: Task, config: QmixConfig
) -> tuple[dict[str, tuple[int, ...]], list[PolicyID]]:
    """Groups to mix, and policies with agents outside of any group, which learn by themselves."""
    if config.mixer == "none":
        return {}, list(plan.policies)
    seats = frozenset().union(*(roles[name].seats for name in plan.policies))
    teams = {group: members for group, members in task.groups.items() if seats & set(members)}
    grouped = {seat for members in teams.values() for seat in members}
    alone = [name for name in plan.policies if roles[name].seats - grouped]
    if alone and teams:
        raise ConfigError(
            f"policy {alone[0]!r} plays agents inside and outside of the mixed groups ({', '.join(teams)}). Give the "
            "agents outside a policy of their own, or put them into a group."
        )
    outside = [m for m in grouped if m not in seats]
    if outside:
        names = ", ".join(task.seat_names[seat] for seat in outside)
        raise ConfigError(
            f"group {next(iter(teams))!r} is mixed by {plan.algo}, but {names} is played by another algorithm or a "
            "scripted policy. Take it out of the group, or give it a policy of the same algo."
        )
    return teams, alone
