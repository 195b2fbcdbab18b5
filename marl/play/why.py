"""Why an agent did what it did in a step of an episode, and what something else would have led to: ``marl why``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from marl.data.task import AgentID, Array
from marl.play.changes import NOTHING, Changes
from marl.play.episode import Which, play_episode
from marl.play.exported_run import open_playable
from marl.play.playable import Playable
from marl.play.questions import check_question, question_of
from marl.play.return_summary import CONFIDENCE, MOST_AGENTS, Estimate
from marl.play.takeover import Instead
from marl.play.trace import AgentStep, Trace, as_env_takes, plain, recorded_episode, traced
from marl.play.what_if import Answer, Effect, Progress, both_ways, what_if

METHOD = "paired differences with common random numbers, Student's t"


@dataclass(frozen=True)
class Why:
    """The situation and, if something else was asked about, what it leads to."""

    trace: Trace
    step: int
    agent: AgentID
    answer: Answer | None
    instead: str  # in words; empty where nothing else was asked about

    @property
    def situation(self) -> AgentStep:
        return self.trace.steps[self.step][self.agent]

    @property
    def taken(self) -> int:
        """The number of the option that was taken, counted from 0; of an action that is one choice."""
        return int(self._stored)

    @property
    def _stored(self) -> Array:
        """What was done, as it is stored."""
        tape = self.trace.tape
        seat = tape.seat_of(self.agent, self.step)
        assert seat is not None
        k = tape.batch.task.kind_of(seat)
        done: Array = tape.batch.actions[k][self.step, 0, seat - tape.batch.task.kinds[k].first_seat]
        return done

    def to_json(self) -> dict[str, Any]:
        trace = self.trace
        about = {
            "format": "marl-why",
            "version": 1,
            "env": trace.env,
            "checkpoint": trace.checkpoint,
            "episode": trace.number,
            "seed": trace.seed,
            "explore": trace.explore,
            "length": len(trace),
            "step": self.step,
            "agent": self.agent,
            "action_names": list(trace.names.get(self.agent, ())),
            "situation": self.situation.to_json(),
            "answer": None,
        }
        if self.answer is not None:
            about["answer"] = _answer_as_json(self.answer, self.instead, self.sentence)
        return about

    @property
    def sentence(self) -> str:
        """What the answer means."""
        if self.answer is None:
            return ""
        question = self.answer.question
        if question.policy is None and _same(question.action, self._stored):
            return f"That is what {self.agent} did in step {self.step}, so nothing changes."
        return in_words(self.answer, self.instead)


def _same(action: Array | None, done: Array) -> bool:
    return action is not None and np.array_equal(action, done)


def ask(
    path: Path,
    which: Which,
    agent: AgentID,
    step: int,
    *,
    instead: str | None = None,
    policy: str | None = None,
    continuations: int = 1_000,
    recording: Path | None = None,
    allow: frozenset[str] = frozenset(),
    changes: Changes = NOTHING,
    progress: Progress | None = None,
) -> Why:
    """Everything that ``marl why`` tells; ``instead`` is an action as one types it, ``policy`` a policy's id or source."""
    # In this order so that whatever can be refused is refused before anything long begins.
    playable = open_playable(path, allow, changes)
    if recording is not None:
        which = recorded_episode(recording, which.number, which.first_seed, which.explore)
    tape = play_episode(playable, which)
    question = question_of(playable, tape, agent, step, instead, policy)
    trace = traced(playable, tape)
    if question is None:
        return Why(trace, step, agent, None, "")
    return ask_about(playable, trace, question, continuations, progress)


def ask_about(
    playable: Playable, trace: Trace, question: Instead, continuations: int = 1_000, progress: Progress | None = None
) -> Why:
    """The same of an episode that has been played, see ``question_of``."""
    answer = what_if(playable, trace.tape, question, continuations, progress=progress)
    return Why(trace, question.step, question.agent, answer, _other_in_words(question, trace, playable))


def _other_in_words(question: Instead, trace: Trace, playable: Playable) -> str:
    parts = []
    if question.action is not None:
        kind = check_question(trace.tape, question.agent, question.step)
        names = trace.names.get(question.agent)
        if names and not np.ndim(question.action):
            parts.append(f"done {names[int(question.action)]}")
        else:
            taken = as_env_takes(kind, question.action, playable.setup.rollout.config)
            parts.append(f"done {json.dumps(plain(taken))}")
    if question.policy is not None:
        parts.append(f"been played by {question.policy}")
    return " and then ".join(parts)


# -- answers -----------------------------------------------------------------------------------------------------------


def _answer_as_json(answer: Answer, instead: str, sentence: str) -> dict[str, Any]:
    rows = {name: _effect_as_json(effect) for name, effect in answer.effects.items()}
    return {
        "instead": instead,
        "policy": answer.question.policy,
        "continuations": answer.continuations,
        "exact": answer.exact,
        "confidence": CONFIDENCE,
        "method": METHOD,
        "luck": answer.luck,
        "cut": answer.cut,
        "agents": rows,
        "together": _effect_as_json(answer.together),
        "sentence": sentence,
    }


def _effect_as_json(effect: Effect) -> dict[str, Any]:
    return {
        "as_it_was": effect.as_it_was.as_json(),
        "instead": effect.instead.as_json(),
        "difference": effect.difference.as_json(),
    }


def in_words(answer: Answer, instead: str) -> str:
    """One sentence about the agent that was asked about, and one about whoever else it matters most to."""
    agent = answer.question.agent
    own = answer.effects[agent].difference
    when = f"in step {answer.question.step}"
    if answer.question.policy is not None:
        when = f"from step {answer.question.step} on"
    said = f"Had {agent} {instead} {when}, it {_verdict(own, answer.exact)}."
    others = [
        (name, effect.difference) for name, effect in both_ways(answer) if name in answer.effects and name != agent
    ]
    for name, difference in others:
        if _matters(difference, among=len(others)):
            return f"{said} {name} {_verdict(difference, answer.exact)}."
    return said


def _matters(difference: Estimate, among: int = 1) -> bool:
    """Whether the difference is surely not 0, also if it was picked as the largest among so many (Bonferroni)."""
    from scipy.special import ndtri  # here, as in ``estimate``: it takes long to import

    tail = (1 - CONFIDENCE) / 2
    wider = float(ndtri(1 - tail / among) / ndtri(1 - tail))
    return abs(difference.mean) > wider * (difference.margin or 0.0)


def _verdict(difference: Estimate, exact: bool) -> str:
    amount = abs(difference.mean)
    if exact and amount == 0:
        return "would have earned exactly the same"
    # Words for the sign, so that nobody has to think about what a minus means here.
    more = "more" if difference.mean > 0 else "less"
    if exact:
        return f"would have earned exactly {amount:.4g} {more}"
    if difference.margin is None:
        return f"would have earned {amount:.4g} {more} in the one continuation that was played, which says little"
    low, high = difference.mean - difference.margin, difference.mean + difference.margin
    if _matters(difference):
        least, most = sorted((abs(low), abs(high)))
        between = f"{CONFIDENCE:.0%} interval: {least:.4g} to {most:.4g} {more}"
        return f"would have earned {amount:.4g} {more} on average ({between})"
    if amount == 0 and difference.margin == 0:
        return "would have earned the same in every continuation"
    return f"would have earned about the same: the difference is between {low:.4g} and {high:.4g} ({CONFIDENCE:.0%} interval)"


def effect_rows(answer: Answer) -> Iterator[tuple[str, str, str, str]]:
    """Rows of the printed table: who, as it was, instead, difference."""
    rows = list(both_ways(answer))
    # Games with agents that come and go may have hundreds of them.
    left_out = len(rows) - 1 - MOST_AGENTS
    if left_out > 0:
        rows = [*rows[:MOST_AGENTS], rows[-1]]
    for name, effect in rows:
        yield name, _told(effect.as_it_was), _told(effect.instead), _told(effect.difference, signed=True)
    if left_out > 0:
        yield f"... and {left_out} more agents, with --json", "", "", ""


def _told(number: Estimate, signed: bool = False) -> str:
    mean = f"{number.mean:+.4g}" if signed and number.mean else f"{number.mean:.4g}"
    if not number.margin:
        return mean
    return f"{mean} +- {number.margin:.2g}"
