"""Collecting the next round while learners learn (``collection: overlap``).

``collect`` hands out round k and has round k + 1 begun at once, with the weights of that moment::

    weights that act in round k = weights after learning from round k - 2        (in rounds 1 and 2: the first weights)

This follows from the order of the calls and never from time, so runs repeat bit for bit, on Ray as in one process. Whatever
else is asked of the workers comes after the round that is under way: they stand one round further than the learners. Here is
what both pools share, and the reference: workers of this process, which gives the same numbers and saves no time.
``ray_overlap`` does the same on Ray actors, where learning and playing take place at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.policies.build import same_weights, weights_of
from marl.policies.policy import Policy
from marl.rollout.ahead import PolicyLag
from marl.rollout.config import RolloutSpec
from marl.rollout.pool import InProcessPool, WorkerPool, concat_rollouts
from marl.rollout.rollout_buffer import Collected, Rollout
from marl.rollout.worker_policies import Weights


class Overlapping(WorkerPool):
    """What is the same wherever the workers live: the lag, and what becomes of the round ahead."""

    version: int  # of the newest weights: a change of them, so rounds in which learners only gather make none

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        self.lag = PolicyLag()
        self._newest: Weights = {}
        super().__init__(spec, policies)

    def _changed(self) -> bool:
        """Whether the learners' weights are others than when this was last asked."""
        newest = weights_of(self.policies)
        if same_weights(newest, self._newest):
            return False
        self._newest = newest
        return True

    def _hand_out(self, rollouts: Sequence[Rollout]) -> Collected:
        collected = concat_rollouts(rollouts)
        collected.extra = self.lag.note(self.version - rollouts[0].version)
        return collected

    def enter_stage(self, stage: int) -> int:
        """What was played ahead belongs to the stage before: its episodes would count for the new one."""
        self.drop_ahead()
        return super().enter_stage(stage)

    def _forget(self) -> None:
        """Policies change: what was played ahead was played by some that may be no more."""
        self.drop_ahead()
        self._newest = {}  # workers build theirs anew, so they need the weights even where these are the same

    def _ahead_state(self) -> State:
        return {**super()._ahead_state(), "version": self.version, "lags": list(self.lag.recent)}

    def _load_ahead(self, state: State) -> None:
        super()._load_ahead(state)
        # A checkpoint of a run that did not overlap until now knows neither.
        self.version = state.get("version", self.version)
        self.lag = PolicyLag(state.get("lags", ()))


class OverlapPool(Overlapping, InProcessPool):
    """The reference of overlapping Ray workers: the next round is played before the learners get this one."""

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        self.version = -1  # the first weights are version 0
        super().__init__(spec, policies)
        self.sync_weights()

    def collect(self, steps: int) -> Collected:
        rollouts = self.ahead or self._play(steps)
        self.ahead = self._play(steps)
        return self._hand_out(rollouts)

    def sync_weights(self) -> None:
        """Workers act with the trainer's own policies; only the version is counted."""
        if self._changed():
            self.version += 1
            self._tell_version()

    def _tell_version(self) -> None:
        for worker in self.workers:
            worker.version = self.version

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        self._forget()
        cut = super().change_policies(spec, policies)
        self.sync_weights()
        return cut

    def _load_ahead(self, state: State) -> None:
        super()._load_ahead(state)
        self._tell_version()
