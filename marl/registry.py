"""One generic register of named things, with "did you mean", and names of the form ``package.module:name``."""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeAlias, TypeVar

from marl.errors import ConfigError, UnknownNameError, did_you_mean, let_through
from marl.old_names import up_to_date
from marl.trust import Sort, check_found, check_module, check_name, is_marl
from marl.trust import only_modules as only_modules

T = TypeVar("T")
_IMPORTLIB = str(Path("importlib") / "__init__.py")
_WORD = re.compile(r"[A-Za-z_][\w-]*", re.ASCII)


class Registry(Generic[T]):
    """Names to things; names are case-insensitive. ``remedy`` ends the message about a name that is not there."""

    def __init__(self, what: str, remedy: str = "") -> None:
        self.what, self.remedy = what, remedy
        self._items: dict[str, T] = {}
        self._added: set[str] = set()  # from outside of marl
        _registries[what] = self
        for name, item in _waiting.pop(what, {}).items():
            self.put(name, item)

    def register(self, name: str, item: T) -> None:
        """Something of marl's own. What a program has put under this name stays: it may have come first."""
        if name.lower() not in self._added:
            self._items[name.lower()] = item

    def put(self, name: str, item: T) -> None:
        """Something from outside, which may also stand in for what is built in."""
        self._added.add(name.lower())
        self._items[name.lower()] = item

    def add(self, name: str, item: T) -> None:
        """Register something from outside. It may replace what was added before, as when a module is run once more, but
        nothing built in: scenarios of other people would mean something else."""
        if not isinstance(name, str) or not _WORD.fullmatch(name):
            raise ConfigError(f"{self.what}: {name!r} cannot be a name; expected a word, such as mine_2.")
        key = name.lower()
        if key in self._items and key not in self._added:
            raise ConfigError(f"the {self.what} {name!r} is built in already. Choose another name.")
        self.put(name, item)

    @property
    def names(self) -> list[str]:
        """In the order of registration: the built-in ones first."""
        return list(self._items)

    @property
    def added(self) -> dict[str, T]:
        """What came from outside: what another process has to be told."""
        added = {}
        for name, item in self._items.items():
            if name in self._added:
                added[name] = item
        return added

    def unknown(self, name: object) -> str:
        """The sentence about a name that is not registered."""
        known = sorted(self._items)
        listed = ", ".join(known) or "none"
        guess = did_you_mean(name, known)
        return f"unknown {self.what} {name!r}. Known: {listed}.{guess}{self.remedy}"

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name.lower() in self._items

    def __getitem__(self, name: str) -> T:
        try:
            return self._items[name.lower()]
        except KeyError:
            raise UnknownNameError(self.unknown(name)) from None  # the KeyError itself says nothing to a user

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._items))


Registrations: TypeAlias = dict[str, dict[str, Any]]
"""What registries of marl hold from outside: kind of thing to names to things."""

_registries: dict[str, Registry[Any]] = {}
_waiting: Registrations = {}  # for registries whose module has not been imported yet


def registrations() -> Registrations:
    """Everything that this program has registered: what another process has to be told."""
    found = {}
    for what, registry in _registries.items():
        if registry.added:
            found[what] = registry.added
    return found


def take_registrations(found: Registrations) -> None:
    """The same in another process, also for rooms of marl that it imports later."""
    for what, items in found.items():
        if what not in _registries:
            _waiting.setdefault(what, {}).update(items)
            continue
        for name, item in items.items():
            _registries[what].put(name, item)


def load_object(name: str, sort: Sort) -> object:
    """The object behind ``package.module:name``; modules in the working directory are found as well.

    A name out of a file has to stand for a thing of the ``sort``, see ``marl.trust``; nothing of it is called before. Where
    something of marl was moved, its old name stands for the new one, which is the one that is checked.
    """
    name = up_to_date(name)
    module_name, _, attribute = name.partition(":")
    what = f"{sort.what} {name!r}"
    if not attribute:
        raise ConfigError(f"{what} is not complete; expected package.module:name, for instance {module_name}:Name.")
    check_name(name, module_name, sort)
    found = _module_or_alias(module_name, what)
    for part in attribute.split("."):
        if not hasattr(found, part):
            raise ConfigError(f"{what}: module {module_name!r} has no {attribute!r}.{did_you_mean(part, dir(found))}")
        found = getattr(found, part)
    check_found(name, module_name, found, sort)
    # Where it is defined may be another package than the one that was named, and has to be allowed as well.
    home = getattr(found, "__module__", None) or module_name
    _note_use(str(home))
    return found


def import_module(module_name: str, what: str) -> object:
    """Import a module, also from the working directory; a missing or forbidden one is a ``ConfigError``."""
    module_name = up_to_date(module_name)
    check_module(module_name, what)
    return _imported(module_name, what)


def _module_or_alias(module_name: str, what: str) -> object:
    """A module; also one that its package only holds under another name (``from .deep import env as env_v1``)."""
    package_name, dot, alias = module_name.rpartition(".")
    try:
        return _imported(module_name, what)
    except ConfigError as error:
        cause = error.__cause__
        is_missing = isinstance(cause, ModuleNotFoundError) and cause.name == module_name
        if not (dot and is_missing):
            raise
        # The package was imported on the way to what is missing in it.
        found = getattr(sys.modules.get(package_name), alias, None)
        if isinstance(found, ModuleType):
            return found
        raise


def _imported(module_name: str, what: str) -> object:
    _note_use(module_name)
    _look_here_too(module_name)
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
    """`` (at env.py:12: x = 1 / 0)``: the last line of the module's own code that ran, where any did."""
    if isinstance(error, SyntaxError) and error.filename:
        return ""  # its text has the place
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = frame.filename
        # Between this file and the module lie lines of Python's own import, some of which have no file ("<frozen ...>").
        is_import = file.startswith("<") or file.endswith(_IMPORTLIB)
        if not is_import and file != __file__:
            return f" (at {file}:{frame.lineno}: {frame.line})"
    return ""


def _look_here_too(module_name: str) -> None:
    """Let the user's own modules be found in the working directory: after everything that is installed.

    A folder may hold anything, so a file in it never stands in for a module of Python, of marl or of another package. The
    folder is not even looked at for modules that are found without it.
    """
    here = str(Path.cwd())
    if here in sys.path or is_marl(module_name):
        return
    top = module_name.partition(".")[0]
    try:
        found = importlib.util.find_spec(top)
    except ValueError:  # loaded, and made by hand
        return
    if found is None or found.origin is None:  # no such module, or folders without an __init__.py
        sys.path.append(here)


_used: set[str] = set()


def used_packages() -> list[str]:
    """Packages outside of marl from which something was loaded by name so far: what a later ``--allow`` has to name."""
    return sorted(_used)


def _note_use(module: str) -> None:
    if not is_marl(module):
        _used.add(module.split(".")[0])
