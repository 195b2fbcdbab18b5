"""What the routes of ``marl watch`` share: the results folder, the processes that play, and the work that is under way."""

from __future__ import annotations

import secrets
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


@dataclass
class Desk:
    """One ``marl watch``. ``quick`` answers what people wait for, ``slow`` does what takes long: each is one process."""

    root: Path  # the results folder
    config: ServerConfig
    secret: str  # the token of this session
    allow: frozenset[str] = frozenset()  # modules that files may name
    demo: bool = False
    quick: Worker = field(default_factory=lambda: Worker("quick"))
    slow: Worker = field(default_factory=lambda: Worker("slow"))

    def __post_init__(self) -> None:
        self.token = Token(self.secret)
        self.jobs = Jobs()
        self.closing: list[Any] = []  # functions to call at the end, such as those that stop what a view has begun

    def check_token(self, shown: object) -> None:
        if not self.token.fits(shown):
            raise Refused(
                "unauthorized",
                "the token of this session is needed: open the address that marl watch printed when it started.",
                401,
            )

    def inside(self, name: str) -> Path:
        """A folder or file of the results by its name in them; nothing outside of them can be named."""
        return inside(self.root, name)

    # -- of the guard ------------------------------------------------------------------------------------------------

    def failure(self, error: BaseException) -> Refused:
        return internal(error)

    def told(self, refused: Refused) -> dict[str, Any]:
        return refused.to_json()

    def close(self) -> None:
        for end in self.closing:
            end()
        self.quick.close()
        self.slow.close()


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
