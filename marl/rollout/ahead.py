"""Rounds that were played before learners asked for them, and how old the weights were that played them.

A checkpoint holds such a round as it was played, so that a resumed run learns from it as the run before would have done.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from marl.data.batch import ENV_COLUMNS, ROW_COLUMNS, SEAT_COLUMNS, MultiAgentBatch
from marl.data.episode import EpisodeStats
from marl.data.task import PolicyID, Task
from marl.envs.batched import State
from marl.rollout.info_log import InfoLog
from marl.rollout.rollout_buffer import Rollout

RECENT = 100  # fragments that the reported lag covers


class PolicyLag:
    """By how many changes of the weights what was taken was older than the learners."""

    def __init__(self, lags: Sequence[int] = ()) -> None:
        self.recent: deque[int] = deque(lags, maxlen=RECENT)

    def note(self, lag: int) -> dict[str, float]:
        """One more fragment was taken; returns what the result's ``info`` says of the newest ones."""
        self.recent.append(lag)
        return self.numbers()

    def numbers(self) -> dict[str, float]:
        return {"policy_lag_mean": float(np.mean(self.recent)), "policy_lag_max": float(max(self.recent))}


def rollout_state(rollout: Rollout) -> State:
    """What a learner will be given, for a file. The worker's own state stands beside it; seconds are of the machine."""
    batch = rollout.batch
    columns = {name: getattr(batch, name) for name in (*ENV_COLUMNS, *SEAT_COLUMNS, *ROW_COLUMNS)}
    infos = None
    if batch.infos is not None:
        infos = _log_of(batch).state_dict()
    return {
        "columns": columns,
        "context": batch.context,
        "first_lane": batch.first_lane,
        "infos": infos,
        "episodes": vars(rollout.episodes),
        "decisions_lost": rollout.decisions_lost,
        "notes": list(rollout.notes),
        "version": rollout.version,
    }


def rollout_from(state: State, task: Task, policy_ids: Sequence[PolicyID]) -> Rollout:
    """The round that a file holds."""
    # Which copies played it says which lives its decisions belong to. Files of before do not say: they hold the first ones.
    first_lane = state.get("first_lane", 0)
    batch = MultiAgentBatch(
        task, tuple(policy_ids), **state["columns"], context=state["context"], first_lane=first_lane
    )
    if state["infos"] is not None:
        log = InfoLog()
        log.load_state_dict(state["infos"])
        log.put_into(batch)
    return Rollout(
        batch,
        EpisodeStats(**state["episodes"]),
        decisions_lost=state["decisions_lost"],
        notes=list(state["notes"]),
        version=state["version"],
    )


def _log_of(batch: MultiAgentBatch) -> InfoLog:
    log = InfoLog()
    log.said = batch.infos or {}
    return log
