"""Who sits where in a game with people: policies of a run, scripted ones, members of a population, and people.

A seat's *word* says who plays it: ``human`` and ``guest 1``, ... are people, ``policy`` is whoever plays it in the run, and
all others are sources: ``random``, ``first``, ``member:MIXTURE/3`` of a population, the name of a policy of the run, or a run,
a checkpoint or an export in the results.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.episode import Episode
from marl.data.task import AgentID, AgentType, Floats, PolicyID
from marl.envs.registry import make_batched_env
from marl.errors import ConfigError, SpaceMismatchError
from marl.mappers.mapper import Mapper
from marl.play.exported_run import open_playable
from marl.play.playable import Playable
from marl.play.policy_sources import Cast
from marl.policies.config import ScriptedConfig
from marl.policies.mixture import Mixture
from marl.policies.policy import Decision, Inputs, Policy
from marl.policies.scripted import RULES, FixedPolicy, RandomPolicy, build_scripted
from marl.populations.members import Played
from marl.rollout.paired import PairedRunner
from marl.scenario.load import compose
from marl.scenario.resolve import resolve
from marl.scenario.routing import candidates
from marl.trust import only_modules
from marl.watch.play.words import MEMBER, PLACE, POLICY, is_person

MOST_NUMBERS = 8  # coordinates of a Box that a person can be asked for


class FirstPolicy(Policy):
    """The first legal option of every choice, and of coordinates the number of their Box that is nearest to zero."""

    env_units = True

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del rng, explore
        rows, columns = len(inputs), self.kind.columns
        actions = np.clip(np.zeros((rows, len(columns))), *columns.bounds).astype(columns.dtype)
        if inputs.legal.shape[1]:
            for column, options in columns.options_of(inputs.legal):
                actions[:, column] = options.argmax(axis=1)
        return Decision(actions.reshape(rows, *self.kind.action_shape), np.zeros(rows, np.float32), carry)


class Seats(Mapper):
    """Some agents are played by policies of their own, the others as in the run."""

    name = "the seats of this game"

    def __init__(self, own: Mapping[AgentID, PolicyID], before: Mapper) -> None:
        self.own, self.before, self.fixed = own, before, before.fixed

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        return self.own.get(agent) or self.before(agent, episode)

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        if agent in self.own:
            return [self.own[agent]]
        return self.before.candidates(agent)


def has_opinions(policy: Policy) -> bool:
    """Whether it is worth asking for a hint: what is drawn or always the same tells nothing."""
    return not isinstance(policy, RandomPolicy | FixedPolicy | FirstPolicy)


@dataclass(frozen=True)
class Seating:
    """Everything that a game is dealt from: who plays, and which seats are people's."""

    playable: Playable
    cast: Cast
    people: frozenset[AgentID]
    scripted: bool  # an env without a run: whoever is not named plays at random

    def runner(self) -> PairedRunner:
        """A new copy of the env. What policies draw follows from the seed and the step alone, so it comes again."""
        playable, spec = self.playable, self.playable.setup.rollout
        with playable.trusted():
            env = make_batched_env(
                spec.env, 1, spec.env_config, fresh_env_per_episode=spec.config.fresh_env_per_episode,
                with_state=playable.setup.task.state_size > 0, wrappers=spec.wrappers, render_mode="rgb_array",
            )  # fmt: skip
        cast = self.cast
        return PairedRunner(env, cast.policies, cast.kinds, cast.mapper, spec.config, teams=spec.teams)


# -- opening -----------------------------------------------------------------------------------------------------------


def opened(deal: Mapping[str, Any], allow: frozenset[str]) -> Playable:
    """The run of a game (``folder``: a run, a checkpoint or an export), or its env alone."""
    if deal.get("folder") is not None:
        playable = open_playable(Path(deal["folder"]), allow)
    else:
        playable = env_alone(deal["env"], deal.get("env_config") or {}, allow)
    if playable.setup.scenario.env == "external":
        raise ConfigError(
            "the env of this run lives in a program of its own (env: external), so nobody can sit down here. Play a run whose "
            "env can be built."
        )
    return playable


def env_alone(env: str, env_config: Mapping[str, Any], allow: frozenset[str]) -> Playable:
    """An env without a run: every agent is played at random where nobody else is named."""
    trusted = partial(only_modules, allow)
    with trusted():
        # No algorithm plays: it is there because a scenario has one.
        setup = resolve(compose({"env": env, "env_config": dict(env_config), "algo": "ppo"}, "the game"))
    policies: dict[PolicyID, Policy] = {}
    kinds: dict[PolicyID, int] = {}
    for name, spec in setup.policies.items():
        policies[name], kinds[name] = RandomPolicy(setup.task.kinds[spec.kind]), spec.kind
    cast = Cast(policies, kinds, setup.rollout.mapper)
    return Playable(Path(), trusted, setup, policies, cast, frozenset())


def seated(playable: Playable, seats: Mapping[AgentID, str], alone: bool) -> Seating:
    """Everybody on the seats that the game gives them; a ``UserError`` says who cannot sit there, and why."""
    policies, kinds = dict(playable.cast.policies), dict(playable.cast.kinds)
    own: dict[AgentID, PolicyID] = {}
    people = frozenset(agent for agent, word in seats.items() if is_person(word))
    if not people:
        raise ConfigError(
            "nobody plays this game: give at least one seat to a person. Episodes shows policies at play."
        )
    for agent, word in seats.items():
        mine = policy_of(playable, agent)
        k = playable.cast.kinds[mine]
        if agent in people:
            check_seat(agent, playable.setup.task.kinds[k])
        elif word != POLICY:
            name = f"{agent}: {word.rpartition('/')[2]}"
            policies[name], kinds[name] = _opponent(playable, word, k, mine), k
            own[agent] = name
    return Seating(playable, Cast(policies, kinds, Seats(own, playable.cast.mapper)), people, alone)


def policy_of(playable: Playable, agent: AgentID) -> PolicyID:
    """Who plays the agent in the run, of several the first: people are shadowed by it, and may ask it for a hint."""
    return candidates(playable.cast.mapper, agent)[0]


def check_seat(agent: AgentID, kind: AgentType) -> None:
    """Refuse a seat that a person cannot play."""
    count = len(kind.columns.numbers)
    if count > MOST_NUMBERS:
        raise SpaceMismatchError(
            f"a person cannot play {agent!r}: its actions are {count} numbers at once ({kind.action_space}), and "
            f"{MOST_NUMBERS} are the most. Let a policy play it."
        )


def _opponent(playable: Playable, word: str, k: int, stands_for: PolicyID) -> Policy:
    kind = playable.setup.task.kinds[k]
    if word == "random":
        return RandomPolicy(kind)
    if word == "first":
        return FirstPolicy(kind)
    if word in RULES:
        return build_scripted(kind, ScriptedConfig(name=word))
    if word.startswith(MEMBER):
        return _member(playable, word.removeprefix(MEMBER), kind)
    if word.startswith(PLACE) or word in playable.setup.policies:
        return playable.other_policy(word.removeprefix(PLACE), k, stands_for)
    raise ConfigError(
        f"nobody is called {word!r}: neither a run, checkpoint or export in the results folder, nor a policy of this run "
        f"({', '.join(playable.setup.policies)}), nor random or first."
    )


def _member(playable: Playable, name: str, kind: AgentType) -> Policy:
    """``main.answer/3``: one member of a population, which plays as it does in the population."""
    mixture, _, number = name.rpartition("/")
    found = playable.learned.get(mixture)
    if not isinstance(found, Mixture) or not number.isdecimal() or int(number) >= len(found):
        known = ", ".join(populations_of(playable)) or "none"
        raise ConfigError(f"the run has no member {name!r} of a population. Populations: {known}.")
    if found.kind.action_space != kind.action_space or found.kind.observation_space != kind.observation_space:
        raise SpaceMismatchError(
            f"member {name!r} plays agents like {found.kind.agents[0]!r}, whose spaces differ from those of "
            f"{kind.agents[0]!r}. Take a member of the other population."
        )
    return Played(found.member(int(number)), explore=found.draws_actions)


def populations_of(playable: Playable) -> dict[PolicyID, list[float]]:
    """The mixtures that a population run proposes to play, with the chance of each member."""
    stage = playable.setup.stage
    if stage is None:
        return {}
    found: dict[PolicyID, list[float]] = {}
    for side in stage.sides:
        mixture = playable.learned.get(side.answer)
        if isinstance(mixture, Mixture):
            found[side.answer] = mixture.chances.tolist()
    return found
