"""What the page asks for when a game is opened, checked, and with paths that lead into the results alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from marl.serve.refused import Refused, shortly
from marl.watch.desk import Desk
from marl.watch.play.words import GUEST, HUMAN, MEMBER, PLACE, PLAIN, POLICY, is_guest

MOST_SEATS = 64
LARGEST_SEED = 2**31
Word = Annotated[str, StringConstraints(min_length=1, max_length=1000)]


class Asked(BaseModel):
    """A body of which every key is known, and has the type that it should have."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WhichGame(Asked):
    """A run at a checkpoint, or an env alone."""

    run: Word | None = None
    checkpoint: Word | None = None
    env: Word | None = None
    env_config: dict[str, Any] = {}


class NewGame(WhichGame):
    """The same, and who plays how."""

    seats: Annotated[dict[str, Word], Field(min_length=1, max_length=MOST_SEATS)]
    explore: bool = False
    open_picture: bool = False
    seed: Annotated[int, Field(ge=0, lt=LARGEST_SEED)] | None = None


class Move(Asked):
    """Of one of the asker's seats; who has only one need not name it."""

    agent: str | None = None
    action: Any = None
    turn: int


class SeatAsked(Asked):
    """A hint for one of the asker's seats."""

    agent: str | None = None


class Again(Asked):
    swap: bool = False


Form = TypeVar("Form", bound=Asked)


def read(form: type[Form], body: Mapping[str, Any]) -> Form:
    """The body as this form; what is wrong with it is refused by its key."""
    try:
        return form.model_validate(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        key = ".".join(map(str, first["loc"]))
        raise Refused("bad_message", f"{key}: {first['msg']}; got {shortly(first['input'])}.", 400) from None


def game_of(asked: WhichGame, desk: Desk) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is played, for the process that plays it; and what it is called."""
    allow = {"allow": sorted(desk.allow)}
    if (asked.run is None) == (asked.env is None):
        raise Refused("bad_message", "expected either run (a run of the results) or env (the name of an env).", 400)
    if asked.run is not None:
        folder = str(_checkpoint(desk, asked.run, asked.checkpoint))
        return {"folder": folder, **allow}, {"run": asked.run, "checkpoint": asked.checkpoint}
    what = {"env": asked.env, "env_config": asked.env_config}
    return {**what, **allow}, {"run": None, "checkpoint": None, **what}


def _checkpoint(desk: Desk, run: str, checkpoint: str | None) -> Path:
    """Checkpoints of a run lie in a folder of their own; `best` and exports may lie beside it."""
    if checkpoint is None:
        return desk.inside(run)
    usual = f"{run}/checkpoints/{checkpoint}"
    beside = f"{run}/{checkpoint}"
    if (desk.root / beside).exists():
        return desk.inside(beside)
    return desk.inside(usual)


def seats_of(given: Mapping[str, str], desk: Desk) -> tuple[dict[str, str], dict[str, str]]:
    """Words by agent for the process that plays, and what people read instead of them."""
    words: dict[str, str] = {}
    labels = {HUMAN: "host", POLICY: "the run's policy", "random": "random", "first": "first legal move"}
    guests = 0
    for agent, word in given.items():
        meant = word
        if is_guest(word):
            # Numbered, because every guest has an invitation of the own.
            guests += 1
            meant = f"{GUEST} {guests}"
        elif word.startswith(MEMBER):
            labels[word] = f"member {word.removeprefix(MEMBER)}"
        elif word not in (HUMAN, POLICY, *PLAIN):
            meant = _source(word, desk)
            labels[meant] = word
        words[agent] = meant
    return words, labels


def _source(word: str, desk: Desk) -> str:
    """A run, checkpoint or export of the results by its path in them; the name of a policy or of a rule stays as it is."""
    # Only the server says what a path is: a request must not lead out of the results by the same mark.
    if word.startswith(PLACE):
        raise Refused("bad_message", f"nobody is called {shortly(word)}.", 400)
    path, hash_, policy = word.partition("#")
    if not (desk.root / path).exists():
        return word
    return f"{PLACE}{desk.inside(path)}{hash_}{policy}"
