"""Matches between members: whole episodes by who sits where and by seed, many pairings in one batch of env copies.

A *job* seats members and names the seeds of the episodes to play. Jobs are cut, in their order, into batches of
``episodes_per_batch``; a batch is played by one worker, one env copy per episode, so one forward pass serves all agents that a
member plays in the batch. Everything random in a batch follows from its seatings and seeds. Therefore the same jobs give
the same numbers on any pool with any number of workers. An episode that is played in another batch (other jobs around
it) meets the same env, but its policies draw other actions.

A *player* is an agent or a group of agents; its payoff is the sum of their returns.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, cycle
from typing import TypeAlias
from weakref import WeakKeyDictionary, finalize

import numpy as np
from numpy.typing import NDArray

from marl.data.episode import Episode, EpisodeStats
from marl.data.task import AgentID, AgentType, PolicyID
from marl.envs.batched import BatchedEnv
from marl.envs.groups import AgentGroups
from marl.envs.registry import resolve_env
from marl.envs.vector.env_errors import close_all
from marl.envs.vector.layout import pattern_of
from marl.errors import ConfigError
from marl.mappers.mapper import Mapper
from marl.policies.policy import Policy
from marl.populations.members import Member, Played, build
from marl.rollout.config import EnvRecipe
from marl.rollout.env_runner import EnvRunner
from marl.rollout.episodes import ended_episodes
from marl.rollout.pool import WorkerPool
from marl.rollout.worker import RolloutWorker

SHORT_ROUND_S = 1.0  # a round that took less is followed by one of twice as many batches
DICT_BATCH, NATIVE_BATCH = 64, 512  # episodes per batch
DICT_COPIES = 32  # copies of a dict env, which are stepped one by one; a native env has a copy for each episode
POLICIES_KEPT = 64  # built policies that a worker keeps for later batches

MemberKey: TypeAlias = str
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
        # A text is a sequence as well, of letters.
        if isinstance(agents, str) or not all(isinstance(agent, str) for agent in agents):
            raise ConfigError(
                f"player {player!r} has {agents!r}; expected a list of agent ids or patterns: [red_0, red_1]."
            )
    found = AgentGroups(players).seats(kinds)
    names: list[AgentID] = []
    for kind in kinds:
        names += kind.agents
    taken = set(chain(*found.values()))
    left_out = {name.split("[")[0] for seat, name in enumerate(names) if seat not in taken}
    if left_out:
        raise ConfigError(
            f"no player has the agent(s) {', '.join(sorted(left_out))}, so nobody would act for them. "
            f"Players: {dict(players)}. Put every agent into one."
        )
    return found


# -- what a worker keeps for the next matches ----------------------------------------------------------------------


class Arena:
    """A worker's copies of the env for matches, and the policies that it has built."""

    def __init__(self, worker: RolloutWorker) -> None:
        self._most_copies = DICT_COPIES
        if _is_native(worker.spec.env_recipe):
            self._most_copies = NATIVE_BATCH
        self._envs: dict[int, BatchedEnv] = {}
        self._policies: OrderedDict[tuple[MemberKey, bool], Policy] = OrderedDict()

    def copies(self, worker: RolloutWorker, episodes: int) -> BatchedEnv:
        """An env copy per episode, rounded up to a power of two: the number follows from the batch alone."""
        needed = 1 << (episodes - 1).bit_length()
        num_envs = min(needed, self._most_copies)
        if num_envs not in self._envs:  # kept: making copies costs more than a short match
            self._envs[num_envs] = worker.make_copies(num_envs)
        return self._envs[num_envs]

    def policy(self, worker: RolloutWorker, member: Member, explore: bool | None) -> Policy:
        """Built when first needed; those that were not needed for longest are forgotten."""
        explores = explore
        if explores is None:
            explores = member.draws_actions
        place = (member.key, explores)
        if place not in self._policies:
            self._policies[place] = Played(build(member, worker.spec.task.kinds), explores)
        self._policies.move_to_end(place)
        if len(self._policies) > POLICIES_KEPT:
            self._policies.popitem(last=False)
        return self._policies[place]

    def close(self) -> None:
        for env in self._envs.values():
            close_all([env], env.name)


_arenas: WeakKeyDictionary[RolloutWorker, Arena] = WeakKeyDictionary()


def arena_of(worker: RolloutWorker) -> Arena:
    """The worker's own; it goes with the worker."""
    if worker not in _arenas:
        _arenas[worker] = Arena(worker)
        # Envs may hold windows and processes, which the end of a Python object does not close.
        finalize(worker, _arenas[worker].close)
    return _arenas[worker]


def episodes_per_batch(recipe: EnvRecipe) -> int:
    """A number of the env, not of the pool: how episodes fall into batches must not depend on the workers."""
    if _is_native(recipe):
        return NATIVE_BATCH
    return DICT_BATCH


def _is_native(recipe: EnvRecipe) -> bool:
    """Whether copies of the env are stepped together, so that many of them cost little more than one."""
    if recipe.wrappers:  # which take the copies one by one
        return False
    creator = resolve_env(recipe.env)
    return isinstance(creator, type) and issubclass(creator, BatchedEnv)


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
    batches: list[list[Job]] = []
    room = 0
    for job in jobs:
        seeds = job.seeds
        while seeds:
            if room == 0:
                batches.append([])
                room = episodes
            now, seeds = seeds[:room], seeds[room:]
            batches[-1].append(Job(job.seating, now))
            room -= len(now)
    return batches


def _put_together(jobs: Sequence[Job], pieces: Sequence[Returns], players: int) -> list[Returns]:
    """Rows of consecutive batches, job by job."""
    if not jobs:
        return []
    nothing = np.zeros((0, players))  # jobs may all be without episodes
    rows = np.concatenate([nothing, *pieces])
    ends = np.cumsum([len(job.seeds) for job in jobs])
    return np.split(rows, ends[:-1])


def _play_batch(
    worker: RolloutWorker, members: Members, jobs: Sequence[Job], players: Players, explore: bool | None
) -> Returns:
    arena = arena_of(worker)
    seatings: list[dict[AgentID, MemberKey]] = []  # of each episode
    seeds: list[int] = []
    for job in jobs:
        seatings += [dict(job.seating)] * len(job.seeds)
        seeds += job.seeds
    policies: dict[PolicyID, Policy] = {}
    kinds: dict[PolicyID, int] = {}
    for key in _members_in(jobs):
        policies[key] = arena.policy(worker, members[key], explore)
        kinds[key] = members[key].spec.kind
    env = arena.copies(worker, len(seeds))
    teams = _teams(players, env.kinds)
    runner = EnvRunner(env, policies, kinds, _Seating(seatings), worker.spec.config, worker.index, teams)
    earned = np.zeros((len(seeds), len(players)))
    book = _Book(players)
    for numbers, ended in ended_episodes(runner, len(seeds), cycle(seeds), _generator(jobs), explore=True):
        earned[numbers] = book.payoffs(ended)
    return earned


def _members_in(jobs: Sequence[Job]) -> list[MemberKey]:
    """Those who sit anywhere, in the order in which they are first seated: policies draw in this order."""
    found: dict[MemberKey, None] = {}
    for job in jobs:
        for _, key in job.seating:
            found[key] = None
    return list(found)


def _generator(jobs: Sequence[Job]) -> np.random.Generator:
    """What the policies of a batch draw from: it follows from the jobs alone, wherever they are played."""
    content = []
    for job in jobs:
        seating = [[agent, key] for agent, key in job.seating]
        content.append([seating, list(job.seeds)])
    digest = hashlib.sha256(json.dumps(content).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


def _teams(players: Players, kinds: Sequence[AgentType]) -> list[int]:
    """The number of each seat's player."""
    seats_of = seats_of_players(players, kinds)
    teams = [0] * sum(map(len, seats_of.values()))
    for number, seats in enumerate(seats_of.values()):
        for seat in seats:
            teams[seat] = number
    return teams


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
        if agent in seating:
            return seating[agent]
        pattern = pattern_of(agent, list(seating))
        if pattern is None:
            raise ConfigError(f"a match seats nobody for agent {agent!r}. Seats: {', '.join(seating)}.")
        return seating[pattern]

    def candidates(self, agent: AgentID) -> Sequence[PolicyID]:
        del agent
        found: dict[PolicyID, None] = {}
        for seating in self.seatings:
            found |= dict.fromkeys(seating.values())
        return list(found)


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
    """Play the jobs on all workers of a pool; returns batch by batch, in order, its parts of jobs with their returns.

    Rounds grow while they are short. How many batches a round has changes nothing about the numbers.
    """
    waiting = batches_of(jobs, episodes_per_batch(pool.spec.env_recipe))
    workers = len(pool.indices)
    per_worker = 1
    while waiting:
        now, waiting = waiting[: per_worker * workers], waiting[per_worker * workers :]
        shares = {index: now[place::workers] for place, index in enumerate(pool.indices)}
        # Weights travel to every worker, so only those that are needed in this round.
        needed = {key for batch in now for key in _members_in(batch)}
        sent = {key: members[key] for key in sorted(needed)}
        began = time.monotonic()
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
    pieces: list[Returns] = []
    for batch in play(pool, members, jobs, players, explore):
        pieces += [returns for _, returns in batch]
    return _put_together(jobs, pieces, len(players))
