"""Which names out of files become objects.

A checkpoint, an export or a search may come from a stranger, so a name in it must not be able to call whatever is
installed. While such a file is followed (``only_modules``), a name stands for a thing of the *sort* that its key asks for:
one of marl's own in the rooms where marl keeps that sort, or one that is defined in a package that the user allowed. All
of it is checked before anything is called, and the module before it is imported. Names that the user wrote himself, in a
scenario or in Python, are his own code and not looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from marl.errors import ConfigError, printable
from marl.old_names import current_name

P = ParamSpec("P")
R = TypeVar("R")

_FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Trust:
    """What the user said about a file that is being followed."""

    modules: frozenset[str] = frozenset()  # allowed, each with all that is below it
    words: frozenset[str] = frozenset()  # texts that he gave himself in the same command: names, paths
    options: str | None = None  # how a command without --set takes the env again

    def allows(self, module: str) -> bool:
        return any(is_inside(module, name) for name in self.modules)

    def said(self, name: str) -> bool:
        """Whether the user typed this name himself, be it as it was called before."""
        if name in self.words:
            return True
        return any(current_name(word) == name for word in self.words)


_trust: ContextVar[Trust | None] = ContextVar("trust", default=None)  # None: the user wrote everything himself
_given: ContextVar[Trust] = ContextVar("given", default=Trust())  # noqa: B039  (frozen)


@dataclass(frozen=True)
class Sort:
    """What a name may stand for. ``rooms`` are the modules of marl that hold classes of this sort."""

    what: str
    bases: tuple[type[Any], ...] = ()  # a class derived from one of these
    objects: tuple[type[Any], ...] = ()  # or an object of one of these
    creators: bool = False  # or, in an allowed module, any function or class
    rooms: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()  # functions of marl, by their full names

    def is_ours(self, module: str, name: str) -> bool:
        """Whether a file may name it: one of marl's own functions, or something in a room of this sort."""
        if name in self.ours:
            return True
        return any(is_inside(module, room) for room in self.rooms)

    def fits(self, found: object) -> bool:
        if isinstance(found, type):
            return issubclass(found, self.bases)
        return isinstance(found, self.objects)


@contextmanager
def only_modules(allowed: frozenset[str], words: Iterable[str] = ()) -> Iterator[None]:
    """Within this block names come from a file: modules outside of ``allowed`` are refused."""
    given = _given.get()
    said = given.words | frozenset(words)
    with under(Trust(allowed, said, given.options)):
        yield


@contextmanager
def given_by_user(words: Iterable[str], options: str) -> Iterator[None]:
    """What the user said in a command that follows several files: it holds for each of them (``only_modules``).

    ``options`` is what a message advises to give an env again, where the command has no ``--set``.
    """
    before = _given.get()
    given = Trust(words=before.words | frozenset(words), options=before.options or options)
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)


@contextmanager
def under(trust: Trust | None) -> Iterator[None]:
    """Go on as ``current`` said when something was built; None changes nothing, so it never lifts a restriction."""
    if trust is None:
        yield
        return
    token = _trust.set(trust)
    try:
        yield
    finally:
        _trust.reset(token)


def current() -> Trust | None:
    """The trust in the file that is being followed; None where there is none."""
    return _trust.get()


def as_built(trust_of: Callable[[Any], Trust | None]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """For methods that look up names later than their object was built: under the trust that held then."""

    def keep(method: Callable[P, R]) -> Callable[P, R]:
        @wraps(method)
        def kept(*args: P.args, **keys: P.kwargs) -> R:
            with under(trust_of(args[0])):
                return method(*args, **keys)

        return kept

    return keep


def words_of(value: object, with_keys: bool = False) -> Iterator[str]:
    """All texts in a nested value; ``with_keys`` also those of its keys."""
    inside: Iterable[object] = ()
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        inside = value.values()
        if with_keys:
            yield from map(str, value)
    elif isinstance(value, list | tuple):
        inside = value
    for item in inside:
        yield from words_of(item, with_keys)


# -- checks --------------------------------------------------------------------------------------------------------


def check_name(name: str, module: str, sort: Sort) -> None:
    """Before the module of a name is imported: its form, and whether it may be imported at all."""
    trust = current()
    if trust is None or trust.said(name):
        return
    # `os:environ.clear` would be looked up step by step, and steps may have effects (properties, lazy imports).
    if not _FORM.fullmatch(name):
        raise ConfigError(
            f"{sort.what} {name!r} comes from a file, where a name has the form package.module:name with one name after the "
            "colon. What is inside of a class or of something else is not looked up: put it at the top of its module."
        )
    if not is_marl(module):
        check_module(module, f"{sort.what} {name!r}")
    elif not sort.is_ours(module, name):
        raise _not_ours(name, sort)


def check_module(module: str, what: str) -> None:
    """Refuse a module that a file names and the user did not allow; of marl, a file may import envs alone."""
    trust = current()
    if trust is None or trust.allows(module):
        return
    # Importing a module runs it: of marl's own only envs register something that way.
    if is_inside(module, "marl.envs"):
        return
    raise ConfigError(
        f"{printable(what)} comes from a checkpoint and would use the module {module!r}, which was not allowed. If you trust "
        f"it, allow it: --allow {printable(module.split('.')[0])} (or allow=[...] in Python; MARL_ALLOW for all commands)."
    )


def check_found(name: str, module: str, found: object, sort: Sort) -> None:
    """Before anybody calls what a name stands for: it is of the right sort and at home where the name says."""
    trust = current()
    if trust is None or trust.said(name):
        return
    if is_marl(module):
        _check_ours(name, module, found, sort)
    else:
        _check_theirs(name, module, found, sort)


def _check_ours(name: str, module: str, found: object, sort: Sort) -> None:
    # A module of ours also holds what it imports, such as `os`: only what it defines may be named.
    home = getattr(found, "__module__", None)
    at_home = home == module or isinstance(found, sort.objects)
    right_sort = sort.fits(found) or name in sort.ours
    if not at_home or not right_sort:
        raise _not_ours(name, sort)


def _check_theirs(name: str, module: str, found: object, sort: Sort) -> None:
    """The same for a module that the user allowed."""
    fits = sort.fits(found)
    if fits and not isinstance(found, type):
        return  # an object of one of our classes, in a module that was allowed
    home = getattr(found, "__module__", None)
    if not isinstance(home, str) or is_marl(home):
        raise ConfigError(
            f"{sort.what} {name!r} comes from a file and is {_told(found)}, which {module!r} only passes on. Name it where it "
            "is defined."
        )
    check_module(home, f"{sort.what} {name!r}")  # not what the module itself has imported from elsewhere
    is_creator = sort.creators and callable(found)
    if not fits and not is_creator:
        raise ConfigError(f"{sort.what} {name!r} comes from a file and is {_told(found)}; expected {_expected(sort)}.")


def is_marl(module: str) -> bool:
    return is_inside(module, "marl")


def is_inside(module: str, package: str) -> bool:
    """Whether it is the package or below it; `marlin` is not inside of `marl`."""
    return module == package or module.startswith(f"{package}.")


def _not_ours(name: str, sort: Sort) -> ConfigError:
    right = [*sort.ours]
    if sort.bases:
        right.insert(0, f"a {_names_of(sort.bases)} of {', '.join(sort.rooms)}")
    expected = "nothing of marl itself here"
    if right:
        expected = f"of marl only {' or '.join(right)}"
    return ConfigError(
        f"{sort.what} {name!r} comes from a file, which may name {expected}; this is none, so it is not "
        "used. If the file is yours, start the run from its scenario file instead."
    )


def _expected(sort: Sort) -> str:
    """What would have been right, in a module that was allowed."""
    right = []
    if sort.bases:
        right.append(f"a class derived from {_names_of(sort.bases)}")
    if sort.creators:
        right.append("a function")
    return " or ".join(right)


def _names_of(classes: Iterable[type[Any]]) -> str:
    return " or ".join(one.__name__ for one in classes)


def _told(found: object) -> str:
    kind = type(found).__name__
    if isinstance(found, type):
        kind = "class"
    name = getattr(found, "__qualname__", None) or getattr(found, "__name__", None)
    if not isinstance(name, str):
        return f"a {kind}"
    return f"the {kind} {name}"
