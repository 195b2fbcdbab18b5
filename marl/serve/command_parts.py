"""What commands that serve begin with: their options, checked, and how they hear that they shall end. Imports no networks."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

from pydantic import ValidationError

from marl.config import Config, explain

Keys = TypeVar("Keys", bound=Config)


def checked_keys(keys: type[Keys], given: Mapping[str, Any], command: str) -> Keys:
    """The config class with these keys; what is wrong is told in the words of the command line."""
    try:
        return keys(**given)
    except ValidationError as error:
        raise explain(error, command, list(keys.model_fields)) from None


@contextmanager
def stop_wanted() -> Iterator[threading.Event]:
    """Set by Ctrl-C or SIGTERM, which do nothing else meanwhile: the server decides how it ends."""
    wanted = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        wanted.set()

    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield wanted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
