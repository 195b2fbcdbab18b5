"""What the run's policy would do on a person's seat, and why: made of what this seat sees alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from marl.data.batch import MultiAgentBatch
from marl.data.task import AgentID, Array
from marl.errors import CheckpointError, ConfigError
from marl.play.opinions import opinion_now
from marl.play.trace import as_env_takes, plain
from marl.rollout.deciding import Actions
from marl.rollout.rollout_buffer import RolloutBuffer
from marl.serve.refused import Refused
from marl.watch.play.seating import has_opinions
from marl.watch.play.table import Table


def hint(table: Table, agent: AgentID) -> dict[str, Any]:
    """Probabilities, action values and the value of the policy that shadows the person, and what it would do."""
    place = table.place_of(agent)
    if place is None:
        raise Refused("not_asked", f"{agent!r} is not asked now, so there is nothing to give a hint for.", 409)
    k, seat = place
    runner = table.runner
    if not has_opinions(runner.policies[int(runner.policy_of[0, seat])]):
        raise Refused("no_hint", f"there is nobody to ask: no trained policy knows the seat of {agent!r}.", 409)
    opinion, stored = opinion_now(runner, seat, table.explore)
    kind = table.buffer.task.kinds[k]
    told = opinion.to_json()
    if told["value"] is None:
        told["value"] = _critics_value(table, seat, opinion.policy, stored)
    config = table.seating.playable.setup.rollout.config
    columns = np.asarray(stored).reshape(-1).tolist()
    if kind.columns.numbers:
        columns = plain(np.asarray(as_env_takes(kind, stored, config)).reshape(-1))
    return {
        **told,
        "agent": agent,
        "action": columns,
        "action_name": table.name_of(agent, stored),
    }


def _critics_value(table: Table, seat: int, policy: str, stored: Array) -> float | None:
    """What a critic beside the policy expects, if it sees no more than the agent does: others would tell hidden things."""
    playable = table.seating.playable
    role = playable.setup.roles.get(policy)
    if role is None or getattr(role.config, "critic_sees", "state") != "own":
        return None
    if getattr(role.config, "objective", "pg") == "pg":
        return None  # it has a critic that never learns, or one of actions
    try:
        learner = playable.learners.get(policy)
        if learner is None:
            return None
        found = learner.value_function(policy, _only_row(table, seat, stored))
    except (CheckpointError, ConfigError):  # damaged, or an algorithm without a critic
        return None
    return float(found[0]) if len(found) else None


def _only_row(table: Table, seat: int, stored: Array) -> MultiAgentBatch:
    """The decision that is about to be made, as a batch of one row."""
    runner, task = table.runner, table.buffer.task
    row = RolloutBuffer(task, runner.policy_ids, 1, complete_episodes=False, carry_sizes=table.buffer.carry_sizes)
    row.extend(1)
    actions = [np.zeros((1, kind.size, *kind.action_shape), kind.action_dtype) for kind in task.kinds]
    k = task.kind_of(seat)
    actions[k][0, seat - task.kinds[k].first_seat] = stored
    carry = [column.copy() for column in runner.carry]
    row.record(0, runner, Actions(actions, np.zeros_like(runner.view.rewards), carry))
    # As if the game ended here: what comes after is nobody's to know, and the value of now does not look at it.
    columns = row.columns
    columns["terminateds"][0, 0, seat] = columns["active"][0, 0, seat] = True
    columns["elapsed"][0, 0, seat] = 1
    columns["over"][0, 0] = True
    return row.batch()
