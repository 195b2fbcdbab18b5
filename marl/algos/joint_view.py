"""What critics and mixers see of several agents at once: the agent's own view, its group's, everybody's, or the env's state.

``JointView`` puts the features (and actions) of agents side by side; everything here and in ``central_critic/critic.py`` and
``qmix`` that shows more than one agent goes through it. Agents stand in fixed *slots*, kind by kind. An agent that does not
decide (it is not its turn, it has left, its group is smaller than another) is absent: its observation and its action are
zeros. So envs with turns, agents that come and go, and agents with different spaces are all the same to a critic
``Q(o_1, u_1, ..., o_n, u_n, own seat)``.

A replay row of an actor-critic is one decision of one agent (``joint_rows``). Around it stand the agents that its critic
sees (``critic_sees``: own, group or all): their observations, actions and masks in the row of the decision, and their
observations and masks where the decision had its outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from marl.algos.transitions import JointObs, Transitions
from marl.data.batch import MultiAgentBatch, SampleBatch
from marl.data.returns import fold_rewards
from marl.data.task import AgentType, Array, Bools, Floats, Ints, Task
from marl.errors import UnknownPolicyError
from marl.policies.networks import Features, action_width, encode_actions, one_hot
from marl.policies.policy import Inputs, Policy

Actions: TypeAlias = dict[int, Tensor]
"""Per kind ``[N, slots of the kind, action_width]``: choices one-hot (or probabilities), then coordinates."""

ActionFn: TypeAlias = Callable[[Inputs], Tensor]
"""Encoded actions ``[N, action_width]`` of the agents of one kind."""


# -- agents side by side -----------------------------------------------------------------------------------------------


class JointView(nn.Module):
    """Features of several agents side by side, ``slots[k]`` of kind ``k``; with ``actions`` each is followed by its action."""

    def __init__(self, task: Task, slots: Mapping[int, int], *, actions: bool = False) -> None:
        super().__init__()
        self.features = nn.ModuleDict({str(k): Features(task.kinds[k], agent_id=False) for k in slots})
        self.parts: list[tuple[int, int, Features]] = []  # outside of nn.Module's slow attribute look-up
        self.size = 0
        for k, count in slots.items():
            features = self.features[str(k)]
            assert isinstance(features, Features)
            self.parts.append((k, count, features))
            width = features.size + (action_width(task.kinds[k].columns) if actions else 0)
            self.size += count * width

    @property
    def device(self) -> torch.device:
        return self.parts[0][2].offsets.device

    def forward(
        self, obs: Mapping[int, Array | Tensor], present: Bools | Tensor, actions: Actions | None = None
    ) -> Tensor:
        """``[N, size]``; ``obs[k]`` is ``[N, slots[k], width]``, ``present`` ``[N, all slots]`` in the order of kinds."""
        shown = torch.as_tensor(present, device=self.device)
        parts, at = [], 0
        for k, count, features in self.parts:
            flat = torch.as_tensor(obs[k], device=self.device).flatten(0, 1)
            seen = features(flat, shown[:0, 0]).view(len(shown), count, features.size)  # without agent_id no seats
            if actions is not None:
                seen = torch.cat([seen, actions[k]], dim=2)
            parts.append((seen * shown[:, at : at + count, None]).flatten(1))
            at += count
        return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)


class JointFeatures(JointView):
    """The same of a fixed list of seats: a team's observations, or what a value critic is shown."""

    def __init__(self, task: Task, seats: Sequence[int], *, actions: bool = False) -> None:
        by_kind = columns_by_kind(task, seats)
        super().__init__(task, {k: len(columns) for k, columns in by_kind.items()}, actions=actions)
        self.by_kind = by_kind


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
    ordered: list[int] = []
    for k, columns in columns_by_kind(task, seats).items():
        ordered += [task.kinds[k].first_seat + column for column in columns]
    return ordered


def team_rewards(batch: MultiAgentBatch) -> Floats:
    """``[T, E, A]``: each agent of a group is paid the sum of the group's rewards, those of dead members included."""
    rewards = batch.rewards.copy()
    for seats in batch.task.groups.values():
        rewards[:, :, list(seats)] = batch.rewards[:, :, list(seats)].sum(axis=2, keepdims=True)
    return rewards


# -- around one decision -----------------------------------------------------------------------------------------------


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
        # Filled from the left: of two groups of one kind the smaller one leaves the last slots empty.
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
    batch: MultiAgentBatch, policy: str, visible: VisibleAgents, gamma: float, rewards: Floats | None = None
) -> SampleBatch:
    """A policy's decisions with the joint view around each; ``rewards`` replaces the batch's own (see ``team_rewards``).

    ``present`` and ``new_present`` ``[N, slots]`` say who decides in the row of the decision and at its outcome; an agent
    that was cut off with a last observation still counts in the outcome, because its value goes on.
    """
    t, e, a = np.nonzero(batch.active & (batch.policy_index == batch.policy_ids.index(policy)))
    elapsed = batch.elapsed[t, e, a]
    done, seat = t + elapsed - 1, a - visible.kind.first_seat
    _check_known(batch.task, policy, visible, seat)
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
        **_who(batch, visible, t, e, seat, done),
    }
    t, e, done = t[:, None], e[:, None], done[:, None]
    for k, table in visible.columns.items():
        column = np.maximum(table[seat], 0)  # an empty slot shows somebody, whom ``present`` masks
        for name in ("obs", "actions", "legal"):
            columns[f"{name}.{k}"] = getattr(batch, name)[k][t, e, column]
        for name in ("new_obs", "new_legal"):
            columns[f"{name}.{k}"] = getattr(batch, name)[k][done, e, column]
    return SampleBatch(columns)


def _check_known(task: Task, policy: str, visible: VisibleAgents, seat: Ints) -> None:
    strange = seat[~visible.known[seat]]
    if not strange.size:
        return
    agent = task.seat_names[int(strange[0]) + visible.kind.first_seat]
    expected = ", ".join(task.seat_names[int(s) + visible.kind.first_seat] for s in np.flatnonzero(visible.known))
    raise UnknownPolicyError(
        f"policy_mapping_fn sent agent {agent!r} to policy {policy!r}, but when the function was tried out before the run "
        f"this policy only played {expected}, and its critic was built to see the env around these. Replace the function "
        f"by patterns that name every policy an agent may get, such as {{{agent!r}: [{policy!r}, ...]}}."
    )


def _who(batch: MultiAgentBatch, visible: VisibleAgents, t: Ints, e: Ints, seat: Ints, done: Ints) -> dict[str, Array]:
    """Who decides in each slot and who plays it, before and after."""
    tables = [(table, batch.task.kinds[k].first_seat) for k, table in visible.columns.items()]
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

    _own_slot: Tensor
    _own_place: Tensor
    _own_columns: Tensor

    def __init__(self, visible: VisibleAgents, *, agent_id: bool = False) -> None:
        super().__init__()
        self.visible = visible
        self.slots = {k: table.shape[1] for k, table in visible.columns.items()}
        self.joint = JointView(visible.task, self.slots, actions=True)
        self.seats = visible.kind.size if agent_id or visible.sees != "own" else 0
        self.size = self.joint.size + self.seats
        place, columns = self._places()
        # Tables by seat; they move along to another device and are not on disk.
        self.register_buffer("_own_slot", torch.from_numpy(visible.own), persistent=False)
        self.register_buffer("_own_place", torch.from_numpy(place), persistent=False)
        self.register_buffer("_own_columns", torch.from_numpy(columns), persistent=False)

    def _places(self) -> tuple[Ints, Ints]:
        """By seat: where the own agent stands among all slots, and where the numbers of its action stand in the input."""
        slots_before, numbers_before = 0, 0
        for k, slots, features in self.joint.parts:
            width = features.size + self._width(k)
            if k == self.visible.k:
                break
            slots_before += slots
            numbers_before += slots * width
        first = numbers_before + self.visible.own * width + features.size
        return slots_before + self.visible.own[:, None], first[:, None] + np.arange(self._width(self.visible.k))

    @property
    def device(self) -> torch.device:
        return self.joint.device

    def forward(self, joint: JointObs, actions: Actions) -> Tensor:
        view: Tensor = self.joint(joint.obs, joint.present, actions)
        if self.seats:
            view = torch.cat([view, one_hot(joint.seat, self.seats)], dim=1)
        return view

    def with_own_action(self, view: Tensor, joint: JointObs, mine: Tensor) -> Tensor:
        """The input ``view`` of these rows, but the agent whose decision it is does ``mine`` ``[N, action_width]``."""
        return view.scatter(1, self._columns(joint), mine * self._here(joint))

    def by_own_action(self, slopes: Tensor, joint: JointObs) -> Tensor:
        """The other way: d loss / d ``mine`` by d loss / d what ``with_own_action`` gave."""
        return slopes.gather(1, self._columns(joint)) * self._here(joint)

    def _columns(self, joint: JointObs) -> Tensor:
        """``[N, action_width]``: where the own action stands."""
        return self._own_columns.index_select(0, joint.seat)

    def _here(self, joint: JointObs) -> Tensor:
        """``[N, 1]``: an agent that has left does nothing, also if it is the own one."""
        return joint.present.gather(1, self._own_place.index_select(0, joint.seat))

    def transitions(self, rows: SampleBatch, noise: Sequence[str] = ()) -> Transitions:
        """Joint rows as tensors; the seats in the slots follow from the seat whose decision it is."""
        index = {f"agent_index.{k}": np.maximum(t[rows["seat"]], 0) for k, t in self.visible.columns.items()}
        return Transitions.of(rows.with_columns(**index), self.device, noise)

    # -- actions ---------------------------------------------------------------------------------------------------

    def played(self, transitions: Transitions) -> Actions:
        """What everybody did."""
        found = {}
        for k, actions in transitions.actions.items():
            encoded = encode_actions(self.visible.task.kinds[k].columns, actions.flatten(0, 1))
            found[k] = encoded.view(len(actions), self.slots[k], -1)
        return found

    def nothing(self, rows: int) -> Actions:
        """Nobody does anything, or nobody else is seen."""
        found = {}
        for k, slots in self.slots.items():
            found[k] = torch.zeros(rows, slots, self._width(k), device=self.device)
        return found

    def with_own(self, joint: JointObs, actions: Actions, mine: Tensor) -> Actions:
        """The same, but the agent whose decision it is does ``mine`` ``[N, action_width]``; all others keep theirs."""
        k = self.visible.k
        slots = torch.arange(self.slots[k], device=self.device)
        own = slots == self._slot(joint)[:, None]
        return {**actions, k: torch.where(own[:, :, None], mine[:, None], actions[k])}

    def decided(self, joint: JointObs, action_fns: Mapping[int, ActionFn]) -> Actions:
        """What everybody present would do, each by the policy that plays it (by its index in a batch)."""
        players: Ints = np.where(joint.present.cpu().numpy(), joint.policy, -1)
        found, at = {}, 0
        for k, slots in self.slots.items():
            inputs = Inputs(_flat(joint.obs[k]), _flat(joint.legal[k]), _flat(joint.agent_index[k]))
            mine, width = players[:, at : at + slots].reshape(-1), self._width(k)
            found[k] = self._by_player(mine, inputs, width, action_fns).view(-1, slots, width)
            at += slots
        return found

    def _by_player(self, players: Ints, inputs: Inputs, width: int, action_fns: Mapping[int, ActionFn]) -> Tensor:
        """One call per policy; zeros where nobody decides."""
        first = int(players[0])
        if first >= 0 and (players == first).all():
            return action_fns[first](inputs)
        present = np.unique(players)
        out = torch.zeros(len(players), width, device=self.device)
        for player in present[present >= 0]:
            rows = np.flatnonzero(players == player)
            part = Inputs(inputs.obs[rows], inputs.legal[rows], inputs.agent_index[rows])
            out = out.index_copy(0, torch.from_numpy(rows).to(self.device), action_fns[int(player)](part))
        return out

    def _width(self, k: int) -> int:
        return action_width(self.visible.task.kinds[k].columns)

    # -- the agents whose decisions these are ----------------------------------------------------------------------

    def own(self, joint: JointObs) -> tuple[Tensor, Tensor, Tensor]:
        """What they see: observations, seats and legal actions, as a policy's network takes them."""
        k = self.visible.k
        return self.of_own(joint, joint.obs[k]), joint.seat, self.of_own(joint, joint.legal[k])

    def of_own(self, joint: JointObs, slots: Tensor) -> Tensor:
        """Their rows ``[N, ...]`` of a column ``[N, slots of their kind, ...]``."""
        count = slots.shape[1]
        if count == 1:
            return slots[:, 0]
        rows = torch.arange(0, len(slots) * count, count, device=self.device)
        return slots.flatten(0, 1).index_select(0, rows.add_(self._slot(joint)))

    def _slot(self, joint: JointObs) -> Tensor:
        return self._own_slot.index_select(0, joint.seat)

    def shown(self, rows: SampleBatch) -> SampleBatch:
        """The joint rows, with what concerns the deciding agent itself under plain names too."""
        here, slot, k = np.arange(len(rows)), self.visible.own[rows["seat"]], self.visible.k
        names = ("obs", "actions", "legal", "new_obs", "new_legal")
        return rows.with_columns(**{name: rows[f"{name}.{k}"][here, slot] for name in names})

    def columns_of_loss(self, transitions: Transitions) -> dict[str, Tensor]:
        """What a custom loss is shown of the decisions: their own observation, mask, seat, action and outcome."""
        obs, index, legal = self.own(transitions.now)
        return {
            "obs": obs,
            "legal": legal,
            "agent_index": index,
            "actions": self.of_own(transitions.now, transitions.actions[self.visible.k]),
            "new_obs": self.own(transitions.next)[0],
            "rewards": transitions.rewards,
            "terminateds": transitions.terminated,
        }


def _flat(slots: Tensor) -> Array:
    """``[N, slots, ...]`` to ``[N * slots, ...]``, as policies take it while acting."""
    return slots.flatten(0, 1).cpu().numpy()


def action_fn_of(policy: Policy, rng: Callable[[], np.random.Generator], *, explore: bool = False) -> ActionFn:
    """What a policy that the learner only reads would do, without gradient; a memory starts empty. With ``explore`` it draws
    as it does while collecting, from the generator that ``rng`` gives then."""

    def decide(inputs: Inputs) -> Tensor:
        stored = stored_actions(policy, inputs, rng(), explore=explore)
        return encode_actions(policy.kind.columns, policy.tensor(stored))

    return decide


def stored_actions(policy: Policy, inputs: Inputs, rng: np.random.Generator, *, explore: bool) -> Array:
    """The same as a batch holds it."""
    carry = np.zeros((len(inputs), policy.carry_size), np.float32)
    actions = policy.act(inputs, carry, rng, explore=explore).actions
    columns = policy.kind.columns
    stored = columns.squeezed(actions) if policy.env_units and columns.numbers else actions
    return np.ascontiguousarray(stored)
