"""One generic register of named things, with "did you mean", and names of the form ``package.module:name``."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Generic, TypeVar

from marl.errors import ConfigError, UnknownNameError, did_you_mean, let_through

T = TypeVar("T")
_IMPORTLIB = str(Path("importlib") / "__init__.py")

# Modules that names out of a checkpoint may be loaded from; None: the user wrote the names, all are fine.
_allowed: ContextVar[frozenset[str] | None] = ContextVar("allowed_modules", default=None)


class Registry(Generic[T]):
    """Names to things; names are case-insensitive."""

    def __init__(self, what: str) -> None:
        self.what = what
        self._items: dict[str, T] = {}

    def register(self, name: str, item: T) -> None:
        self._items[name.lower()] = item

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._items

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name.lower()]
        except KeyError:
            raise UnknownNameError(
                f"unknown {self.what} {name!r}. Known: "
                f"{', '.join(sorted(self._items))}.{did_you_mean(name, self._items)}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


@contextmanager
def only_modules(allowed: frozenset[str]) -> Iterator[None]:
    """Within this block ``load_object`` refuses modules outside ``allowed`` (for names read from checkpoints)."""
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def load_object(name: str, what: str) -> object:
    """The object behind ``package.module:name``; modules in the working directory are found as well."""
    module_name, _, attribute = name.partition(":")
    if not attribute:
        raise ConfigError(
            f"{what} {name!r} is not complete; expected package.module:name, for instance {module_name}:Name."
        )
    module = import_module(module_name, f"{what} {name!r}")
    found: object = module
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(
                f"{what} {name!r}: module {module_name!r} has no {attribute!r}.{did_you_mean(part, dir(found))}"
            )
        found = getattr(found, part)
    home = getattr(found, "__module__", None) or module_name
    _check_allowed(str(home), f"{what} {name!r}")  # not what the module itself has imported from elsewhere
    return found


def import_module(module_name: str, what: str) -> object:
    """Import a module, also from the working directory; a missing or forbidden one is a ``ConfigError``."""
    _check_allowed(module_name, what)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{what}: cannot import {module_name!r} ({error}){_line_of(error)}. Check the spelling, or install the package "
            "that has it."
        ) from error
    except BaseException as error:  # a module may raise anything, also SystemExit
        let_through(error)
        raise ConfigError(
            f"{what}: the module {module_name!r} cannot be imported, because its own code failed: {type(error).__name__}: "
            f"{error}{_line_of(error)}. Mend it; `python -c 'import {module_name}'` shows the same."
        ) from error


def _line_of(error: BaseException) -> str:
    """`` (at world.py:12: x = 1 / 0)``: the last line of the module's own code that ran, where any did."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""  # its text has the place
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename != __file__]
    own = [frame for frame in frames if not frame.filename.startswith("<") and not frame.filename.endswith(_IMPORTLIB)]
    return f" (at {own[-1].filename}:{own[-1].lineno}: {own[-1].line})" if own else ""


_used: set[str] = set()


def used_packages() -> list[str]:
    """Packages outside of marl from which something was loaded by name so far: what a later ``--allow`` has to name."""
    return sorted(_used)


def _check_allowed(module: str, what: str) -> None:
    if module != "marl" and not module.startswith("marl."):
        _used.add(module.split(".")[0])
    allowed = _allowed.get()
    if allowed is None or any(module == name or module.startswith(name + ".") for name in (*allowed, "marl")):
        return
    raise ConfigError(
        f"{what} comes from a checkpoint and would use the module {module!r}, which was not allowed. If you trust it, allow "
        f"it: --allow {module.split('.')[0]} (or allow=[...] in Python)."
    )
