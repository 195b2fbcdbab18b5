"""Ray workers that never wait for the learners, nor for each other (``collection: async``).

Each worker always has one fragment under way. ``collect`` takes the oldest fragment that is finished and at once sends its
worker off again with the newest weights; learning goes on beside it. What a learner gets was therefore played by weights
that are a few versions old::

    policy lag = version of the newest weights when a fragment is taken - version of the weights that played it

A version is a change of the weights: learners that only gather data make none. A worker whose fragment nobody has taken
yet rests, so workers never run far ahead of slow learners. Which fragment comes first depends on time, so runs do not
repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.policies.build import same_weights, weights_of
from marl.policies.policy import Policy
from marl.rollout.ahead import PolicyLag
from marl.rollout.config import RolloutSpec
from marl.rollout.ray_pool import RayPool, finished
from marl.rollout.rollout_buffer import Collected, Rollout
from marl.rollout.worker_policies import Weights


class AsyncRayPool(RayPool):
    """A round is one fragment of one worker. Calls other than ``collect`` queue up behind the fragments under way, which
    are kept; a checkpoint holds each worker as it was after its last fragment that was taken, so nothing is learned from
    twice or left out."""

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        self.under_way: dict[int, Any] = {}  # worker to its fragment, the longest under way first
        self.brought: dict[int, int] = {}  # worker to the version of the weights that it was sent
        self.lag = PolicyLag()
        self._newest: Weights = {}
        self._knew: dict[int, Any] = {}  # worker to what it had been told when its fragment began
        super().__init__(spec, policies)

    # -- collecting ------------------------------------------------------------------------------------------------

    def collect(self, steps: int) -> Collected:
        self._note_beginnings()
        if self.ahead:  # from the checkpoint of a run that played ahead: a round of all workers
            return self._take_ahead()
        for index in self.indices:
            if index not in self.under_way:
                self._send_off(index, steps)
        index = self._first_finished()
        rollout: Rollout = self._answer(index, self.under_way.pop(index), lambda actor, _: _play(actor, steps))
        self.states[index] = rollout.state
        if self.tasks.get(index) is self._knew.get(index):  # told before the fragment began, so its state knows
            self.tasks.pop(index, None)
        self._send_off(index, steps)
        rollout.extra = self.lag.note(self.version - rollout.version)
        rollout.batch.first_lane = (index - 1) * self.spec.config.num_envs_per_worker
        return rollout

    def _note_beginnings(self) -> None:
        """How workers stand before their first fragment."""
        if not self.states:
            self.states = dict(zip(self.indices, self._call(lambda actor, _: actor.state_dict.remote()), strict=True))

    def _send_off(self, index: int, steps: int) -> None:
        self._bring_weights(index)
        self._knew[index] = self.tasks.get(index)
        self.under_way[index] = _play(self.actors[index], steps)

    def _first_finished(self) -> int:
        """Of the fragments that are there the oldest one, so that no worker is passed over by faster ones."""
        ended = finished(list(self.under_way.values()))
        there = [index for index, reference in self.under_way.items() if reference in ended]
        return there[0]

    # -- weights ---------------------------------------------------------------------------------------------------

    def sync_weights(self) -> None:
        """Put the weights where workers take them from when they are next sent off; waits for nobody."""
        newest = weights_of(self.policies)
        if not same_weights(newest, self._newest):
            self._newest = newest
            self._put(newest)

    def _bring_weights(self, index: int) -> None:
        if self.brought.get(index) != self.version:
            self.actors[index].set_weights.remote(self.weights, self.version)
            self.brought[index] = self.version

    def _replace(self, index: int) -> None:
        super()._replace(index)
        self.brought[index] = self.version

    # -- the other verbs -------------------------------------------------------------------------------------------

    def _call(self, send: Callable[[Any, int], Any]) -> list[Any]:
        """Everybody answers with the newest weights, after the fragment that is under way."""
        for index in self.indices:
            self._bring_weights(index)
        return super()._call(send)

    @property
    def num_healthy_workers(self) -> int:
        """A worker that is still busy counts."""
        return self._healthy_without_waiting()

    def state_dict(self) -> State:
        self._note_beginnings()
        states = [self.states[index] for index in self.indices]
        return {"workers": states, "told": list(self.tasks.items()), **self._ahead_state()}

    def load_state_dict(self, state: State) -> None:
        self.under_way.clear()  # what is still being played belongs to the life before
        super().load_state_dict(state)


def _play(actor: Any, steps: int) -> Any:
    return actor.collect.remote(steps, with_state=True)
