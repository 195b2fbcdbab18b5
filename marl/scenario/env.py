"""The env of a scenario as its policies see it: wrapped, with groups joined or shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from marl.data.task import AgentID, AgentType, AnySpace, GroupID
from marl.envs.batched import BatchedEnv
from marl.envs.external.program import ExternalEnv
from marl.envs.registry import make_batched_env, resolve_env
from marl.envs.vector.env_errors import close_all
from marl.envs.vector.vector_env import DictVector
from marl.envs.wrapper import innermost
from marl.envs.wrappers import Wrapping, read_wrappers
from marl.envs.wrappers.joint import GroupedEnv
from marl.errors import ConfigError, SpaceMismatchError, did_you_mean
from marl.rollout.config import EnvRecipe
from marl.scenario.config import Scenario
from marl.scenario.external import groups_of


@dataclass(frozen=True)
class EnvFacts:
    """Who plays in the env, and how it has to be wrapped for that."""

    kinds: tuple[AgentType, ...]
    state_size: int
    state_costs: bool  # a state that nobody needs is better not asked for
    wrappers: tuple[Wrapping, ...]
    groups: Mapping[GroupID, Sequence[AgentID]]  # teams; a group that is played as one agent is a team of itself
    notes: tuple[str, ...] = ()
    remark: str = ""  # what a user might not expect
    program: ExternalEnv | None = None  # an env that plays by itself, in its own run()


def inspect_env(scenario: Scenario) -> EnvFacts:
    """Build one copy and see. Groups of ``multiagent.joint`` are played as one agent."""
    joint = _joint_groups(scenario)
    wrappers = _wrappers(scenario, joint)
    env = _built(scenario, wrappers)
    groups: dict[GroupID, Sequence[AgentID]] = {**groups_of(scenario), **scenario.multiagent.groups}
    notes = []
    for name, members in joint.items():
        groups[name] = [name]
        notes.append(f"{name} = {', '.join(members)}, played as one agent")
    grouped = _grouped_env(env)
    # Algorithms that look at groups join the members by themselves (a mixer, a joint critic): show them the members.
    if grouped is not None and not joint and scenario.preset.configure(**scenario.algo_keys).looks_at_groups:
        groups = dict(groups or grouped.groups)
        notes = [
            f"members of {', '.join(grouped.groups)} play by themselves, because {scenario.preset.name} joins them"
        ]
        wrappers = (*wrappers, Wrapping("show_members", {}))
        env = _built(scenario, wrappers)
    lifted = isinstance(env, DictVector)
    remark = ""
    if lifted and is_native(scenario.env):
        remark = "wrappers: with them the copies of this env are stepped one by one, much slower than without"
    return EnvFacts(
        kinds=env.kinds,
        state_size=env.state_size,
        state_costs=lifted,  # the state of a copy that is stepped by itself is asked for in every step
        wrappers=wrappers,
        groups=groups,
        notes=tuple(notes),
        remark=remark,
        program=_program(env),
    )


def _wrappers(scenario: Scenario, joint: Mapping[GroupID, Sequence[AgentID]]) -> tuple[Wrapping, ...]:
    """The scenario's own, and outside of them what other keys ask for."""
    wrappers = [*read_wrappers(scenario.wrappers)]
    if scenario.preprocessor_pref == "deepmind":
        wrappers.append(Wrapping("grey_frames", {}))
    if joint:
        wrappers.append(Wrapping("with_agent_groups", {"groups": joint}))
    return tuple(wrappers)


def _program(env: BatchedEnv) -> ExternalEnv | None:
    if not isinstance(env, DictVector):
        return None
    inside = innermost(env.envs[0])
    if isinstance(inside, ExternalEnv):
        return inside
    return None


def _grouped_env(env: BatchedEnv) -> GroupedEnv | None:
    """The env that plays groups as one agent, if it was the user who wrapped it so."""
    if isinstance(env, DictVector):
        inner = env.envs[0]
        if isinstance(inner, GroupedEnv):
            return inner
    return None


def is_native(env: Any) -> bool:
    """Whether an env brings the stepping of many copies at once along."""
    creator = resolve_env(env)
    return isinstance(creator, type) and issubclass(creator, BatchedEnv)


def evaluation_recipe(scenario: Scenario, look: EnvFacts) -> EnvRecipe:
    """What evaluations play on. Another env than that of training has to have the same agents with the same spaces."""
    own = scenario.evaluation
    own_keys = own.env_config or {}
    if own.env is None:
        return EnvRecipe(scenario.env, {**scenario.env_config, **own_keys}, look.wrappers)
    # Its keys and wrappers are its own; who is played as one agent, or shown by itself, is not a matter of the env.
    wrappers = look.wrappers[len(scenario.wrappers) :]
    recipe = EnvRecipe(own.env, own_keys, wrappers)
    env = make_batched_env(recipe.env, 1, recipe.env_config, wrappers=wrappers, with_state=False)
    close_all([env], env.name)
    trained = who_plays(look.kinds)
    found = who_plays(env.kinds)
    if trained != found:
        raise SpaceMismatchError(
            f"evaluation.env {env_name(own.env)!r} is not played by the agents that are trained: it has "
            f"{describe_players(found)}; env {env_name(scenario.env)!r} has {describe_players(trained)}. Expected the same "
            "agents in this order with equal spaces. "
            "Set evaluation.env_config, which is all that evaluation.env is given (neither env_config nor wrappers of the "
            "scenario), or register a creator that wraps it."
        )
    return recipe


def who_plays(kinds: Sequence[AgentType]) -> list[tuple[tuple[AgentID, ...], AnySpace, AnySpace, bool]]:
    """All that has to be equal in two envs which the same policies play."""
    return [(kind.agents, kind.observation_space, kind.action_space, kind.masked) for kind in kinds]


def describe_players(players: Sequence[tuple[tuple[AgentID, ...], AnySpace, AnySpace, bool]]) -> str:
    """Agents and their spaces, for messages."""
    parts = []
    for agents, seen, moves, masked in players:
        spaces = f"{seen}, {moves}"
        if masked:
            spaces += ", with an action mask"
        parts.append(f"{', '.join(agents)} ({spaces})")
    return "; ".join(parts)


def env_name(env: object) -> str:
    """What messages call an env that may be given as a class or function."""
    if isinstance(env, str):
        return env
    return str(getattr(env, "__name__", "env"))


def _built(scenario: Scenario, wrappers: Sequence[Wrapping]) -> BatchedEnv:
    env = make_batched_env(scenario.env, 1, scenario.env_config, wrappers=wrappers)
    close_all([env], env.name)
    return env


def _joint_groups(scenario: Scenario) -> dict[GroupID, list[AgentID]]:
    """The members of the groups that are played as one agent."""
    groups = scenario.multiagent.groups
    found = {}
    for name in scenario.multiagent.joint:
        if name not in groups:
            raise ConfigError(
                f"multiagent.joint names {name!r}, which is no group. Groups: {', '.join(groups) or 'none'}."
                f"{did_you_mean(name, groups)} Give its members under multiagent.groups."
            )
        found[name] = groups[name]
    return found
