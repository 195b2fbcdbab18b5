"""Evolution strategies (Salimans et al., 2017): no values, no gradients, only what whole episodes paid.

    for i = 1..n:  draw a seed, play theta + sigma epsilon_i and theta - sigma epsilon_i      (``training/es_episodes.py``)
    u  = centred ranks of the 2 n scores
    g  = 1 / (2 n sigma) sum_i (u_i+ - u_i-) epsilon_i
    theta <- optimiser step along g, with weight decay if the optimiser has it

Details that matter for results: pairs of opposite noise play the same episodes, so most of the luck cancels; ranks instead
of rewards; equal scores have equal ranks; greedy play, because the noise on the parameters explores already. A policy that
plays several agents is scored by the sum of their rewards.

All es policies of a run are perturbed in the same episodes, each by noise of its own and scored by its own rewards. So several
policies cost no more episodes than one; the price is that the others' noise is part of each one's luck. Frozen policies play
as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from marl.algos.config import LearnerConfig, scheduled
from marl.algos.es.config import EsConfig
from marl.algos.es.estimate import centred_ranks, search_gradient
from marl.algos.es.noise import moved_parameters
from marl.algos.learner import Learner, LearnerSpec, Metrics
from marl.algos.optimiser import FlatOptimiser
from marl.algos.reading import Reading
from marl.data.batch import MultiAgentBatch
from marl.data.task import Array, Bools, Floats, Ints, PolicyID
from marl.errors import ConfigError
from marl.policies.policy import Policy


@dataclass(frozen=True)
class Scores:
    """What came of a policy's perturbations: mean return per episode, ``[n, 2]`` for + and -; NaN: it did not play."""

    seeds: Sequence[int]
    scores: Floats
    env_steps: int
    agent_steps: int
    seen: tuple[Array, Ints] | None = None  # raw observations and seats of one of these policies, for the filter


class EsLearner(Learner):
    """Proposes seeds of noise, is told the scores, moves the policies. Each policy has its own optimiser and config."""

    def __init__(
        self, policies: Mapping[PolicyID, Policy], configs: Mapping[PolicyID, EsConfig], seed: int,
        filtered: Collection[PolicyID] = (),
    ) -> None:  # fmt: skip
        super().__init__(policies, seed)
        self.configs, self.filtered = dict(configs), tuple(filtered)  # filtered: those with statistics of observations
        self.optimisers = {}
        for name, policy in policies.items():
            _check(name, policy)
            config = configs[name]
            self.optimisers[name] = FlatOptimiser(
                moved_parameters(policy), config.optimizer, config.lr, f"policy {name!r}"
            )
        self.rounds = 0  # populations that have been played; decides the seeds of their episodes
        self.reported: dict[PolicyID, Scores] = {}

    @classmethod
    def reading(cls, config: LearnerConfig) -> Reading:
        from marl.algos.es.reading import reading  # knows this class itself

        assert isinstance(config, EsConfig)
        return reading(cls, config)

    @classmethod
    def build(cls, spec: LearnerSpec) -> EsLearner:
        configs = {name: c for name, c in spec.configs.items() if isinstance(c, EsConfig)}
        filtered: list[PolicyID] = []
        for name, model in spec.models.items():
            if model.observation_filter != "NoFilter":
                filtered.append(name)
        return cls(spec.policies, configs, spec.seed, filtered)

    def propose(self) -> dict[PolicyID, list[int]]:
        """Fresh seeds of noise for each policy that is trained."""
        return {
            name: self.rng.integers(0, 2**62, self.configs[name].num_perturbations).tolist()
            for name in sorted(self.trained)
        }

    def tell(self, scores: Mapping[PolicyID, Scores]) -> None:
        """What came of the proposals; ``learn`` acts on it."""
        self.reported = dict(scores)

    def learn(self, batch: MultiAgentBatch) -> Metrics:
        """Move the policies that were perturbed and are trained."""
        del batch  # empty: what was played has come by ``tell``
        reported, self.reported = self.reported, {}
        self.rounds += 1
        metrics: Metrics = {}
        for name in sorted(self.trained & reported.keys()):
            self.timesteps[name] += reported[name].env_steps
            # A pair counts only if both were seen: half a pair would be luck that nothing cancels.
            played = np.asarray(~np.isnan(reported[name].scores).any(axis=1))
            if played.any():
                metrics[name] = self._train(name, reported[name], played)
            seen = reported[name].seen
            if seen is not None:
                self.policies[name].observe(*seen)
            self.policies[name].anneal(self.timesteps[name])
        return metrics

    def _train(self, name: PolicyID, reported: Scores, played: Bools) -> dict[str, float]:
        """One step of a policy along the estimated gradient; ``played`` are the pairs that have two scores."""
        config, optimiser = self.configs[name], self.optimisers[name]
        seeds, scores = np.asarray(reported.seeds)[played].tolist(), reported.scores[played]
        gradient = search_gradient(seeds, centred_ranks(scores), config.noise_stdev, optimiser.flat.numel())
        optimiser.grad.copy_(torch.from_numpy(-gradient))  # the optimiser goes down, scores shall go up
        lr = scheduled(config.lr_schedule, config.lr, self.timesteps[name])
        norm = optimiser.step(config.grad_clip, lr)
        self.counters["num_steps_trained"] += reported.env_steps
        self.counters["num_agent_steps_trained"] += reported.agent_steps
        self.counters["num_updates"] += 1
        return {
            "score_mean": float(scores.mean()),
            "score_max": float(scores.max()),
            "score_min": float(scores.min()),
            "grad_norm": float(norm),
            "weights_norm": float(torch.linalg.vector_norm(optimiser.flat)),
            "cur_lr": lr,
        }

    def state_dict(self) -> dict[str, Any]:
        optimisers = {name: optimiser.state_dict() for name, optimiser in self.optimisers.items()}
        return {**self._common_state(), "rounds": self.rounds, "optimisers": optimisers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._load_common_state(state)
        self.rounds = state["rounds"]
        for name, optimiser in self.optimisers.items():
            optimiser.load_state_dict(state["optimisers"][name])


def _check(name: PolicyID, policy: Policy) -> None:
    if policy.shared:
        raise ConfigError(
            f"policy {name!r} learns by es and shares the layers {', '.join(policy.shared)}. Evolution perturbs each policy "
            "by itself, which would move the others' layers too. Drop `shared`, or let one policy play all these agents."
        )
    if not moved_parameters(policy):
        raise ConfigError(f"policy {name!r} learns by es, but its model has no parameters that could be moved.")
