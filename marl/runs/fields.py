"""What every field of a result means: one table, read by ``marl explain`` and by the checks of ``goal`` and ``stop``.

A word in capitals stands for a name that a run decides: a policy, an agent, a player, the user's own number. Fields of
``evaluation`` are those of training once more, so the table has them once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
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
    rows = []
    for line in re.sub(r"\n +", " ", ROWS.strip()).splitlines():
        name, unit, text = line.split("|", 2)
        rows.append(Meaning(name.strip(), unit.strip(), text.strip()))
    rows.sort(key=lambda row: len(_WILD.findall(row.name)))
    return tuple(rows)


@cache
def _patterns() -> tuple[tuple[re.Pattern[str], Meaning], ...]:
    patterns = []
    for row in table():
        pattern = _WILD.sub(".+", re.escape(row.name))
        patterns.append((re.compile(pattern), row))
    return tuple(patterns)


def meaning_of(field: str) -> Meaning | None:
    """The row that explains a field of a result by its dotted name; None where there is none."""
    inner = field.removeprefix("evaluation.")
    for pattern, row in _patterns():
        # Exactly this name first: `evaluation` itself and what is only said of it have rows of their own.
        if row.name == field:
            return row
        if not pattern.fullmatch(inner):
            continue
        if inner == field:
            return row
        # Episodes of an evaluation are its own, whatever the row says of those that training counts.
        text = OF_TRAINING.sub("", row.text)
        return row._replace(text=f"{EVALUATED} {text}")
    return None


def fields_of(result: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """Dotted names of all numbers, texts and lists in a result; the scenario in ``config`` is one field."""
    for key, value in result.items():
        name = f"{before}{key}"
        is_block = isinstance(value, Mapping) and len(value) > 0
        if is_block and name != "config":
            yield from fields_of(value, f"{name}.")
        else:
            yield name


def explain(wanted: str | None = None) -> str:
    """What a field means, or all fields of a block, or the whole table; refuses a name that no result has.

    The last word of a field's name is enough where only one field ends so. TensorBoard's spelling with ``/`` is fine.
    """
    if wanted is None:
        return _in_words(table())
    name = wanted.strip().replace("/", ".").strip(".")
    found = meaning_of(name)
    if found is not None:
        return _in_words([found._replace(name=name)])
    rows = _rows_around(name)
    if not rows:
        raise ConfigError(
            f"no result has a field {wanted!r}.{did_you_mean(name, _words())} `marl explain` alone lists all fields."
        )
    return _in_words(rows)


def _rows_around(name: str) -> list[Meaning]:
    """All fields of a block, else those that end with the name."""
    block = f"{name.removeprefix('evaluation.')}."
    inside: list[Meaning] = []
    ending: list[Meaning] = []
    for row in table():
        if row.name.startswith(block):
            inside.append(row)
        if row.name.endswith(f".{name}"):
            ending.append(row)
    return inside or ending


def _words() -> list[str]:
    """What a user may have meant: whole names first, then their last words."""
    names, last_words = [], []
    for row in table():
        names.append(row.name)
        last_words.append(row.name.rpartition(".")[2])
    return list(dict.fromkeys([*names, *last_words]))


def _in_words(rows: Iterable[Meaning]) -> str:
    lines = []
    for row in sorted(rows):
        unit = ""
        if row.unit:
            unit = f" ({row.unit})"
        lines.append(f"{row.name}{unit}\n    {row.text}")
    return "\n".join(lines)
