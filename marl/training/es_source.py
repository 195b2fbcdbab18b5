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
        self.workers, self.learners, self.seed = workers, learners, seed
        self.configs = {name: config for learner in learners for name, config in learner.configs.items()}

    def collect(self, steps: int) -> Population:
        """One population, whatever number of steps its episodes take."""
        del steps
        seeds = {name: mine for learner in self.learners for name, mine in learner.propose().items()}
        outcomes = self._play(self._trials(seeds))
        scores = {name: self._scores(name, outcomes) for name in seeds}
        episodes = EpisodeStats.concat([outcome.episodes for outcome in outcomes])
        decisions = sum(outcome.decisions for outcome in outcomes)
        for learner in self.learners:
            learner.tell(
                {
                    name: Scores(
                        seeds[name], scores[name], int(episodes.lengths.sum()), decisions, outcomes[0].seen.get(name)
                    )
                    for name in learner.policies
                    if name in seeds
                }
            )
        return Population(self.workers.local_worker().grid.batch(), episodes, decisions=decisions)

    def _trials(self, seeds: Mapping[PolicyID, Sequence[int]]) -> list[Trial]:
        """``+`` and ``-`` of every pair, one after the other, on the same episodes."""
        config = next(iter(self.configs.values()))  # they agree on what is asked here
        played = self.learners[0].rounds
        drawn = np.random.SeedSequence([self.seed, played, 5]).generate_state(
            config.num_perturbations * config.episodes_per_perturbation
        )
        episodes = (drawn >> 1).reshape(config.num_perturbations, config.episodes_per_perturbation).tolist()
        trials: list[Trial] = []
        for i in range(config.num_perturbations):
            for sign in SIGNS:
                moves = {name: (mine[i], sign * self.configs[name].noise_stdev) for name, mine in seeds.items()}
                trials.append(
                    Trial(moves, tuple(episodes[i]), config.sample_actions, () if trials else self._watched(seeds))
                )
        return trials

    def _watched(self, trained: Mapping[PolicyID, Sequence[int]]) -> tuple[PolicyID, ...]:
        """Policies whose filters learn from the observations of one trial per round."""
        return tuple(name for learner in self.learners for name in learner.filtered if name in trained)

    def _play(self, trials: Sequence[Trial]) -> list[Outcome]:
        answers = self.workers.foreach_worker(Play(trials, list(self.workers.indices)))
        outcomes = {number: outcome for answer in answers for number, outcome in answer.items()}
        return [outcomes[number] for number in range(len(trials))]

    def _scores(self, name: PolicyID, outcomes: Sequence[Outcome]) -> Floats:
        index = list(self.workers.policies).index(name)
        scores = [_mean(outcome.episodes.policy_returns(index)) for outcome in outcomes]
        return np.array(scores, np.float32).reshape(-1, len(SIGNS))


def _mean(returns: Floats) -> float:
    return float(returns.mean()) if returns.size else float("nan")


def evolves(setup: Setup) -> bool:
    """Whether this run's learners are evolution strategies; refuses what cannot be played that way."""
    configs = {name: role.config for name, role in setup.roles.items()}
    mine = {name: config for name, config in configs.items() if isinstance(config, EsConfig)}
    if not mine:
        return False
    others = [name for name in configs if name not in mine]
    if others:
        raise ConfigError(
            f"policy {next(iter(mine))!r} learns by es and policy {others[0]!r} by {setup.roles[others[0]].preset.name}. "
            "Evolution strategies play whole populations and leave no rows to learn from, so they cannot be mixed with other "
            "algorithms. Give all learning policies the algo es, or make the others scripted."
        )
    _check_agreement(mine)
    _check_keys(setup)
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


def _check_keys(setup: Setup) -> None:
    scenario = setup.scenario
    if scenario.rollout_fragment_length != "auto" or scenario.batch_mode == "truncate_episodes":
        raise ConfigError(
            f"rollout_fragment_length is {scenario.rollout_fragment_length} and batch_mode {scenario.batch_mode}, but es "
            "plays whole episodes (num_perturbations pairs of episodes_per_perturbation). Drop both keys."
        )
    if setup.asynchronous:
        raise ConfigError("collection is async, but es waits for a whole population before it moves. Drop collection.")


def evolving(learners: Sequence[Learner]) -> list[EsLearner]:
    return [learner for learner in learners if isinstance(learner, EsLearner)]
