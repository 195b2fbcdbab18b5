"""Whole episodes by their seeds: who counts, in which order they come, and that evaluations and trials play the same."""

from __future__ import annotations

from itertools import chain, repeat

import numpy as np

from marl.data.task import Bools
from marl.rollout.episodes import ended_episodes, play_episodes
from marl.training.es_episodes import Trial, play
from marl.training.trainer import Trainer

SEEDS = (5, 6, 7, 8)
KEYS = {"env": "CartPole-v1", "fcnet_hiddens": [8], "num_envs_per_worker": 3, "evaluation": {"interval": 0}, "seed": 3}


def test_episodes_come_as_they_end_and_no_copy_counts_beyond_the_last_of_them() -> None:
    with Trainer("ppo", config=KEYS) as trainer:
        runner = trainer.workers.local_worker().runner
        steps: list[Bools] = []
        seeds = chain(SEEDS, repeat(SEEDS[0]))
        found = list(
            ended_episodes(runner, 4, seeds, np.random.default_rng(0), explore=False, before_step=lambda c: steps.append(c))
        )  # fmt: skip
        one_by_one = play_episodes(runner, SEEDS, explore=False)
    numbers = np.concatenate([each for each, _ in found])
    lengths = np.concatenate([stats.lengths for _, stats in found])
    assert sorted(numbers.tolist()) == [0, 1, 2, 3]
    assert lengths.tolist() == one_by_one.lengths[numbers].tolist()  # a greedy policy plays a seed alike everywhere
    assert sum(int(counts.sum()) for counts in steps) == lengths.sum()  # copies that count, step by step
    assert [int(counts.sum()) for counts in steps][-1] == 1


def test_a_trial_and_an_evaluation_play_the_same_episodes() -> None:
    with Trainer("ppo", config=KEYS) as trainer:
        runner = trainer.workers.local_worker().runner
        outcome = play(runner, Trial({}, SEEDS))
        stats = play_episodes(runner, SEEDS, explore=False)
    assert sorted(outcome.episodes.lengths.tolist()) == sorted(stats.lengths.tolist())
    assert outcome.decisions == stats.lengths.sum()
    assert stats.episode.tolist() == [0, 1, 2, 3]
