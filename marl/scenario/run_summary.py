"""What a run says about itself before it starts: who plays, who learns, and what one might not expect."""

from __future__ import annotations

from collections.abc import Mapping

from marl.algos.plan import LearnerPlan, Role
from marl.data.task import PolicyID, Task
from marl.scenario.config import Scenario
from marl.scenario.env import EnvFacts, env_name


def describe_run(
    scenario: Scenario, task: Task, mapper: str, seats: Mapping[PolicyID, frozenset[int]], plans: tuple[LearnerPlan, ...],
    roles: Mapping[PolicyID, Role], look: EnvFacts,
) -> tuple[str, ...]:  # fmt: skip
    """The lines above the first iteration."""
    lines = [
        _env(scenario, task, roles),
        _policies(task, mapper, seats),
        *_groups(task, look),
        _learners(scenario, plans),
    ]
    frozen = _frozen(scenario, roles)
    if frozen:
        lines.append(f"frozen: {', '.join(frozen)}")
    imitating = [name for name, role in roles.items() if role.preset.name in ("bc", "marwil")]
    if imitating and not scenario.input:
        lines.append(f"no input: {', '.join(imitating)} can only imitate its own play. Give recordings: input: DIR")
    lines += _at_once(task, roles)
    if scenario.load:
        sources = [f"{name} from {path}" for name, path in scenario.load.items()]
        lines.append(f"loaded: {'; '.join(sources)}")
    if scenario.evaluation.env is not None:
        lines.append(f"evaluated on: {env_name(scenario.evaluation.env)}")
    if look.remark:
        lines.append(look.remark)
    return tuple(lines)


def _policies(task: Task, mapper: str, seats: Mapping[PolicyID, frozenset[int]]) -> str:
    parts = []
    for name, own_seats in seats.items():
        agents = _names(task, own_seats) or "in evaluation alone"
        parts.append(f"{name} plays {agents}")
    return f"policies ({mapper}): {'; '.join(parts)}"


def _groups(task: Task, look: EnvFacts) -> list[str]:
    teams = []
    for name, seats in task.groups.items():
        members = _names(task, frozenset(seats))
        if members != name:  # a group that is played as one agent is a team of itself; the notes tell of it
            teams.append(f"{name} = {members}")
    told = "; ".join([*teams, *look.notes])
    if not told:
        return []
    if not look.groups:  # the algorithm needs a group and was given none
        return [f"groups (none given): {told}"]
    return [f"groups: {told}"]


def _learners(scenario: Scenario, plans: tuple[LearnerPlan, ...]) -> str:
    told = "; ".join(map(str, plans)) or "none"
    if scenario.num_learners > 1:
        told += f"; {scenario.num_learners} processes share every minibatch"
    return f"learners: {told}"


def _at_once(task: Task, roles: Mapping[PolicyID, Role]) -> list[str]:
    """Policies that should take turns within a group but play several of its agents, which cannot learn one by one."""
    told = []
    for name, role in roles.items():
        if not getattr(role.config, "sequential_update", False):
            continue
        crowded = [group for group, seats in task.groups.items() if len(role.seats & set(seats)) > 1]
        if crowded:
            told.append(
                f"{role.preset.name}: policy {name} plays several agents of group {crowded[0]}, which learn at once as in "
                "mappo. One after the other: policy_mapping_fn: per_agent"
            )
    return told


def _frozen(scenario: Scenario, roles: Mapping[PolicyID, Role]) -> list[PolicyID]:
    wanted = scenario.multiagent.policies_to_train
    if not isinstance(wanted, list):  # a function is asked in each round, so nobody knows in advance
        return []
    return [name for name in roles if name not in wanted]


def _env(scenario: Scenario, task: Task, roles: Mapping[PolicyID, Role]) -> str:
    parts = []
    for kind in task.kinds:
        count = str(kind.size)
        if any("*" in name for name in kind.agents):
            # Agents that come and go have more seats than there may ever be agents at once.
            count = f"up to {count}"
        parts.append(f"{kind.name} x {count}")
    told = ", ".join(parts)
    if any(role.config.needs_state for role in roles.values()):
        told += f"; state of {task.state_size}"
    return f"env: {env_name(scenario.env)} ({told})"


def _names(task: Task, seats: frozenset[int]) -> str:
    """The agents of the seats; of more than six the first five and how many there are."""
    all_names = [task.seat_names[seat].split("[")[0] for seat in sorted(seats)]
    names = list(dict.fromkeys(all_names))
    if len(names) <= 6:
        return ", ".join(names)
    return f"{', '.join(names[:5])}, ... ({len(names)})"
