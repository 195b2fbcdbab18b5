"""Which episode the page asks for: what stands in the body of its requests, checked. Paths are those in the results folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from marl.serve.refused import Refused, bad_message, shortly

MOST_POLICIES = 256
LARGEST = 2**31 - 1  # of episode numbers and seeds
LATEST = 10_000  # the largest number of an episode: those before it may have to be played as well


@dataclass(frozen=True)
class EpisodeRequest:
    """An episode of a run or of a recording, who plays in it, and who else is asked in the same states."""

    run: str
    checkpoint: str | None = None  # None: the newest
    episode: int = 0
    seed: int = 0
    explore: bool = False
    policies: Mapping[str, str] = field(default_factory=dict)  # policy or agent to its source, as behind --policy
    other: str | None = None
    recording: str | None = None

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> EpisodeRequest:
        """Checked; keys that are missing have their defaults."""
        unknown = sorted(set(body) - set(cls.__dataclass_fields__))
        if unknown:
            raise bad_message(f"unknown keys of an episode: {shortly(unknown[0])}.")
        return cls(
            run=_text(body, "run") or _missing("run"),
            checkpoint=_text(body, "checkpoint"),
            episode=_whole(body, "episode", LATEST),
            seed=_whole(body, "seed", LARGEST),
            explore=body.get("explore") is True,
            policies=_sources(body.get("policies") or {}),
            other=_text(body, "other"),
            recording=_text(body, "recording"),
        )

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "policies": dict(self.policies)}


def _missing(key: str) -> str:
    raise bad_message(f"{key!r} is missing: name a run of the results folder.")


def _text(body: Mapping[str, Any], key: str) -> str | None:
    value = body.get(key)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or "\0" in value:
        raise bad_message(f"{key!r} is a text, got {shortly(value)}.")
    return value


def _whole(body: Mapping[str, Any], key: str, most: int) -> int:
    value = body.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise bad_message(f"{key!r} is a whole number from 0 to {most}, got {shortly(value)}.")
    return value


def _sources(given: object) -> dict[str, str]:
    if not isinstance(given, dict) or len(given) > MOST_POLICIES:
        raise bad_message(f"'policies' says for policies or agents who plays them, got {shortly(given)}.")
    found = {}
    for name, source in given.items():
        if not isinstance(source, str) or not source or "\0" in source:
            raise bad_message(f"who plays {shortly(name)} is a text, got {shortly(source)}.")
        found[str(name)] = source
    return found


def inside(root: Path, name: str) -> Path:
    """A folder or file of the results by its name in them; nothing outside of them can be named."""
    place = (root / name).resolve()
    if not place.is_relative_to(root.resolve()):
        raise Refused("not_found", f"{name!r} is not in the results folder.", 404)
    if not place.exists():
        raise Refused("not_found", f"there is no {name!r} in the results folder (any more).", 404)
    return place
