"""What mixers and critics see of a grid: one agent, its group, everybody, or the world's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import discounted_until
from marl.data.task import Array, Bools, Floats, Ints, Task
from marl.policies.networks import Features


class JointFeatures(nn.Module):
    """Observations of several seats side by side; absent agents are zeros."""

    def __init__(self, task: Task, seats: Sequence[int]) -> None:
        super().__init__()
        self.by_kind = columns_by_kind(task, seats)
        self.features = nn.ModuleDict({str(k): Features(task.kinds[k], agent_id=False) for k in self.by_kind})
        self.size = sum(len(cols) * self._features(k).size for k, cols in self.by_kind.items())

    def _features(self, k: int) -> Features:
        found = self.features[str(k)]
        assert isinstance(found, Features)
        return found

    def forward(self, obs: Mapping[int, Array], shown: Bools) -> Tensor:
        """``obs[k]`` is ``[N, n_k, width]``, ``shown`` ``[N, n]`` in the order of kinds; gives ``[N, size]``."""
        parts, at = [], 0
        rows = len(shown)
        for k, columns in self.by_kind.items():
            n = len(columns)
            flat = torch.from_numpy(np.ascontiguousarray(obs[k]).reshape(rows * n, -1))
            features = self._features(k)(flat, torch.zeros(rows * n, dtype=torch.long)).view(rows, n, -1)
            mask = torch.from_numpy(np.ascontiguousarray(shown[:, at : at + n]))
            parts.append((features * mask[:, :, None]).reshape(rows, -1))
            at += n
        return torch.cat(parts, dim=1)


def columns_by_kind(task: Task, seats: Sequence[int]) -> dict[int, list[int]]:
    """Columns within each kind's arrays, in the order of kinds."""
    found: dict[int, list[int]] = {}
    for k, kind in enumerate(task.kinds):
        columns = [seat - kind.first_seat for seat in seats if kind.seats.start <= seat < kind.seats.stop]
        if columns:
            found[k] = columns
    return found


def seats_in_order(task: Task, seats: Sequence[int]) -> list[int]:
    """The same seats, kind by kind."""
    return [task.kinds[k].first_seat + c for k, columns in columns_by_kind(task, seats).items() for c in columns]


def team_rewards(batch: MultiAgentBatch) -> Floats:
    """``[T, E, A]``: each agent of a group is paid the sum of the group's rewards."""
    rewards = batch.rewards.copy()
    for seats in batch.task.groups.values():
        rewards[:, :, list(seats)] = batch.rewards[:, :, list(seats)].sum(axis=2, keepdims=True)
    return rewards


def team_rows(batch: MultiAgentBatch, seats: Sequence[int], gamma: float) -> SampleBatch:
    """One row per step in which any member of the team decided.

    A team's decision is closed when any member is asked again, or when all of its open decisions have ended. Its
    reward is the sum of the members' rewards in between. Members that do not decide are masked by
    ``present``/``new_present``; a truncated member still counts in the outcome, because its value goes on. A team
    that was cut off without any last observation is left out.
    """
    seats = seats_in_order(batch.task, seats)
    present, asked = batch.present[:, :, seats], batch.new_present[:, :, seats]
    ended = (batch.terminateds | batch.truncateds)[:, :, seats]
    closing = _closing_rows(present, asked, ended)
    is_end = np.zeros(closing.shape, bool)
    t, e = np.nonzero((closing >= batch.context) & (closing >= 0))
    done = closing[t, e]
    is_end[done, e] = True
    rewards = discounted_until(batch.rewards[:, :, seats].sum(axis=2), is_end, gamma)
    cut = batch.truncateds[:, :, seats]
    asked_then = np.asarray(asked[done, e])
    goes_on = np.asarray(asked_then | (cut & batch.new_alive[:, :, seats])[done, e])
    # Cut off without any last observation: there is no outcome to learn from.
    keep = goes_on.any(axis=1) | ~cut[done, e].any(axis=1)
    t, e, done, asked_then, goes_on = t[keep], e[keep], done[keep], asked_then[keep], goes_on[keep]
    columns: dict[str, Array] = {
        "present": np.asarray(present[t, e]),
        "new_present": goes_on,
        "policy": batch.policy_index[:, :, seats][t, e],
        "new_policy": batch.new_policy_index[:, :, seats][done, e],
        "rewards": rewards[t, e],
        "elapsed": done - t + 1,
        "terminateds": np.logical_not(goes_on.any(axis=1)),
        "ended": np.logical_not(asked_then.any(axis=1)),
        "state": batch.state[t, e],
        "new_state": batch.new_state[done, e],
        "t": batch.t[t, e],
        "eps_id": batch.eps_id[t, e],
        "lane": e,
        "stream": batch.first_lane + e,
    }
    if any(carry.shape[3] for carry in batch.carry):
        columns |= _for_memories(batch, seats, t, e, done)
    for k, cols in columns_by_kind(batch.task, seats).items():
        columns |= {
            f"obs.{k}": batch.obs[k][t, e][:, cols],
            f"actions.{k}": batch.actions[k][t, e][:, cols],
            f"legal.{k}": batch.legal[k][t, e][:, cols],
            f"new_obs.{k}": batch.new_obs[k][done, e][:, cols],
            f"new_legal.{k}": batch.new_legal[k][done, e][:, cols],
            f"agent_index.{k}": np.broadcast_to(np.array(cols), (len(t), len(cols))),
        }
    return SampleBatch(columns)


def _for_memories(batch: MultiAgentBatch, seats: Sequence[int], t: Ints, e: Ints, done: Ints) -> dict[str, Array]:
    """What recurrent members need besides: their carry before the row, what each was paid until the team's next decision,
    and whether its life ended before that."""
    ended = (batch.terminateds | batch.truncateds)[:, :, seats]
    columns: dict[str, Array] = {
        "member_rewards": _between(batch.rewards[:, :, seats], t, e, done),
        "fell": _between(ended.astype(np.float32), t, e, done) > 0,
    }
    for k, cols in columns_by_kind(batch.task, seats).items():
        columns[f"carry.{k}"] = batch.carry[k][t, e][:, cols]
    return columns


def _between(grid: Array, t: Ints, e: Ints, done: Ints) -> Floats:
    """Sums over the rows ``t .. done``."""
    sums = np.concatenate([np.zeros((1, *grid.shape[1:])), np.cumsum(grid, axis=0, dtype=np.float64)])
    found: Floats = (sums[done + 1, e] - sums[t, e]).astype(np.float32)
    return found


def _closing_rows(present: Bools, asked: Bools, ended: Bools) -> Ints:
    """``[T, E]``: the row in which a team decision made in this row is closed; -1 where none was made or it is still open."""
    rows, copies, _ = present.shape
    decided: Bools = np.asarray(present.any(axis=2))
    if ((asked | ended) | ~present).all():  # everybody who decides is asked again or ends at once
        return np.where(decided, np.arange(rows)[:, None], -1)
    closing = np.full((rows, copies), -1, np.int64)
    waiting = np.full(copies, -1, np.int64)
    open_ = np.zeros(present.shape[1:], bool)
    for row in range(rows):
        open_ |= present[row]
        waiting[decided[row]] = row
        open_ &= ~(asked[row] | ended[row])
        closes = (waiting >= 0) & (asked[row].any(axis=1) | ~open_.any(axis=1))
        closing[waiting[closes], np.flatnonzero(closes)] = row
        waiting[closes] = -1
    return closing


def columns_of_one(rows: SampleBatch, k: int) -> dict[str, Array]:
    """What a custom loss is shown of ``single_rows``: plain names, one row per decision."""
    members = ("obs", "actions", "legal", "agent_index", "new_obs", "new_legal")
    found = {name: rows[f"{name}.{k}"][:, 0] for name in members}
    return found | {name: rows[name] for name in ("rewards", "elapsed", "terminateds", "weights", "t", "eps_id")}


def single_rows(batch: MultiAgentBatch, policy: str, k: int, gamma: float) -> SampleBatch:
    """A policy's own decisions in the same form: teams of one."""
    rows = batch.for_policy(policy, gamma, kind=k)
    index = np.full((len(rows), 1), batch.policy_ids.index(policy))
    ended = rows["terminateds"] | rows["truncateds"]
    memory = {}
    if rows["carry"].shape[1]:
        paid = rows["rewards"] if gamma == 1.0 else batch.for_policy(policy, 1.0, kind=k)["rewards"]
        memory = {f"carry.{k}": rows["carry"][:, None], "member_rewards": paid[:, None], "fell": ended[:, None]}
    return SampleBatch(
        {
            **memory,
            "present": np.ones((len(rows), 1), bool),
            "new_present": np.logical_not(rows["terminateds"])[:, None],
            "policy": index,
            "new_policy": index,
            **{
                name: rows[name]
                for name in ("rewards", "elapsed", "terminateds", "t", "eps_id", "lane", "stream", "seat")
            },
            "ended": ended,
            "state": np.zeros((len(rows), 0), np.float32),
            "new_state": np.zeros((len(rows), 0), np.float32),
            f"obs.{k}": rows["obs"][:, None],
            f"actions.{k}": rows["actions"][:, None],
            f"legal.{k}": rows["legal"][:, None],
            f"new_obs.{k}": rows["new_obs"][:, None],
            f"new_legal.{k}": rows["new_legal"][:, None],
            f"agent_index.{k}": rows["agent_index"][:, None],
        }
    )
