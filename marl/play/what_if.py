"""What if: from a step of an episode on, another action or another policy for one agent, and what that changes.

Both ways are played on ``continuations`` times from the exact state before the step:

* *as it was*: all do in this step what they did, then the policies play on;
* *instead*: the agent does the other thing, all others what they did, then the policies play on.

Continuation ``i`` has the same random numbers in both ways: the env's luck is drawn anew from seed ``i`` before the step
(``envs/branching.py``), and in every later step an agent draws the same numbers in both ways (``rollout/paired.py``).
Members of mixtures, who plays whom and what policies remember stay as they were. Of the paired differences ``d_i`` of an
agent's return

    mean(d) +- t * std(d) / sqrt(n),      t: the 97.5 % point of Student's distribution with n - 1 degrees of freedom

is the effect with its 95 % interval. Where nothing is left to chance, one continuation is the whole truth.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from marl.data.task import AgentID, Bools, Ints
from marl.envs.branching import Luck
from marl.envs.vector.episode_log import LONGEST_REPLAY
from marl.errors import EnvError
from marl.play.episode import Tape, return_to
from marl.play.playable import Playable
from marl.play.return_summary import Estimate, estimate, returns_by_agent
from marl.play.takeover import Instead, Takeover
from marl.rollout.copies import tiled_state

COPIES, COPIES_OF_DICT_ENVS = 250, 32  # played side by side
Totals: TypeAlias = dict[AgentID, NDArray[np.float64]]
Progress: TypeAlias = Callable[[int, int], None]
"""Is told how many continuations of how many are played."""


@dataclass(frozen=True)
class Effect:
    """What an agent earns in a whole episode in both ways; one that does not come in some continuation earned 0 there."""

    as_it_was: Estimate
    instead: Estimate
    difference: Estimate


@dataclass(frozen=True)
class Answer:
    """What another action or policy changes, by agent; ``together`` is the sum over all agents."""

    question: Instead
    effects: dict[AgentID, Effect]
    together: Effect
    continuations: int
    exact: bool  # nothing is left to chance
    luck: str  # what is said of the env's chance
    cut: int = 0  # continuations, of both ways, that were not played to their end
    returns: dict[str, Totals] = field(default_factory=dict, repr=False)  # of both ways, by continuation


def what_if(
    playable: Playable,
    tape: Tape,
    question: Instead,
    continuations: int = 1_000,
    *,
    longest: int = LONGEST_REPLAY,
    progress: Progress | None = None,
) -> Answer:
    """Play both ways on. The step must be one of the episode, and the agent asked in it; see ``check_question``."""
    branch = _Branch(playable, tape, question, longest)
    try:
        return branch.answer(continuations, progress or _say_nothing)
    finally:
        branch.close()


def _say_nothing(done: int, total: int) -> None:
    del done, total


@dataclass
class _Played:
    """What some continuations of one way brought, one number per continuation and agent."""

    agents: list[dict[AgentID, float]]
    cut: int
    drew: bool  # whether anything was left to chance


class _Branch:
    """The state before the step, and everything to play on from it."""

    def __init__(self, playable: Playable, tape: Tape, question: Instead, longest: int) -> None:
        self.tape, self.question, self.longest = tape, question, longest
        self.takeover = Takeover(playable, tape, question)
        self.runner = self.takeover.playable.paired_runner(1)
        self.state = return_to(self.runner, tape, question.step)
        self.luck = Luck(self.runner.env)

    def close(self) -> None:
        self.runner.env.close()

    def answer(self, continuations: int, progress: Progress) -> Answer:
        was, instead = self._pair(0, 1)
        exact = not (was.drew or instead.drew)
        if not exact:
            # The first pair has only shown that chance plays a part: all continuations are played alike.
            was, instead = _Played([], 0, True), _Played([], 0, True)
            self._widen(continuations)
            for first in range(0, continuations, self.runner.env.num_envs):
                progress(first, continuations)
                more = self._pair(first, continuations)
                for part, new in zip((was, instead), more, strict=True):
                    part.agents.extend(new.agents)
                    part.cut += new.cut
        progress(continuations, continuations)
        return self._summed_up(was, instead, exact)

    def _widen(self, continuations: int) -> None:
        """As many copies side by side as is useful, where the env's state can be copied."""
        most = COPIES_OF_DICT_ENVS if self.runner.env.lifted else COPIES
        copies = min(most, continuations)
        many = tiled_state(self.runner.env, self.state, copies)
        if many is None or copies == 1:
            return
        self.runner.env.close()
        self.runner = self.takeover.playable.paired_runner(copies)
        self.state = many
        self.luck = Luck(self.runner.env)

    # -- both ways -------------------------------------------------------------------------------------------------

    def _pair(self, first: int, continuations: int) -> tuple[_Played, _Played]:
        """Continuations from number ``first`` on, as many as there are copies, in both ways."""
        count = min(self.runner.env.num_envs, continuations - first)
        return self._way(first, count, instead=False), self._way(first, count, instead=True)

    def _way(self, first: int, count: int, instead: bool) -> _Played:
        self._back()
        if instead:
            self.takeover.seat_other(self.runner)
        copies = self.runner.env.num_envs
        seeds = np.random.SeedSequence([self.tape.which.seed, self.question.step, first]).generate_state(copies)
        self.luck.reseed(seeds.astype(np.int64) >> 1)
        return self._play(first, count, instead)

    def _back(self) -> None:
        lost = self.runner.load_state_dict(self.state)
        if lost.size:
            raise EnvError(
                f"env {self.runner.env.name!r} has no get_state(), and step {self.question.step} is too late to be reached "
                f"again by its actions (more than {LONGEST_REPLAY} steps). Give it get_state() and set_state(), or ask about "
                "an earlier step."
            )
        self.runner.stats.pop()

    def _play(self, first: int, count: int, instead: bool) -> _Played:
        runner, explore = self.runner, self.tape.which.explore
        found: list[dict[AgentID, float]] = [{} for _ in range(count)]
        open_ = np.arange(runner.env.num_envs) < count  # copies beyond the last continuation play along for nobody
        runner.drew = False
        unused = np.random.default_rng(0)
        for step in range(self.question.step, self.question.step + self.longest):
            runner.seeds = (self.tape.which.seed, self.question.step, first, step)
            choices = runner.decide(unused, explore=explore)
            if step == self.question.step:
                self.takeover.do(runner, choices, step, instead=instead)
                # What is drawn in the step itself counts only where the other policy chooses: all else is as it was.
                runner.drew = runner.drew and instead and self.question.action is None
            over = runner.settle(runner.advance(choices))
            if over.size:
                self._book(over, open_, found)
                if not open_.any():
                    break
                runner.begin(over, np.zeros(over.size, np.int64))
        unfinished = np.flatnonzero(open_)
        if unfinished.size:
            runner.stats.end(unfinished, runner.policy_of)
            self._book(unfinished, open_, found)
        return _Played(found, unfinished.size, runner.drew or self.luck.used)

    def _book(self, over: Ints, open_: Bools, found: list[dict[AgentID, float]]) -> None:
        """What ended episodes brought, for those that are a continuation and not played along."""
        stats = self.runner.stats.pop()
        for number, env_id in enumerate(over.tolist()):
            if open_[env_id]:
                earned = returns_by_agent(stats.chosen(np.array([number])))
                found[env_id] = {agent: float(paid.sum()) for agent, paid in earned.items()}
                open_[env_id] = False

    # -- the answer ------------------------------------------------------------------------------------------------

    def _summed_up(self, was: _Played, instead: _Played, exact: bool) -> Answer:
        agents: dict[AgentID, None] = {self.question.agent: None}
        for earned in (*was.agents, *instead.agents):
            agents |= dict.fromkeys(earned)
        ways = {"as_it_was": _table(was, agents), "instead": _table(instead, agents)}
        effects = {agent: _effect(ways["as_it_was"][agent], ways["instead"][agent], exact) for agent in agents}
        sums = [np.sum(list(totals.values()), axis=0) for totals in ways.values()]
        together = _effect(sums[0], sums[1], exact)
        luck = "the env's luck is drawn anew in every continuation"
        if exact and self.luck.drawn_anew:
            luck = "the env draws nothing"
        elif not self.luck.drawn_anew:
            luck = "no luck of the env was found that could be drawn anew, so it is as it was"
        return Answer(self.question, effects, together, len(was.agents), exact, luck, was.cut + instead.cut, ways)


def _table(played: _Played, agents: dict[AgentID, None]) -> Totals:
    table: Totals = {}
    for agent in agents:
        numbers = [earned.get(agent, 0.0) for earned in played.agents]
        table[agent] = np.array(numbers)
    return table


def _effect(was: NDArray[np.float64], instead: NDArray[np.float64], exact: bool) -> Effect:
    parts = [estimate(numbers) for numbers in (was, instead, instead - was)]
    if exact:
        parts = [Estimate(part.mean, 0.0, part.episodes) for part in parts]
    return Effect(*parts)


def both_ways(answer: Answer) -> Iterator[tuple[str, Effect]]:
    """All rows of the answer: the agent that was asked about, the others by how much changes for them, then all together."""
    own = answer.question.agent
    others = [(agent, effect) for agent, effect in answer.effects.items() if agent != own]
    others.sort(key=lambda row: -abs(row[1].difference.mean))
    yield own, answer.effects[own]
    yield from others
    yield "all together", answer.together
