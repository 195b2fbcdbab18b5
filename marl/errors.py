"""Named errors. Every message says what happened, what was got, what was expected and what to do.

``UserError`` is the parent of everything that a user can mend; the command line prints its text
without a traceback and exits with code 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class UserError(Exception):
    """Something that the user can mend: bad input, a bad world, a damaged file."""


class ConfigError(UserError):
    """A scenario or a config key is wrong."""


class UnknownNameError(ConfigError):
    """A name is not registered."""


class UnknownPolicyError(ConfigError):
    """An agent was sent to a policy that does not exist."""


class SpaceMismatchError(ConfigError):
    """A policy was asked to play agents whose spaces it does not fit."""


class EnvError(UserError):
    """A world broke its contract or crashed."""


class EnvTimeoutError(EnvError):
    """A world did not answer in time."""


class ChanceError(EnvError):
    """What a world says about its own chance (``chance_outcomes()``) is not true."""


class PolicyError(UserError):
    """A policy could not act."""


class CallbackError(UserError):
    """A user's callback failed, or gave what cannot be used."""


class CheckpointError(UserError):
    """A checkpoint is missing, damaged or does not fit."""


class DataError(UserError):
    """Recorded episodes are missing, damaged, or of another world."""


class TrainingError(UserError):
    """Training cannot go on, for instance because a loss became NaN."""


class GoalMissedError(UserError):
    """A run did not reach what was asked of it (``marl.testing``)."""


class ResourceError(UserError):
    """The run asks for more than the machine or the cluster can ever give."""


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """A sentence `` Did you mean 'x'?`` for the nearest known name, or nothing."""
    matches = get_close_matches(str(name).lower(), [str(k).lower() for k in known], n=1, cutoff=0.6)
    if not matches:
        return ""
    original = next(str(k) for k in known if str(k).lower() == matches[0])
    return f" Did you mean {original!r}?"
