"""What mixers and critics see of a grid: one agent, its group, everybody, or the env's state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.task import Array, Bools, Floats, Task
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
