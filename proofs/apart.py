"""Work in a fresh process: it has imported nothing but what the work needs, and its death is told in words."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, TypeAlias

from marl.errors import TrainingError, UserError

News: TypeAlias = Callable[..., None]
"""Called here with whatever the work tells on its way."""


@dataclass(frozen=True)
class _Done:
    answer: Any


def apart(work: Callable[..., Any], *given: Any, news: News, name: str) -> Any:
    """Returns ``work(*given, tell)`` from a process of its own; every ``tell(...)`` there calls ``news(...)`` here.

    A ``UserError`` of the work is raised here. If the process dies (``kill``, no memory), a ``TrainingError`` says so. Work
    that tells something now and then ends by itself when this process is gone, because nobody listens any longer.
    """
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_live, args=(work, given, there))
    process.start()
    there.close()  # the process holds the other end, so its death is seen here
    try:
        while True:
            message = here.recv()
            if isinstance(message, _Done):
                return message.answer
            if isinstance(message, UserError):
                raise message
            news(*message)
    except EOFError:
        process.join()
        raise TrainingError(
            f"{name}: its process died (exit code {process.exitcode}); its last words are above."
        ) from None
    except KeyboardInterrupt:
        process.terminate()
        raise
    finally:
        process.join()


def _live(work: Callable[..., Any], given: tuple[Any, ...], there: Connection) -> None:
    """The whole life of such a process."""
    try:
        answer = work(*given, lambda *told: there.send(told))
        there.send(_Done(answer))
    except UserError as error:
        there.send(error)
    except (KeyboardInterrupt, BrokenPipeError):
        return  # the parent was told as well, or is gone
