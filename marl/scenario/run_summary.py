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
    played = "; ".join(f"{name} plays {_names(task, s) or 'in evaluation alone'}" for name, s in seats.items())
    lines = [_env(scenario, task, roles), f"policies ({mapper}): {played}"]
    if task.groups:
        members = {name: _names(task, frozenset(seats)) for name, seats in task.groups.items()}
        teams = [f"{name} = {names}" for name, names in members.items() if names != name]
        if told := "; ".join([*teams, *look.notes]):
            lines.append(f"groups{'' if look.groups else ' (none given)'}: {told}")
    crew = f"; {scenario.num_learners} processes share every minibatch" if scenario.num_learners > 1 else ""
    lines.append(f"learners: {'; '.join(map(str, plans)) or 'none'}{crew}")
    wanted = scenario.multiagent.policies_to_train
    frozen = [name for name in roles if isinstance(wanted, list) and name not in wanted]
    if frozen:
        lines.append(f"frozen: {', '.join(frozen)}")
    imitating = [name for name, role in roles.items() if role.preset.name in ("bc", "marwil")]
    if imitating and not scenario.input:
        lines.append(f"no input: {', '.join(imitating)} can only imitate its own play. Give recordings: input: DIR")
    if scenario.load:
        lines.append(f"loaded: {'; '.join(f'{name} from {path}' for name, path in scenario.load.items())}")
    if scenario.evaluation.env is not None:
        lines.append(f"evaluated on: {env_name(scenario.evaluation.env)}")
    return (*lines, look.remark) if look.remark else tuple(lines)


def _env(scenario: Scenario, task: Task, roles: Mapping[PolicyID, Role]) -> str:
    kinds = []
    for kind in task.kinds:
        most = "up to " if any("*" in name for name in kind.agents) else ""  # seats of agents that come and go
        kinds.append(f"{kind.name} x {most}{kind.size}")
    state = f"; state of {task.state_size}" if any(role.config.needs_state for role in roles.values()) else ""
    return f"env: {env_name(scenario.env)} ({', '.join(kinds)}{state})"


def _names(task: Task, seats: frozenset[int]) -> str:
    names = list(dict.fromkeys(task.seat_names[seat].split("[")[0] for seat in sorted(seats)))
    return ", ".join(names) if len(names) <= 6 else f"{', '.join(names[:5])}, ... ({len(names)})"
