"""The code of an algorithm in the order in which to read it (``marl show``).

What belongs to a reading is declared beside each learner, in the ``reading.py`` of its folder: functions themselves, not their
names, so that a wrong one is found when it is imported. A test runs an update of every preset and compares.
"""

from __future__ import annotations

import inspect
import itertools
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any, TypeAlias

from marl.errors import ConfigError

Function: TypeAlias = Callable[..., Any]
PACKAGE = Path(__file__).parents[1]  # the folder marl
BOOKKEEPING = frozenset(
    {
        "__init__", "build", "reading", "set_trained", "value_function", "state_dict", "load_state_dict", "replay_state",
        "load_replay_state",
    }
)  # fmt: skip
"""Methods of a learner that are no part of an update."""


@dataclass(frozen=True)
class Reading:
    """``shown`` in reading order, and what of the algorithm's own folder runs in an update too, with the reason why it is
    ``left_out``."""

    shown: tuple[Function, ...]
    left_out: Mapping[Function, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Passage:
    """One function as it stands in its file."""

    name: str
    file: str
    line: int
    code: str

    @property
    def place(self) -> str:
        return f"{self.file}:{self.line}"


def own_functions(learner: type) -> tuple[Function, ...]:
    """What a learner class defines itself, ``learn`` first; without bookkeeping."""
    found: list[FunctionType] = []
    for name, member in vars(learner).items():
        if isinstance(member, FunctionType) and name not in BOOKKEEPING:
            found.append(member)
    return tuple(sorted(found, key=lambda function: function.__name__ != "learn"))


def with_relatives(learner: type, shown: tuple[Function, ...]) -> list[Function]:
    """The same with what a derived class changes: methods that an override calls by ``super()`` stand behind it, and its new
    methods at the end."""
    found: list[Function] = []
    for function in shown:
        found += [function, *_called_by_super(learner, function)]
    for kind in learner.__mro__:
        if not kind.__module__.startswith("marl."):  # our own classes say themselves what belongs to a reading
            found += own_functions(kind)
    return list(dict.fromkeys(found))


def _called_by_super(learner: type, function: Function) -> list[Function]:
    name, found = function.__name__, []
    if getattr(learner, name, None) is not function:
        return []
    owners = [kind for kind in learner.__mro__ if name in vars(kind)]
    # Only as far as each one really calls the next: what is not called is replaced.
    for kind, above in itertools.pairwise(owners):
        if f"super().{name}(" not in inspect.getsource(vars(kind)[name]):
            break
        found.append(vars(above)[name])
    return found


def passage_of(function: Function) -> Passage:
    """Where a function stands and what it says, without decorators' own code."""
    inner = inspect.unwrap(function)
    try:
        if inner.__code__.co_filename == "<string>":
            # Python 3.13 would show the text of `python -c` for whatever was made by exec.
            raise OSError("it was made from a text")
        lines, first = inspect.getsourcelines(inner)
        file = Path(inspect.getsourcefile(inner) or "").resolve()
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the code of {inner.__qualname__} cannot be shown: its file is not there ({error}). Put the class into a file of "
            "a module."
        ) from error
    return Passage(inner.__qualname__, _short(file), first, textwrap.dedent("".join(lines)).rstrip())


def _short(file: Path) -> str:
    """``marl/...`` for the package's own files, else from the working directory where it lies below that."""
    for above in (PACKAGE.parent, Path.cwd()):
        if file.is_relative_to(above):
            return file.relative_to(above).as_posix()
    return str(file)
