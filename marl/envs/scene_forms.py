"""The kinds of scenes and what each of them needs. Scenes of users' envs are checked before anybody draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

MOST_VALUES = 20_000  # numbers, texts and lists in one scene: a page draws 60 of them in a second
LONGEST_STRING = 20_000
DEEPEST = 8


class BrokenScene(ValueError):
    """Says what is wrong with a scene."""


class Part(BaseModel):
    """A part of a scene. Keys that nobody knows are mistakes: they would silently not be drawn."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class SceneForm(Part):
    """What every scene has. ``actions``: the number of the action that a click on a place takes, by the place's key."""

    kind: str
    text: str
    actions: dict[str, int] = {}


class TextForm(SceneForm):
    """Only read."""


class PictureForm(SceneForm):
    """A PNG in base64."""

    png: str = Field(max_length=2_000_000)


class MatrixForm(SceneForm):
    """Payoffs by the players' actions. Places: the viewer's actions by number, ``"0"``."""

    players: list[str] = Field(min_length=1)
    moves: list[list[str]]  # names of the actions, by player
    payoffs: list[Any]  # nested lists: by player, then by everybody's action
    played: list[int | None] | None = None  # in the last round; null where the viewer was not shown it
    round: int = 0
    rounds: int = 1
    history: list[list[int | None]] = []


class TableOfState(Part):
    """One state of a game; ``payoffs``: what the team gets by the actions of two players."""

    name: str
    payoffs: list[list[float]] | None = None


class Arrow(Part):
    start: int
    end: int
    text: str = ""


class StatesForm(SceneForm):
    """A few states, the ways between them, and in which of them the game is now (several: the viewer cannot tell)."""

    players: list[str]
    moves: list[list[str]]
    states: list[TableOfState] = Field(min_length=1)
    arrows: list[Arrow] = []
    now: list[int]


class Hand(Part):
    """A player of a card or dice game; null: hidden. A card is a rank and perhaps a suit: K, K♠."""

    name: str
    cards: list[str | None] = []
    dice: list[int | None] = []
    paid: float | None = None  # into the pot
    said: str = ""  # the last move
    turn: bool = False
    folded: bool = False
    won: float | None = None  # at the end


class Move(Part):
    player: str
    text: str


class CardsForm(SceneForm):
    """Players with their hands, cards on the table, the pot, all moves so far."""

    players: list[Hand] = Field(min_length=1)
    table: list[str | None] = []
    pot: float | None = None
    course: list[Move] = []


Place: TypeAlias = list[int]  # row and column, from 0 in the upper left corner


class BoardForm(SceneForm):
    """A board with one piece or none per cell. Places: ``"row,column"``."""

    rows: int = Field(ge=1, le=40)
    columns: int = Field(ge=1, le=40)
    cells: list[list[str | None]]
    style: Literal["squares", "chess", "points", "holes"] = "squares"  # points: stones on crossings; holes: discs fall
    last: list[Place] = []  # what the last move changed
    line: list[Place] = []  # what has won
    turn: str | None = None
    piece: str | None = None  # what a click would place

    @model_validator(mode="after")
    def _cells_fit(self) -> BoardForm:
        if len(self.cells) != self.rows or {self.columns} != set(map(len, self.cells)):
            raise ValueError(f"cells are not {self.rows} rows of {self.columns}")
        return self


class Body(Part):
    name: str
    role: str
    x: float
    y: float
    radius: float = Field(gt=0)
    vx: float = 0.0
    vy: float = 0.0
    colour: int | None = None  # one of eight; null: by the role
    marked: bool = False


class Saying(Part):
    name: str
    text: str


class ParticlesForm(SceneForm):
    """Round bodies on a plane, x to the right and y up, seen from ``-reach`` to ``reach``. Places: left, right, up, down."""

    reach: float = Field(gt=0)
    bodies: list[Body]
    said: list[Saying] = []


Direction: TypeAlias = Literal["up", "right", "down", "left"]


class Road(Part):
    """From its first to its last cell, along a row or a column."""

    name: str
    start: Place  # column and row
    end: Place


class Light(Part):
    name: str
    x: int
    y: int
    green: Direction  # cars with this heading may go
    dark: bool = False


class Car(Part):
    name: str
    x: int
    y: int
    heading: Direction
    moved: bool = False


class TrafficForm(SceneForm):
    """Roads on a grid of cells, cars and lights; x counts columns and y rows from the upper left corner."""

    columns: int = Field(ge=1, le=400)
    rows: int = Field(ge=1, le=400)
    roads: list[Road]
    lights: list[Light] = []
    cars: list[Car] = []


class Thing(Part):
    """What lies in a maze, or who walks there."""

    name: str
    row: int
    column: int
    text: str = ""  # a few letters that are drawn on it
    sort: Literal["walker", "exit", "goal", "food"] = "walker"


class MazeForm(SceneForm):
    """Cells seen from above: ``#`` is a wall. Places: up, right, down, left, stay."""

    lines: list[str] = Field(min_length=1)
    things: list[Thing] = []
    wind: Direction | None = None


class Node(Part):
    name: str
    x: float
    y: float
    text: str = ""
    colour: int | None = None
    marked: bool = False


class Edge(Part):
    """Between two nodes by number. ``share``: how full it is, from 0 to 1, drawn as its width."""

    start: int
    end: int
    text: str = ""
    share: float = Field(0.0, ge=0)
    marked: bool = False


class Choice(Part):
    """A way through the network that can be chosen, by the numbers of its edges, and how many have chosen it."""

    key: str
    text: str
    edges: list[int] = []
    count: float | None = None
    taken: bool = False


class NetworkForm(SceneForm):
    """Nodes on a plane (0 to 1, y down) and edges. Places: the keys of ``choices``."""

    directed: bool = False
    nodes: list[Node] = Field(min_length=1)
    edges: list[Edge] = []
    choices: list[Choice] = []

    @model_validator(mode="after")
    def _ends_are_there(self) -> NetworkForm:
        for edge in self.edges:
            if not 0 <= edge.start < len(self.nodes) or not 0 <= edge.end < len(self.nodes):
                raise ValueError(
                    f"an edge leads from {edge.start} to {edge.end}, but there are {len(self.nodes)} nodes"
                )
        return self


FORMS: dict[str, type[SceneForm]] = {
    "matrix": MatrixForm,
    "states": StatesForm,
    "cards": CardsForm,
    "board": BoardForm,
    "particles": ParticlesForm,
    "traffic": TrafficForm,
    "maze": MazeForm,
    "network": NetworkForm,
    "picture": PictureForm,
    "text": TextForm,
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
    if isinstance(value, str):
        _check_length(value, where)
    elif isinstance(value, float):
        if not np.isfinite(value):
            raise BrokenScene(f"{where} is {value}; expected a finite number.")
    elif not isinstance(value, int | None):  # a bool is an int
        raise BrokenScene(f"{where} is a {type(value).__name__}; expected texts, numbers, lists and dicts.")
    return value


def _check_length(text: str, where: str) -> None:
    # A picture is longer than any text, and has a limit of its own.
    is_picture = where.endswith(".png")
    if len(text) > LONGEST_STRING and not is_picture:
        raise BrokenScene(f"{where} has {len(text)} characters; at most {LONGEST_STRING} can be shown.")
