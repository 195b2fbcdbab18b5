"""The joint view around one decision, for critics of actions: what the seen agents observe and do, before and after.

A replay row is one decision of one agent. Around it stand the agents that its critic sees (``critic_sees``: own, group or
all) in fixed *slots*, kind by kind: their observations, actions and masks in the row of the decision, and their observations
and masks where the decision had its outcome. An agent that does not decide there (it is not its turn, it has left, its group
is smaller than another) is absent: its observation and its action are zeros. So envs with turns, agents that come and
go, and agents with different spaces are all the same to a critic ``Q(o_1, u_1, ..., o_n, u_n, own seat)``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from marl.algos.views import columns_by_kind
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards
from marl.data.task import AgentType, Array, Bools, Floats, Ints, Task
from marl.errors import UnknownPolicyError
from marl.policies.networks import Features, action_width, encode_actions
from marl.policies.policy import Inputs, Policy

Actions: TypeAlias = dict[int, Tensor]
"""Per kind ``[N, slots of the kind, action_width]``: choices one-hot (or probabilities), then coordinates."""

ActionFn: TypeAlias = Callable[[Inputs], Tensor]
"""Encoded actions ``[N, action_width]`` of the agents of one kind."""


class VisibleAgents:
    """Whom a policy's critic sees around each agent that the policy may play (``seats``).

    ``columns[k][own]`` are the columns of kind ``k`` that fill its slots for the agent on seat ``own`` of its kind, -1 for an
    empty slot; ``own[own]`` is the slot of the agent itself within its kind ``k``.
    """

    def __init__(
        self, task: Task, sees: Literal["own", "group", "all"], kind: AgentType, seats: Collection[int]
    ) -> None:
        self.task, self.sees, self.kind = task, sees, kind
        self.k = task.kinds.index(kind)
        seen = {seat - kind.first_seat: columns_by_kind(task, self._around(seat)) for seat in sorted(seats)}
        self.columns: dict[int, Ints] = {}
        for k in range(len(task.kinds)):
            width = max(len(columns.get(k, [])) for columns in seen.values())
            if width:
                self.columns[k] = np.full((kind.size, width), -1, np.int64)
        for own, columns in seen.items():
            for k, found in columns.items():
                self.columns[k][own, : len(found)] = found
        mine: Bools = self.columns[self.k] == np.arange(kind.size)[:, None]
        self.own: Ints = mine.argmax(axis=1)
        self.known: Bools = np.asarray(mine.any(axis=1))  # seats that the policy was expected to play

    def _around(self, seat: int) -> list[int]:
        """Seats that are seen together with this one."""
        if self.sees == "all":
            return list(range(self.task.num_seats))
        group = self.task.group_of(seat) if self.sees == "group" else None
        return [seat] if group is None else sorted(self.task.groups[group])


def joint_rows(
    batch: MultiAgentBatch, policy: str, sight: VisibleAgents, gamma: float, rewards: Floats | None = None
) -> SampleBatch:
    """A policy's decisions with the joint view around each; ``rewards`` replaces the batch's own (see ``views.team_rewards``).

    ``present`` and ``new_present`` ``[N, slots]`` say who decides in the row of the decision and at its outcome; an agent
    that was cut off with a last observation still counts in the outcome, because its value goes on.
    """
    t, e, a = np.nonzero(batch.active & (batch.policy_index == batch.policy_ids.index(policy)))
    elapsed = batch.elapsed[t, e, a]
    done, seat = t + elapsed - 1, a - sight.kind.first_seat
    _check_known(batch.task, policy, sight, seat)
    terminated = batch.terminateds[done, e, a]
    columns: dict[str, Array] = {
        "rewards": fold_rewards(batch, gamma, rewards)[t, e, a],
        "elapsed": elapsed,
        "terminateds": terminated,
        "ended": terminated | batch.truncateds[done, e, a],
        "t": batch.t[t, e],
        "eps_id": batch.eps_id[t, e],
        "stream": (batch.first_lane + e) * batch.task.num_seats + a,
        "seat": seat,
        **_who(batch, sight, t, e, seat, done),
    }
    t, e, done = t[:, None], e[:, None], done[:, None]
    for k, table in sight.columns.items():
        column = np.maximum(table[seat], 0)
        for name in ("obs", "actions", "legal"):
            columns[f"{name}.{k}"] = getattr(batch, name)[k][t, e, column]
        for name in ("new_obs", "new_legal"):
            columns[f"{name}.{k}"] = getattr(batch, name)[k][done, e, column]
    return SampleBatch(columns)


def _check_known(task: Task, policy: str, sight: VisibleAgents, seat: Ints) -> None:
    strange = seat[~sight.known[seat]]
    if not strange.size:
        return
    agent = task.seat_names[int(strange[0]) + sight.kind.first_seat]
    expected = ", ".join(task.seat_names[int(s) + sight.kind.first_seat] for s in np.flatnonzero(sight.known))
    raise UnknownPolicyError(
        f"policy_mapping_fn sent agent {agent!r} to policy {policy!r}, but when the function was tried out before the run "
        f"this policy only played {expected}, and its critic was built to see the env around these. Replace the function "
        f"by patterns that name every policy an agent may get, such as {{{agent!r}: [{policy!r}, ...]}}."
    )


def _who(batch: MultiAgentBatch, sight: VisibleAgents, t: Ints, e: Ints, seat: Ints, done: Ints) -> dict[str, Array]:
    """Who decides in each slot and who plays it, before and after."""
    tables = [(table, batch.task.kinds[k].first_seat) for k, table in sight.columns.items()]
    filled: Bools = np.concatenate([table[seat] >= 0 for table, _ in tables], axis=1)
    seats: Ints = np.concatenate([np.maximum(table[seat], 0) + first for table, first in tables], axis=1)
    before, after = (t[:, None], e[:, None], seats), (done[:, None], e[:, None], seats)
    goes_on = batch.new_present[after] | (batch.truncateds[after] & batch.new_alive[after])
    return {
        "present": batch.present[before] & filled,
        "new_present": goes_on & filled,
        "policy": batch.policy_index[before],
        "new_policy": batch.new_policy_index[after],
    }


class JointActionView(nn.Module):
    """The critic's input ``[N, size]``: features and action of every slot side by side, then the one-hot own seat.

    A critic that sees its own agent alone is shown the seat only where the actor is (``agent_id``).
    """

    def __init__(self, sight: VisibleAgents, *, agent_id: bool = False) -> None:
        super().__init__()
        self.sight, kinds = sight, sight.task.kinds
        self.features = nn.ModuleDict({str(k): Features(kinds[k], agent_id=False) for k in sight.columns})
        self.seats = sight.kind.size if agent_id or sight.sees != "own" else 0
        # Kind, slots and features, outside of nn.Module's slow attribute look-up.
        self._parts = [(k, table.shape[1], self.features[str(k)]) for k, table in sight.columns.items()]
        self.size = self.seats
        for k, slots, features in self._parts:
            self.size += slots * (int(features.size) + action_width(kinds[k].columns))  # type: ignore[arg-type]

    @property
    def device(self) -> torch.device:
        found: Tensor = self._parts[0][2].offsets  # type: ignore[assignment]
        return found.device

    def tensor(self, array: np.ndarray[Any, Any]) -> Tensor:
        return torch.from_numpy(array).to(self.device)

    def forward(self, rows: Mapping[str, Array], when: Literal["", "new_"], actions: Actions) -> Tensor:
        """``when``: the view before the decisions, or (``new_``) at their outcome."""
        parts, at, device = [], 0, self.device
        present = torch.from_numpy(rows[f"{when}present"]).to(device)
        for k, n, features in self._parts:
            obs = rows[f"{when}obs.{k}"]
            flat = torch.from_numpy(_flat(obs)).to(device)
            seen = features(flat, present[:0, 0]).view(len(obs), n, -1)  # without agent_id the seats are not looked at
            both = torch.cat([seen, actions[k]], dim=2)
            parts.append((both * present[:, at : at + n, None]).flatten(1))
            at += n
        if self.seats:
            parts.append(F.one_hot(self.tensor(rows["seat"]), self.seats).float())
        return torch.cat(parts, dim=1)

    # -- actions ---------------------------------------------------------------------------------------------------

    def played(self, rows: Mapping[str, Array]) -> Actions:
        """What everybody did."""
        found = {}
        for k, table in self.sight.columns.items():
            actions, kind = rows[f"actions.{k}"], self.sight.task.kinds[k]
            flat = self.tensor(actions.reshape(-1, *kind.action_shape))
            found[k] = encode_actions(kind.columns, flat).view(len(actions), table.shape[1], -1)
        return found

    def with_own(self, rows: Mapping[str, Array], actions: Actions, mine: Tensor) -> Actions:
        """The same, but the agent whose decision it is does ``mine`` ``[N, action_width]``; all others keep theirs."""
        k = self.sight.k
        slot = F.one_hot(self.tensor(self.sight.own[rows["seat"]]), actions[k].shape[1]).bool()
        return {**actions, k: torch.where(slot[:, :, None], mine[:, None], actions[k])}

    def own(self, rows: Mapping[str, Array], when: Literal["", "new_"]) -> Inputs:
        """What the agents whose decisions these are see."""
        here, slot, k = np.arange(len(rows["seat"])), self.sight.own[rows["seat"]], self.sight.k
        return Inputs(rows[f"{when}obs.{k}"][here, slot], rows[f"{when}legal.{k}"][here, slot], rows["seat"])

    def shown(self, rows: SampleBatch) -> SampleBatch:
        """The joint rows, with what concerns the deciding agent itself under plain names too."""
        here, slot, k = np.arange(len(rows)), self.sight.own[rows["seat"]], self.sight.k
        names = ("obs", "actions", "legal", "new_obs", "new_legal")
        return rows.with_columns(**{name: rows[f"{name}.{k}"][here, slot] for name in names})

    def decided(
        self, rows: Mapping[str, Array], when: Literal["", "new_"], deciders: Mapping[int, ActionFn]
    ) -> Actions:
        """What everybody present would do, each by the policy that plays it (by its index in a batch)."""
        found, at = {}, 0
        for k, table in self.sight.columns.items():
            n = table.shape[1]
            players = np.where(rows[f"{when}present"], rows[f"{when}policy"], -1)[:, at : at + n].reshape(-1)
            inputs = Inputs(
                _flat(rows[f"{when}obs.{k}"]),
                _flat(rows[f"{when}legal.{k}"]),
                np.maximum(table[rows["seat"]], 0).reshape(-1),
            )
            width = action_width(self.sight.task.kinds[k].columns)
            found[k] = self._by_player(players, inputs, width, deciders).view(-1, n, width)
            at += n
        return found

    def _by_player(self, players: Ints, inputs: Inputs, width: int, deciders: Mapping[int, ActionFn]) -> Tensor:
        """One call per policy; zeros where nobody decides."""
        present = np.unique(players)
        if len(present) == 1 and present[0] >= 0:
            return deciders[int(present[0])](inputs)
        out = torch.zeros(len(players), width, device=self.device)
        for player in present[present >= 0]:
            rows = np.flatnonzero(players == player)
            part = Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows])
            out = out.index_copy(0, self.tensor(rows), deciders[int(player)](part))
        return out


def _flat(slots: Array) -> Array:
    """``[N, slots, width]`` to ``[N * slots, width]``."""
    return slots.reshape(-1, slots.shape[2]) if slots.shape[2] else slots.reshape(slots.shape[0] * slots.shape[1], 0)


def greedy_decider(policy: Policy, rng: np.random.Generator, *, explore: bool = False) -> ActionFn:
    """What a policy that the learner only reads would do, without gradient; a memory starts empty. With ``explore`` it draws
    as it does while collecting."""

    def decide(inputs: Inputs) -> Tensor:
        carry = np.zeros((len(inputs), policy.carry_size), np.float32)
        columns = policy.kind.columns
        actions = policy.act(inputs, carry, rng, explore=explore).actions
        stored = columns.squeezed(actions) if policy.env_units and columns.numbers else actions
        return encode_actions(columns, policy.tensor(np.ascontiguousarray(stored)))

    return decide


class TargetNetwork:
    """Moves a slow copy behind the module that it was made from; both are taken apart once.

    ``copy += tau * (module - copy)`` for parameters; buffers (filters, exploration) are copied.
    """

    def __init__(self, copy: nn.Module, module: nn.Module) -> None:
        self.mine: list[Tensor] = list(copy.parameters())
        self.theirs: list[Tensor] = list(module.parameters())
        self.buffers = list(zip(copy.buffers(), module.buffers(), strict=True))

    @torch.no_grad()
    def move(self, tau: float) -> None:
        torch._foreach_lerp_(self.mine, self.theirs, tau)
        for mine, theirs in self.buffers:
            mine.copy_(theirs)


def columns_of_loss(view: JointActionView, rows: SampleBatch) -> dict[str, Tensor]:
    """What a custom loss is shown of the decisions: their own observation, mask, seat, action and outcome."""
    inputs, here, k = view.own(rows, ""), np.arange(len(rows)), view.sight.k
    columns: dict[str, Array] = {
        "obs": inputs.obs,
        "legal": inputs.legal,
        "agent_index": inputs.agent_index,
        "actions": rows[f"actions.{k}"][here, view.sight.own[rows["seat"]]],
        "new_obs": view.own(rows, "new_").obs,
        "rewards": rows["rewards"],
        "terminateds": rows["terminateds"],
    }
    return {name: view.tensor(column) for name, column in columns.items()}
