"""Goals that one level of a hierarchy sets for the level below."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from gymnasium import spaces
from pydantic import Field, NonNegativeFloat, NonNegativeInt, ValidationError

from marl.config import Config, explain
from marl.data.task import AnySpace, Array
from marl.envs.base import Action
from marl.errors import ConfigError
from marl.registry import load_object
from marl.trust import Sort

Views: TypeAlias = Sequence[Array]
"""Flat observations of the base agents below a subordinate, one array each."""


class Goals(ABC):
    """What a commander can ask for, when it has been reached, and what trying is worth.

    ``sizes`` are the lengths of the flat observations of the base agents below the subordinate. All methods are pure:
    ``choice`` is what the commander chose from ``space``, ``start`` what the base agents saw when it chose. Before and
    after a base step only agents that were alive before it are looked at; ``shown`` always gets all of them.
    """

    space: AnySpace
    """From this the commander chooses."""
    width: int
    """How many numbers tell the subordinate its goal."""

    @abstractmethod
    def __init__(self, sizes: Sequence[int], **keys: Any) -> None: ...

    @abstractmethod
    def shown(self, choice: Action, start: Views, now: Views) -> Array:
        """The goal as the subordinate sees it: ``width`` numbers."""

    @abstractmethod
    def reached(self, choice: Action, start: Views, now: Views) -> bool:
        """Whether the goal has been reached."""

    @abstractmethod
    def reward(self, choice: Action, start: Views, before: Views, after: Views, reached: bool) -> float:
        """What the subordinate is paid for a base step that led from ``before`` to ``after``, perhaps to the goal."""


class FeatureConfig(Config):
    """Keys of ``goals:`` that ``changes`` and ``targets`` share."""

    features: list[NonNegativeInt] = Field(
        min_length=1, description="Entries of the flat base observation that are to be moved, such as a position."
    )
    tolerance: NonNegativeFloat = Field(1e-3, description="Reached when each feature is at most this far off.")
    show: Literal["remaining", "one_hot"] = Field(
        "remaining", description="How the subordinate sees its goal: the change that remains, or the choice as one-hot."
    )
    progress: NonNegativeFloat = Field(
        1.0, description="Reward for the whole way, paid in proportion to what is gained."
    )
    bonus: float = Field(1.0, description="Reward for reaching the goal.")
    step_cost: NonNegativeFloat = Field(0.01, description="Taken off in each step of the base env.")


class ChangeConfig(FeatureConfig):
    """Keys of ``goals:`` with changes."""

    changes: list[list[float]] = Field(
        min_length=1, description="The choices: a wanted change of each feature, counted from when the goal is set."
    )


class TargetConfig(FeatureConfig):
    """Keys of ``goals:`` with targets. Unless it is said otherwise nothing but reaching one pays (Kulkarni et al., 2016)."""

    targets: list[list[float]] = Field(
        min_length=1, description="The choices: a wanted value of each feature, such as the place of a key."
    )
    progress: NonNegativeFloat = Field(
        0.0, description="Reward for the whole way, paid in proportion to what is gained."
    )
    step_cost: NonNegativeFloat = Field(0.0, description="Taken off in each step of the base env.")


class FeatureGoals(Goals):
    """Bring some entries of the observation to wanted values.

    Of several base agents each has to. With ``d`` the Euclidean distance that remains (the mean over base agents) and ``D``
    the length of the whole way, a base step pays ``progress * (d_before - d_after) / D + bonus * [reached] - step_cost``.
    """

    Keys: ClassVar[type[FeatureConfig]]
    choices: ClassVar[str]
    """The key that names the goals which can be set."""

    def __init__(self, sizes: Sequence[int], **keys: Any) -> None:
        self.config = config = self.Keys(**keys)
        given: list[list[float]] = getattr(config, self.choices)
        smallest = min(sizes)
        for feature in config.features:
            if feature >= smallest:  # all base agents below have to show it
                raise ConfigError(
                    f"goals: feature {feature} does not exist: the flat base observation has {smallest} entries. Use 0 to "
                    f"{smallest - 1}."
                )
        for choice in given:
            if len(choice) != len(config.features):
                raise ConfigError(
                    f"goals: the {self.choices[:-1]} {choice} has {len(choice)} numbers, but there are {len(config.features)} "
                    f"features ({config.features}). Give one number for each."
                )
        self.wanted: list[list[tuple[int, float]]] = []  # feature and number, for each choice
        for choice in given:
            self.wanted.append(list(zip(config.features, choice, strict=True)))
        self.limit = config.tolerance + 1e-6  # a hair more: observations are float32
        self.space = spaces.Discrete(len(self.wanted))
        self.one_hot = np.eye(len(self.wanted), dtype=np.float32)
        self.width = len(sizes) * len(config.features)
        if config.show == "one_hot":
            self.width = len(self.wanted)

    @abstractmethod
    def wanted_values(self, choice: Action, start: Array) -> dict[int, float]:
        """What each feature of a base agent has to become that saw ``start`` when the goal was set."""

    @abstractmethod
    def _remaining(self, choice: Action, start: Array, now: Array) -> list[float]:
        """What is left of each feature's way. With ``item``: on so few numbers it is faster than arrays are."""

    @abstractmethod
    def _length(self, choice: Action, start: Views) -> float:
        """Of the whole way."""

    def shown(self, choice: Action, start: Views, now: Views) -> Array:
        if self.config.show == "one_hot":
            return self.one_hot[choice]
        remaining: list[float] = []
        for then, view in zip(start, now, strict=True):
            remaining += self._remaining(choice, then, view)
        return np.array(remaining, np.float32)

    def reached(self, choice: Action, start: Views, now: Views) -> bool:
        for then, view in zip(start, now, strict=True):
            for left in self._remaining(choice, then, view):
                is_near = abs(left) <= self.limit  # not so for NaN
                if not is_near:
                    return False
        return True

    def reward(self, choice: Action, start: Views, before: Views, after: Views, reached: bool) -> float:
        gained = self._distance(choice, start, before) - self._distance(choice, start, after)
        bonus = 0.0
        if reached:
            bonus = self.config.bonus
        return self.config.progress * gained / self._length(choice, start) + bonus - self.config.step_cost

    def _distance(self, choice: Action, start: Views, now: Views) -> float:
        distances: list[float] = []
        for then, view in zip(start, now, strict=True):
            remaining = self._remaining(choice, then, view)
            distances.append(math.hypot(*remaining))
        return sum(distances) / len(distances)


class Changes(FeatureGoals):
    """Move some entries of the observation by a wanted amount, which is the length of the way."""

    Keys = ChangeConfig
    choices = "changes"

    def __init__(self, sizes: Sequence[int], **keys: Any) -> None:
        super().__init__(sizes, **keys)
        self.lengths: list[float] = []
        for wanted in self.wanted:
            self.lengths.append(math.hypot(*[change for _, change in wanted]) or 1.0)  # to stay where one is: 1

    def wanted_values(self, choice: Action, start: Array) -> dict[int, float]:
        return {feature: start.item(feature) + change for feature, change in self.wanted[choice]}

    def _remaining(self, choice: Action, start: Array, now: Array) -> list[float]:
        return [start.item(f) + change - now.item(f) for f, change in self.wanted[choice]]

    def _length(self, choice: Action, start: Views) -> float:
        del start
        return self.lengths[choice]


class Targets(FeatureGoals):
    """Bring some entries of the observation to a wanted value, wherever they are: the places of things."""

    Keys = TargetConfig
    choices = "targets"

    def wanted_values(self, choice: Action, start: Array) -> dict[int, float]:
        del start
        return dict(self.wanted[choice])

    def _remaining(self, choice: Action, start: Array, now: Array) -> list[float]:
        del start
        return [target - now.item(f) for f, target in self.wanted[choice]]

    def _length(self, choice: Action, start: Views) -> float:
        return self._distance(choice, start, start) or 1.0  # one who is there already has no way to go


OF_FEATURES: dict[str, type[FeatureGoals]] = {kind.choices: kind for kind in (Changes, Targets)}
"""Kinds of goals by the key that names the choices."""


def build_goals(given: Mapping[str, Any] | str, features: Sequence[int], sizes: Sequence[int], where: str) -> Goals:
    """``Changes`` or ``Targets`` by their keys, or a user's class: ``package.module:Class``, or ``{class: ..., other keys}``.

    ``features`` fill in for goals of features that name none.
    """
    if isinstance(given, str):
        given = {"class": given}
    keys = dict(given)
    path = keys.pop("class", None)
    try:
        if path is None:
            keys.setdefault("features", list(features))
            return _of_features(keys)(sizes, **keys)
        found = load_object(str(path), Sort("goals", (Goals,), rooms=("marl.envs.hierarchy",)))
        if not (isinstance(found, type) and issubclass(found, Goals)):
            raise ConfigError(f"{where}: goals {path!r} is {found!r}; expected a subclass of marl.Goals.")
        return found(sizes, **keys)
    except ValidationError as error:
        raise explain(error, f"{where}: goals", _of_features(keys).Keys.model_fields) from None
    except TypeError as error:
        raise ConfigError(f"{where}: goals {path or 'of features'}: {error}") from error


def _of_features(keys: Mapping[str, Any]) -> type[FeatureGoals]:
    """The kind whose choices are given; of none or several the first, which says what is wrong."""
    given = [kind for name, kind in OF_FEATURES.items() if name in keys]
    return given[0] if given else Changes
