"""In which units policies speak of Box actions: stretched from -1..1 to the env's, cut to its bounds, or as they are."""

from __future__ import annotations

from typing import Protocol

from marl.config import Config
from marl.data.actions import Array, Columns


class Units(Protocol):
    """The two keys of a run that say it; ``RolloutConfig`` has them among others."""

    @property
    def normalize_actions(self) -> bool: ...

    @property
    def clip_actions(self) -> bool: ...


class ActionUnits(Config):
    """These two alone, for policies that are played away from any run."""

    normalize_actions: bool = True
    clip_actions: bool = False


def from_env(actions: Array, columns: Columns, units: Units) -> Array:
    """The inverse of ``to_env`` within the bounds, for policies that speak the env's units."""
    if columns.numbers and units.normalize_actions:
        return columns.squeezed(actions)
    return actions


def to_env(actions: Array, columns: Columns, units: Units) -> Array:
    """Stored actions as the env takes them: coordinates stretched or cut to the bounds of their Box."""
    if not columns.numbers:
        return actions
    if units.normalize_actions:
        return columns.stretched(actions)
    if units.clip_actions:
        return columns.cut(actions)
    return actions
