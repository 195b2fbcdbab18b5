"""The kinds of scenes and what each of them needs. Scenes of users' envs are checked before anybody draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

MOST_VALUES = 20_000  # numbers, texts and lists in one scene: a page draws 60 of them in a second
LONGEST_STRING = 20_000
DEEPEST = 8


class BrokenScene(ValueError):
    """Says what is wrong with a scene."""


class SceneForm(BaseModel):
    """What every scene has. ``actions``: the number of the action that a click on a place takes, by the place's key."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    kind: str
    text: str
    actions: dict[str, int] = {}


class TextForm(SceneForm):
    """Only read."""


class PictureForm(SceneForm):
    """A PNG in base64."""

    png: str = Field(max_length=2_000_000)


Payoffs: TypeAlias = list[Any]  # nested lists, as deep as there are players


class MatrixForm(SceneForm):
    """Payoffs by the players' actions; ``played``: the actions of the last round."""

    players: list[str]
    moves: list[list[str]]  # names of the actions, by player
    payoffs: Payoffs  # by player, then by everybody's action
    played: list[int] | None = None
    round: int = 0
    rounds: int = 1
    history: list[list[int]] = []


FORMS: dict[str, type[SceneForm]] = {
    "text": TextForm,
    "picture": PictureForm,
    "matrix": MatrixForm,
}


def checked(scene: Any) -> dict[str, Any]:
    """The scene as plain JSON; what is not one raises a ``BrokenScene`` that says what is wrong."""
    if not isinstance(scene, Mapping):
        raise BrokenScene(f"scene() returned a {type(scene).__name__}; expected a dict with kind and text.")
    plain: dict[str, Any] = _Plain().of(scene, "scene", 0)
    kind = plain.get("kind")
    if kind not in FORMS:
        raise BrokenScene(f"its kind is {kind!r}. Known kinds: {', '.join(FORMS)}.")
    try:
        FORMS[kind].model_validate(plain, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise BrokenScene(f"{where or 'the scene'} of kind {kind}: {first['msg']}.") from error
    return plain


class _Plain:
    """Numpy's numbers and arrays as lists and numbers; counts what it has seen."""

    def __init__(self) -> None:
        self.seen = 0

    def of(self, value: Any, where: str, depth: int) -> Any:
        self.seen += 1
        if self.seen > MOST_VALUES or depth > DEEPEST:
            raise BrokenScene(f"it is too large: at most {MOST_VALUES} values, nested {DEEPEST} deep.")
        if isinstance(value, np.generic | np.ndarray):
            value = value.tolist()
        if isinstance(value, Mapping):
            return self._dict(value, where, depth)
        if isinstance(value, list | tuple):
            return [self.of(part, f"{where}[{i}]", depth + 1) for i, part in enumerate(value)]
        return _single(value, where)

    def _dict(self, value: Mapping[Any, Any], where: str, depth: int) -> dict[str, Any]:
        plain: dict[str, Any] = {}
        for key, part in value.items():
            if not isinstance(key, str):
                raise BrokenScene(f"{where} has the key {key!r}; expected a text.")
            plain[key] = self.of(part, f"{where}.{key}", depth + 1)
        return plain


def _single(value: Any, where: str) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        if not np.isfinite(value):
            raise BrokenScene(f"{where} is {value}; expected a finite number.")
        return value
    if isinstance(value, str):
        # A picture is longer than any text, and has a limit of its own.
        if len(value) > LONGEST_STRING and not where.endswith(".png"):
            raise BrokenScene(f"{where} has {len(value)} characters; at most {LONGEST_STRING} can be shown.")
        return value
    raise BrokenScene(f"{where} is a {type(value).__name__}; expected texts, numbers, lists and dicts.")
