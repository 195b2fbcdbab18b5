"""``fake_sampler``: one round of play, handed to the learners again and again.

Envs and policies are left alone after the first round, so what an iteration takes is what learning takes. Nothing is learned
about the env beyond that round, and its episodes are counted once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from marl.data.episode import EpisodeStats
from marl.rollout.ahead import rollout_from, rollout_state
from marl.rollout.pool import WorkerPool
from marl.rollout.rollout_buffer import Collected, Rollout


class SameRound:
    """The workers' first round, as often as it is asked for."""

    def __init__(self, workers: WorkerPool) -> None:
        self.workers = workers
        self.round: Collected | None = None

    def collect(self, steps: int) -> Collected:
        if self.round is not None:
            return self.round
        first = self.workers.collect(steps)
        if not first.agent_steps:  # learners of whole episodes may have to wait for the first one to end
            return first
        # Neither the episodes nor the seconds of playing come again.
        self.round = replace(first, episodes=EpisodeStats.empty(), decisions_lost=0, notes=[], seconds={})
        return first

    def state_dict(self) -> dict[str, Any]:
        """The round itself: a run that is resumed cannot play it again, as its policies have changed."""
        if self.round is None:
            return {"round": None}
        state: dict[str, Any] = rollout_state(Rollout(self.round.batch, self.round.episodes))
        return {"round": state, "policies": list(self.round.batch.policy_ids)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        if state["round"] is not None:
            self.round = rollout_from(state["round"], self.workers.spec.task, state["policies"])
