"""Whether an env repeats itself: random courses of play, played again.

A tree goes back to positions, by a stored state or by replay, and takes for granted that the same actions lead to the same
place. Where steps draw random numbers that neither the reset seed nor the stored state decides, its payoffs would be luck.
So some courses are played twice; the second time steps are taken back once, as it happens while a tree grows: all steps of
short courses, some of long ones, because an env without a state of its own replays everything before a step taken back.
Courses are played once more with states put into an env that has begun another episode meanwhile: what ``get_state`` leaves
out is that episode's then, and shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from marl.data.task import AgentType, Array
from marl.envs.batched import BatchedEnv
from marl.gametheory.tree.env_walker import MakeEnv, Sight, Start, begin, sight_of

COURSES = 16
LONGEST = 1_000  # env steps of a course at most
REPLAYED = 1_000  # env steps that may be replayed per course: all steps of a course of up to 44 can be taken back


@dataclass
class Course:
    """Actions, one list of columns per step, and what was seen: at the start and after each of them."""

    actions: list[list[Array]] = field(default_factory=list)
    sights: list[Sight] = field(default_factory=list)


def random_course(env: BatchedEnv, start: Start, rng: np.random.Generator) -> Course:
    """An episode of random legal actions in an env of one lane."""
    course = Course(sights=[sight_of(begin(env, start))])
    while not course.sights[-1].over.all() and len(course.actions) < LONGEST:
        actions = some_actions(env.kinds, course.sights[-1], rng)
        course.actions.append(actions)
        course.sights.append(sight_of(env.step(actions)))
    return course


def parts_at(
    env: BatchedEnv, start: Start, course: Course, *, take_back: bool = False, other: Start | None = None,
    make: MakeEnv | None = None,
) -> int | None:  # fmt: skip
    """The step after which the same actions show something else from this start; None: they never do.

    ``take_back``: steps are played once with other actions before, and taken back by the env's state. ``other``: between the
    two an episode is begun from this start, in an env that ``make`` makes where it is given.
    """
    if not same_sight(sight_of(begin(env, start)), course.sights[0]):
        return 0
    rng = np.random.default_rng(0)
    taken_back = _some_steps(len(course.actions), rng) if take_back else frozenset[int]()
    for step, actions in enumerate(course.actions):
        if step in taken_back:  # other actions, because a step that draws nothing shows no difference
            state = env.get_state()
            env.step(some_actions(env.kinds, course.sights[step], rng))
            if other is not None:
                env = env if make is None else make(1)
                begin(env, other)
            env.set_state(state)
        if not same_sight(sight_of(env.step(actions)), course.sights[step + 1]):
            return step + 1
    return None


def _some_steps(length: int, rng: np.random.Generator) -> frozenset[int]:
    """Steps in random order, as many as can be replayed."""
    chosen, left = set(), REPLAYED
    for step in rng.permutation(length).tolist():
        if step < left:
            chosen.add(step)
            left -= step + 1
    return frozenset(chosen)


def courses(env: BatchedEnv, starts: Sequence[Start]) -> list[Course]:
    """One random course per start."""
    return [random_course(env, start, np.random.default_rng([7, i])) for i, start in enumerate(starts)]


def some_actions(kinds: Sequence[AgentType], sight: Sight, rng: np.random.Generator) -> list[Array]:
    found = []
    for kind, masks in zip(kinds, sight.legal, strict=True):
        column = np.zeros((1, kind.size), kind.action_dtype)
        for i in np.flatnonzero(sight.present[0, kind.seats]).tolist():
            legal = np.arange(kind.columns.options)
            if kind.masked:
                legal = np.flatnonzero(masks[0, i])
            column[0, i] = rng.choice(legal)
        found.append(column)
    return found


def same_sight(mine: Sight, other: Sight) -> bool:
    """Whether everybody sees, may do and was paid the same. What absent agents' cells hold does not matter."""
    if not (np.array_equal(mine.present, other.present) and np.array_equal(mine.over, other.over)):
        return False
    if not np.array_equal(mine.rewards, other.rewards, equal_nan=True):  # what is paid is judged elsewhere
        return False
    first = 0
    for seen, also, legal, allowed in zip(mine.obs, other.obs, mine.legal, other.legal, strict=True):
        asked = mine.present[:, first : first + seen.shape[1]]
        first += seen.shape[1]
        if not (
            np.array_equal(seen[asked], also[asked], equal_nan=True) and np.array_equal(legal[asked], allowed[asked])
        ):
            return False
    return True
