"""Whole episodes by their seeds, each played to its end: what evaluations and evolution strategies ask for."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice

import numpy as np

from marl.data.episode import EpisodeStats
from marl.data.task import Bools, Ints
from marl.rollout.env_runner import EnvRunner

log = logging.getLogger(__name__)
PATIENCE = 10_000  # steps without the end of an episode after which a word is due; then ten times as many, and so on


def play_episodes(runner: EnvRunner, seeds: Sequence[int], explore: bool) -> EpisodeStats:
    """One episode per seed, in the order of the seeds."""
    rng = np.random.default_rng([int(seeds[0]), len(seeds)])
    results: dict[int, EpisodeStats] = {}
    for numbers, ended in ended_episodes(runner, len(seeds), cycle(seeds), rng, explore=explore):
        for place, number in enumerate(numbers.tolist()):
            results[number] = ended.chosen(np.array([place]))
    return EpisodeStats.concat([results[i] for i in range(len(seeds))])


def ended_episodes(
    runner: EnvRunner, count: int, seeds: Iterator[int], rng: np.random.Generator, *, explore: bool,
    before_step: Callable[[Bools], None] | None = None,
) -> Iterator[tuple[Ints, EpisodeStats]]:  # fmt: skip
    """Play until the first ``count`` episodes have ended; yields their numbers and results as they end.

    ``seeds`` never ends: a copy of the env that has no episode left goes on with one that does not count.
    ``before_step`` is called with the copies ``[E]`` whose episodes count.
    """
    begun = runner.env.num_envs
    playing = np.arange(begun)  # the number of each copy's episode
    runner.stats.pop()
    if runner.callbacks is not None:
        runner.callbacks.counts = playing < count
    runner.episodes_begun = 0  # what a mapper sees of an episode does not depend on what was played before
    runner.begin(np.arange(begun), _next(seeds, begun))
    left = count
    waited, patience = 0, PATIENCE  # steps since an episode that counts ended
    while left:
        if before_step is not None:
            before_step(playing < count)
        over = runner.settle(runner.advance(runner.decide(rng, explore=explore)))
        waited += 1
        if waited == patience:
            warn_of_endless(runner.env.name, waited, runner.config.horizon)
            patience *= 10
        if not over.size:
            continue
        ended, numbers = runner.stats.pop(), playing[over]
        playing[over] = np.arange(begun, begun + over.size)
        begun += over.size
        if runner.callbacks is not None:
            runner.callbacks.counts = playing < count
        runner.begin(over, _next(seeds, over.size))
        counted = np.flatnonzero(numbers < count)
        left -= counted.size
        if counted.size:
            waited = 0
            yield numbers[counted], ended.chosen(counted)


def warn_of_endless(env: str, steps: int, horizon: int | None) -> None:
    """Say that episodes may never end, and what to do; with a ``horizon`` they do."""
    if horizon is not None:
        return
    log.warning(
        "env %r: no episode has ended for %d steps. If its episodes do not end by themselves, cut them: set horizon in the "
        "scenario (--set horizon=1000). Ctrl-C stops; nothing is lost.",
        env,
        steps,
    )


def _next(seeds: Iterator[int], count: int) -> Ints:
    return np.array(list(islice(seeds, count)), np.int64)
