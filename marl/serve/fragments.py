"""What one slot has collected, and which of its rows a learner may use: each row knows the weights that decided it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from marl.data.batch import MultiAgentBatch
from marl.data.task import Ints, PolicyID
from marl.rollout.rollout_buffer import Rollout

NOT_ROWS = ("task", "policy_ids", "context", "first_lane", "infos")  # fields of a batch that are no columns


@dataclass
class Fragment:
    """Rows of one slot. ``versions[t]`` is that of the oldest weights which decided something in row ``t``."""

    slot: int
    rollout: Rollout
    versions: Ints

    @property
    def played_by(self) -> int:
        """The oldest weights that played its new rows."""
        return int(self.versions[self.rollout.batch.context :].min())


def without_stale(fragment: Fragment, newest: int, strict: Collection[PolicyID]) -> tuple[MultiAgentBatch | None, int]:
    """The batch that learners get, and how many of its env steps are dropped; None: all of them.

    ``strict`` are the policies that learn from nothing but the newest weights' play. Where these are all that play, older
    rows, which come first, are cut off. Beside others only decisions of theirs are taken out.
    """
    batch, stale = fragment.rollout.batch, fragment.versions != newest
    if not strict or not stale.any():
        return batch, 0
    if set(batch.policy_ids) - set(strict):
        _silence(batch, stale, strict)
        return batch, int(stale[batch.context :].sum())
    rows = len(stale)
    first = rows - int(np.argmax(stale[::-1]))  # behind the last stale row
    dropped = max(0, first - batch.context)
    if first == rows:
        return None, dropped
    return later_rows(batch, first), dropped


def _silence(batch: MultiAgentBatch, stale: Any, strict: Collection[PolicyID]) -> None:
    for policy in strict:
        # The rows stay: others learn from them, and returns are folded over them.
        theirs = batch.policy_index == batch.policy_ids.index(policy)
        batch.active &= ~(theirs & stale[:, None, None])


def later_rows(batch: MultiAgentBatch, first: int) -> MultiAgentBatch:
    """The batch without its first rows, and without the decisions that were made in them."""
    columns: dict[str, Any] = {}
    for one in fields(batch):
        if one.name in NOT_ROWS:
            continue
        column = getattr(batch, one.name)
        if column is None:  # of learners' bonuses, which come later
            continue
        if isinstance(column, list):
            columns[one.name] = [part[first:] for part in column]
        else:
            columns[one.name] = column[first:]
    return replace(batch, **columns, context=max(0, batch.context - first))
