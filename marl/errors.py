"""Named errors. Every message says what happened, what was got, what was expected and what to do.

``UserError`` is the parent of everything that a user can mend; the command line prints its text
without a traceback and exits with its ``exit_code``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something that the user can mend: bad input, a bad env, a damaged file."""

    exit_code = 2  # of the command; 1 where a run had begun and can go on


class ConfigError(UserError):
    """A scenario or a config key is wrong."""


class UnknownNameError(ConfigError):
    """A name is not registered."""


class UnknownPolicyError(ConfigError):
    """An agent was sent to a policy that does not exist."""


class SpaceMismatchError(ConfigError):
    """A policy was asked to play agents whose spaces it does not fit."""


class EnvError(UserError):
    """An env broke its contract or crashed."""


class EnvTimeoutError(EnvError):
    """An env did not answer in time."""


class StoppedWaitingError(EnvError):
    """The run was told to stop while it waited for clients of an external env. Nothing is wrong."""


class ChanceError(EnvError):
    """What an env says about its own chance (``chance_outcomes()``) is not true."""


class PolicyError(UserError):
    """A policy could not act."""


class CallbackError(UserError):
    """A user's callback failed, or gave what cannot be used."""


class LoggerError(UserError):
    """A user's own logger failed at a result; the run can go on from its last checkpoint."""

    exit_code = 1


class HubError(UserError):
    """The Hugging Face Hub, or what it holds, is not as expected."""


class CheckpointError(UserError):
    """A checkpoint is missing, damaged or does not fit; ``reason`` is the short form, without a remedy."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message


class RunLockedError(UserError):
    """Another process is writing to the run directory."""


class DataError(UserError):
    """Recorded episodes are missing, damaged, or of another env."""


class JournalError(UserError):
    """The journal of a server is missing, damaged, or tells what cannot have happened."""


class TrainingError(UserError):
    """Training cannot go on, for instance because a loss became NaN."""


class RayLostError(TrainingError):
    """Ray's own processes died under a run; it can go on from its last checkpoint."""

    exit_code = 1


class ExamProcessError(TrainingError):
    """The process that measures exploitability beside a run ended without an answer."""


class GoalMissedError(UserError):
    """A run did not reach what was asked of it (``marl.testing``)."""


class ResourceError(UserError):
    """The run asks for more than the machine or the cluster can ever give."""


class StorageError(UserError, OSError):
    """A file could not be written: the disk is full, or the place may not be written to."""


class CheckpointWriteError(CheckpointError, StorageError):
    """A checkpoint could not be written; the older ones are as they were."""


class OutOfMemoryError(ResourceError):
    """Memory ran out while the run was under way."""


def let_through(error: BaseException) -> None:
    """Whatever a user's code raises is told as its fault, also ``SystemExit``; but Ctrl-C is the user's own wish."""
    if isinstance(error, KeyboardInterrupt | GeneratorExit):
        raise error


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A sentence `` Did you mean 'x'?`` for the nearest known name, or nothing."""
    # Compared without regard to case, told as it is spelled; of names that differ by case alone, the first.
    spelled: dict[str, str] = {}
    for one in known:
        spelled.setdefault(str(one).lower(), str(one))
    matches = get_close_matches(str(name).lower(), spelled, n=1, cutoff=0.6)
    if not matches:
        return ""
    return f" Did you mean {spelled[matches[0]]!r}?"


# Control characters (a terminal obeys some of them) and those that turn the direction of writing; not tab and new line.
_UNSEEN = re.compile(
    "[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u061c\\u200e\\u200f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]"
)


def printable(text: object) -> str:
    """The text as it may be printed, wherever it comes from: a character that a terminal would obey is spelled out."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], str(text))
