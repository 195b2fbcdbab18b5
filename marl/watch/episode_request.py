"""Which episode the page asks for: what stands in the body of its requests, checked. Paths are those in the results folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from marl.serve.refused import Refused, bad_message, shortly

MOST_POLICIES = 256
LARGEST_SEED = 2**31 - 1
LATEST = 10_000  # the largest number of an episode: those before it may have to be played as well
Word = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]*$")]


class EpisodeRequest(BaseModel):
    """An episode of a run or of a recording, who plays in it, and who else is asked in the same states."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    run: Word
    checkpoint: Word | None = None  # None: the newest
    episode: Annotated[int, Field(ge=0, le=LATEST)] = 0
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] | None = 0  # None: of a recording that does not say it
    explore: bool = False
    policies: Annotated[dict[str, Word], Field(max_length=MOST_POLICIES)] = {}  # policy or agent to its source
    other: Word | None = None
    recording: Word | None = None

    @classmethod
    def read(cls, body: object) -> EpisodeRequest:
        """Checked; keys that are missing have their defaults."""
        if not isinstance(body, Mapping):
            raise bad_message(f"an episode is asked for by an object, got {shortly(body)}.")
        try:
            return cls.model_validate(dict(body))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise bad_message(f"{key}: {first['msg']}; got {shortly(first['input'])}.") from None

    def to_json(self) -> dict[str, Any]:
        return self.model_dump()


def inside(root: Path, name: str) -> Path:
    """A folder or file of the results by its name in them; nothing outside of them can be named, not by links either."""
    root = root.resolve()
    try:
        place = (root / name).resolve()
        is_there = place.exists()
    except (OSError, ValueError, TypeError, RuntimeError):  # too long, no text, zeros in it, links in a circle
        raise Refused("not_found", f"{shortly(name)} is no name of anything in the results folder.", 404) from None
    if not place.is_relative_to(root):
        raise Refused("not_found", f"{shortly(name)} is not in the results folder.", 404)
    if not is_there:
        raise Refused("not_found", f"there is no {shortly(name)} in the results folder (any more).", 404)
    return place
