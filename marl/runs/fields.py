"""What every field of a result means: one table, read by ``marl explain`` and by the checks of ``goal`` and ``stop``.

A word in capitals stands for a name that a run decides: a policy, an agent, a player, the user's own number. Fields of
``evaluation`` are those of training once more, so the table has them once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from marl.errors import ConfigError, did_you_mean
from marl.runs.field_table import ROWS

OF_TRAINING = re.compile(r" It covers the episodes that ended in this iteration.*?\.")
EVALUATED = "In the evaluation: episodes played between iterations on envs of their own, as `evaluation` says."
_WILD = re.compile(r"[A-Z]{2,}")


class Meaning(NamedTuple):
    """A row of the table. Without a unit the field is no single number."""

    name: str
    unit: str
    text: str

    @property
    def is_number(self) -> bool:
        return bool(self.unit)

    @property
    def is_users_own(self) -> bool:
        """Whether only the user knows what the number is, because the user's code made it."""
        return " your " in f" {self.unit} {self.text} "


@cache
def table() -> tuple[Meaning, ...]:
    """All rows; those that name a field exactly come before those that leave a word open."""
    lines = re.sub(r"\n +", " ", ROWS.strip()).splitlines()
    rows = [Meaning(*(part.strip() for part in line.split("|", 2))) for line in lines]
    return tuple(sorted(rows, key=lambda row: len(_WILD.findall(row.name))))


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Meaning], ...]:
    return tuple((re.compile(_WILD.sub(".+", re.escape(row.name))), row) for row in table())


def meaning_of(field: str) -> Meaning | None:
    """The row that explains a field of a result by its dotted name; None where there is none."""
    inner = field.removeprefix("evaluation.")
    for pattern, row in _patterns():
        if row.name == field:
            return row
        if pattern.fullmatch(inner):
            return row if inner == field else row._replace(text=f"{EVALUATED} {OF_TRAINING.sub('', row.text)}")
    return None


def fields_of(result: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Dotted names of all numbers, texts and lists in a result; the scenario in ``config`` is one field."""
    for key, value in result.items():
        if isinstance(value, Mapping) and value and f"{before}{key}" != "config":
            yield from fields_of(value, f"{before}{key}.")
        else:
            yield f"{before}{key}"


def explain(wanted: str | None = None) -> str:
    """What a field means, or all fields of a block, or the whole table; refuses a name that no result has.

    The last word of a field's name is enough where only one field ends so. TensorBoard's spelling with ``/`` is fine.
    """
    if wanted is None:
        return "\n".join(_told(row) for row in sorted(table()))
    name = wanted.strip().replace("/", ".").strip(".")
    found = meaning_of(name)
    if found is not None:
        return _told(found._replace(name=name))
    block = [row for row in sorted(table()) if row.name.startswith(f"{name.removeprefix('evaluation.')}.")]
    ending = [row for row in sorted(table()) if row.name.endswith(f".{name}")]
    if not block and not ending:
        raise ConfigError(
            f"no result has a field {wanted!r}.{did_you_mean(name, _words())} `marl explain` alone lists all fields."
        )
    return "\n".join(_told(row) for row in block or ending)


def _words() -> list[str]:
    names = [row.name for row in table()]
    return list(dict.fromkeys([*names, *(name.rpartition(".")[2] for name in names)]))


def _told(row: Meaning) -> str:
    return f"{row.name}{f' ({row.unit})' if row.unit else ''}\n    {row.text}"
