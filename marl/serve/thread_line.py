"""How copies of an env wait for clients in threads: between the network's thread and those of the copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from threading import Condition
from typing import Any

from marl.data.task import AgentID
from marl.envs.base import Action
from marl.envs.external.contract import Contract
from marl.envs.external.steps import Answer, Episode, Step
from marl.errors import StoppedWaitingError
from marl.serve.hub import Hub
from marl.serve.open_episode import OpenEpisode
from marl.serve.own_actions import OwnActions

NOT_HERE = (
    "this run learns in lock-step from every episode, so none is only played. Start it with training: true, or play against "
    "the trained policies by marl serve RUN."
)


class WaitingStage:
    """Episodes that clients have begun, for copies that wait in threads (a hub's ``Stage``).

    ``changed`` is called, in any thread, whenever another number of copies waits for an episode.
    """

    training, lock_step, no_play = True, True, NOT_HERE

    def __init__(self, contract: Contract, told: list[dict[str, Any]], own: OwnActions) -> None:
        self.contract: Contract | None = contract
        self.version = 0
        self.no_log, self.own_needs, self.own_why = own.refused, own.needed, own.why
        self._told = told
        self.hub: Hub
        self.changed: Callable[[int], None] = _tell_nobody
        self._news = Condition()
        self._offered: deque[OpenEpisode] = deque()
        self._waiting = 0  # copies without an episode
        self._stopped = False

    # -- called by the hub, in the network's thread ------------------------------------------------------------------

    def agree(self, contract: Contract) -> None:
        """Nothing is left to be agreed on."""

    def policies(self) -> list[dict[str, Any]]:
        return self._told

    def begin(self, episode: OpenEpisode) -> None:
        with self._news:
            self._offered.append(episode)
            self._news.notify_all()

    def arrived(self, episode: OpenEpisode) -> None:
        del episode  # few copies wait, and each looks by itself
        with self._news:
            self._news.notify_all()

    # -- called by copies --------------------------------------------------------------------------------------------

    def wait_for_episode(self) -> OpenEpisode:
        """The episode that has waited for longest; an episode whose client left meanwhile is passed over."""
        with self._news:
            self._count_waiting(+1)
            try:
                while True:
                    while self._offered:
                        episode = self._offered.popleft()
                        if not episode.over:  # its client may have left while it waited
                            return episode
                    self._wait()
            finally:
                self._count_waiting(-1)

    def wait_for_step(self, episode: OpenEpisode, t: int) -> Step:
        with self._news:
            step = episode.take(t)
            while step is None:
                self._wait()
                step = episode.take(t)
            return step

    def _wait(self) -> None:
        # Only here: a copy that has its step goes on to the next wait, so a round is left at a clean place.
        if self._stopped:
            raise StoppedWaitingError("the run was stopped while it waited for clients.")
        self._news.wait()

    def _count_waiting(self, change: int) -> None:
        self._waiting += change
        self.changed(self._waiting)

    def stop(self) -> None:
        """Whoever waits, or comes to wait, is told to stop."""
        with self._news:
            self._stopped = True
            self._news.notify_all()


def _tell_nobody(waiting: int) -> None:
    del waiting


class ThreadLine:
    """One copy's end of the connection. Its thread sleeps until a client has said something."""

    def __init__(self, stage: WaitingStage, slot: str) -> None:
        self.stage, self.slot = stage, slot
        self._last: str | None = None  # the episode that was played here last

    def next_episode(self, seed: int) -> Episode:
        # After a restart a slot plays its own episodes again, in their order, before it takes new ones.
        episode = self.stage.hub.next_bound(self.slot, self._last)
        if episode is None:
            episode = self.stage.wait_for_episode()
        self.stage.hub.began(episode, seed, self.slot)
        self._last = episode.id
        return episode

    def next_step(self, episode: Episode, t: int) -> Step:
        assert isinstance(episode, OpenEpisode)
        return self.stage.wait_for_step(episode, t)

    def answer(self, episode: Episode, step: Step, actions: Mapping[AgentID, Action]) -> None:
        assert isinstance(episode, OpenEpisode)
        self.stage.hub.answered(episode, step, Answer(actions, self.stage.version))

    def leave(self, episode: Episode, step: Step) -> None:
        assert isinstance(episode, OpenEpisode)
        self.stage.hub.left(episode, step, "the run has cut it off")

    def rejoin(self, episode_id: str, t: int) -> tuple[Episode, Step] | None:
        episode = self.stage.hub.episode(episode_id)
        if episode is None:
            return None
        step = episode.take(t)
        if step is None:
            return None
        self._last = episode_id
        return episode, step
