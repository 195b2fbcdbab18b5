"""Action values of a team's members, each by the policy that plays it, before a decision and after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from marl.algos.qmix.losses import best_legal, soft_value
from marl.algos.transitions import JointObs, kinds_of
from marl.data.batch import SampleBatch
from marl.data.task import Ints, PolicyID, Task
from marl.policies.mlp import Tape
from marl.policies.value import NetworkInputs, ValuePolicy

Networks = Mapping[PolicyID, ValuePolicy]
Values = dict[int, Tensor]
"""Per kind ``[N, n_k, actions]``; with atoms the scores ``[N, n_k, actions, atoms]`` of their softmax."""
Run: TypeAlias = tuple[ValuePolicy, Tensor | None, Tape | Tensor]
"""A network, its rows (None: all), and its tape."""

Part: TypeAlias = tuple[ValuePolicy, Tensor | None, NetworkInputs]
"""A network, its rows (None: all), and these as it takes them."""


@dataclass(frozen=True)
class Shown:
    """What the networks of one kind of members see: all members of a row after each other, and the rows of several moments
    below each other."""

    members: int
    rows: int  # of all moments, times members
    shape: tuple[int, ...]  # of what a network says of one row
    parts: list[Part]
    device: torch.device

    def run(self, taped: int) -> tuple[Tensor, list[Run]]:
        """Values ``[rows, ...]``, zeros where nobody plays, and tapes of the first ``taped`` rows."""
        if len(self.parts) == 1 and self.parts[0][1] is None:  # the usual case, which needs no copying
            network, _, inputs = self.parts[0]
            scores, tape = network.run(inputs, taped)
            return scores, [(network, None, tape)]
        found: Tensor | None = None
        runs: list[Run] = []
        for network, rows, inputs in self.parts:
            assert rows is not None
            first = int((rows < taped).sum())  # rows ascend
            scores, tape = network.run(inputs, first)
            if found is None:
                found = scores.new_zeros(self.rows, *self.shape)
            found[rows] = scores
            if first:
                runs.append((network, rows[:first], tape))
        if found is None:
            found = torch.zeros(self.rows, *self.shape, device=self.device)
        return found, runs


@dataclass(frozen=True)
class MemberTape:
    """Networks that were run, by kind of the members."""

    runs: dict[int, list[Run]]

    def pull(self, slopes: Values) -> None:
        """Add to the gradients of the networks; ``slopes`` are d loss / d values."""
        for k, runs in self.runs.items():
            flat = slopes[k].flatten(0, 1)
            for network, rows, tape in runs:
                network.pull(tape, flat if rows is None else flat.index_select(0, rows))


@dataclass(frozen=True)
class TracedValues:
    """Values that autograd knows the way back from: those of members with a memory."""

    values: Values

    def pull(self, slopes: Values) -> None:
        """The same."""
        learned = [k for k, values in self.values.items() if values.requires_grad]  # not: only strangers play
        torch.autograd.backward([self.values[k] for k in learned], [slopes[k] for k in learned])


class MemberValues:
    """``index`` numbers the policies as batches do."""

    def __init__(self, task: Task, index: Mapping[PolicyID, int], device: torch.device) -> None:
        self.task, self.index, self.device = task, dict(index), device

    def at_once(self, joint: JointObs, networks: Networks) -> Values:
        """Values of members without memory; no gradient."""
        (shown,) = self.show([joint], networks)
        (values,), _ = self.run(shown, taped=False)
        return values

    def show(self, moments: Sequence[JointObs], networks: Networks, updates: int = 1) -> list[dict[int, Shown]]:
        """What the networks see at these moments, for each of so many updates that share the rows evenly."""
        found: list[dict[int, Shown]] = [{} for _ in range(updates)]
        at = 0
        for k, first in moments[0].obs.items():
            n = first.shape[1]
            obs = _interleaved([moment.obs[k] for moment in moments], updates)
            index = _interleaved([moment.agent_index[k] for moment in moments], updates)
            who = [moment.policy[:, at : at + n].reshape(updates, -1) for moment in moments]
            able = self._able(k, networks)
            parts = self._parts(np.concatenate(who, axis=1), (obs, index), able)
            for shown, part in zip(found, parts, strict=True):
                shown[k] = Shown(n, len(obs) // updates, next(iter(able.values())).score_shape, part, self.device)
            at += n
        return found

    def run(
        self, shown: Mapping[int, Shown], moments: int = 1, *, taped: bool = True
    ) -> tuple[list[Values], MemberTape]:
        """Values of members at several moments, by one pass, and what is needed to go back through those at the first."""
        found: list[Values] = [{} for _ in range(moments)]
        tape = MemberTape({})
        for k, kind in shown.items():
            scores, tape.runs[k] = kind.run(kind.rows // moments * taped)
            apart = scores.view(moments, -1, kind.members, *scores.shape[1:])
            for values, part in zip(found, apart.unbind(), strict=True):
                values[k] = part
        return found, tape

    def run_over_time(self, chunks: SampleBatch, networks: Networks) -> tuple[list[Values], TracedValues]:
        """Values of recurrent members before and after every row, and what is needed to go back through those before."""
        with torch.enable_grad():
            before, after = self.over_time(chunks, networks)
        return [{k: values.detach() for k, values in before.items()}, after], TracedValues(before)

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
        carry, values, kept = self._beginning(part, networks), [], []
        for step in range(part.steps):
            out, carry = self._step(part, step, networks, carry)
            values.append(out)
            kept.append(carry.detach())  # also of a life that was cut off here: its value goes on
            carry = carry * ~part.fell[:, step, None]  # who comes back in a later row remembers nothing
        before = torch.stack(values, 1)
        with torch.no_grad():
            after = torch.stack([self._after(part, step, networks, kept[step]) for step in range(part.steps)], 1)
        return part.unpadded(before), part.unpadded(after)

    def _beginning(self, part: _MemberTime, networks: Networks) -> Tensor:
        """What members begin the chunks with: what was recorded, or as much of it as their memory trains with."""
        carry = part.carry
        for name, rows in self._players(part.first_players(), networks):
            size = networks[name].carry_size
            trained = networks[name].model.at_start(carry[rows, :size])
            carry = carry.index_copy(0, rows, torch.cat([trained, carry[rows, size:]], 1))
        return carry

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

    def _parts(self, players: Ints, flat: tuple[Tensor, Tensor], networks: Networks) -> list[list[Part]]:
        """For each update (a row of ``players``) who plays which of its rows."""
        for name, network in networks.items():
            if (players == self.index[name]).all():  # one policy plays everything: features of all updates at once
                columns = [column.chunk(len(players)) for column in network.inputs(*flat)]
                return [[(network, None, inputs)] for inputs in zip(*columns, strict=True)]
        obs, index = (column.chunk(len(players)) for column in flat)
        found: list[list[Part]] = []
        for i, who in enumerate(players):
            found.append(self._by_player(who, obs[i], index[i], networks))
        return found

    def _by_player(self, players: Ints, obs: Tensor, index: Tensor, networks: Networks) -> list[Part]:
        parts: list[Part] = []
        for name, rows in self._players(players, networks):
            parts.append((networks[name], rows, networks[name].inputs(obs[rows], index[rows])))
        return parts

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

    def first_players(self) -> Ints:
        """Who plays each member ``[C * n]`` when it decides for the first time in its chunk."""
        first = self.present.long().argmax(dim=1).cpu().numpy()
        found: Ints = self.players[np.arange(len(first)), first]
        return found

    def unpadded(self, values: Tensor) -> Tensor:
        """``[C * n, steps, actions]`` to ``[rows, n, actions]``."""
        return values.view(self.chunks, self.n, self.steps, -1).transpose(1, 2)[self.mask]


def _rest(column: np.ndarray[Any, Any]) -> tuple[int, ...]:
    return (column.shape[1], *column.shape[3:])


def _interleaved(parts: list[Tensor], updates: int) -> Tensor:
    """``[N, n, ...]`` of every moment to ``[rows, ...]``: those of the first update at all moments, then the second's."""
    if len(parts) == 1:
        return parts[0].flatten(0, 1)
    by_update = [part.view(updates, -1, *part.shape[2:]) for part in parts]
    return torch.cat(by_update, dim=1).flatten(0, 1)


def values_of(actions: Mapping[int, Tensor], values: Values) -> Tensor:
    """``Q_a(o_a, u_a)`` of all members ``[N, members]``, kind by kind."""
    found = []
    for k, of_kind in values.items():
        found.append(of_kind.gather(2, actions[k].unsqueeze(2)).squeeze(2))
    # Mostly there is one kind, and a copy less.
    return found[0] if len(found) == 1 else torch.cat(found, dim=1)


def best_values(choosing: Values, valuing: Values, legal: Mapping[int, Tensor]) -> Tensor:
    """``Q'_a(o'_a, u*_a)`` of all members ``[N, members]``; each member's ``u*`` is its own best legal action."""
    best = {k: best_legal(values, legal[k]) for k, values in choosing.items()}
    return values_of(best, valuing)


def soft_values(choosing: Values, valuing: Values, legal: Mapping[int, Tensor], temperature: float) -> Tensor:
    """Soft values of the outcomes of all members ``[N, members]``. Those of a team that adds its values up add up as well:
    ``log(sum exp)`` over joint actions is the sum of that over each member's own."""
    found = [soft_value(choosing[k], valuing[k], legal[k], temperature) for k in choosing]
    return torch.cat(found, dim=1)


def slopes_of_chosen(slopes: Tensor, actions: Mapping[int, Tensor], values: Values) -> Values:
    """Slopes by all ``values`` where those by the chosen ones are ``[N, members]``: no other value has a part in the loss."""
    found: Values = {}
    at = 0
    for k, of_kind in values.items():
        n = of_kind.shape[1]
        own = slopes if len(values) == 1 else slopes[:, at : at + n]
        zeros = torch.zeros(of_kind.shape, dtype=own.dtype, device=own.device)
        found[k] = zeros.scatter_(2, actions[k].unsqueeze(2), own.unsqueeze(2))
        at += n
    return found
