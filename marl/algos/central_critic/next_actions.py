"""What the others do beside a decision, for critics of actions that see it (``critic_sees_actions``), and after its outcome.

    Q(x, u, a)                         u: what the others in the view do in the row of the decision; the agent itself is masked
    V' = sum_a pi(a | o') Q(x', u', a)

``u'`` is known where the next row goes on from the very view that a step led to. It is not where a grid ends, where a time
limit ends an episode, and where the env shows something else than it said. There the policies that play the others are asked,
and draw as they do while collecting: one draw is as unbiased as the play in the batch. Memories begin empty there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch

from marl.algos.joint_view import Actions, columns_by_kind, stored_actions
from marl.data.batch import MultiAgentBatch, NextActions
from marl.data.task import Array, Bools, Ints, PolicyID, Task
from marl.policies.networks import encode_actions
from marl.policies.policy import Inputs, Policy

if TYPE_CHECKING:
    from marl.algos.central_critic.learner import CentralCriticLearner


def with_next_actions(learner: CentralCriticLearner, batch: MultiAgentBatch) -> MultiAgentBatch:
    """The batch as critics of the learner need it that see actions; where there is none, as it is."""
    seats: set[int] = set()
    for critic in learner.critics.values():
        if critic.view.actions:
            seats.update(*critic.view.seats)
    if not seats or batch.next_actions is not None:
        return batch
    # By the moment of the run: nothing has to be saved, and whoever asks for values in between changes nothing.
    rng = np.random.default_rng([learner.seed, 9, max(learner.timesteps.values())])
    return replace(batch, next_actions=next_actions_of(batch, seats, learner.everybody, rng))


def next_actions_of(
    batch: MultiAgentBatch, seats: Collection[int], everybody: Mapping[PolicyID, Policy], rng: np.random.Generator
) -> NextActions:
    """What the agents on these seats do after each step; drawn by ``everybody`` where nobody has played on."""
    known = _played_on(batch)
    actions = [_moved_up(column) for column in batch.actions]
    # An agent that was cut off with a last observation goes on as far as values are concerned.
    goes_on = batch.new_present | (batch.truncateds & batch.new_alive)
    acting = np.where(known[:, :, None], _moved_up(batch.present), goes_on)
    acting[:, :, [seat not in seats for seat in range(batch.task.num_seats)]] = False
    drawn = acting & ~known[:, :, None]
    for index in np.unique(batch.new_policy_index[drawn]).tolist():
        policy = everybody[batch.policy_ids[index]]
        _draw(batch, drawn & (batch.new_policy_index == index), policy, actions, rng)
    return NextActions(actions, acting, known)


def _played_on(batch: MultiAgentBatch) -> Bools:
    """Where the next row goes on from what the agents that are left were shown after this one, ``[T, E]``."""
    found = np.zeros(batch.over.shape, bool)  # nothing follows on the last row
    same: Bools = (batch.new_alive[:-1] == batch.alive[1:]).all(axis=2)
    for kind, obs, new_obs in zip(batch.task.kinds, batch.obs, batch.new_obs, strict=True):
        shown = batch.alive[1:, :, kind.seats]
        same &= ((new_obs[:-1] == obs[1:]).all(axis=3) | ~shown).all(axis=2)
    # What was cut off goes on for values alone: the next row is another life, even where it looks the same.
    cut = batch.over | batch.truncateds.any(axis=2)
    found[:-1] = same & ~cut[:-1]
    return found


def _moved_up(column: Array) -> Array:
    """In every row what the next one holds; zeros in the last one."""
    moved = np.zeros_like(column)
    moved[:-1] = column[1:]
    return moved


def _draw(
    batch: MultiAgentBatch, mine: Bools, policy: Policy, actions: Sequence[Array], rng: np.random.Generator
) -> None:
    """One policy's next actions go into ``actions`` at its cells ``mine`` ``[T, E, A]``."""
    k = batch.task.kinds.index(policy.kind)
    t, e, column = np.nonzero(mine[:, :, policy.kind.seats])
    # By episode and step: which copy of the env stands where must not decide who gets which random number.
    order = np.lexsort((column, batch.t[t, e], batch.eps_id[t, e]))
    t, e, column = t[order], e[order], column[order]
    inputs = Inputs(batch.new_obs[k][t, e, column], batch.new_legal[k][t, e, column], column)
    actions[k][t, e, column] = stored_actions(policy, inputs, rng, explore=True)


def actions_of_others(
    task: Task, seats: Sequence[int], played: tuple[Sequence[Array], Bools], t: Ints, e: Ints, own: Ints
) -> Actions:
    """What these seats do beside an agent on seat ``own`` ``[N]``, which is not shown what it does itself: per kind
    ``[N, slots of the kind, action_width]``. ``played`` is a grid: actions by kind, and who decides ``[T, E, A]``."""
    actions, acting = played
    found: Actions = {}
    for k, columns in columns_by_kind(task, seats).items():
        seats_of_kind = np.asarray(columns) + task.kinds[k].first_seat
        shown = acting[t, e][:, seats_of_kind] & (seats_of_kind != own[:, None])
        stored = torch.from_numpy(np.ascontiguousarray(actions[k][t, e][:, columns]))
        encoded = encode_actions(task.kinds[k].columns, stored.flatten(0, 1)).view(len(t), len(columns), -1)
        found[k] = encoded.masked_fill(torch.from_numpy(~shown)[:, :, None], 0.0)
    return found
