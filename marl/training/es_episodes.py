"""What evolution strategies ask of workers: play whole episodes with perturbed policies and say what they paid.

Only seeds go out and only numbers of episodes come back. A worker that gets the same trial gives the same answer, so neither
the number of workers nor who plays which trial changes a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import chain, repeat

import numpy as np

from marl.algos.es.noise import perturbed
from marl.data.episode import EpisodeStats
from marl.data.task import Array, Bools, Ints, PolicyID
from marl.rollout.env_runner import EnvRunner
from marl.rollout.episodes import ended_episodes
from marl.rollout.worker import RolloutWorker


@dataclass(frozen=True)
class Trial:
    """Play one episode per seed while every policy in ``moves`` is moved by ``scale`` times the noise of its seed."""

    moves: Mapping[PolicyID, tuple[int, float]]  # seed of the noise and its signed scale
    episode_seeds: tuple[int, ...]
    explore: bool = False
    watched: tuple[PolicyID, ...] = ()  # whose observations are brought back, for their filters


@dataclass
class Outcome:
    """Episodes of one trial, the decisions made in them, and raw observations of the watched policies with their seats."""

    episodes: EpisodeStats
    decisions: int
    seen: dict[PolicyID, tuple[Array, Ints]] = field(default_factory=dict)


@dataclass(frozen=True)
class Play:
    """Called with every worker: each plays its share of the trials, in turn, and gives them back by their number."""

    trials: Sequence[Trial]
    indices: Sequence[int]  # of the workers that play

    def __call__(self, worker: RolloutWorker) -> dict[int, Outcome]:
        if worker.index not in self.indices:
            return {}
        mine = range(self.indices.index(worker.index), len(self.trials), len(self.indices))
        outcomes = {number: attempt(worker, self.trials[number]) for number in mine}
        if outcomes:  # nobody waits in the middle of an episode, so there is nothing to replay after a restart
            env_ids = np.arange(worker.runner.env.num_envs)
            seeds = self.trials[mine[0]].episode_seeds
            worker.runner.begin(env_ids, np.resize(np.asarray(seeds, np.int64), env_ids.size))
        return outcomes


def attempt(worker: RolloutWorker, trial: Trial) -> Outcome:
    """One trial; the policies are as before when it is over."""
    with ExitStack() as moved:
        for name, (seed, scale) in trial.moves.items():
            moved.enter_context(perturbed(worker.policy_map[name], seed, scale))
        return play(worker.runner, trial)


def play(runner: EnvRunner, trial: Trial) -> Outcome:
    """One episode per seed, in the order in which they end. A copy that has none left goes on, but no longer counts."""
    rng = np.random.default_rng(trial.episode_seeds)  # of actions: the same for both of a pair
    seeds = chain(trial.episode_seeds, repeat(trial.episode_seeds[0]))
    decisions, sight = 0, Sight(runner, trial.watched)

    def look(counts: Bools) -> None:
        nonlocal decisions
        decisions += int(runner.view.present[counts].sum())
        sight.look(counts)

    runner.check.every_step = True  # no grid will be looked at later
    count = len(trial.episode_seeds)
    ended = [stats for _, stats in ended_episodes(runner, count, seeds, rng, explore=trial.explore, before_step=look)]
    return Outcome(EpisodeStats.concat(ended), decisions, sight.seen())


class Sight:
    """Gathers what the watched policies were shown."""

    def __init__(self, runner: EnvRunner, watched: Sequence[PolicyID]) -> None:
        self.runner = runner
        self.rows: dict[PolicyID, list[tuple[Array, Ints]]] = {name: [] for name in watched}

    def look(self, counts: Bools) -> None:
        """Before a step: rows of agents that are asked, in copies that count."""
        view = self.runner.view
        for name, rows in self.rows.items():
            index = self.runner.policy_ids.index(name)
            k = self.runner.kind_of_policy[index]
            seats = self.runner.env.kinds[k].seats
            asked = view.present[:, seats] & (self.runner.policy_of[:, seats] == index) & counts[:, None]
            env_id, seat = np.nonzero(asked)
            rows.append((view.obs[k][env_id, seat], seat))

    def seen(self) -> dict[PolicyID, tuple[Array, Ints]]:
        found = {}
        for name, rows in self.rows.items():
            obs = np.concatenate([part for part, _ in rows])
            seats = np.concatenate([part for _, part in rows])
            found[name] = (obs, seats)
        return found
