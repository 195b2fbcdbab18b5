"""The game that is examined: who its players are, which policies play them, and what is measured at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from marl.data.episode import Episode
from marl.data.task import AgentID, PolicyID
from marl.envs.base import MultiAgentEnv
from marl.envs.registry import EnvCreator, make_env
from marl.envs.wrappers import Wrapping
from marl.errors import ConfigError
from marl.mappers.matchmaking import Seating
from marl.policies.policy import Policy
from marl.populations.matches import Job, Players, play_all
from marl.populations.members import Member
from marl.rollout.pool import WorkerPool
from marl.scenario.config import Scenario
from marl.scenario.population import players_of
from marl.scenario.resolve import Setup
from marl.training.examination.figures import LOWER, Exploitability

Progress = Callable[[int, int], None]  # env steps of training: done, and in all
MATCHES = 0x6578  # tells the seeds of these episodes from all others of a run


@dataclass(frozen=True)
class Asked:
    """One measurement. ``number`` tells those of a run apart: each plays episodes of its own."""

    policies: Mapping[PolicyID, Policy]
    workers: WorkerPool
    number: int = 0
    progress: Progress | None = None  # told the env steps of training


class ExaminedGame:
    """Players and seats of a run. That somebody has no single strategy shows when it is built."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.players: Players = players_of(setup.scenario, setup.stage, setup.task)
        self.seating = _seating(setup)

    @cached_property
    def env(self) -> str | EnvCreator:
        """What is walked through to find the game's tree or its positions."""
        return env_as_played(self.setup.scenario, self.setup.rollout.wrappers)

    @property
    def seats(self) -> tuple[AgentID, ...]:
        return tuple(self.setup.task.seat_names)

    @cached_property
    def has_groups(self) -> bool:
        return any(len(agents) > 1 or "*" in agents[0] for agents in self.players.values())

    def owner(self, seat: AgentID) -> str:
        """The player whose seat it is."""
        own_names = {player: player for player in self.players}
        return Seating(self.players, own_names).candidates(pattern_of_seat(seat))[0]

    def others(self, player: str) -> list[AgentID]:
        """The seats that somebody else plays."""
        return [seat for seat in self.seats if self.owner(seat) != player]

    def teams(self) -> tuple[int, ...]:
        """The number of each seat's player."""
        names = list(self.players)
        return tuple(names.index(self.owner(seat)) for seat in self.seats)

    def by_seat(self, policies: Mapping[PolicyID, Policy]) -> dict[AgentID, Policy]:
        """Who plays each seat."""
        return {seat: policies[self.seating[seat]] for seat in self.seats}

    # -- what replies earn, by playing -------------------------------------------------------------------------------

    def match_seeds(self, number: int, episodes: int) -> tuple[int, ...]:
        rng = np.random.default_rng([self.setup.scenario.seed, MATCHES, number])
        return tuple(rng.integers(0, 2**31 - 1, episodes).tolist())

    def play_replies(self, asked: Asked, replies: Mapping[str, Member], episodes: int) -> Exploitability:
        """What each player gains by its reply while all others stay as they are: a lower bound of its best one."""
        usual = {pattern_of_seat(seat): self.seating[seat] for seat in self.seats}
        members: dict[str, Member] = {}
        for name in set(usual.values()):
            members[name] = Member(name, self.setup.policies[name], asked.policies[name].get_weights())
        seeds = self.match_seeds(asked.number, episodes)
        jobs = [Job(tuple(usual.items()), seeds)]
        for player in self.players:
            reply = replies[player]
            members[reply.name] = reply
            seating = dict(usual)
            for seat in self.seats:
                if self.owner(seat) == player:
                    seating[pattern_of_seat(seat)] = reply.name
            jobs.append(Job(tuple(seating.items()), seeds))
        as_usual, *responses = play_all(asked.workers, members, jobs, self.players)
        parts, errors, total = {}, {}, np.zeros(len(seeds))
        for place, player in enumerate(self.players):
            more = responses[place][:, place] - as_usual[:, place]
            parts[player] = max(0.0, float(more.mean()))  # a reply that loses need not be used by anybody
            errors[player] = float(more.std(ddof=1) / len(more) ** 0.5)
            total += more
        # Of the sum, not the sum of errors: gains of one seed share its episode without best responses.
        error = float(total.std(ddof=1) / len(total) ** 0.5)
        return Exploitability(sum(parts.values()), error, parts, errors, LOWER)


def env_as_played(scenario: Scenario, wrappers: Sequence[Wrapping]) -> str | EnvCreator:
    """What is walked through to find the game: the env with the wrappers of the run. Refuses what no env does by itself."""
    env: str | EnvCreator = scenario.env
    if scenario.multiagent.joint:
        raise ConfigError("multiagent.joint makes one agent of several, and its game is not looked through.")
    if scenario.horizon is not None:
        raise ConfigError(f"horizon: {scenario.horizon} cuts episodes off, which the tree does not know.")
    if not wrappers:
        return env

    def wrapped(config: Mapping[str, Any]) -> MultiAgentEnv:
        return make_env(env, config, wrappers)

    wrapped.__name__ = env if isinstance(env, str) else getattr(env, "__name__", "env")  # what messages call it
    return wrapped


def pattern_of_seat(agent: AgentID) -> AgentID:
    """``car_*`` for the seat ``car_*[3]``."""
    return agent.split("[")[0]


def _seating(setup: Setup) -> dict[AgentID, PolicyID]:
    """Who plays whom: the answers of a population, else the mapping of the run."""
    mapper = setup.proposed_mapper
    found = {}
    for seat in setup.task.seat_names:
        agent = pattern_of_seat(seat).replace("*", "0")
        policies = mapper.candidates(agent)
        if not mapper.fixed and len(policies) > 1:
            asked = {mapper(agent, Episode(probe, probe)) for probe in range(16)}
            if len(asked) > 1:
                raise ConfigError(
                    f"exploitability: agent {agent!r} is played by {', '.join(sorted(asked))}, drawn anew in each episode, so "
                    "it has no single strategy to measure. Use a fixed policy_mapping_fn, or `population:`."
                )
            policies = list(asked)
        found[seat] = policies[0]
    return found
