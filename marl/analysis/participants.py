"""Who takes part in a cross-play: policies of checkpoints and built-in opponents, all checked before anything is played.

An entrant gives each player that it can play one *strategy*: a member for each of the player's agents. ``PATH`` plays every
player as its own run's mapping says; ``PATH#policy`` plays, with this one policy, every player whose agents have the spaces
that the policy knows; ``PATH#SIDE.answer/3`` is member 3 of a population's mixture and plays the players of its side;
``random`` plays anybody.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from marl.data.task import AgentID, AgentType, PolicyID, Task
from marl.envs.registry import EnvCreator
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, UserError, did_you_mean
from marl.inputs import real_path
from marl.mappers.mapper import Mapper
from marl.policies.mixture import member_weights
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

    @property
    def config(self) -> dict[str, Any]:
        """The keys as a dict of their own; empty where none were given."""
        return dict(self.env_config or {})


@dataclass(frozen=True)
class Participant:
    """A built-in opponent, or a checkpoint with the setup of its run on the env of the cross-play."""

    label: str
    setup: Setup | None = None
    weights: Mapping[PolicyID, Mapping[str, Any]] = field(default_factory=dict)
    policy: PolicyID | None = None  # the one after '#'
    member: int | None = None  # of the mixture that this policy is

    def strategy(self, agents: Sequence[AgentID], task: Task) -> Strategy | None:
        """Its way to play the player with these agents; None: it cannot."""
        kinds = [_kind_of(agent, task) for agent in agents]
        if self.setup is None:
            return tuple(Member.scripted(self.label, kind) for kind in kinds)
        if self.policy is None:
            return self._as_in_its_run(self.setup, agents)
        spec = self.setup.policies[self.policy]
        if set(kinds) - {spec.kind}:
            return None
        if self.member is not None:
            return self._one_member(self.setup, self.policy, self.member, agents)
        return (Member(self.label, spec, self.weights[self.policy]),) * len(agents)

    def _as_in_its_run(self, setup: Setup, agents: Sequence[AgentID]) -> Strategy:
        """Every agent is played by the policy that the run's own mapping gives it."""
        members = []
        for agent in agents:
            policy = policy_of(setup, agent, self.label)
            members.append(Member(self.label, setup.policies[policy], self.weights[policy]))
        return tuple(members)

    def _one_member(self, setup: Setup, mixture: PolicyID, number: int, agents: Sequence[AgentID]) -> Strategy | None:
        """A member of a population for all agents of a player; None where the player is not of its side."""
        assert setup.stage is not None
        side = setup.stage.mixtures[mixture]
        answers = setup.stage.answers()
        for agent in agents:
            if side.answer not in answers.candidates(example_agent(agent)):
                return None
        weights = member_weights(self.weights[mixture], number)
        spec = replace(setup.policies[mixture], population=None)
        return (Member(self.label, spec, weights),) * len(agents)


def _kind_of(agent: AgentID, task: Task) -> int:
    """The kind of an agent, or of the agents of a pattern."""
    names = [name.split("[")[0] for name in task.seat_names]  # car_*[0] is a seat of the pattern car_*
    return task.kind_of(names.index(agent))


def policy_of(setup: Setup, agent: AgentID, label: str) -> PolicyID:
    """Who plays the agent in the run; where training draws among several, whom evaluation takes."""
    mappers: list[Mapper] = [setup.rollout.mapper]
    if setup.rollout.evaluation_mapper is not None:
        mappers.append(setup.rollout.evaluation_mapper)
    found: Sequence[PolicyID] = []
    for mapper in mappers:
        found = candidates(mapper, example_agent(agent))
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
    runs: dict[str, SavedRun] = {}
    policies: dict[str, PolicyID | None] = {}
    for name in given:
        if name not in BUILT_IN:
            path, policies[name] = source_of(name)
            runs[name] = _open(path, env, allow)
    _check_once(given, runs, policies)
    _check_same_env(runs, env)
    setups = {name: _set_up(run, env) for name, run in runs.items()}
    if setups:
        # By now all are known to play the same env, so any of them stands for it.
        base = next(iter(setups.values()))
    else:
        base = _bare(env, allow)
    labels = short_labels([str(run.folder) for run in runs.values()])
    participants: dict[str, Participant] = {}
    for (name, run), label in zip(runs.items(), labels, strict=True):
        _check_agents(name, setups[name].task.kinds, base.task.kinds)
        participants[name] = _participant(run, setups[name], label, policies[name])
    return [participants.get(name, Participant(name)) for name in given], base


def _participant(run: SavedRun, setup: Setup, label: str, policy: PolicyID | None) -> Participant:
    """A run as an entrant; ``policy`` is what stands after the '#'."""
    if policy is None:
        return Participant(label, setup, run.weights)
    mixture, member = run.find_member(policy)
    return Participant(f"{label}#{policy}", setup, run.weights, mixture, member)


def _open(path: str, env: Env, allow: frozenset[str]) -> SavedRun:
    """A run whose own env is played, unless the user gives another."""
    remedy = None
    if env.env is None:
        remedy = "Give the env again: cross_play(..., env=...)."
    return SavedRun.open(path, allow, _words_of(env), remedy=remedy)


def _words_of(env: Env) -> list[str]:
    return list(words_of([env.env, env.config]))


def source_of(name: str) -> tuple[str, PolicyID | None]:
    """The path and the policy that ``PATH#policy`` names."""
    path, _, policy = name.partition("#")
    # A word without a slash is more likely a misspelt built-in name than a path.
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
    setup = run.resolve({"env": env.env, "env_config": env.config, "wrappers": []})
    _check_trained_spaces(run, setup)
    return setup


def _bare(env: Env, allow: frozenset[str]) -> Setup:
    if env.env is None:
        raise ConfigError(
            f"only {', '.join(BUILT_IN)} takes part, so there is no env. Add a checkpoint, or give --env."
        )
    # No algorithm plays: it is there because a scenario has one.
    raw = {"env": env.env, "env_config": env.config, "algo": "ppo"}
    with only_modules(allow, _words_of(env)):
        return resolve(compose(raw, "cross-play"))


# -- checks --------------------------------------------------------------------------------------------------------


def _check_once(given: Sequence[str], runs: Mapping[str, SavedRun], policies: Mapping[str, PolicyID | None]) -> None:
    """The same checkpoint may be named in several ways, so folders are compared, not what was typed."""
    seen: set[str] = set()
    for name in given:
        meant = name
        if name in runs:
            meant = str(real_path(runs[name].folder))
            if policies[name]:
                meant = f"{meant}#{policies[name]}"
        if meant in seen:
            raise ConfigError(f"{meant} was given twice. Give every entrant once; each also meets itself.")
        seen.add(meant)


def _check_same_env(runs: Mapping[str, SavedRun], env: Env) -> None:
    """Policies of different envs cannot meet unless the user says where."""
    if env.env is None and env.env_config is not None:
        raise ConfigError(
            "env_config was given without env. Give both, or neither to play on the checkpoints' own env."
        )
    keys = list(PLAY_KEYS)
    if env.env is None:
        keys = [*ENV_KEYS, *PLAY_KEYS]
    first, *others = runs or [""]
    for name, key in product(others, keys):
        mine = runs[name].scenario.get(key)
        theirs = runs[first].scenario.get(key)
        if mine == theirs:
            continue
        remedy = "Such policies cannot meet: train them with the same key."
        if key in ENV_KEYS:
            remedy = "Give the env to play on by --env (env=...)."
        raise ConfigError(
            f"{name} and {first} were not trained on the same env: {key} is {mine!r} there and {theirs!r} here. {remedy}"
        )


def _check_agents(name: str, mine: Sequence[AgentType], theirs: Sequence[AgentType]) -> None:
    """The same agents with the same spaces, however groups were joined in the runs."""
    if list(map(_agents_and_spaces, mine)) != list(map(_agents_and_spaces, theirs)):
        raise SpaceMismatchError(
            f"{name} is not played by the agents of the first checkpoint: it has {_told(mine)}; the first has "
            f"{_told(theirs)}. Expected equal agents with equal spaces."
        )


def _agents_and_spaces(kind: AgentType) -> tuple[Any, ...]:
    return kind.agents, kind.observation_space, kind.action_space, kind.masked


def _told(kinds: Sequence[AgentType]) -> str:
    parts = []
    for kind in kinds:
        agents = ", ".join(kind.agents)
        parts.append(f"{agents} ({kind.observation_space}, {kind.action_space})")
    return "; ".join(parts)


def _check_trained_spaces(run: SavedRun, setup: Setup) -> None:
    """On another env the spaces have to be those of training, as far as that env can still be built."""
    try:
        trained = run.setup
    except UserError:
        return  # its env is gone; the shapes of the weights are checked anyway
    for name, spec in trained.policies.items():
        mine = trained.task.kinds[spec.kind]
        kind_here = setup.policies[name].kind
        theirs = setup.task.kinds[kind_here]
        if (mine.observation_space, mine.action_space) != (theirs.observation_space, theirs.action_space):
            raise SpaceMismatchError(
                f"{run.folder}: policy {name!r} was trained on {mine.observation_space}, {mine.action_space}, but "
                f"{env_name(setup.rollout.env)!r} has {theirs.observation_space}, {theirs.action_space} there. Choose an env "
                "with equal spaces."
            )


def check_members(members: Sequence[Member], task: Task, allow: frozenset[str]) -> None:
    """Build everybody once: weights that do not fit their agents are told before any play."""
    with only_modules(allow):
        for member in members:
            build(member, task.kinds)


def short_labels(paths: Sequence[str]) -> list[str]:
    """The shortest ends of the paths that tell them apart: ``checkpoint_000010``, or with the run before it."""
    split = []
    for path in paths:
        telling = []
        for part in Path(path).parts:
            if part != "checkpoints":  # it stands in all of them
                telling.append(part)
        split.append(telling)
    longest = max(map(len, split), default=0)
    for length in range(1, longest + 1):
        labels = ["/".join(parts[-length:]) for parts in split]
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
