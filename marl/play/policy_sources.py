"""Who plays in a rollout: the policies of its checkpoint, with some of them taken from elsewhere.

``ID=SOURCE`` replaces a policy of the run, or lets an agent (``player_1``, ``car_*``) be played by a policy of its own. It
is another run or checkpoint (``PATH``, ``PATH#policy``, ``PATH#SIDE.answer/3`` for member 3 of a population), an exported
policy (``DIR``, ``DIR#policy``), or ``random``. Its networks may differ from those of the run in every way; its agents must
have the same spaces, and its actions the same units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path

from marl.data.action_units import Units
from marl.data.episode import Episode
from marl.data.task import AgentID, AgentType, Array, PolicyID
from marl.errors import CheckpointError, ConfigError, SpaceMismatchError, did_you_mean
from marl.mappers.mapper import Mapper
from marl.play.export import exported_folders, read_exported, spaces_of
from marl.policies.build import build_policy
from marl.policies.config import PolicySpec, ScriptedConfig
from marl.policies.loading import set_weights
from marl.policies.mixture import member_weights
from marl.policies.policy import Policy
from marl.runs.saved import SavedRun
from marl.scenario.resolve import Setup
from marl.scenario.routing import candidates, example_agent
from marl.trust import Trust, current

RANDOM = "random"
UNITS = ("normalize_actions", "clip_actions")


@dataclass(frozen=True)
class Cast:
    """Policies by name, the kind of agents that each plays, and who plays whom."""

    policies: dict[PolicyID, Policy]
    kinds: dict[PolicyID, int]
    mapper: Mapper


class Recast(Mapper):
    """Agents that match a pattern are played by its policy, the others as before."""

    name = "--policy"

    def __init__(self, patterns: Mapping[str, PolicyID], before: Mapper) -> None:
        self.patterns, self.before, self.fixed = patterns, before, before.fixed

    def own(self, agent: AgentID) -> PolicyID | None:
        """The policy of the first pattern that matches; None: the agent is played as before."""
        for pattern, policy in self.patterns.items():
            if fnmatchcase(agent, pattern):
                return policy
        return None

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        return self.own(agent) or self.before(agent, episode)

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        own = self.own(agent)
        if own is not None:
            return [own]
        return self.before.candidates(agent)


def read_sources(given: Sequence[str]) -> dict[str, str]:
    """``ID=SOURCE`` texts by their id."""
    found: dict[str, str] = {}
    for text in given:
        name, equals, source = text.partition("=")
        if not equals or not name or not source:
            raise ConfigError(f"--policy {text!r}: expected ID=PATH, ID=PATH#policy or ID=random.")
        if name in found:
            raise ConfigError(f"--policy gives {name!r} twice: {found[name]} and {source}. Give it once.")
        found[name] = source
    return found


def cast(setup: Setup, policies: Mapping[PolicyID, Policy], sources: Mapping[str, str]) -> Cast:
    """The policies of a run, with those of ``sources`` in their places."""
    found = dict(policies)
    kinds = {name: spec.kind for name, spec in setup.policies.items()}
    mapper = setup.rollout.mapper
    if setup.stage is not None:
        mapper = setup.stage.answers()  # what a population proposes to play, not whom it trains against
    patterns: dict[str, PolicyID] = {}
    for name, source in sources.items():
        if name not in kinds:
            kinds[name] = _kind_of(name, setup)
            patterns[name] = name
        found[name] = _borrowed(name, source, kinds[name], setup)
    if patterns:
        mapper = Recast(patterns, mapper)
    return Cast(found, kinds, mapper)


def _kind_of(pattern: str, setup: Setup) -> int:
    """The kind of the agents that a name or pattern means."""
    names = setup.task.seat_names
    fits = {setup.task.kind_of(seat) for seat, name in enumerate(names) if _means(pattern, name)}
    if not fits:
        known = [*setup.policies, *names]
        raise ConfigError(
            f"--policy {pattern}=...: there is no policy and no agent of this name. Policies: {', '.join(setup.policies)}; "
            f"agents: {', '.join(names)}.{did_you_mean(pattern, known)}"
        )
    if len(fits) > 1:
        kinds = " and ".join(setup.task.kinds[k].agents[0] for k in sorted(fits))
        raise SpaceMismatchError(
            f"--policy {pattern}=...: it means agents of different spaces, {kinds}. Name them apart."
        )
    return fits.pop()


def _means(pattern: str, seat: str) -> bool:
    """Whether agents on a seat may be meant by a name or pattern."""
    stem = seat.split("[")[0]
    if stem == pattern or fnmatchcase(example_agent(seat), pattern):
        return True
    # An agent such as car_7 may sit on a seat such as car_*[0].
    return "*" in seat and fnmatchcase(pattern, stem)


# -- sources -----------------------------------------------------------------------------------------------------------


def find_policy(name: PolicyID, source: str, k: int, setup: Setup) -> Policy:
    """The policy of a source for agents of kind ``k``: of several the one of this name."""
    return _borrowed(name, source, k, setup, f"--policy {source}")


def _borrowed(name: str, source: str, k: int, setup: Setup, option: str = "") -> Policy:
    kind = setup.task.kinds[k]
    if source == RANDOM:
        return build_policy(PolicySpec("scripted", k, scripted=ScriptedConfig(name=RANDOM)), kind)
    path, _, wanted = source.partition("#")
    where = option or f"--policy {name}={source}"
    place = Path(path).expanduser()
    there = exported_folders(place)
    units: Units
    if there:
        exported = read_exported(place, wanted or (name if name in there else None))
        spec, theirs, weights, units = exported.spec, exported.kind, exported.weights, exported.units
    else:
        spec, theirs, weights, units = _of_run(name, place, wanted, where)
    _check_spaces(where, theirs, kind)
    _check_units(where, units, setup.rollout.config)
    # Built for the agents of this run, whose kind has another number than in the policy's own.
    policy = build_policy(replace(spec, kind=k), kind)
    set_weights(policy, weights, where)
    return policy


def _of_run(name: str, path: Path, wanted: str, where: str) -> tuple[PolicySpec, AgentType, Mapping[str, Array], Units]:
    """A policy of another run: by its own name, the name of the one that it stands in for, or whoever plays the agent."""
    trust = current() or Trust()  # what holds for the run that is played holds for those that it borrows from
    run = SavedRun.open(path, trust.modules, trust.words)
    if not run.can_be_replayed:
        raise CheckpointError(
            f"{where}: its run was given Python objects that cannot be found by name. Export the policy instead, by "
            "trainer.export_model(DIR)."
        )
    other, weights = run.setup, run.weights
    chosen = wanted or _likely(name, list(weights), other)
    if chosen not in weights and "/" not in chosen:
        raise CheckpointError(
            f"{where}: {run.folder} has no policy {chosen!r}. It has {', '.join(weights)}.{did_you_mean(chosen, weights)} "
            f"Name one: --policy {name}={path}#ID."
        )
    policy, member = run.find_member(chosen)
    spec, learned = other.policies[policy], weights[policy]
    if member is not None:  # one of a mixture, which is a policy like the learners of its side
        spec, learned = replace(spec, population=None), member_weights(learned, member)
    return spec, other.task.kinds[spec.kind], learned, other.rollout.config


def _likely(name: str, there: Sequence[PolicyID], other: Setup) -> PolicyID:
    if name in there:
        return name
    if len(there) == 1:
        return there[0]
    if name in other.task.seat_names:
        playing = candidates(other.rollout.mapper, name)
        if len(playing) == 1:
            return playing[0]
    return name


def _check_spaces(where: str, theirs: AgentType, mine: AgentType) -> None:
    if spaces_of(theirs) != spaces_of(mine):
        raise SpaceMismatchError(
            f"{where}: the policy plays {_told(theirs)}, but agents like {mine.agents[0]!r} "
            f"have {_told(mine)}. Take a policy of agents with equal spaces."
        )


def _told(kind: AgentType) -> str:
    mask = " with a mask" if kind.masked else ""
    return f"{kind.observation_space}, {kind.action_space}{mask}"


def _check_units(where: str, theirs: Units, mine: Units) -> None:
    for key in UNITS:
        there, here = getattr(theirs, key), getattr(mine, key)
        if there != here:
            raise ConfigError(
                f"{where}: its run has {key}: {there}, this one {here}, so their actions mean "
                f"different things. Play a run with the same {key}."
            )
