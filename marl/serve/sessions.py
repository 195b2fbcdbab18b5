"""Sessions: who a client is between two messages. An id is 128 random bits, so nobody can guess another's."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from marl.serve.limits import Limits, Rate
from marl.serve.open_episode import OpenEpisode
from marl.serve.refused import Refused, too_many


@dataclass(slots=True)
class Session:
    id: str
    rate: Rate
    name: str | None = None
    agents: frozenset[str] = frozenset()  # of the contract that it plays; empty: all
    mode: str = "remote"
    episodes: dict[str, OpenEpisode] = field(default_factory=dict)  # by the client's name, those that are over included
    touched: float = 0.0

    def open_episodes(self) -> list[OpenEpisode]:
        found = []
        for episode in self.episodes.values():
            if not episode.over:
                found.append(episode)
        return found


class Sessions:
    """All sessions of a hub, by id and by the name that a client chose."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.by_id: dict[str, Session] = {}
        self._by_name: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def find(self, id: object, now: float) -> Session:
        """A session that a message names; its clock starts anew."""
        session = self.by_id.get(str(id))
        if session is None:
            raise Refused(
                "unknown_session", "this session is unknown, or was silent for too long. Say hello again.", 404
            )
        session.rate.count(now)
        session.touched = now
        return session

    def named(self, name: str | None) -> Session | None:
        return self.by_id.get(self._by_name.get(name or "", ""))

    def check_room(self) -> None:
        if len(self.by_id) >= self.limits.max_sessions:
            raise too_many(f"there are {len(self.by_id)} sessions already.", retry_after=5.0)

    @staticmethod
    def new_id() -> str:
        return secrets.token_hex(16)

    def add(self, id: str, name: str | None, now: float) -> Session:
        session = Session(id, Rate(self.limits.max_rate, now), name, touched=now)
        self.by_id[id] = session
        if name is not None:
            self._by_name[name] = id
        return session

    def silent(self, now: float) -> list[Session]:
        """Sessions that nobody has used for too long and that have no open episode."""
        found = []
        for session in self.by_id.values():
            silent = now - session.touched > self.limits.session_timeout_s
            if silent and not session.open_episodes():
                found.append(session)
        return found

    def forget(self, session: Session) -> None:
        self.by_id.pop(session.id, None)
        name = session.name or ""
        if self._by_name.get(name) == session.id:
            del self._by_name[name]
