"""What the routes of ``marl watch`` share: the results folder, the processes that play, and the work that is under way."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marl.errors import ConfigError
from marl.serve.config import ServerConfig
from marl.serve.refused import Refused, internal
from marl.serve.tokens import Token
from marl.storage import make_folder
from marl.watch.episode_request import inside
from marl.watch.jobs import Jobs
from marl.watch.workers import Worker

ASKED_S = 180.0  # a process has to start and import, and the machine may be busy with trainings


@dataclass
class Desk:
    """One ``marl watch``. ``quick`` answers what people wait for, ``slow`` does what takes long, ``play`` holds the games of
    people: each is one process."""

    root: Path  # the results folder
    config: ServerConfig
    secret: str  # the token of this session
    allow: frozenset[str] = frozenset()  # modules that files may name
    demo: bool = False
    quick: Worker = field(default_factory=lambda: Worker("quick"))
    slow: Worker = field(default_factory=lambda: Worker("slow"))
    play: Worker = field(default_factory=lambda: Worker("play"))  # games with people, apart from all that takes long

    def __post_init__(self) -> None:
        self.token = Token(self.secret)
        self.jobs = Jobs()
        self.seen = threading.Event()  # somebody has come with the token
        self.rooms: Any = None  # games of people, see watch/play/rooms.py
        self.closing: list[Any] = []  # functions to call at the end, such as those that stop what a view has begun

    def check_token(self, shown: object) -> None:
        if not self.token.fits(shown):
            raise Refused(
                "unauthorized",
                "the token of this session is needed: open the address that marl watch printed when it started.",
                401,
            )
        self.seen.set()

    def inside(self, name: str) -> Path:
        """A folder or file of the results by its name in them; nothing outside of them can be named."""
        return inside(self.root, name)

    async def ask(self, task: str, arguments: Mapping[str, Any]) -> Any:
        """What a page waits for without a job. It can stop nothing, so an env that hangs is ended here."""
        return await self.quick.call(task, arguments, limit_s=ASKED_S)

    # -- of the guard ------------------------------------------------------------------------------------------------

    def failure(self, error: BaseException) -> Refused:
        return internal(error)

    def told(self, refused: Refused) -> dict[str, Any]:
        return refused.to_json()

    def close(self) -> None:
        try:
            for end in self.closing:
                end()
        finally:  # whatever happens there: no process is left behind
            for worker in (self.quick, self.slow, self.play):
                worker.close()


def results_folder(given: Path, demo: bool = False) -> Path:
    """The folder to watch; it may be empty, but has to be there. The demo, which trains something itself, makes it."""
    root = given.expanduser()
    if demo:
        make_folder(root)
    if not root.is_dir():
        raise ConfigError(
            f"there is no folder {root}. Give one with runs in it, or train something first: marl run two_step_game."
        )
    return root


def new_secret() -> str:
    return secrets.token_urlsafe(32)
