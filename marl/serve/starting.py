"""The message start: an episode begins when all of its parties want it and whoever plays has a place for it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from marl.serve.desk import Choosy, Desk
from marl.serve.messages import START_KEYS, check_keys, flag, text, whole
from marl.serve.open_episode import OpenEpisode, Party, Waiter
from marl.serve.refused import Refused, too_many
from marl.serve.sessions import Session

MOST_PARTIES = 64


class Starting:
    """Answers start."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any] | Waiter:
        check_keys("start", message, START_KEYS)
        desk = self.desk
        session = desk.sessions.find(message.get("session"), desk.clock())
        name = secrets.token_hex(16)
        if message.get("episode") is not None:
            name = text("start", message, "episode")
        training = flag(message.get("training"), True, key="training") and desk.stage.training
        parties = 1
        if message.get("parties") is not None:
            parties = whole("start", message, "parties", 1, MOST_PARTIES)
        episode = session.episodes.get(name)
        if episode is not None:
            return self._again(episode, training, parties)
        return self._new(session, name, training, parties)

    def _new(self, session: Session, name: str, training: bool, parties: int) -> dict[str, Any] | Waiter:
        desk = self.desk
        if (session.id, name) in desk.over_names:
            raise Refused("ended", f"episode {name!r} is over. Choose another id.", 410)
        if not training and isinstance(desk.stage, Choosy) and desk.stage.no_play:
            raise Refused("not_learnable", desk.stage.no_play, 409)
        desk.check_room()
        self._check_join(session, name, training, parties)
        line = {"kind": "start", "session": session.id, "episode": name, "training": training, "parties": parties}
        desk.write(line)
        with desk.counting():
            episode = desk.join(session, name, training, parties)
            if episode.full:
                desk.stage.begin(episode)
        return self._wait(episode)

    def _again(self, episode: OpenEpisode, training: bool, parties: int) -> dict[str, Any] | Waiter:
        if (episode.training, episode.parties) != (training, parties):
            raise Refused("conflict", f"episode {episode.name!r} was started with other values before.", 409)
        if episode.over and not episode.bound:
            raise Refused("ended", f"episode {episode.name!r} is over: {episode.over}.", 410)
        if not episode.bound:
            self.desk.check_room()
        self.desk.counters.repeated += 1
        return self._wait(episode)

    def _wait(self, episode: OpenEpisode) -> dict[str, Any] | Waiter:
        if episode.bound:
            return started(episode)
        waiter = self.desk.delivery.waiter()
        episode.start_waiters = [known for known in episode.start_waiters if not known.done()]  # the others hung up
        episode.start_waiters.append(waiter)
        return waiter

    def _check_join(self, session: Session, name: str, training: bool, parties: int) -> None:
        desk, shared = self.desk, None
        if parties > 1:
            shared = desk.shared.get(name)
            if f"shared/{name}" in desk.over:
                raise Refused(
                    "ended",
                    f"the shared episode {name!r} is over. Choose another id.",
                    410,
                )
        if shared is None:
            self._check_place()
            return
        same_values = (shared.training, shared.parties) == (training, parties)
        if shared.full or not same_values:
            raise Refused(
                "conflict",
                f"the shared episode {name!r} has its parties already, or other values. Choose another id.",
                409,
            )
        _check_apart(Party(session.id, session.agents), shared)

    def _check_place(self) -> None:
        open_now = len(self.desk.episodes)
        if open_now >= self.desk.limits.max_episodes:
            raise too_many(
                f"there are {open_now} open episodes already.",
                retry_after=1.0,
            )


def started(episode: OpenEpisode) -> dict[str, Any]:
    """The answer to start, the same each time."""
    return {
        "episode": episode.name,
        "seed": episode.seed,
        "training": episode.training,
        "version": episode.version,
    }


def _check_apart(new: Party, episode: OpenEpisode) -> None:
    """Parties of an episode play different agents."""
    for other in episode.members.values():
        both_say_which = bool(new.agents and other.agents)  # without agents: all
        overlap = [*filter(new.plays, other.agents), *filter(other.plays, new.agents)]
        if overlap or not both_say_which:
            raise Refused(
                "conflict",
                f"two parties of {episode.name!r} play the same agents. Say in hello which agents each of them plays.",
                409,
            )
