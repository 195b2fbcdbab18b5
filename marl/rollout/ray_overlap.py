"""Ray workers that play the next round while learners learn (``collection: overlap``); see ``overlap``.

A worker is sent off again as soon as its own fragment has arrived. Everything else that is asked of the workers waits until
the fragments under way are there: they would come first in an actor's queue anyhow, and then all states are known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from marl.data.task import PolicyID
from marl.envs.batched import State
from marl.policies.policy import Policy
from marl.rollout.config import RolloutSpec
from marl.rollout.overlap import Overlapping
from marl.rollout.ray_pool import RayPool, finished
from marl.rollout.rollout_buffer import Collected, Rollout


class OverlapRayPool(Overlapping, RayPool):
    """A fragment per worker is under way while learners learn. Weights that are brought meanwhile queue up behind it, so
    it does not matter when they come."""

    def __init__(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> None:
        self._under_way: dict[int, Any] = {}  # worker to its fragment
        self._there: dict[int, Rollout] = {}  # worker to its fragment of a round that has not arrived as a whole
        self._orders: dict[int, tuple[Any, int, int]] = {}  # worker to weights, their version and steps of its fragment
        super().__init__(spec, policies)

    # -- collecting ------------------------------------------------------------------------------------------------

    def collect(self, steps: int) -> Collected:
        if self._ended:
            for index in self.indices:  # without asking: an actor that is being ended may still answer
                self._replace(index)
            self._ended = False
        self._there |= dict(zip(self.indices, self.ahead, strict=False))
        self.ahead = []
        for index in self.indices:
            if index not in self._under_way:  # nothing was played ahead, or it has arrived
                self._send_off(index, steps)
        while awaited := [index for index in self.indices if index not in self._there]:
            index = self._first_of(awaited)
            self._there[index] = self._arrived(index)
            self._send_off(index, steps)
        rollouts, self._there = [self._there[index] for index in self.indices], {}
        return self._hand_out(rollouts)

    def _send_off(self, index: int, steps: int) -> None:
        self._orders[index] = (self.weights, self.version, steps)
        self._under_way[index] = self.actors[index].collect.remote(steps, with_state=True)

    def _first_of(self, indices: list[int]) -> int:
        """One whose fragment is there; waits for the first."""
        ended = finished([self._under_way[index] for index in indices])
        return next(index for index in indices if self._under_way[index] in ended)

    def _arrived(self, index: int) -> Rollout:
        """The fragment of a worker; should the worker have died over it, another one plays it once more."""
        rollout: Rollout = self._answer(index, self._under_way[index], self._play_again)
        del self._under_way[index]
        self.states[index] = rollout.state
        self.tasks.pop(index, None)  # its state knows them: nobody is told anything while a fragment is under way
        return rollout

    def _play_again(self, actor: Any, index: int) -> Any:
        """With the weights of back then, although newer ones may have come."""
        weights, version, steps = self._orders[index]
        actor.set_weights.remote(weights, version)
        fragment = actor.collect.remote(steps, with_state=True)
        actor.set_weights.remote(self.weights, self.version)
        return fragment

    def _wait(self) -> None:
        """Until nothing is under way; what has arrived is the round ahead."""
        for index in list(self._under_way):
            self._there[index] = self._arrived(index)
        if self._there:
            self.ahead, self._there = [self._there[index] for index in self.indices], {}

    # -- the other verbs -------------------------------------------------------------------------------------------

    def _call(self, send: Callable[[Any, int], Any]) -> list[Any]:
        self._wait()
        return super()._call(send)

    def change_policies(self, spec: RolloutSpec, policies: Mapping[PolicyID, Policy]) -> int:
        self._forget()
        return super().change_policies(spec, policies)

    def sync_weights(self) -> None:
        """Waits for nobody: an actor takes the weights after the fragment that it is playing."""
        if self._changed():
            self._put(self._newest)
            self._tell_weights()

    def drop_ahead(self) -> None:
        self._wait()
        super().drop_ahead()

    @property
    def num_healthy_workers(self) -> int:
        """A worker that is still busy counts."""
        return self._healthy_without_waiting()

    def abandon_evaluation(self) -> None:
        self._wait()  # fragments come before the evaluation, and their states are needed
        super().abandon_evaluation()

    def state_dict(self) -> State:
        self._wait()
        return super().state_dict()

    def load_state_dict(self, state: State) -> None:
        self._under_way, self._there = {}, {}  # what is still being played belongs to the life before
        super().load_state_dict(state)
        self._tell_weights()  # by the version that they had in the saved run
