"""Decisions of a team, as mixers learn from them.

A team's decision is made in every row in which any member decides. It is closed when any member is asked again, or when the
episode is over; what the members are paid until then is its reward. In between the team may be empty: an agent that leaves
does not end the team, and what it has brought about is often paid later, to those who come after it. A member that is
truncated with a last observation ends the waiting of a team in which nobody else has an open decision: its value goes on.
An episode that is over while the team is empty, also by a time limit, is the team's end: there is nobody whose value could.

While a member's decision is open the grid keeps its rows. A decision that outlives those of its members is kept here, in a
``Gaps`` object, until a later grid closes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from marl.algos.joint_view import columns_by_kind, seats_in_order
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import discounted_until
from marl.data.task import Array, Bools, Floats, Ints

MEMBER_COLUMNS = ("obs", "actions", "legal", "new_obs", "new_legal", "agent_index")  # each once per kind of agents


class Gaps:
    """Decisions of one team whose members have all ended while their episode goes on; at most one per stream.

    Kept by stream as batches of one row: who decided what, and the reward and the number of steps so far.
    """

    def __init__(self) -> None:
        self.waiting: dict[int, SampleBatch] = {}

    def state_dict(self) -> dict[str, Any]:
        return dict(SampleBatch.concat_samples(list(self.waiting.values())).columns) if self.waiting else {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        rows = SampleBatch(state)
        self.waiting = {int(rows["stream"][i]): rows.rows(slice(i, i + 1)) for i in range(len(rows))}


@dataclass(frozen=True)
class _Play:
    """What a team did in a grid: ``[T, E, n]``, seats in the order of kinds."""

    batch: MultiAgentBatch
    seats: Sequence[int]
    gamma: float
    present: Bools
    asked: Bools  # in the next row
    ended: Bools
    valued: Bools  # cut off with a last observation: its value goes on
    left_blind: Bools  # [T, E]: the newest end of a member, in this row or before, was a cut without a last observation
    paid: Floats  # [T, E]

    @staticmethod
    def of(batch: MultiAgentBatch, seats: Sequence[int], gamma: float) -> _Play:
        cut, shown = batch.truncateds[:, :, seats], batch.new_alive[:, :, seats]
        ended = cut | batch.terminateds[:, :, seats]
        return _Play(
            batch, seats, gamma,
            present=batch.present[:, :, seats],
            asked=batch.new_present[:, :, seats],
            ended=ended,
            valued=cut & shown,
            left_blind=_newest(ended, cut & ~shown),
            paid=batch.rewards[:, :, seats].sum(axis=2),
        )  # fmt: skip


def _newest(happens: Bools, what: Bools) -> Bools:
    """``[T, E]``: whether ``what`` holds of any member in the newest row so far in which anything ``happens`` to one."""
    # The number of the newest such row so far; -1 while there was none.
    rows = np.where(happens.any(axis=2), np.arange(len(happens))[:, None], -1)
    newest = np.maximum.accumulate(rows, axis=0)
    found: Bools = np.take_along_axis(np.asarray(what.any(axis=2)), np.maximum(newest, 0), axis=0) & (newest >= 0)
    return found


def team_rows(batch: MultiAgentBatch, seats: Sequence[int], gamma: float, gaps: Gaps | None = None) -> SampleBatch:
    """One row per decision of the team that this grid closes; decisions that outlive their members wait in ``gaps``.

    Members that do not decide are masked by ``present``/``new_present``; a truncated member still counts in the outcome,
    because its value goes on. A decision of a team that was cut off without any last observation is left out.
    """
    play = _Play.of(batch, seats_in_order(batch.task, seats), gamma)
    closing, stranded = _closing_rows(play)
    gaps = Gaps() if gaps is None else gaps
    for stream, row in gaps.waiting.items():  # the grid may show such a decision again, among the rows of its context
        env_id = stream - batch.first_lane
        if 0 <= env_id < closing.shape[1]:
            again = _same_decision(batch, row, env_id)
            closing[again, env_id] = -1
            if again[stranded[env_id]]:
                stranded[env_id] = -1
    t, e = np.nonzero((closing >= batch.context) & (closing >= 0))
    rows = _closed_rows(play, t, e, closing[t, e])
    late = _close_gaps(play, gaps)
    _open_gaps(play, gaps, stranded)
    return SampleBatch.concat_samples([*late, rows]) if late else rows


def _closing_rows(play: _Play) -> tuple[Ints, Ints]:
    """``[T, E]``: the row in which a team decision made in this row is closed; -1 where none was made or it is still open.

    And ``[E]``: the row of a decision that is still open although no member's own decision is; -1 where there is none.
    """
    rows, copies, _ = play.present.shape
    decided: Bools = np.asarray(play.present.any(axis=2))
    asked: Bools = np.asarray(play.asked.any(axis=2))
    over = play.batch.over
    nothing = np.full(copies, -1, np.int64)
    if (asked | over | ~decided).all():  # every decision is closed in its own row
        return np.where(decided, np.arange(rows)[:, None], -1), nothing
    closing = np.full((rows, copies), -1, np.int64)
    waiting = nothing.copy()
    open_ = np.zeros(play.present.shape[1:], bool)
    for row in range(rows):
        open_ |= play.present[row]
        waiting[decided[row]] = row
        open_ &= ~(play.asked[row] | play.ended[row] | over[row][:, None])
        goes_on_elsewhere = play.valued[row].any(axis=1) & ~open_.any(axis=1)
        closes = (waiting >= 0) & (asked[row] | over[row] | goes_on_elsewhere)
        closing[waiting[closes], np.flatnonzero(closes)] = row
        waiting[closes] = -1
    return closing, np.where(open_.any(axis=1), -1, waiting)


def _closed_rows(play: _Play, t: Ints, e: Ints, done: Ints) -> SampleBatch:
    """Decisions made in rows ``t`` of copies ``e`` and closed in rows ``done``."""
    # Rewards are summed from the decision to its end, which are marked for all decisions at once.
    is_end = np.zeros(play.paid.shape, bool)
    is_end[done, e] = True
    columns = {
        **_decision(play, t, e),
        "rewards": discounted_until(play.paid, is_end, play.gamma)[t, e],
        "elapsed": done - t + 1,
        **_for_memories(play, t, e, done),
        **_outcome(play, e, done),
    }
    return _known(SampleBatch(columns), play.left_blind[done, e])


def _known(rows: SampleBatch, left_blind: Bools) -> SampleBatch:
    """Without those that were cut off without any last observation: there is no outcome to learn from."""
    keep = ~(rows["terminateds"] & left_blind)
    return rows if keep.all() else rows.rows(np.flatnonzero(keep))


def _decision(play: _Play, t: Ints, e: Ints) -> dict[str, Array]:
    """What the team saw and did in rows ``t`` of copies ``e``."""
    batch = play.batch
    columns: dict[str, Array] = {
        "present": np.asarray(play.present[t, e]),
        "policy": batch.policy_index[:, :, play.seats][t, e],
        "state": batch.state[t, e],
        "t": batch.t[t, e],
        "eps_id": batch.eps_id[t, e],
        "lane": e,
        "stream": batch.first_lane + e,
    }
    for k, cols in columns_by_kind(batch.task, play.seats).items():
        columns |= {
            f"obs.{k}": batch.obs[k][t, e][:, cols],
            f"actions.{k}": batch.actions[k][t, e][:, cols],
            f"legal.{k}": batch.legal[k][t, e][:, cols],
            f"agent_index.{k}": np.broadcast_to(np.array(cols), (len(t), len(cols))),
        }
        if any(carry.shape[3] for carry in batch.carry):
            columns[f"carry.{k}"] = batch.carry[k][t, e][:, cols]
    return columns


def _outcome(play: _Play, e: Ints, done: Ints) -> dict[str, Array]:
    """Where decisions led that were closed in rows ``done`` of copies ``e``."""
    batch = play.batch
    asked = np.asarray(play.asked[done, e])
    goes_on = np.asarray(asked | play.valued[done, e])
    columns: dict[str, Array] = {
        "new_present": goes_on,
        "new_policy": batch.new_policy_index[:, :, play.seats][done, e],
        "terminateds": np.logical_not(goes_on.any(axis=1)),
        "ended": np.logical_not(asked.any(axis=1)),
        "new_state": batch.new_state[done, e],
    }
    for k, cols in columns_by_kind(batch.task, play.seats).items():
        columns[f"new_obs.{k}"] = batch.new_obs[k][done, e][:, cols]
        columns[f"new_legal.{k}"] = batch.new_legal[k][done, e][:, cols]
    return columns


def _for_memories(play: _Play, t: Ints, e: Ints, done: Ints) -> dict[str, Array]:
    """What recurrent members need besides: what each was paid until the team's next decision, and whether its life ended
    before that."""
    if not any(carry.shape[3] for carry in play.batch.carry):
        return {}
    return {
        "member_rewards": _between(play.batch.paid[:, :, play.seats], t, e, done),
        "fell": _between(play.ended, t, e, done) > 0,
    }


def _between(grid: Array, t: Ints, e: Ints, done: Ints) -> Floats:
    """Sums over the rows ``t .. done``."""
    # Differences of running sums; in float64, because long episodes would eat up the digits of float32.
    sums = np.concatenate([np.zeros((1, *grid.shape[1:])), np.cumsum(grid, axis=0, dtype=np.float64)])
    found: Floats = (sums[done + 1, e] - sums[t, e]).astype(np.float32)
    return found


# -- teams of one ------------------------------------------------------------------------------------------------------


def single_rows(batch: MultiAgentBatch, policy: str, k: int, gamma: float) -> SampleBatch:
    """A policy's own decisions in the same form: teams of one."""
    rows = batch.for_policy(policy, gamma, kind=k)
    index = np.full((len(rows), 1), batch.policy_ids.index(policy))
    no_state = np.zeros((len(rows), 0), np.float32)
    ended = rows["terminateds"] | rows["truncateds"]
    columns: dict[str, Array] = {}
    if rows["carry"].shape[1]:
        # A memory of the last reward adds up what was really paid, without a discount.
        paid = batch.for_policy(policy, 1.0, kind=k, rewards=batch.paid)["rewards"]
        columns |= {f"carry.{k}": rows["carry"][:, None], "member_rewards": paid[:, None], "fell": ended[:, None]}
    columns |= {
        "present": np.ones((len(rows), 1), bool),
        "new_present": np.logical_not(rows["terminateds"])[:, None],
        "policy": index,
        "new_policy": index,
    }
    for name in ("rewards", "elapsed", "terminateds", "t", "eps_id", "lane", "stream", "seat"):
        columns[name] = rows[name]
    columns |= {"ended": ended, "state": no_state, "new_state": no_state}
    for name in MEMBER_COLUMNS:
        columns[f"{name}.{k}"] = rows[name][:, None]
    return SampleBatch(columns)


def columns_of_one(rows: SampleBatch, k: int) -> dict[str, Array]:
    """What a custom loss is shown of ``single_rows``: plain names, one row per decision."""
    found = {name: rows[f"{name}.{k}"][:, 0] for name in MEMBER_COLUMNS}
    return found | {name: rows[name] for name in ("rewards", "elapsed", "terminateds", "weights", "t", "eps_id")}


# -- decisions that outlive those of their members ---------------------------------------------------------------------


def _same_decision(batch: MultiAgentBatch, row: SampleBatch, env_id: int) -> Bools:
    """``[T]``: where the grid shows this very decision."""
    same: Bools = (batch.eps_id[:, env_id] == row["eps_id"][0]) & (batch.t[:, env_id] == row["t"][0])
    same[batch.context :] = False
    return same


def _open_gaps(play: _Play, gaps: Gaps, stranded: Ints) -> None:
    """Keep decisions that are still open at the end of the grid although no member's own decision is."""
    for env_id in np.flatnonzero(stranded >= 0).tolist():
        t, e = stranded[[env_id]], np.array([env_id])
        so_far = {
            **_decision(play, t, e),
            "rewards": np.zeros(1, np.float32),
            "elapsed": np.zeros(1, np.int64),
            "left_blind": play.left_blind[-1:, env_id],
        }
        last = len(play.paid) - 1
        memories = _for_memories(play, t, e, t - 1)  # nothing yet
        gaps.waiting[play.batch.first_lane + env_id] = _longer(
            play, SampleBatch(so_far | memories), env_id, int(t[0]), last
        )


def _close_gaps(play: _Play, gaps: Gaps) -> list[SampleBatch]:
    """Carry waiting decisions through the new rows of the grid; those that are closed there are returned."""
    batch, closed = play.batch, []
    for stream in list(gaps.waiting):
        env_id = stream - batch.first_lane
        if not 0 <= env_id < batch.t.shape[1]:
            continue  # another worker's
        row, first = gaps.waiting.pop(stream), batch.context
        if not _goes_on(batch, row, env_id):
            continue  # its episode was broken off, or the learner was not shown all of it
        ends = np.flatnonzero((play.asked[first:, env_id].any(axis=1)) | batch.over[first:, env_id])
        if not ends.size:
            gaps.waiting[stream] = _longer(play, row, env_id, first, len(play.paid) - 1)
            continue
        done = first + int(ends[0])
        row = _longer(play, row, env_id, first, done)
        columns = {**row.columns, **_outcome(play, np.array([env_id]), np.array([done]))}
        left_blind = columns.pop("left_blind").astype(bool)
        closed.append(_known(SampleBatch(columns), left_blind))
    return closed


def _goes_on(batch: MultiAgentBatch, row: SampleBatch, env_id: int) -> bool:
    """Whether the first new row of the copy is the step after those that the decision has lasted so far."""
    if batch.context == len(batch.t):
        return True
    same_episode = batch.eps_id[batch.context, env_id] == row["eps_id"][0]
    return bool(same_episode and batch.t[batch.context, env_id] == row["t"][0] + row["elapsed"][0])


def _longer(play: _Play, row: SampleBatch, env_id: int, first: int, last: int) -> SampleBatch:
    """A waiting decision that has lasted through the rows ``first .. last`` as well."""
    steps = slice(first, last + 1)
    discounts = play.gamma ** np.arange(int(row["elapsed"][0]), int(row["elapsed"][0]) + last + 1 - first)
    columns = {
        "rewards": (row["rewards"] + discounts @ play.paid[steps, env_id]).astype(np.float32),
        "elapsed": row["elapsed"] + last + 1 - first,
    }
    if "fell" in row:
        paid = play.batch.paid[steps, env_id][:, play.seats].sum(axis=0)
        columns["member_rewards"] = (row["member_rewards"] + paid).astype(np.float32)
        columns["fell"] = row["fell"] | play.ended[steps, env_id].any(axis=0)
    return row.with_columns(**columns)
