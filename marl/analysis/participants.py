"""Who takes part in a cross-play: policies of checkpoints and built-in opponents, all checked before anything is played.

An entrant gives each player that it can play one *strategy*: a member for each of the player's agents. ``PATH`` plays every
player as its own run's mapping says; ``PATH#policy`` plays, with this one policy, every player whose agents have the spaces
that the policy knows; ``PATH#SIDE.answer/3`` is member 3 of a population's mixture and plays the players of its side;
``random`` plays anybody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from marl.data.task import AgentID, AgentType, PolicyID, Task
from marl.envs.registry import EnvCreator
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, UserError, did_you_mean
from marl.inputs import real_path
from marl.mappers.mapper import Mapper
from marl.policies.mixture import MEMBER
from marl.populations.members import Member, build
from marl.registry import only_modules
from marl.runs.saved import SavedRun
from marl.scenario.describe import to_plain
from marl.scenario.env import env_name
from marl.scenario.load import compose
from marl.scenario.resolve import Setup, resolve
from marl.scenario.routing import candidates, example_agent
from marl.trust import words_of

BUILT_IN = ("random",)
ENV_KEYS = ("env", "env_config", "wrappers")
PLAY_KEYS = ("horizon", "fresh_env_per_episode", "normalize_actions", "clip_actions")

Strategy: TypeAlias = tuple[Member, ...]
"""A member for each agent (or pattern of agents) of a player."""


@dataclass(frozen=True)
class Env:
    """What is played on: the env and its keys; None: that of the checkpoints."""

    env: str | EnvCreator | None = None
    env_config: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Participant:
    """A built-in opponent, or a checkpoint with the setup of its run on the env of the cross-play."""

    label: str
    setup: Setup | None = None
    weights: Mapping[PolicyID, Mapping[str, Any]] | None = None
    policy: PolicyID | None = None  # the one after '#'
    member: int | None = None  # of the mixture that this policy is

    def strategy(self, agents: Sequence[AgentID], task: Task) -> Strategy | None:
        """Its way to play the player with these agents; None: it cannot."""
        if self.setup is None or self.weights is None:
            return tuple(Member.scripted(self.label, _kind_of(agent, task)) for agent in agents)
        if self.policy is not None:
            kind = self.setup.policies[self.policy].kind
            if any(_kind_of(agent, task) != kind for agent in agents):
                return None
            if self.member is not None:
                return self._one_member(self.setup, self.policy, self.member, agents)
        chosen = [self.policy or _policy_of(self.setup, agent, self.label) for agent in agents]
        return tuple(Member(self.label, self.setup.policies[name], self.weights[name]) for name in chosen)

    def _one_member(self, setup: Setup, mixture: PolicyID, number: int, agents: Sequence[AgentID]) -> Strategy | None:
        """A member of a population for all agents of a player; None where the player is not of its side."""
        assert setup.stage is not None
        assert self.weights is not None
        side, answers = setup.stage.mixtures[mixture], setup.stage.answers()
        if any(side.answer not in answers.candidates(example_agent(agent)) for agent in agents):
            return None
        start = f"{MEMBER}{number}."
        weights = {k.removeprefix(start): array for k, array in self.weights[mixture].items() if k.startswith(start)}
        return (Member(self.label, replace(setup.policies[mixture], population=None), weights),) * len(agents)


def _kind_of(agent: AgentID, task: Task) -> int:
    """The kind of an agent, or of the agents of a pattern."""
    return next(k for k, kind in enumerate(task.kinds) if any(name.split("[")[0] == agent for name in kind.agents))


def _policy_of(setup: Setup, agent: AgentID, label: str) -> PolicyID:
    """Who plays the agent in the run; where training draws among several, whom evaluation takes."""
    mappers: list[Mapper | None] = [setup.rollout.mapper, setup.rollout.evaluation_mapper]
    found: Sequence[PolicyID] = []
    for mapper in mappers:
        found = candidates(mapper, example_agent(agent)) if mapper is not None else found
        if len(found) == 1:
            return found[0]
    raise ConfigError(
        f"{label}: in its run {agent!r} is played by one of {', '.join(found)}, so nobody knows who is meant. Name one "
        f"policy: {label}#{found[0]}."
    )


# -- reading -------------------------------------------------------------------------------------------------------


def read_entrants(names: Sequence[str | Path], env: Env, allow: frozenset[str]) -> tuple[list[Participant], Setup]:
    """All entrants, and the setup whose env is played; names in checkpoints may only point to allowed modules."""
    given = [str(name) for name in names]
    if not given:
        raise ConfigError(
            f"cross-play needs somebody who plays: checkpoints, run directories, or {', '.join(BUILT_IN)}."
        )
    sources = {name: source_of(name) for name in given if name not in BUILT_IN}
    runs = {name: _open(path, env, allow) for name, (path, _) in sources.items()}
    _check_once(
        [(str(real_path(runs[name].folder)), sources[name][1]) if name in runs else (name, None) for name in given]
    )
    labels = dict(zip(runs, short_labels([str(run.folder) for run in runs.values()]), strict=True))
    _check_same_env({name: run.scenario for name, run in runs.items()}, env)
    setups = {name: _set_up(run, env) for name, run in runs.items()}
    base = next(iter(setups.values())) if setups else _bare(env, allow)
    entrants: list[Participant] = []
    for name in given:
        if name in BUILT_IN:
            entrants.append(Participant(name))
            continue
        policy = sources[name][1]
        _check_agents(name, setups[name].task.kinds, base.task.kinds)
        label = f"{labels[name]}#{policy}" if policy else labels[name]
        policy, member = _member_of(runs[name], policy)
        entrants.append(Participant(label, setups[name], runs[name].weights, policy, member))
    return entrants, base


def _open(path: str, env: Env, allow: frozenset[str]) -> SavedRun:
    """A run whose own env is played, unless the user gives another."""
    remedy = "Give the env again: cross_play(..., env=...)." if env.env is None else None
    return SavedRun.open(path, allow, _words_of(env), remedy=remedy)


def _words_of(env: Env) -> list[str]:
    return list(words_of([env.env, dict(env.env_config or {})]))


def source_of(name: str) -> tuple[str, PolicyID | None]:
    """The path and the policy that ``PATH#policy`` names."""
    path, _, policy = name.partition("#")
    if os.sep not in path and not Path(path).exists():
        raise CheckpointError(
            f"there is no checkpoint {path!r}.{did_you_mean(path, BUILT_IN)} Expected a run directory, a checkpoint, "
            f"PATH#policy, or {', '.join(BUILT_IN)}."
        )
    return path, policy or None


def _set_up(run: SavedRun, env: Env) -> Setup:
    """The run of a checkpoint on the env of the cross-play."""
    if env.env is None:
        return run.setup
    setup = run.resolve({"env": env.env, "env_config": dict(env.env_config or {}), "wrappers": []})
    _check_trained_spaces(run, setup)
    return setup


def _bare(env: Env, allow: frozenset[str]) -> Setup:
    if env.env is None:
        raise ConfigError(
            f"only {', '.join(BUILT_IN)} takes part, so there is no env. Add a checkpoint, or give --env."
        )
    raw = {"env": env.env, "env_config": dict(env.env_config or {}), "algo": "ppo"}
    with only_modules(allow, _words_of(env)):
        return resolve(compose(raw, "cross-play"))


# -- checks --------------------------------------------------------------------------------------------------------


def _check_once(meant: Sequence[tuple[str, PolicyID | None]]) -> None:
    for number, (what, policy) in enumerate(meant):
        if (what, policy) in meant[:number]:
            raise ConfigError(
                f"{what}{f'#{policy}' if policy else ''} was given twice. Give every entrant once; each also meets itself."
            )


def _check_same_env(described: Mapping[str, Mapping[str, Any]], env: Env) -> None:
    """Policies of different envs cannot meet unless the user says where."""
    if env.env is None and env.env_config is not None:
        raise ConfigError(
            "env_config was given without env. Give both, or neither to play on the checkpoints' own env."
        )
    first, *others = described or [""]
    for name in others:
        for key in (*ENV_KEYS, *PLAY_KEYS) if env.env is None else PLAY_KEYS:
            mine, theirs = described[name].get(key), described[first].get(key)
            if mine != theirs:
                remedy = " Give the env to play on by --env (env=...)." if key in ENV_KEYS else ""
                raise ConfigError(
                    f"{name} and {first} were not trained on the same env: {key} is {mine!r} there and {theirs!r} here."
                    f"{remedy or ' Such policies cannot meet: train them with the same key.'}"
                )


def _check_agents(name: str, mine: Sequence[AgentType], theirs: Sequence[AgentType]) -> None:
    """The same agents with the same spaces, however groups were joined in the runs."""
    a, b = (
        [(kind.agents, kind.observation_space, kind.action_space, kind.masked) for kind in k] for k in (mine, theirs)
    )
    if a != b:
        raise SpaceMismatchError(
            f"{name} is not played by the agents of the first checkpoint: it has {_told(mine)}; the first has "
            f"{_told(theirs)}. Expected equal agents with equal spaces."
        )


def _told(kinds: Sequence[AgentType]) -> str:
    return "; ".join(f"{', '.join(kind.agents)} ({kind.observation_space}, {kind.action_space})" for kind in kinds)


def _check_trained_spaces(run: SavedRun, setup: Setup) -> None:
    """On another env the spaces have to be those of training, as far as that env can still be built."""
    try:
        trained = run.setup
    except UserError:
        return  # its env is gone; the shapes of the weights are checked anyway
    for name, spec in trained.policies.items():
        mine, theirs = trained.task.kinds[spec.kind], setup.task.kinds[setup.policies[name].kind]
        if (mine.observation_space, mine.action_space) != (theirs.observation_space, theirs.action_space):
            raise SpaceMismatchError(
                f"{run.folder}: policy {name!r} was trained on {mine.observation_space}, {mine.action_space}, but "
                f"{env_name(setup.rollout.env)!r} has {theirs.observation_space}, {theirs.action_space} there. Choose an env "
                "with equal spaces."
            )


def _member_of(run: SavedRun, policy: PolicyID | None) -> tuple[PolicyID | None, int | None]:
    """The policy after '#' and, for ``main.answer/3``, the number of a mixture's member."""
    if policy is None:
        return None, None
    mixture, slash, number = policy.rpartition("/")
    if policy in run.weights or not slash:
        run.check_policy(policy)
        return policy, None
    run.check_policy(mixture)
    count = len(run.weights[mixture].get("chances", ()))
    if not number.isdecimal() or int(number) >= count:
        has = f"It has the members 0 to {count - 1}." if count else "It is one policy, not a mixture."
        raise CheckpointError(f"{run.folder}: policy {mixture!r} has no member {number!r}. {has}")
    return mixture, int(number)


def check_members(members: Sequence[Member], task: Task, allow: frozenset[str]) -> None:
    """Build everybody once: weights that do not fit their agents are told before any play."""
    with only_modules(allow):
        for member in members:
            build(member, task.kinds)


def short_labels(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart: ``checkpoint_000010``, or with the run before it."""
    parts = [[part for part in Path(path).parts if part != "checkpoints"] for path in paths]
    for length in range(1, max(map(len, parts), default=0) + 1):
        labels = ["/".join(part[-length:]) for part in parts]
        if len(set(labels)) == len(set(paths)):
            return labels
    return list(paths)


def env_facts(setup: Setup) -> dict[str, Any]:
    """What decides an episode besides who plays: part of the key under which results are kept."""
    rollout = setup.rollout
    played = {key: getattr(rollout.config, key) for key in PLAY_KEYS}
    facts: dict[str, Any] = to_plain(
        {"env": rollout.env, "env_config": rollout.env_config, "wrappers": rollout.wrappers, **played}
    )
    return facts
