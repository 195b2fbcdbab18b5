"""Positions of envs whose state is not rows of arrays: dict envs, PettingZoo and Gymnasium envs, anything that one copy walks.

Their states are compared by digests (``state_digest.py``): of what ``get_state()`` gives where the env has it, else of the
env object itself, which is read to the bottom after each replay. A state that leaves something out would make positions equal
that are not, so some of the positions that were found equal are played on in both ways, and have to show the same: starts
first, then positions of one level, whether they follow from the same start or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from marl.data.task import Array, Ints
from marl.envs.batched import BatchedEnv
from marl.envs.vector.vector_env import DictVector
from marl.errors import ConfigError
from marl.gametheory.merged.rows import Bytes
from marl.gametheory.merged.state_digest import NotComparableError, digest_of
from marl.gametheory.tree.env_walker import MakeEnv, OneCopy, Sight, Stage, States, stage_for
from marl.gametheory.tree.repeats import LONGEST, same_sight, some_actions

NOTHING = bytes(32)
"""The digest of what is over: nothing follows from it, so it does not matter how it ended."""
TWINS_PER_LEVEL = 4  # pairs of equal positions that are played on to see whether they are
TWINS = 48  # in all
ACROSS = 48  # and so many pairs that follow from different starts,
WITNESSES_PER_LEVEL, WITNESSES = 8, 2_000  # of which the first is kept to be compared with
START_TWINS = 16  # pairs of equal starts
START_COURSES = 8  # random courses that are played from each of them


class Snapshot(NamedTuple):
    """A position that can be gone back to, and what it is compared by."""

    state: Any
    digest: bytes


class ComparedCopy(OneCopy):
    """One copy of an env whose positions can be compared."""

    def __init__(self, make: MakeEnv) -> None:
        super().__init__(make)
        self.rng = np.random.default_rng(0)
        self.twins = self.start_twins = self.across = 0
        self.met: dict[tuple[int, bytes], States] = {}

    def kept(self) -> Snapshot:
        state = self.env.get_state()
        try:
            return Snapshot(state, digest_of(_compared(self.env, state)))
        except NotComparableError as error:
            raise ConfigError(
                f"env {self.env.name!r}: its states cannot be compared, so equal positions cannot be merged: {error}, which "
                "cannot be looked into. Give the env get_state() and set_state() with nested dicts and lists of numbers, "
                "strings and arrays; or build a tree, which compares nothing."
            ) from error

    def back_to(self, kept: Any) -> bool:
        return super().back_to(kept.state)

    def keys(self, states: States) -> Array:
        """Digests ``[n, 32]``."""
        digests = [NOTHING if kept is None else kept.digest for kept in states]
        return np.frombuffer(b"".join(digests), np.uint8).reshape(len(states), len(NOTHING))

    def check_equal(self, states: States, sight: Sight, number: Ints) -> None:
        """Play on from some of the positions that have the same ``number`` ``[n]``: they have to show the same."""
        order = np.argsort(number, kind="stable")
        equal = np.flatnonzero((number[order][1:] == number[order][:-1]) & ~sight.over[order][1:])
        some = self.rng.permutation(equal)[: min(TWINS_PER_LEVEL, TWINS - self.twins)]
        self.twins += len(some)
        for i in some.tolist():
            pair = [self.take(states, order[[at]]) for at in (i, i + 1)]
            self._check_alike(pair, _row(sight, int(order[i])))

    def meet(self, level: int, key: Bytes, states: States, sight: Sight) -> None:
        """Different positions of a level that follow from one start: those that followed from others too are played on."""
        going_on = self.rng.permutation(np.flatnonzero(~sight.over)).tolist()
        before: list[int] = []
        new: list[int] = []
        for row in going_on:
            (before if (level, key[row].tobytes()) in self.met else new).append(row)
        self._play_across(level, before, key, states, sight)
        for row in new[: min(WITNESSES_PER_LEVEL, WITNESSES - len(self.met))]:
            self.met[level, key[row].tobytes()] = self.take(states, np.array([row]))

    def _play_across(self, level: int, rows: Sequence[int], key: Bytes, states: States, sight: Sight) -> None:
        """Some of these rows next to the equal ones that were met before; starts, of which there are few, more than once."""
        played, times = rows[: self._pairs_left(level)], 1 if level else START_COURSES
        for row in played:
            pair = [self.met[level, key[row].tobytes()], self.take(states, np.array([row]))]
            for _ in range(times):
                self._check_alike(pair, _row(sight, row))
        if level:
            self.across += len(played)
        else:
            self.start_twins += len(played)

    def _pairs_left(self, level: int) -> int:
        if not level:
            return max(0, START_TWINS - self.start_twins)
        return max(0, min(TWINS_PER_LEVEL, ACROSS - self.across))

    def _check_alike(self, pair: Sequence[States], shown: Sight) -> None:
        if not self._play_alike(pair, shown):
            raise ConfigError(
                f"env {self.env.name!r}: two positions with equal states went on differently after the same actions, so "
                "the state leaves something out, and merging would be wrong. Let get_state() hold everything that "
                "changes in an episode, also what the env keeps outside of its own object; or build a tree."
            )

    def _play_alike(self, pair: Sequence[States], shown: Sight) -> bool:
        """One random course, played from both."""
        for _ in range(LONGEST):
            actions = some_actions(self.kinds, shown, self.rng)
            played = [self.step(states, actions) for states in pair]
            pair, (shown, also) = [after for after, _ in played], [seen for _, seen in played]
            if not same_sight(shown, also):
                return False
            if shown.over.all():
                break
        return True


def compared_stage(make: MakeEnv) -> Stage:
    """Like ``stage_for``, for positions that are compared."""
    stage = stage_for(make)
    return ComparedCopy(make) if isinstance(stage, OneCopy) else stage


def _compared(env: BatchedEnv, state: Any) -> object:
    """All that decides what follows. The log of how a replayed env came here does not."""
    if not isinstance(env, DictVector):
        return state
    lane = state["lanes"][0]
    inner = lane["state"] if "state" in lane else env.envs[0]
    return [inner, state["seating"], state["alive"], state["empty_steps"]]


def _row(sight: Sight, row: int) -> Sight:
    at = slice(row, row + 1)
    return Sight(
        [column[at] for column in sight.obs], [column[at] for column in sight.legal], sight.present[at],
        sight.rewards[at], sight.over[at],
    )  # fmt: skip
