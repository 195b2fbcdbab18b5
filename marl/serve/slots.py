"""Slots: the places of an acting loop in which episodes are played, and policies as they see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

import numpy as np
from greenlet import greenlet
from numpy.typing import NDArray

from marl.data.task import Array, Floats, PolicyID
from marl.envs.external.steps import Episode
from marl.policies.policy import Decision, Inputs, Policy
from marl.serve.passes import Request

Body: TypeAlias = Callable[[], None]
Failed: TypeAlias = Callable[[BaseException], None]


class Slot:
    """A place where one episode after another is played. ``failed`` hears of what its body raises."""

    def __init__(self, name: str, body: Body, failed: Failed) -> None:
        self.name = name
        self._body, self.failed = body, failed
        # It belongs to the thread in which it is made, and comes back to where it was switched to from.
        self._greenlet = greenlet(self._play)
        self.episode: Episode | None = None  # that is played now
        self.has_played = False
        self.error: BaseException | None = None  # with which it ended
        self.wanted: frozenset[str] = frozenset()  # details that the step which is played now should be answered with
        self.version: int | None = None  # of the oldest weights that decided something in this step
        self.decided: list[tuple[PolicyID, Request]] = []  # since the last answer

    def _play(self) -> None:
        try:
            self._body()
        except BaseException as error:  # a greenlet's own failures would end the loop that it comes back to
            self.error = error
            self.failed(error)

    @property
    def dead(self) -> bool:
        return bool(self._greenlet.dead)

    def go_on(self) -> None:
        """Play until it waits again."""
        self._greenlet.switch()

    def park(self) -> None:
        """Called by what is played here: back to whoever let it go on."""
        self._greenlet.parent.switch()

    def end(self) -> None:
        """Leave it where it waits; it is nobody's failure."""
        self.failed = _ignore
        self._greenlet.throw()

    def take_version(self, now: int) -> int:
        """The version for the answer to this step; the next step begins anew."""
        version, self.version = self.version, None
        return now if version is None else version


class Asked(Protocol):
    """Who makes decisions for slots: the loop."""

    def ask(self, policy: PolicyID, inputs: Inputs, carry: Floats, explore: bool) -> Decision: ...


class SharedPolicy(Policy):
    """A policy as slots see it: it looks like the real one, but its decisions are made together with those of others."""

    def __init__(self, name: PolicyID, policy: Policy, loop: Asked) -> None:
        super().__init__(policy.kind)
        self.name, self._loop = name, loop
        self._real = (policy,)  # in a tuple, so that torch does not take it for a part of this one
        self.env_units, self.carry_size = policy.env_units, policy.carry_size
        self.remembers_reward, self.draws_lots = policy.remembers_reward, policy.draws_lots
        # Statistics, exploration and workers are a matter of the real policy's owner.
        self.keeps_statistics = self.anneals = self.differs_by_worker = False

    def act(self, inputs: Inputs, carry: Floats, rng: np.random.Generator, *, explore: bool) -> Decision:
        del rng  # one pass has one generator, the loop's
        return self._loop.ask(self.name, inputs, carry, explore)

    def draw(self, episode_uniform: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._real[0].draw(episode_uniform)

    # Whoever looks at the weights wants those that decide.
    def get_weights(self) -> dict[str, Array]:
        return self._real[0].get_weights()


def _ignore(error: BaseException) -> None:
    del error
