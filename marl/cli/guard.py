"""What a command says when something goes wrong: one message, never a traceback for what the user can mend."""

from __future__ import annotations

import _thread
import faulthandler
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from marl.errors import UserError, printable
from marl.failures import line_of_code, machine_failure, ran_own_code
from marl.storage import write_atomically

DEBUG = "--debug"
TRACEBACK = "error.txt"
AGAIN_S = 0.02  # seconds after which a Ctrl-C that was dropped comes again


def guarded(app: Callable[[], Any]) -> None:
    """Run a command line: mistakes of the user end with one clear message and code 2, never with a traceback."""
    # `kill -USR1 PID` prints where every thread stands: for runs that seem to hang.
    if hasattr(signal, "SIGUSR1") and sys.__stderr__ is not None:
        faulthandler.register(signal.SIGUSR1, file=sys.__stderr__, all_threads=True)
    _press_again_what_is_dropped()
    debug = _take_debug()
    try:
        app()
    except Exception as error:
        told = told_to_user(error)
        if told is None:
            raise
        if debug:
            traceback.print_exception(error)
        message = printable(told)
        more = _how_to_see_more(error, debug)
        print(f"error: {message}{more}", file=sys.stderr)
        sys.exit(told.exit_code)
    except KeyboardInterrupt:  # before a command has begun, or after it has ended
        print("stopped", file=sys.stderr)
        sys.exit(130)


def _press_again_what_is_dropped() -> None:
    """Whatever is raised within some libraries (pydantic's core) is dropped, with a traceback, and Ctrl-C would go with it."""
    tell = sys.unraisablehook

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        # A run has a handler of its own, for which a second Ctrl-C means another thing than the first.
        if dropped.exc_type is KeyboardInterrupt and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # A little later: what is raised here would be dropped as well.
            threading.Timer(AGAIN_S, _thread.interrupt_main).start()
        else:
            tell(dropped)

    sys.unraisablehook = hear


def _take_debug() -> bool:
    """Whether ``--debug`` was given, to the command or to one of its commands: people type it last."""
    words = sys.argv[1:]
    if DEBUG in words:
        # No command has such an option of its own.
        sys.argv[1:] = [word for word in words if word != DEBUG]
        return True
    return bool(os.environ.get("MARL_DEBUG"))


def told_to_user(error: Exception) -> UserError | None:
    """What the user is told, with the line of the user's own code where that has failed; None: it is a mistake of marl."""
    told = machine_failure(error)
    if isinstance(error, UserError):
        told = error
    failed = _failure_of_own_code(error)
    if failed is None:
        return told
    place = line_of_code(failed)
    if told is None:
        return UserError(f"your code raised {type(error).__name__}: {error}{place}.")
    if _file_and_line(place) in str(told):
        return told
    where = place.removeprefix(" (at ").removesuffix(")")
    longer = UserError(f"{told} Your code: {where}")
    longer.exit_code = told.exit_code
    return longer


def _failure_of_own_code(error: BaseException) -> BaseException | None:
    """The first of an error and its causes that came through a line of the user's."""
    for one in reversed(list(_causes(error))):
        if ran_own_code(one):
            return one
    return None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # Python lets an error be the cause of itself
        seen.add(id(error))
        yield error
        error = error.__cause__


def _file_and_line(place: str) -> str:
    """``/home/me/env.py:12`` of what ``line_of_code`` gives."""
    return place.partition(" (at ")[2].partition(",")[0]


def _how_to_see_more(error: BaseException, debug: bool) -> str:
    if debug or _failure_of_own_code(error) is None:
        return ""
    return f"\nThe whole traceback: the same command with {DEBUG}."


def keep_traceback(error: Exception, directory: Path | None) -> list[str]:
    """The whole traceback beside the results of a run that failed by the user's code; a line that says where."""
    if directory is None or not directory.is_dir():  # it failed before there was a place for results
        return []
    if _failure_of_own_code(error) is None:
        return []
    place = directory / TRACEBACK
    write_atomically(place, "".join(traceback.format_exception(error)))
    return [f"traceback: {place}"]
