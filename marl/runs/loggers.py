"""Loggers: whatever wants every result of a run. Some are built in, others the user's own.

``json`` and ``csv`` name files that every run writes, because marl reads them itself; ``tensorboard`` is written unless a list
names files and leaves it out. ``wandb`` and ``mlflow`` are packages that only those install who want them.

A logger is an object with ``write(result)`` and ``close()``; what is registered builds one::

    class Lines:
        def __init__(self, directory, params):
            self.file = open(directory / "rewards.txt", "a")

        def write(self, result):
            print(result["timesteps_total"], result["episode_reward_mean"], file=self.file, flush=True)

        def close(self):
            self.file.close()

    marl.register_logger("lines", Lines)

and ``loggers: [lines]`` uses it; ``loggers: [package.module:Lines]`` needs no registration. ``loggers: [{lines: {path: x}}]``
gives it the key ``path`` as well.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from pydantic import ValidationError

from marl.config import explain
from marl.errors import ConfigError, LoggerError, ResourceError, let_through
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


LoggerFactory: TypeAlias = Callable[..., Logger]
"""From the run directory, the run's keys as ``params.json`` has them, and the keys of the entry to a logger."""
Entry: TypeAlias = str | Mapping[str, Mapping[str, Any] | None]
"""One of ``loggers``: a name, or a name with keys."""


@dataclass(frozen=True)
class RunFile:
    """A file that a run writes by itself (``marl.runs.files``): here it has a name to be chosen by."""

    always: bool  # marl itself reads it


@dataclass(frozen=True)
class Service:
    """A logger that needs a package of its own, which is imported when a run begins."""

    package: str
    extra: str  # of marl, that brings the package
    factory: str  # module:Class; builds the logger
    keys: str  # module:Class; the keys of its entry, which is imported without the package
    places: frozenset[str] = frozenset()  # keys that lead out of this machine

    def check(self, name: str, keys: Mapping[str, Any]) -> None:
        """Refuse unknown keys, and say what to install, before anything is built."""
        known = _imported(self.keys)
        try:
            known(**keys)
        except ValidationError as error:
            raise explain(error, f"loggers, {name}", known.model_fields) from None
        if importlib.util.find_spec(self.package) is None:
            raise ResourceError(
                f"logger {name!r} needs the package {self.package}, which is not installed. Install it: "
                f'pip install "marl[{self.extra}]", or take it out of `loggers`.'
            )

    def __call__(self, directory: Path, params: Mapping[str, Any], **keys: Any) -> Logger:
        made: Logger = _imported(self.factory)(directory, params, _imported(self.keys)(**keys))
        return made


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


OWN = " One of your own is named package.module:Class, or registered by marl.register_logger in a module under imports."
LOGGERS: Registry[LoggerFactory | RunFile] = Registry("logger", OWN)
LOGGER = Sort("logger", creators=True)
TENSORBOARD = "tensorboard"
LOGGERS.register("json", RunFile(always=True))
LOGGERS.register("csv", RunFile(always=True))
LOGGERS.register(TENSORBOARD, RunFile(always=False))
LOGGERS.register(
    "wandb",
    Service(
        "wandb",
        "wandb",
        "marl.runs.tracking.wandb_run:begin_wandb",
        "marl.runs.tracking.keys:WandbKeys",
        frozenset({"mode"}),
    ),
)
LOGGERS.register(
    "mlflow",
    Service(
        "mlflow",
        "mlflow",
        "marl.runs.tracking.mlflow_run:begin_mlflow",
        "marl.runs.tracking.keys:MlflowKeys",
        frozenset({"tracking_uri"}),
    ),
)


def register_logger(name: str, factory: LoggerFactory) -> None:
    """Let ``loggers: [name]`` find this class or function ``(directory, params) -> an object with write(result), close()``.

    Keys of an entry, ``loggers: [{name: {key: value}}]``, are given to it by their names.
    """
    LOGGERS.add(name, _checked(name, factory))


def find_logger(name: str) -> LoggerFactory | RunFile:
    """What builds the logger of a registered name or ``package.module:Class``."""
    if ":" not in name:
        return LOGGERS[name]
    return _checked(name, load_object(name, LOGGER))


def split_entry(entry: Entry) -> tuple[str, dict[str, Any]]:
    """The name and the keys of one of ``loggers``."""
    if isinstance(entry, str):
        return entry, {}
    if len(entry) != 1:
        raise ConfigError(
            f"loggers: {dict(entry)!r} names {len(entry)} loggers; expected one name with its keys, such as "
            "{wandb: {project: mine}}. Give each its own entry of the list."
        )
    ((name, keys),) = entry.items()
    return name, dict(keys or {})


def check_loggers(entries: Sequence[Entry]) -> None:
    """Refuse what cannot be built, before any work starts."""
    names: list[str] = []
    for entry in entries:
        name, keys = split_entry(entry)
        found = find_logger(name)
        if name.lower() in names:
            raise ConfigError(f"loggers: {name!r} stands there twice. Take one of them out.")
        names.append(name.lower())
        if isinstance(found, RunFile) and keys:
            raise ConfigError(f"loggers: {name!r} has no keys, but got {', '.join(keys)}. Write the name alone.")
        if isinstance(found, Service):
            found.check(name, keys)


def leads_out(entries: Sequence[Entry]) -> bool:
    """Whether a logger of the list would send results to a place that the list names."""
    for entry in entries:
        name, keys = split_entry(entry)
        if name not in LOGGERS:
            continue  # one of the user's own
        service = LOGGERS[name]
        if isinstance(service, Service) and service.places & keys.keys():
            return True
    return False


def _checked(name: str, factory: Any) -> LoggerFactory:
    if not callable(factory):
        raise ConfigError(f"logger {name!r} is {factory!r}; expected a class or a function of (directory, params).")
    found: LoggerFactory = factory
    return found


class RunLoggers:
    """The loggers of one run directory, by their names."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._factories: dict[str, tuple[LoggerFactory, dict[str, Any]]] = {}
        self._open: dict[str, Logger] = {}
        files = []
        for entry in entries:
            name, keys = split_entry(entry)
            found = find_logger(name)
            if isinstance(found, RunFile):
                files.append(name.lower())
            else:
                self._factories[name] = found, keys
        # A list that names no file adds to what is always written; one that does chooses among the files.
        self.events = not files or TENSORBOARD in files

    def open(self, directory: Path, params: Mapping[str, Any]) -> None:
        """Build all of them, for results that go to this directory; those of another directory are closed."""
        self.close()
        for name, (factory, keys) in self._factories.items():
            logger = call_own(f"logger {name!r}, built for a run,", factory, directory, params, **keys)
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
