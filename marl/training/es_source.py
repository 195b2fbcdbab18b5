"""Where experience comes from when policies evolve: one round is one population of perturbed policies.

The learners propose seeds of noise, the workers play both policies of each pair on the same episodes, and every learner is
told what its own policies were paid. No gradient travels, and observations only of one trial where a policy has a filter; the
batch of a round is an empty grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from marl.algos.es.config import EsConfig
from marl.algos.es.learner import EsLearner, Scores
from marl.algos.learner import Learner
from marl.data.episode import EpisodeStats
from marl.data.task import Floats, PolicyID
from marl.errors import ConfigError
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected
from marl.scenario.resolve import Setup
from marl.training.es_episodes import Outcome, Play, Trial

SIGNS = (1.0, -1.0)


@dataclass
class Population(Collected):
    """A round that is known by its episodes alone."""

    decisions: int = 0

    @property
    def env_steps(self) -> int:
        return int(self.episodes.lengths.sum())

    @property
    def agent_steps(self) -> int:
        return self.decisions


class EvolutionSource:
    """Plays one population per round. ``learners`` are all of the run's, and all evolve."""

    def __init__(self, workers: WorkerPool, learners: Sequence[EsLearner], seed: int) -> None:
        self.workers = workers
        self.learners = learners
        self.seed = seed
        self.configs: dict[PolicyID, EsConfig] = {}
        for learner in learners:
            self.configs |= learner.configs

    def collect(self, steps: int) -> Population:
        """One population, whatever number of steps its episodes take."""
        del steps
        seeds: dict[PolicyID, Sequence[int]] = {}
        for learner in self.learners:
            seeds |= learner.propose()
        outcomes = self._play(self._trials(seeds))
        episodes = EpisodeStats.concat([outcome.episodes for outcome in outcomes])
        decisions = sum(outcome.decisions for outcome in outcomes)
        env_steps = int(episodes.lengths.sum())
        for learner in self.learners:
            reported = {}
            for name in learner.policies:
                if name in seeds:  # frozen policies propose nothing
                    reported[name] = Scores(
                        seeds=seeds[name],
                        scores=self._scores(name, outcomes),
                        env_steps=env_steps,
                        agent_steps=decisions,
                        seen=outcomes[0].seen.get(name),
                    )
            learner.tell(reported)
        return Population(self.workers.local_worker().buffer.batch(), episodes, decisions=decisions)

    def _trials(self, seeds: Mapping[PolicyID, Sequence[int]]) -> list[Trial]:
        """``+`` and ``-`` of every pair, one after the other, on the same episodes."""
        config = next(iter(self.configs.values()))  # they agree on what is asked here
        pairs, length = config.num_perturbations, config.episodes_per_perturbation
        drawn = np.random.SeedSequence([self.seed, self.learners[0].rounds, 5]).generate_state(pairs * length)
        episodes = (drawn >> 1).reshape(pairs, length).tolist()
        watched = self._watched(seeds)
        trials: list[Trial] = []
        for pair in range(pairs):
            for sign in SIGNS:
                moves = {}
                for name, own_seeds in seeds.items():
                    moves[name] = (own_seeds[pair], sign * self.configs[name].noise_stdev)
                trials.append(Trial(moves, tuple(episodes[pair]), config.sample_actions, watched))
                watched = ()  # observations are many: those of the first trial have to do
        return trials

    def _watched(self, trained: Mapping[PolicyID, Sequence[int]]) -> tuple[PolicyID, ...]:
        """Policies whose filters learn from the observations of one trial per round."""
        found: list[PolicyID] = []
        for learner in self.learners:
            found += [name for name in learner.filtered if name in trained]
        return tuple(found)

    def _play(self, trials: Sequence[Trial]) -> list[Outcome]:
        """The outcomes in the order of the trials, whoever played them."""
        outcomes: dict[int, Outcome] = {}
        for answer in self.workers.foreach_worker(Play(trials, list(self.workers.indices))):
            outcomes |= answer
        return [outcomes[number] for number in range(len(trials))]

    def _scores(self, name: PolicyID, outcomes: Sequence[Outcome]) -> Floats:
        """Mean returns ``[pairs, signs]``; NaN where the policy did not play."""
        index = list(self.workers.policies).index(name)  # episodes name policies by their numbers
        scores = []
        for outcome in outcomes:
            returns = outcome.episodes.policy_returns(index)
            scores.append(float(returns.mean()) if returns.size else float("nan"))
        return np.array(scores, np.float32).reshape(-1, len(SIGNS))


def evolves(setup: Setup) -> bool:
    """Whether this run's learners are evolution strategies; refuses what cannot be played that way."""
    mine: dict[PolicyID, EsConfig] = {}
    others: list[PolicyID] = []
    for name, role in setup.roles.items():
        if isinstance(role.config, EsConfig):
            mine[name] = role.config
        else:
            others.append(name)
    if not mine:
        return False
    if others:
        raise ConfigError(
            f"policy {next(iter(mine))!r} learns by es and policy {others[0]!r} by {setup.roles[others[0]].preset.name}. "
            "Evolution strategies play whole populations and leave no rows to learn from, so they cannot be mixed with other "
            "algorithms. Give all learning policies the algo es, or make the others scripted."
        )
    _check_agreement(mine)
    return True


def _check_agreement(configs: Mapping[PolicyID, EsConfig]) -> None:
    for first, second in pairwise(configs):
        a, b = configs[first], configs[second]
        different = [key for key in a.population_keys if getattr(a, key) != getattr(b, key)]
        if different:
            raise ConfigError(
                f"es policies {first!r} and {second!r} are perturbed in the same episodes but differ in "
                f"{', '.join(different)}. Set these keys under algo, not per policy."
            )


def evolving(learners: Sequence[Learner]) -> list[EsLearner]:
    return [learner for learner in learners if isinstance(learner, EsLearner)]
