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
    def read(cls, body: Mapping[str, Any]) -> EpisodeRequest:
        """Checked; keys that are missing have their defaults."""
        try:
            return cls.model_validate(dict(body))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            key = ".".join(map(str, first["loc"]))
            raise bad_message(f"{key}: {first['msg']}; got {shortly(first['input'])}.") from None

    def to_json(self) -> dict[str, Any]:
        return self.model_dump()


def inside(root: Path, name: str) -> Path:
    """A folder or file of the results by its name in them; nothing outside of them can be named."""
    place = (root / name).resolve()
    # Links are followed first: one inside of the results may lead elsewhere.
    if not place.is_relative_to(root.resolve()):
        raise Refused("not_found", f"{name!r} is not in the results folder.", 404)
    if not place.exists():
        raise Refused("not_found", f"there is no {name!r} in the results folder (any more).", 404)
    return place
