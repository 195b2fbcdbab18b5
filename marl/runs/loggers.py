"""Loggers of the user's own: whatever wants every result of a run, beside the files that are always written.

A logger is an object with ``write(result)`` and ``close()``; what is registered builds one::

    class Lines:
        def __init__(self, directory, params):
            self.file = open(directory / "rewards.txt", "a")

        def write(self, result):
            print(result["timesteps_total"], result["episode_reward_mean"], file=self.file, flush=True)

        def close(self):
            self.file.close()

    marl.register_logger("lines", Lines)

and ``loggers: [lines]`` uses it; ``loggers: [package.module:Lines]`` needs no registration.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from marl.errors import ConfigError, LoggerError, let_through
from marl.failures import call_own, line_of_code
from marl.registry import Registry, load_object
from marl.trust import Sort

log = logging.getLogger(__name__)


class Logger(Protocol):
    """What a run asks of a logger."""

    def write(self, result: Mapping[str, Any]) -> None:
        """One iteration's result, exactly as it stands in ``result.json``."""

    def close(self) -> None:
        """The run has ended, or goes on elsewhere."""


LoggerFactory: TypeAlias = Callable[[Path, Mapping[str, Any]], Logger]
"""From the run directory and the run's keys, as ``params.json`` has them, to a logger."""

OWN = " One of your own is named package.module:Class, or registered by marl.register_logger in a module under imports."
LOGGERS: Registry[LoggerFactory] = Registry("logger", OWN)
LOGGER = Sort("logger", creators=True)


def register_logger(name: str, factory: LoggerFactory) -> None:
    """Let ``loggers: [name]`` find this class or function ``(directory, params) -> an object with write(result), close()``."""
    LOGGERS.add(name, _checked(name, factory))


def find_logger(name: str) -> LoggerFactory:
    """What builds the logger of a registered name or ``package.module:Class``."""
    if ":" not in name:
        return LOGGERS[name]
    return _checked(name, load_object(name, LOGGER))


def _checked(name: str, factory: Any) -> LoggerFactory:
    if not callable(factory):
        raise ConfigError(f"logger {name!r} is {factory!r}; expected a class or a function of (directory, params).")
    found: LoggerFactory = factory
    return found


class RunLoggers:
    """The loggers of one run directory, by their names."""

    def __init__(self, names: Iterable[str]) -> None:
        self._factories = {name: find_logger(name) for name in names}
        self._open: dict[str, Logger] = {}

    def open(self, directory: Path, params: Mapping[str, Any]) -> None:
        """Build all of them, for results that go to this directory; those of another directory are closed."""
        self.close()
        for name, factory in self._factories.items():
            logger = call_own(f"logger {name!r}, built for a run,", factory, directory, params)
            # Now, and not at the first result: by then an iteration of work would be at stake.
            for verb in ("write", "close"):
                if callable(getattr(logger, verb, None)):
                    continue
                raise ConfigError(
                    f"logger {name!r} is a {type(logger).__name__} without {verb}(); expected an object with "
                    "write(result) and close()."
                )
            self._open[name] = logger

    def write(self, result: Mapping[str, Any]) -> None:
        for name, logger in self._open.items():
            try:
                logger.write(deepcopy(dict(result)))  # what one changes, the next does not see
            except BaseException as error:
                let_through(error)
                # The result is on the disk by now: nothing is lost, whatever a logger does.
                raise LoggerError(
                    f"logger {name!r} failed at the result of iteration {result.get('training_iteration')}: "
                    f"{type(error).__name__}: {error}{line_of_code(error)}. The result itself is in result.json, and the "
                    "run can go on from there. Mend the logger, or take it out of `loggers`."
                ) from error

    def close(self) -> None:
        """What goes wrong is a warning: all results are in."""
        # Forgotten first: whatever happens below, none of them is closed twice.
        loggers, self._open = self._open, {}
        for name, logger in loggers.items():
            try:
                logger.close()
            except BaseException as error:
                let_through(error)
                log.warning(
                    "logger %r: close() raised %s: %s%s", name, type(error).__name__, error, line_of_code(error)
                )
