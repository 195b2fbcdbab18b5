"""Where experience comes from when policies learn by regrets: one round is one agent's turn in Deep CFR or ESCHER, or with
``take_turns: false`` an iteration of all agents.

The learners' regret networks go to the workers, which walk through games with them; every learner is told what concerns its
policies. The batch of a round is an empty grid, and no episodes are counted: a walk is not play by the policy that is learned.
A worker that gets the same job gives the same answer, so neither the number of workers nor who does which job changes a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from weakref import WeakKeyDictionary

import numpy as np

from marl.algos.deep_cfr.config import DeepCfrConfig
from marl.algos.deep_cfr.learner import DeepCfrLearner, Walked
from marl.algos.deep_cfr.networks import RegretNetwork
from marl.algos.learner import Learner
from marl.data.batch import SampleBatch
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID
from marl.envs.batched import BatchedEnv
from marl.errors import ConfigError
from marl.gametheory.tree.env_walker import Stage, stage_for
from marl.policies.policy import Policy
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected
from marl.rollout.worker import RolloutWorker
from marl.scenario.resolve import Setup
from marl.training.walks.cast import Cast, Rows, WalkedGames, WalkJob
from marl.training.walks.paths import follow, play
from marl.training.walks.traversals import branches, too_large, traverse

TOGETHER = 256  # games of a job: enough for one forward pass to be worth its call
PROBED = 16  # courses by which the size of a traversal is estimated before anything is learned


@dataclass
class WalkedRound(Collected):
    """A round that is known by its walks alone."""

    steps: int = 0
    decisions: int = 0

    @property
    def env_steps(self) -> int:
        return self.steps

    @property
    def agent_steps(self) -> int:
        return self.decisions


@dataclass(frozen=True)
class Walk:
    """Called with every worker: each does its share of the jobs and gives the results back by their number.

    ``networks`` are the regrets by which policies play in walks, ``seating`` the policy on each seat, ``seed`` decides what is
    drawn on the way.
    """

    jobs: Sequence[WalkJob]
    networks: Mapping[PolicyID, RegretNetwork]
    seating: Sequence[PolicyID]
    indices: Sequence[int]  # of the workers that walk
    seed: Sequence[int]

    def __call__(self, worker: RolloutWorker) -> dict[int, WalkedGames]:
        if worker.index not in self.indices:
            return {}
        found = {}
        for number in range(self.indices.index(worker.index), len(self.jobs), len(self.indices)):
            found[number] = self._walk(worker, number)
        return found

    def _walk(self, worker: RolloutWorker, number: int) -> WalkedGames:
        job, cast = self.jobs[number], self.cast(worker, number)
        WAYS[job.way](worker, job, cast)
        return cast.games

    def cast(self, worker: RolloutWorker, number: int) -> Cast:
        rng = np.random.default_rng([*self.seed, number])
        return Cast(worker.policy_map, self.networks, self.seating, worker.spec.task.kinds, rng)


# Envs of workers, which are not built anew for every iteration.
_STAGES: WeakKeyDictionary[RolloutWorker, Stage] = WeakKeyDictionary()
_LANES: WeakKeyDictionary[RolloutWorker, BatchedEnv] = WeakKeyDictionary()


def _stage(worker: RolloutWorker) -> Stage:
    if worker not in _STAGES:
        _STAGES[worker] = stage_for(worker.make_copies)
    return _STAGES[worker]


def _lanes(worker: RolloutWorker, count: int) -> BatchedEnv:
    env = _LANES.get(worker)
    if env is None or env.num_envs != count:
        env = _LANES[worker] = worker.make_copies(count)
    return env


def _traverse(worker: RolloutWorker, job: WalkJob, cast: Cast) -> None:
    traverse(_stage(worker), job, cast, worker.spec.config.horizon)


def _follow(worker: RolloutWorker, job: WalkJob, cast: Cast) -> None:
    follow(_lanes(worker, len(job.seeds)), job, cast, worker.spec.config.horizon)


def _play(worker: RolloutWorker, job: WalkJob, cast: Cast) -> None:
    play(_lanes(worker, len(job.seeds)), job, cast, worker.spec.config.horizon)


PLAY = "play"
WAYS = {"traversals": _traverse, "values": _follow, PLAY: _play}
"""By the key ``regrets_from``; and games in which nobody looks for regrets."""


class WalkSource:
    """Walks through the games of one turn, or of one iteration, per round.

    ``learners`` are all of the run's, and all learn by regrets.
    """

    def __init__(self, workers: WorkerPool, learners: Sequence[DeepCfrLearner], setup: Setup) -> None:
        self.workers, self.learners, self.seed = workers, learners, setup.scenario.seed
        self.seating = seating_of(setup)
        self.configs: dict[PolicyID, DeepCfrConfig] = {}
        for learner in learners:
            self.configs |= learner.configs
        self._check_size()

    def collect(self, steps: int) -> WalkedRound:
        """One turn or iteration, whatever number of steps its games take."""
        del steps
        jobs = self._jobs()
        games = self._walk(jobs)
        total = sum(one.env_steps for one in games)
        decisions = sum(one.decisions for one in games)
        for learner in self.learners:
            told = {}
            for name in learner.trained:
                regrets: list[Rows] = []
                strategies: list[Rows] = []
                for job, found in zip(jobs, games, strict=True):
                    strategies += found.strategies.get(name, [])
                    if self.seating[job.seat] == name:
                        regrets += found.regrets
                told[name] = Walked(_joined(regrets), _joined(strategies), total, decisions)
            learner.tell(told)
        grid = self.workers.local_worker().buffer.batch()
        return WalkedRound(grid, EpisodeStats.empty(), steps=total, decisions=decisions)

    def _jobs(self) -> list[WalkJob]:
        """Games for every seat of a policy that is trained."""
        trained: frozenset[PolicyID] = frozenset()
        for learner in self.learners:
            trained |= learner.trained
        looking = [seat for seat, name in enumerate(self.seating) if name in trained]
        jobs: list[WalkJob] = []
        for seat in self._whose_turn(looking):
            jobs += self._jobs_of(seat, self.configs[self.seating[seat]].regrets_from)
        # Strategies are kept while others look for regrets; where there are no others, in games for their sake alone.
        if len(looking) == 1:
            jobs += self._jobs_of(looking[0], PLAY)
        return jobs

    def _whose_turn(self, looking: Sequence[int]) -> Sequence[int]:
        """Those who look for regrets in this round: one after the other, or all at once."""
        if not looking or not self.configs[self.seating[looking[0]]].take_turns:
            return looking
        return [looking[self.learners[0].rounds % len(looking)]]

    def _jobs_of(self, seat: int, way: str) -> list[WalkJob]:
        config = self.configs[self.seating[seat]]
        number = len(self.seating) if way == PLAY else seat  # decides the seeds: no game is played twice
        drawn = np.random.SeedSequence([self.seed, self.learners[0].rounds, number, 7]).generate_state(
            config.traversals
        )
        seeds = (drawn >> 1).astype(np.int64)
        jobs: list[WalkJob] = []
        for first in range(0, len(seeds), TOGETHER):
            some = seeds[first : first + TOGETHER]
            jobs.append(WalkJob(seat, some, way, config.gamma, config.max_branches))
        return jobs

    def _walk(self, jobs: Sequence[WalkJob]) -> list[WalkedGames]:
        """What the jobs brought, in their order, whoever did them."""
        walk = Walk(jobs, self._networks(), self.seating, list(self.workers.indices), self._seeds())
        found: dict[int, WalkedGames] = {}
        for answer in self.workers.foreach_worker(walk):
            found |= answer
        return [found[number] for number in range(len(jobs))]

    def _seeds(self) -> tuple[int, ...]:
        return (self.seed, self.learners[0].rounds, 8)

    def _networks(self) -> dict[PolicyID, RegretNetwork]:
        found: dict[PolicyID, RegretNetwork] = {}
        for learner in self.learners:
            found |= {name: part.network for name, part in learner.parts.items()}
        return found

    def _check_size(self) -> None:
        """Refuse games of which a traversal would not come to an end, before anything is learned."""
        worker = self.workers.local_worker()
        for seat, name in enumerate(self.seating):
            config = self.configs.get(name)
            if config is None or config.regrets_from != "traversals":
                continue
            walk = Walk([], self._networks(), self.seating, [], self._seeds())
            size = branches(_stage(worker), walk.cast(worker, 0), seat, np.arange(PROBED), worker.spec.config.horizon)
            if size > config.max_branches:
                raise too_large(config.max_branches)


def _joined(rows: Sequence[Rows]) -> SampleBatch:
    """Rows of all jobs, one below the other."""
    if not rows:
        return SampleBatch({})
    return SampleBatch.concat_samples([SampleBatch(one) for one in rows])


def seating_of(setup: Setup) -> list[PolicyID]:
    """The policy on each seat; refuses mappings that change from game to game."""
    mapper = setup.rollout.mapper
    found: list[PolicyID] = []
    for agent in setup.task.seat_names:
        policies = list(mapper.candidates(agent))
        if len(policies) > 1:
            raise ConfigError(
                f"agent {agent!r} is played by {', '.join(policies)}, but deep_cfr and escher walk through games in which "
                "every agent has one policy. Use a policy_mapping_fn that names one per agent, such as per_agent."
            )
        found.append(policies[0])
    return found


def learns_by_regrets(setup: Setup, policies: Mapping[PolicyID, Policy]) -> bool:
    """Whether this run's learners minimise regrets; refuses whom they cannot walk with."""
    mine: dict[PolicyID, DeepCfrConfig] = {}
    for name, role in setup.roles.items():
        if isinstance(role.config, DeepCfrConfig):
            mine[name] = role.config
    if not mine:
        return False
    first = next(iter(mine))
    for name, role in setup.roles.items():
        if name not in mine:
            raise ConfigError(
                f"policy {first!r} learns by regrets and policy {name!r} by {role.preset.name}. Walks leave no rows for other "
                "algorithms to learn from. Give all learning policies the same algo, or make the others scripted."
            )
    for name, policy in policies.items():
        if policy.carry_size or policy.draws_lots:
            raise ConfigError(
                f"policy {name!r} remembers what happened in its episode, but deep_cfr and escher walk through single "
                "positions. Use a policy without memory."
            )
    _check_agreement(mine)
    return True


def _check_agreement(configs: Mapping[PolicyID, DeepCfrConfig]) -> None:
    for first, second in pairwise(configs):
        a, b = configs[first], configs[second]
        different = [key for key in a.walk_keys if getattr(a, key) != getattr(b, key)]
        if different:
            raise ConfigError(
                f"policies {first!r} and {second!r} meet in the same walks but differ in {', '.join(different)}. Set these "
                "keys under algo, not per policy."
            )


def walking(learners: Sequence[Learner]) -> list[DeepCfrLearner]:
    return [learner for learner in learners if isinstance(learner, DeepCfrLearner)]
