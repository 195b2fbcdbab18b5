"""The world of a scenario as its policies see it: wrapped, with groups joined or shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from marl.algos.plan import looks_at_groups
from marl.data.task import AgentID, GroupID, Kind
from marl.envs.batched import BatchedEnv
from marl.envs.joint import GroupedWorld
from marl.envs.lifting.vector import DictVector
from marl.envs.registry import make_world, resolve_env
from marl.envs.wrappers import Wrapping, read_wrappers
from marl.errors import ConfigError, did_you_mean
from marl.scenario.config import Scenario


@dataclass(frozen=True)
class Look:
    """Who plays in the world, and how it has to be wrapped for that."""

    kinds: tuple[Kind, ...]
    state_size: int
    state_costs: bool  # a state that nobody needs is better not asked for
    wrappers: tuple[Wrapping, ...]
    groups: Mapping[GroupID, Sequence[AgentID]]  # teams; a group that is played as one agent is a team of itself
    notes: tuple[str, ...] = ()
    remark: str = ""  # what a user might not expect


def look_at_world(scenario: Scenario) -> Look:
    """Build one copy and see. Groups of ``multiagent.joint`` are played as one agent."""
    joint = _joint_groups(scenario)
    wrappers = read_wrappers(scenario.wrappers)
    if joint:
        wrappers = (*wrappers, Wrapping("with_agent_groups", {"groups": joint}))
    world = _built(scenario, wrappers)
    groups: dict[GroupID, Sequence[AgentID]] = {
        name: [name] if name in joint else members for name, members in scenario.multiagent.groups.items()
    }  # fmt: skip
    notes = tuple(f"{name} = {', '.join(members)}, played as one agent" for name, members in joint.items())
    inner = world.lane(0) if isinstance(world, DictVector) else None
    if (
        isinstance(inner, GroupedWorld)
        and not joint
        and looks_at_groups(scenario.preset.configure(**scenario.algo_keys))
    ):
        groups = dict(groups or inner.groups)
        wrappers = (*wrappers, Wrapping("show_members", {}))
        notes = (f"members of {', '.join(inner.groups)} play by themselves, because {scenario.preset.name} joins them",)
        world = _built(scenario, wrappers)
    lifted = isinstance(world, DictVector)
    remark = ""
    if lifted and isinstance(creator := resolve_env(scenario.env), type) and issubclass(creator, BatchedEnv):
        remark = "wrappers: with them the copies of this world are stepped one by one, much slower than without"
    return Look(world.kinds, world.state_size, lifted, wrappers, groups, notes, remark)


def _built(scenario: Scenario, wrappers: Sequence[Wrapping]) -> BatchedEnv:
    world = make_world(scenario.env, 1, scenario.env_config, wrappers=wrappers)
    world.close()
    return world


def _joint_groups(scenario: Scenario) -> dict[GroupID, list[AgentID]]:
    groups = scenario.multiagent.groups
    for name in scenario.multiagent.joint:
        if name not in groups:
            raise ConfigError(
                f"multiagent.joint names {name!r}, which is no group. Groups: {', '.join(groups) or 'none'}."
                f"{did_you_mean(name, groups)} Give its members under multiagent.groups."
            )
    return {name: groups[name] for name in scenario.multiagent.joint}
