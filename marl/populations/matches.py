"""Matches between members: whole episodes by who sits where and by seed, many pairings in one batch of lanes.

A *job* seats members and names the seeds of the episodes to play. Jobs are cut, in their order, into batches of
``episodes_per_batch``; a batch is played by one worker, one lane per episode, so one forward pass serves all agents that a
member plays in the batch. Everything random in a batch follows from its seatings and seeds. Therefore the same jobs give
the same numbers on any pool with any number of workers. An episode that is played in another batch (other jobs around
it) meets the same env, but its policies draw other actions.

A *player* is an agent or a group of agents; its payoff is the sum of their returns.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.episode import Episode, EpisodeStats
from marl.data.task import AgentID, AgentType, PolicyID
from marl.envs.groups import AgentGroups
from marl.envs.vector.layout import pattern_of
from marl.errors import ConfigError
from marl.mappers.mapper import Mapper
from marl.populations.match_envs import MemberKey, arena_of, episodes_per_batch
from marl.populations.members import Member
from marl.rollout.env_runner import EnvRunner
from marl.rollout.episodes import ended_episodes
from marl.rollout.pool import WorkerPool
from marl.rollout.worker import RolloutWorker

SHORT_ROUND_S = 1.0  # a round that took less is followed by one of twice as many batches

PlayerID: TypeAlias = str
Members: TypeAlias = Mapping[MemberKey, Member]
Players: TypeAlias = Mapping[PlayerID, Sequence[AgentID]]
"""Who plays: names to agent ids or patterns such as ``red_*``."""
Returns: TypeAlias = NDArray[np.float64]
"""``[episodes, players]``."""


@dataclass(frozen=True)
class Job:
    """Episodes in which everybody sits on the same seat: agent id, or pattern of ids, to the key of a member."""

    seating: tuple[tuple[AgentID, MemberKey], ...]
    seeds: tuple[int, ...]


def seats_of_players(players: Players, kinds: Sequence[AgentType]) -> dict[PlayerID, tuple[int, ...]]:
    """The seats of each player; nobody may be left out, because nobody would act for that agent."""
    for player, agents in players.items():
        if isinstance(agents, str) or not all(isinstance(agent, str) for agent in agents):
            raise ConfigError(
                f"player {player!r} has {agents!r}; expected a list of agent ids or patterns: [red_0, red_1]."
            )
    found = AgentGroups(players).seats(kinds)
    taken = {seat for seats in found.values() for seat in seats}
    names = [name for kind in kinds for name in kind.agents]
    idle = sorted({name.split("[")[0] for seat, name in enumerate(names) if seat not in taken})
    if idle:
        raise ConfigError(
            f"no player has the agent(s) {', '.join(idle)}, so nobody would act for them. Players: {dict(players)}. "
            "Put every agent into one."
        )
    return found


# -- one worker ----------------------------------------------------------------------------------------------------


def play_jobs(
    worker: RolloutWorker, members: Members, jobs: Sequence[Job], players: Players, explore: bool | None = None
) -> list[Returns]:
    """Play all episodes of the jobs; what each player earned ``[episodes, players]``, per job.

    ``explore`` None: members whose strategy is a distribution draw from it, others play their best guess.
    """
    batches = batches_of(jobs, episodes_per_batch(worker.spec.env_recipe))
    pieces = [_play_batch(worker, members, batch, players, explore) for batch in batches]
    return _put_together(jobs, pieces, len(players))


def batches_of(jobs: Sequence[Job], episodes: int) -> list[list[Job]]:
    """The jobs in their order, cut where a batch is full."""
    batches: list[list[Job]] = [[]]
    room = episodes
    for job in jobs:
        seeds = job.seeds
        while seeds:
            if not room:
                batches.append([])
                room = episodes
            batches[-1].append(Job(job.seating, seeds[:room]))
            seeds, room = seeds[room:], room - len(seeds[:room])
    return [batch for batch in batches if batch]


def _put_together(jobs: Sequence[Job], pieces: Sequence[Returns], players: int) -> list[Returns]:
    """Rows of consecutive batches, job by job."""
    if not jobs:
        return []
    rows = np.concatenate([np.zeros((0, players)), *pieces])
    return np.split(rows, np.cumsum([len(job.seeds) for job in jobs])[:-1])


def _play_batch(
    worker: RolloutWorker, members: Members, jobs: Sequence[Job], players: Players, explore: bool | None
) -> Returns:
    arena = arena_of(worker)
    seatings = [dict(job.seating) for job in jobs for _ in job.seeds]
    seeds = [seed for job in jobs for seed in job.seeds]
    keys = list(dict.fromkeys(key for job in jobs for _, key in job.seating))
    policies = {key: arena.policy(worker, members[key], explore) for key in keys}
    kinds = {key: members[key].spec.kind for key in keys}
    env = arena.copies(worker, len(seeds))
    player = EnvRunner(
        env, policies, kinds, _Seating(seatings), worker.spec.config, worker.index, _teams(players, env.kinds)
    )
    earned = np.zeros((len(seeds), len(players)))
    book = _Book(players)
    for numbers, ended in ended_episodes(player, len(seeds), cycle(seeds), _generator(jobs), explore=True):
        earned[numbers] = book.payoffs(ended)
    return earned


def _generator(jobs: Sequence[Job]) -> np.random.Generator:
    """What the policies of a batch draw from."""
    text = json.dumps([[list(map(list, job.seating)), list(job.seeds)] for job in jobs])
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def _teams(players: Players, kinds: Sequence[AgentType]) -> list[int]:
    """The number of each seat's player."""
    team = {seat: number for number, seats in enumerate(seats_of_players(players, kinds).values()) for seat in seats}
    return [team[seat] for seat in range(len(team))]


class _Seating(Mapper):
    """Seats members by the number of the episode in its batch."""

    name = "seating"
    fixed = False

    def __init__(self, seatings: Sequence[Mapping[AgentID, MemberKey]]) -> None:
        self.seatings = seatings

    def __call__(self, agent: AgentID, episode: Episode) -> PolicyID:
        number = episode.episode_id % 2**40  # the bits above are the worker's
        # Lanes without an episode left play one that does not count.
        seating = self.seatings[number % len(self.seatings)]
        key = seating.get(agent)
        if key is None:
            pattern = pattern_of(agent, list(seating))
            if pattern is None:
                raise ConfigError(f"a match seats nobody for agent {agent!r}. Seats: {', '.join(seating)}.")
            key = seating[pattern]
        return key

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        del agent
        return list(dict.fromkeys(key for seating in self.seatings for key in seating.values()))


class _Book:
    """From returns of agents to payoffs of players."""

    def __init__(self, players: Players) -> None:
        self.groups, self.names = AgentGroups(players), list(players)
        self.number: dict[AgentID, int] = {}

    def payoffs(self, ended: EpisodeStats) -> Returns:
        for agent in ended.agents:
            if agent not in self.number:
                self.number[agent] = self.names.index(str(self.groups.group_of(agent)))
        player = np.array([self.number[agent] for agent in ended.agents], np.int64)[ended.agent]
        earned = np.zeros((len(ended), len(self.names)))
        np.add.at(earned, (ended.episode, player), ended.returns)
        return earned


# -- all workers ---------------------------------------------------------------------------------------------------


def play(
    pool: WorkerPool, members: Members, jobs: Sequence[Job], players: Players, explore: bool | None = None
) -> Iterator[list[tuple[Job, Returns]]]:
    """Play the jobs on all workers of a pool; gives batch by batch, in order, its parts of jobs with their returns.

    Rounds grow while they are short. How many batches a round has changes nothing about the numbers.
    """
    batches, workers = batches_of(jobs, episodes_per_batch(pool.spec.env_recipe)), len(pool.indices)
    per_worker = 1
    while batches:
        now, batches = batches[: per_worker * workers], batches[per_worker * workers :]
        needed = {key for batch in now for job in batch for _, key in job.seating}
        shares = {index: now[place::workers] for place, index in enumerate(pool.indices)}
        began = time.monotonic()
        sent = {key: members[key] for key in sorted(needed)}
        answers = dict(pool.foreach_worker(partial(_play_share, shares, sent, players, explore)))
        for place, batch in enumerate(now):
            index = pool.indices[place % workers]
            yield list(zip(batch, answers[index][place // workers], strict=True))
        if time.monotonic() - began < SHORT_ROUND_S:
            per_worker *= 2


def _play_share(
    shares: Mapping[int, list[list[Job]]],
    members: Members,
    players: Players,
    explore: bool | None,
    worker: RolloutWorker,
) -> tuple[int, list[list[Returns]]]:
    """One worker's batches of a round. The driver's worker beside Ray actors has no share."""
    mine = shares.get(worker.index, [])
    return worker.index, [play_jobs(worker, members, batch, players, explore) for batch in mine]


def play_all(
    pool: WorkerPool, members: Members, jobs: Sequence[Job], players: Players, explore: bool | None = None
) -> list[Returns]:
    """What each player earned ``[episodes, players]``, per job, played on all workers of a pool."""
    pieces = [returns for batch in play(pool, members, jobs, players, explore) for _, returns in batch]
    return _put_together(jobs, pieces, len(players))
