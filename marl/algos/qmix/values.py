"""Action values of a team's members, each by the policy that plays it, before a decision and after it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from marl.algos.transitions import JointObs, kinds_of
from marl.data.batch import SampleBatch
from marl.data.task import PolicyID, Task
from marl.policies.value import ValuePolicy

Networks = Mapping[PolicyID, ValuePolicy]
Values = dict[int, Tensor]
"""Per kind ``[N, n_k, actions]``."""


class MemberValues:
    """``index`` numbers the policies as batches do."""

    def __init__(self, task: Task, index: Mapping[PolicyID, int], device: torch.device) -> None:
        self.task, self.index, self.device = task, dict(index), device

    def at_once(self, joint: JointObs, networks: Networks) -> Values:
        """Values of members without memory."""
        found, at = {}, 0
        for k, obs in joint.obs.items():
            n = obs.shape[1]
            players = joint.policy[:, at : at + n].reshape(-1)
            flat = obs.flatten(0, 1), joint.agent_index[k].flatten()
            found[k] = self._by_player(players, flat, self._able(k, networks)).view(len(obs), n, -1)
            at += n
        return found

    def over_time(self, chunks: SampleBatch, networks: Networks) -> tuple[Values, Values]:
        """Values of recurrent members before and after every row of the chunks, without the padding.

        A member's memory moves on where it decides, stands still where it does not, and is empty after its end. Values
        after a decision carry no gradient.
        """
        before: Values = {}
        after: Values = {}
        at = 0
        for k in kinds_of(chunks):
            n = chunks[f"obs.{k}"].shape[2]
            part = _MemberTime(chunks, k, slice(at, at + n), self.device)
            before[k], after[k] = self._kind_over_time(part, self._able(k, networks))
            at += n
        return before, after

    def _kind_over_time(self, part: _MemberTime, networks: Networks) -> tuple[Tensor, Tensor]:
        carry, values, kept = part.carry, [], []
        for step in range(part.steps):
            out, carry = self._step(part, step, networks, carry)
            values.append(out)
            kept.append(carry.detach())  # also of a life that was cut off here: its value goes on
            carry = carry * ~part.fell[:, step, None]  # who comes back in a later row remembers nothing
        before = torch.stack(values, 1)
        with torch.no_grad():
            after = torch.stack([self._after(part, step, networks, kept[step]) for step in range(part.steps)], 1)
        return part.unpadded(before), part.unpadded(after)

    def _step(self, part: _MemberTime, step: int, networks: Networks, carry: Tensor) -> tuple[Tensor, Tensor]:
        """Values of all members in one row ``[C * n, actions]`` and their carry after it."""
        width = next(iter(networks.values())).num_actions
        out, moved = torch.zeros(len(carry), width, device=self.device), carry
        for name, rows in self._players(part.players[:, step], networks):
            network = networks[name]
            size = network.carry_size
            values, memory = network.step(part.obs[rows, step], part.index[rows, step], carry[rows, :size])
            new = network.model.carried(memory, part.actions[rows, step], torch.zeros(len(rows), device=self.device))
            out = out.index_copy(0, rows, values)
            moved = moved.index_copy(0, rows, torch.cat([new, carry[rows, size:]], 1))
        carry = torch.where(part.present[:, step, None], moved, carry)
        return out, self._pay(part, step, networks, carry)

    def _pay(self, part: _MemberTime, step: int, networks: Networks, carry: Tensor) -> Tensor:
        for name, rows in self._players(part.players[:, step], networks):
            if networks[name].remembers_reward:
                paid = torch.zeros_like(carry)
                paid[rows, networks[name].carry_size - 1] = part.rewards[rows, step]
                carry = carry + paid
        return carry

    def _after(self, part: _MemberTime, step: int, networks: Networks, carry: Tensor) -> Tensor:
        out = torch.zeros(len(carry), next(iter(networks.values())).num_actions, device=self.device)
        for name, rows in self._players(part.new_players[:, step], networks):
            network = networks[name]
            seen, index = part.new_obs[rows, step], part.index[rows, step]
            out[rows] = network.step(seen, index, carry[rows, : network.carry_size])[0]
        return out

    def _able(self, k: int, networks: Networks) -> Networks:
        """Those that play agents of this kind."""
        first = self.task.kinds[k].first_seat
        return {name: net for name, net in networks.items() if net.kind.first_seat == first}

    def _players(self, players: np.ndarray[Any, Any], networks: Networks) -> list[tuple[PolicyID, Tensor]]:
        """Networks with the rows that they play; a network that plays none is not asked."""
        found = []
        for name in networks:
            rows = np.flatnonzero(players == self.index[name])
            if rows.size:
                found.append((name, self._tensor(rows)))
        return found

    def _by_player(self, players: np.ndarray[Any, Any], flat: tuple[Tensor, Tensor], networks: Networks) -> Tensor:
        """Values of rows that different policies of one kind play; zeros where none of them does."""
        mine = self._players(players, networks)
        # One policy plays everything: the usual case, which needs no copying.
        if len(mine) == 1 and len(mine[0][1]) == len(players):
            return networks[mine[0][0]].values(*flat)
        values = torch.zeros(len(players), next(iter(networks.values())).num_actions, device=self.device)
        for name, rows in mine:
            values = values.index_copy(0, rows, networks[name].values(flat[0][rows], flat[1][rows]))
        return values

    def _tensor(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)


class _MemberTime:
    """Columns of the members of one kind in padded chunks, as ``[C * n, steps, ...]``."""

    def __init__(self, chunks: SampleBatch, k: int, members: slice, device: torch.device) -> None:
        self.chunks, self.steps = len(chunks), chunks["mask"].shape[1]
        self.n = members.stop - members.start
        self.mask = torch.from_numpy(chunks["mask"].astype(bool)).to(device)

        def by_member(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            return np.ascontiguousarray(np.moveaxis(column, 2, 1)).reshape(self.chunks * self.n, *_rest(column))

        def tensor(column: np.ndarray[Any, Any]) -> Tensor:
            return torch.from_numpy(by_member(column)).to(device)

        self.obs, self.new_obs = tensor(chunks[f"obs.{k}"]), tensor(chunks[f"new_obs.{k}"])
        self.index, self.actions = tensor(chunks[f"agent_index.{k}"]), tensor(chunks[f"actions.{k}"])
        self.present = tensor(chunks["present"][:, :, members])
        self.fell, self.rewards = tensor(chunks["fell"][:, :, members]), tensor(chunks["member_rewards"][:, :, members])
        self.players = by_member(chunks["policy"][:, :, members])
        self.new_players = by_member(chunks["new_policy"][:, :, members])
        carry = chunks[f"carry.{k}"]
        self.carry = torch.from_numpy(carry.reshape(self.chunks * self.n, carry.shape[2])).to(device)

    def unpadded(self, values: Tensor) -> Tensor:
        """``[C * n, steps, actions]`` to ``[rows, n, actions]``."""
        return values.view(self.chunks, self.n, self.steps, -1).transpose(1, 2)[self.mask]


def _rest(column: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return (column.shape[1], *column.shape[3:])
