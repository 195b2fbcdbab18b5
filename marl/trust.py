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
        return any(module == name or module.startswith(name + ".") for name in self.modules)

    def said(self, name: str) -> bool:
        """Whether the user typed this name himself, be it as it was called before."""
        return name in self.words or any(current_name(word) == name for word in self.words)


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
        return name in self.ours or any(module == room or module.startswith(room + ".") for room in self.rooms)

    def fits(self, found: object) -> bool:
        if isinstance(found, type):
            return issubclass(found, self.bases)
        return isinstance(found, self.objects)


@contextmanager
def only_modules(allowed: frozenset[str], words: Iterable[str] = ()) -> Iterator[None]:
    """Within this block names come from a file: modules outside of ``allowed`` are refused."""
    given = _given.get()
    with under(Trust(allowed, frozenset(words) | given.words, given.options)):
        yield


@contextmanager
def given_by_user(words: Iterable[str], options: str) -> Iterator[None]:
    """What the user said in a command that follows several files: it holds for each of them (``only_modules``).

    ``options`` is what a message advises to give an env again, where the command has no ``--set``.
    """
    before = _given.get()
    token = _given.set(Trust(words=before.words | frozenset(words), options=before.options or options))
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


def words_of(value: object) -> Iterator[str]:
    """All texts in a nested value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from words_of(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from words_of(item)


# -- checks --------------------------------------------------------------------------------------------------------


def check_name(name: str, module: str, sort: Sort) -> None:
    """Before the module of a name is imported: its form, and whether it may be imported at all."""
    trust = current()
    if trust is None or trust.said(name):
        return
    if not _FORM.fullmatch(name):
        raise ConfigError(
            f"{sort.what} {name!r} comes from a file, where a name has the form package.module:name with one name after the "
            "colon. What is inside of a class or of something else is not looked up: put it at the top of its module."
        )
    if is_marl(module):
        if not sort.is_ours(module, name):
            raise _not_ours(name, sort)
        return
    check_module(module, f"{sort.what} {name!r}")


def check_module(module: str, what: str) -> None:
    """Refuse a module that a file names and the user did not allow; of marl, a file may import envs alone."""
    trust = current()
    if trust is None or trust.allows(module) or module == "marl.envs" or module.startswith("marl.envs."):
        return
    raise ConfigError(
        f"{printable(what)} comes from a checkpoint and would use the module {module!r}, which was not allowed. If you trust "
        f"it, allow it: --allow {printable(module.split('.')[0])} (or allow=[...] in Python)."
    )


def check_found(name: str, module: str, found: object, sort: Sort) -> None:
    """Before anybody calls what a name stands for: it is of the right sort and at home where the name says."""
    trust = current()
    if trust is None or trust.said(name):
        return
    home = getattr(found, "__module__", None)
    fits = sort.fits(found)
    if is_marl(module):
        at_home = home == module or isinstance(found, sort.objects)
        if not (at_home and (fits or name in sort.ours)):
            raise _not_ours(name, sort)
        return
    if fits and not isinstance(found, type):
        return  # an object of one of our classes, in a module that was allowed
    if not isinstance(home, str) or is_marl(home):
        raise ConfigError(
            f"{sort.what} {name!r} comes from a file and is {_told(found)}, which {module!r} only passes on. Name it where it "
            "is defined."
        )
    check_module(home, f"{sort.what} {name!r}")  # not what the module itself has imported from elsewhere
    if not (fits or (sort.creators and callable(found))):
        raise ConfigError(f"{sort.what} {name!r} comes from a file and is {_told(found)}; expected {_expected(sort)}.")


def is_marl(module: str) -> bool:
    return module == "marl" or module.startswith("marl.")


def _not_ours(name: str, sort: Sort) -> ConfigError:
    return ConfigError(
        f"{sort.what} {name!r} comes from a file, which may name {_expected(sort, of_marl=True)}; this is none, so it is not "
        "used. If the file is yours, start the run from its scenario file instead."
    )


def _expected(sort: Sort, of_marl: bool = False) -> str:
    """What would have been right."""
    bases = " or ".join(base.__name__ for base in sort.bases)
    if of_marl:
        ours = [*([f"a {bases} of {', '.join(sort.rooms)}"] if bases else []), *sort.ours]
        return f"of marl only {' or '.join(ours)}" if ours else "nothing of marl itself here"
    return " or ".join([*([f"a class derived from {bases}"] if bases else []), *(["a function"] * sort.creators)])


def _told(found: object) -> str:
    name = getattr(found, "__qualname__", None) or getattr(found, "__name__", None)
    kind = "class" if isinstance(found, type) else type(found).__name__
    return f"the {kind} {name}" if isinstance(name, str) else f"a {kind}"
