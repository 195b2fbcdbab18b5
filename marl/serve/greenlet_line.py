"""How a slot of an acting loop waits for its client: the others play meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol, cast

from marl.data.task import AgentID
from marl.envs.base import Action
from marl.envs.external.steps import Answer, Episode, Step
from marl.serve.acting import ActingLoop
from marl.serve.slots import Slot


class Inbox(Protocol):
    """The episodes of a hub: steps are taken out of them as they arrive."""

    def take(self, t: int) -> Step | None: ...


class Desk(Protocol):
    """Through whom clients are answered: the hub."""

    def began(self, episode: Any, seed: int | None, slot: str) -> None: ...

    def answered(self, episode: Any, step: Step, answer: Answer) -> None: ...

    def left(self, episode: Any, step: Step, why: str) -> None: ...

    def recorded(self, episode: Any, t: int) -> Answer | None: ...


Details = Mapping[AgentID, Mapping[str, Any]]


def _no_details(slot: Slot) -> Details:
    del slot
    return {}


class GreenletLine:
    """One slot's end of the connection. ``details`` says what clients are told of the decisions of a step.

    ``first`` is an episode of a journal, which is played again up to where it was when the server ended.
    """

    def __init__(
        self,
        loop: ActingLoop,
        desk: Desk,
        details: Callable[[Slot], Details] = _no_details,
        first: Episode | None = None,
    ) -> None:
        self.loop, self.desk, self.details = loop, desk, details
        self._first, self._replays = first, first is not None
        self.episode: Episode | None = None  # that is played

    def next_episode(self, seed: int) -> Episode:
        self.episode = None
        if self._first is not None:
            self.loop.adopt(self._first)
            episode, self._first = self._first, None
        else:
            episode, self._replays = self.loop.wait_for_episode(), False
        self.episode = episode
        self.desk.began(episode, seed, self.loop.current.name)
        return episode

    def next_step(self, episode: Episode, t: int) -> Step:
        box = cast(Inbox, episode)
        step = box.take(t)
        while step is None:
            self.loop.park()
            step = box.take(t)
        self.loop.current.wanted = step.wanted
        return step

    def answer(self, episode: Episode, step: Step, actions: Mapping[AgentID, Action]) -> None:
        slot = self.loop.current
        told = self.details(slot)
        slot.decided = []
        if self._replays:
            actions = self._told_before(episode, step, actions)
        self.desk.answered(episode, step, Answer(actions, slot.take_version(self.loop.version), told))

    def _told_before(self, episode: Episode, step: Step, actions: Mapping[AgentID, Action]) -> Mapping[AgentID, Action]:
        """What the client was told before the server ended: where actions are drawn, others would be drawn now."""
        before = self.desk.recorded(episode, step.t)
        if before is None:
            self._replays = False
            return actions
        return before.actions

    def leave(self, episode: Episode, step: Step) -> None:
        self.desk.left(episode, step, "the run has cut it off")

    def rejoin(self, episode_id: str, t: int) -> tuple[Episode, Step] | None:
        """Episodes that are only played are not taken up again."""
        del episode_id, t
        return None
