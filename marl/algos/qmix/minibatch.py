"""Rows for the updates to come, as tensors, with all about them that stands still until the targets move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from marl.algos.learner_group import LearnerGroup
from marl.algos.qmix.config import QmixConfig
from marl.algos.qmix.losses import discounts
from marl.algos.qmix.mixers import Weights
from marl.algos.qmix.teams import Team
from marl.algos.qmix.values import MemberValues, Networks, Shown, Values
from marl.algos.transitions import Transitions
from marl.data.batch import SampleBatch
from marl.data.sequences import unpadded
from marl.data.task import Floats, Ints
from marl.policies.value import noise_drawn

MOST_BYTES = 1 << 20  # of rows that are drawn at once: more would not stay in the cache


@dataclass(frozen=True)
class Minibatch:
    """What one update learns from a team."""

    team: Team
    t: Transitions  # this learner's rows
    discount: Tensor  # [N]: what values of their outcomes count
    valuing: Values  # what the slow copies say of their outcomes
    mixing: Weights  # of the slow copy of the mixer, by the states of their outcomes
    shown: dict[
        int, Shown
    ]  # the rows as networks see them, and with double Q their outcomes; empty for recurrent members
    place: slice  # of this learner's rows among all rows of the update
    count: int  # of all rows
    drawn: SampleBatch  # rows of this update and of others; sequences for recurrent members
    part: slice  # those of this update

    @property
    def share(self) -> float:
        """What the mean over this learner's rows counts in the mean over all rows."""
        mine: int = self.place.stop - self.place.start
        return mine / self.count

    def split(self, shown: Sequence[dict[int, Shown]]) -> list[Minibatch]:
        """Of several updates: as many as ``shown`` has parts."""
        updates, size = len(shown), self.count // len(shown)
        values = {k: of_kind.chunk(updates) for k, of_kind in self.valuing.items()}
        mixing = [column.chunk(updates) for column in self.mixing]
        discount = self.discount.chunk(updates)
        found = []
        for i, t in enumerate(self.t.split(updates)):
            valuing = {k: of_kind[i] for k, of_kind in values.items()}
            weights = tuple(column[i] for column in mixing)
            where = slice(i * size, (i + 1) * size)
            found.append(
                Minibatch(
                    self.team, t, discount[i], valuing, weights, shown[i], slice(0, size), size, self.drawn, where
                )
            )
        return found

    def rows(self, learner_group: LearnerGroup | None = None) -> SampleBatch:
        """What was drawn for this update, one row per decision: all of it, or a member's share."""
        rows = self.drawn.rows(self.part)
        if learner_group is not None:
            rows = rows.rows(learner_group.share(len(rows)))
        return rows if self.team.chunks is None else unpadded(rows)

    def sequences(self, learner_group: LearnerGroup) -> SampleBatch:
        """A member's sequences, as they were drawn."""
        return self.drawn.rows(learner_group.share(len(self.drawn)))

    def decisions(self) -> int:
        """Of single members, in all rows."""
        return int(np.count_nonzero(self.drawn["present"][self.part]))


@dataclass(frozen=True)
class Compared:
    """Values of what was played, what they should have been, and by what a row is drawn again, ``[N]`` each; the loss, and its
    slopes by the values of all actions."""

    chosen: Tensor
    target: Tensor
    surprise: Tensor
    loss: Tensor
    slopes: Values


class Drawing:
    """Draws minibatches of all teams, several at once where that changes nothing.

    The replay and the targets stand still between two updates, so the rows of several updates can be looked up, and valued by
    the targets, in one go. Priorities move with every update.
    """

    def __init__(self, config: QmixConfig, members: MemberValues, online: Networks, targets: Networks) -> None:
        self.config, self.members, self.online, self.targets = config, members, online, targets

    def at_once(self, teams: list[Team], due: int, learner_group: LearnerGroup) -> int:
        """Updates to draw for now, of so many that are ``due`` before the targets move."""
        # Sequences differ in length, and several learners cut every minibatch by itself: these gain nothing.
        recurrent = any(team.chunks is not None for team in teams)
        if self.config.prioritized_replay or recurrent or learner_group.size > 1:
            return 1
        if self.config.noisy:  # each update has noise of its own, also the one with which outcomes are valued
            return 1
        row = max(team.replay.row_bytes for team in teams)
        return max(1, min(due, MOST_BYTES // (row * self.config.train_batch_size)))

    def draw(
        self, teams: list[Team], updates: int, rng: np.random.Generator, learner_group: LearnerGroup
    ) -> list[tuple[Minibatch, ...]]:
        """For each update a minibatch of every team."""
        lots = []
        for _ in range(updates):  # one after the other, as if each update had drawn for itself
            lots.append([self._lot(team, rng) for team in teams])
        found = []
        for team, drawn in zip(teams, zip(*lots, strict=True), strict=True):
            places, weights = zip(*drawn, strict=True)
            rows = team.replay.rows(
                np.concatenate(places), np.concatenate(weights), self.config.n_step, self.config.gamma
            )
            with noise_drawn(self.targets.values(), rng):
                found.append(self._minibatches(team, rows, updates, learner_group))
        # From one list per team to one row of teams per update.
        return list(zip(*found, strict=True))

    def _lot(self, team: Team, rng: np.random.Generator) -> tuple[Ints, Floats]:
        """Places in the replay; of whole sequences with about as many rows for recurrent members."""
        count = self.config.train_batch_size
        # A sequence counts as many rows as it may have; short ones at the ends of episodes make the batch smaller.
        if team.chunks is not None:
            count = max(1, round(count / team.chunks.longest))
        return team.replay.draw(count, rng, self.config.prioritized_replay_beta)

    def _minibatches(
        self, team: Team, drawn: SampleBatch, updates: int, learner_group: LearnerGroup
    ) -> list[Minibatch]:
        mine, place, count = _share(drawn, learner_group)
        rows = mine if team.chunks is None else unpadded(mine)
        t = team.as_mixed(Transitions.of(rows, self.members.device))
        discount = discounts(t.elapsed, t.terminated, self.config.gamma)
        with torch.no_grad():
            mixing = team.target_mixer.weights(t.next.state)
        shown: list[dict[int, Shown]] = [{}]
        if team.chunks is None:
            valuing = self.members.at_once(t.next, self.targets)
            shown = self.members.show([t.now, t.next] if self.config.double_q else [t.now], self.online, updates)
        else:
            valuing = self._valued_over_time(mine)
        whole = Minibatch(team, t, discount, valuing, mixing, shown[0], place, count, drawn, slice(0, len(drawn)))
        return [whole] if updates == 1 else whole.split(shown)

    @torch.no_grad()
    def _valued_over_time(self, chunks: SampleBatch) -> Values:
        _, after = self.members.over_time(chunks, self.targets)
        return after


def _share(drawn: SampleBatch, learner_group: LearnerGroup) -> tuple[SampleBatch, slice, int]:
    """A member's part of what was drawn, the place of its rows among all rows, and how many these are."""
    if learner_group.size == 1 and "mask" not in drawn:
        return drawn, slice(0, len(drawn)), len(drawn)
    lengths = drawn["mask"].sum(axis=1) if "mask" in drawn else np.ones(len(drawn), np.int64)
    first, end = learner_group.bounds(len(drawn))
    place = slice(int(lengths[:first].sum()), int(lengths[:end].sum()))
    return drawn.rows(learner_group.share(len(drawn))), place, int(lengths.sum())
