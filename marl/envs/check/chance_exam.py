"""What an env says about its chance, and whether that is true: listed outcomes are played, seeds are counted.

Episodes are compared under the same random choices of actions, by what agents see and are paid. A start that only differs
elsewhere is not noticed, so the number of different starts is what was seen, not what there is.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.envs.batched import BatchedEnv, NativeEnv
from marl.envs.chance import CHANCE, Outcomes, is_no_luck, listed_chance
from marl.envs.check.array_play import ArrayPlay
from marl.envs.check.dict_play import DictPlay
from marl.envs.check.findings import Findings
from marl.envs.check.traces import Trace, View, digest
from marl.envs.games.cards.dealt import DealtEnv
from marl.errors import ChanceError
from marl.failures import line_of_code

SEEDS = 64  # episodes that are compared
PLAYED = 64  # listed outcomes that are played twice
AGAIN = 16  # episodes that are played again at least
SHOWN = 1_000  # listed outcomes whose starts are looked at
RESETS = 400  # starts that are counted where outcomes are listed


class Patience:
    """Each part of the exam ends after so many env steps, or after 3 seconds."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.stop = time.perf_counter() + 3.0

    def ends_after(self, steps: int) -> bool:
        self.left -= steps
        return self.left <= 0 or time.perf_counter() > self.stop


STATES = ("state()", "the state")  # in views of dict envs and of array envs


@dataclass(frozen=True)
class Chance:
    """``listed`` outcomes, or ``starts`` that were told apart in ``seeds``."""

    listed: int = 0
    seeds: int = 0
    starts: int = 0

    def __str__(self) -> str:
        if self.listed == 1:
            return "says that nothing is random: exact"
        if self.listed:
            return f"lists its chance: exact ({_plural(self.listed, 'outcome')})"
        if self.starts == 1:
            return f"starts are sampled from seeds: no chance seen in {_plural(self.seeds, 'seed')}"
        return (
            f"starts are sampled from seeds: {_plural(self.starts, 'distinct start')} in {_plural(self.seeds, 'seed')}"
        )


def chance_of_arrays(env: BatchedEnv, findings: Findings, seed: int, steps: int, budget: int) -> Chance:
    """A native env: deals that it lists, or what seeds show. Episodes are cut after ``steps``."""
    if isinstance(env, DealtEnv):
        return Chance(listed=int((env.deal_probabilities > 0).sum()))
    play = ArrayPlay(env, findings)
    patience = Patience(budget)
    found: list[str] = []
    for number in range(SEEDS):
        play.begin([0], [seed + number])
        play.rngs[0] = np.random.default_rng([seed, 1])  # the same choices in every episode
        trace = play.traces[0]
        while not trace.over and trace.length < steps:
            play.step()
        found.append(_key(trace))
        if patience.ends_after(trace.length):
            break
    different = len(set(found))
    if isinstance(env, NativeEnv) and env.deterministic:
        if different > 1:
            text = f"it is `deterministic`, but {len(found)} seeds gave {different} different episodes."
            findings.add("chance-missing", text)
        return Chance(listed=1)
    return Chance(seeds=len(found), starts=different)


class DictChanceExam:
    """One copy of a dict env. Episodes are cut after ``steps``."""

    def __init__(self, play: DictPlay, name: str, seed: int, steps: int, budget: int) -> None:
        self.play = play
        self.name = name
        self.findings = play.findings
        self.seed = seed
        self.steps = steps
        self.budget = budget

    def run(self) -> Chance | None:
        """None where the list is no list."""
        try:
            listed = listed_chance(self.play.env, self.name)
        except ChanceError as error:
            self.findings.add("chance-list", str(error))
            return None
        if listed is None:
            return self._count_starts()
        if self._is_accepted(listed) and self._is_obeyed(listed):
            self._compare_with_seeds(listed)
        return Chance(listed=len(listed.outcomes))

    def _count_starts(self) -> Chance:
        found: list[str] = []
        patience = Patience(self.budget)
        for number in range(SEEDS):
            trace = self._episode(self.seed + number)
            found.append(_key(trace))
            if patience.ends_after(trace.length):
                break
        return Chance(seeds=len(found), starts=len(set(found)))

    def _is_accepted(self, listed: Outcomes) -> bool:
        """Whether reset takes an outcome at all."""
        outcome = listed.outcomes[0]
        try:
            self.play.env.reset(seed=self.seed, options={CHANCE: outcome})
        except Exception as error:
            text = (
                f"reset(options={{'chance': {outcome!r}}}) raised {type(error).__name__}: {error}{line_of_code(error)}"
            )
            self.findings.add("chance-outcome", text)
            return False
        return True

    def _is_obeyed(self, listed: Outcomes) -> bool:
        """Whether each outcome plays alike with two seeds or, where there are few outcomes, with several."""
        patience = Patience(self.budget)
        count = len(listed.outcomes)
        seeds_again = max(1, AGAIN // count)
        for outcome in listed.outcomes[:: max(1, count // PLAYED)]:
            first = _without_state(self._episode(self.seed, {CHANCE: outcome}))
            steps = first.length
            for number in range(1, 1 + seeds_again):
                other = _without_state(self._episode(self.seed + number, {CHANCE: outcome}))
                steps += other.length
                parted = first.difference(other)
                if parted:
                    text = (
                        f"the outcome {outcome!r} of chance_outcomes() plays differently with the seeds {self.seed} and "
                        f"{self.seed + number}: {parted}."
                    )
                    self.findings.add("chance-outcome", text)
                    return False
            if patience.ends_after(steps):
                break
        return True

    def _compare_with_seeds(self, listed: Outcomes) -> None:
        """Starts by seeds are among those that are listed, about as often as they should be."""
        if len(listed.outcomes) > SHOWN:
            return
        expected: dict[str, float] = defaultdict(float)
        for outcome, probability in zip(*listed, strict=True):
            expected[self._start(self.seed, {CHANCE: outcome})] += probability
        seen: Counter[str] = Counter()
        patience = Patience(RESETS)
        for number in range(RESETS):
            start = self._start(self.seed + number)
            seen[start] += 1
            if start not in expected:
                text = f"reset(seed={self.seed + number}) shows what none of the {len(listed.outcomes)} outcomes shows."
                self.findings.add("chance-missing", text)
                return
            if patience.ends_after(1):
                break
        self._compare_weights(expected, seen)

    def _compare_weights(self, expected: Mapping[str, float], seen: Mapping[str, int]) -> None:
        total = sum(seen.values())
        for start, probability in expected.items():
            often = seen.get(start, 0)
            if is_no_luck(often, total, probability, len(expected)):
                text = (
                    f"starts that chance_outcomes() gives the probability {probability:.4g} were drawn by {often} of {total} "
                    "seeds."
                )
                self.findings.add("chance-weights", text)
                return

    def _episode(self, seed: int, options: Mapping[str, Any] | None = None) -> Trace:
        self.play.begin(seed, options)
        self.play.rng = np.random.default_rng([self.seed, 1])  # the same choices in every episode
        while not self.play.trace.over and self.play.trace.length < self.steps:
            self.play.step()
        return self.play.trace

    def _start(self, seed: int, options: Mapping[str, Any] | None = None) -> str:
        self.play.begin(seed, options)
        return digest(_shown(self.play.trace.views[0]))


def _key(trace: Trace) -> str:
    return digest([_shown(view) for view in trace.views])


def _without_state(trace: Trace) -> Trace:
    return Trace(trace.seed, [_shown(view) for view in trace.views])


def _shown(view: View) -> View:
    """Without the global state, which is no part of the game that agents play."""
    return {what: seen for what, seen in view.items() if what not in STATES}


def _plural(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}s"
