"""Runs that are open in this process, so that the next question about one of them does not read it again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

from marl.errors import ConfigError
from marl.play.changes import Changes
from marl.play.episode import Which
from marl.play.exported_run import open_playable
from marl.play.playable import Playable
from marl.play.policy_sources import RANDOM
from marl.play.trace import recorded_episode
from marl.watch.episode_request import EpisodeRequest, inside

T = TypeVar("T")

MOST_OPENED = 6
TOUCHED = ("", "checkpoints", "manifest.json", "checkpoints/best/manifest.json", "policy.json")
"""Files and folders of a run, a checkpoint or an export one of which changes whenever it holds something new."""


class Cache(Generic[T]):
    """The last few things that were made, by their keys."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._kept: OrderedDict[Hashable, T] = OrderedDict()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """What was made for the key, or is made now."""
        if key not in self._kept:
            # Made first: what fails is not kept, and pushes nothing else out.
            self._kept[key] = make()
        self._kept.move_to_end(key)
        if len(self._kept) > self.most:
            self._kept.popitem(last=False)
        return self._kept[key]

    def __len__(self) -> int:
        return len(self._kept)


_opened: Cache[Playable] = Cache(MOST_OPENED)


def open_request(request: Mapping[str, Any], root: Path, allow: Collection[str]) -> Playable:
    """The run of an episode request (docs/watch/episodes.md), with the policies that it wants in their places."""
    asked = EpisodeRequest.read(request)
    place = place_of(asked, root)
    sources = {name: source_in(source, root) for name, source in asked.policies.items()}
    permitted = frozenset(allow)
    # A run that trains on gets new checkpoints: the newest one is another one then.
    key = (place, stamp(place), tuple(sources.items()), tuple(map(_stamp_of_source, sources.values())), permitted)
    return _opened.get(key, lambda: open_playable(place, permitted, Changes(policies=sources)))


def place_of(asked: EpisodeRequest, root: Path) -> Path:
    """The run's folder, or that of the checkpoint that was named."""
    run = inside(root, asked.run)
    if asked.checkpoint is None:
        return run
    return inside(root, f"{asked.run}/checkpoints/{asked.checkpoint}")


def which(request: Mapping[str, Any], root: Path) -> Which:
    """The episode of a request: one to play, or one that was recorded."""
    asked = EpisodeRequest.read(request)
    if asked.seed is None:
        raise ConfigError(
            "the seed of this episode is not known, so it cannot be played again. Give the seed of the rollout that recorded "
            "it; episodes of training do not say theirs."
        )
    if asked.recording is None:
        return Which(asked.episode, asked.seed, asked.explore)
    return recorded_episode(inside(root, asked.recording), asked.episode, asked.seed, asked.explore)


def source_in(source: str, root: Path, own: Collection[str] = ()) -> str:
    """Where a policy comes from, as ``--policy`` takes it: ``random``, one of the run's ``own``, or a path in the results."""
    if source == RANDOM or source in own:
        return source
    path, mark, name = source.partition("#")
    return f"{inside(root, path)}{mark}{name}"


def stamp(place: Path) -> tuple[int, ...]:
    """Another one as soon as the run has another checkpoint, or the checkpoint or export was replaced."""
    found = []
    for name in TOUCHED:
        try:
            found.append((place / name).stat().st_mtime_ns)
        except OSError:
            found.append(0)
    return tuple(found)


def _stamp_of_source(source: str) -> tuple[int, ...]:
    return stamp(Path(source.partition("#")[0]))
