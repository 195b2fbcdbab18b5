"""What an algorithm is, before anything is built: its family, its keys, how its policies act."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from marl.algos.config import LearnerConfig
from marl.algos.learner import Learner, LearnerSpec
from marl.algos.reading import Passage, passage_of, with_relatives
from marl.config import explain
from marl.errors import ConfigError, UnknownNameError
from marl.registry import Registry, load_object
from marl.trust import Sort


@dataclass(frozen=True)
class Family:
    """A folder of ``algos/``.

    ``learner`` is the place of its class, which is imported only by runs that use it, or a user's class itself. ``acts``
    names the kind of policy,
    ``explorations`` what fits it (the first is the default). ``on_policy``: it learns from its own policy's data only,
    in batches of ``train_batch_size`` env steps.
    """

    name: str
    config: type[LearnerConfig]
    learner: str | type[Learner]
    acts: str
    explorations: tuple[str, ...]
    on_policy: bool

    def learner_class(self) -> type[Learner]:
        """The class of its learners, imported now if it was not before."""
        if not isinstance(self.learner, str):
            return self.learner
        module, _, name = self.learner.partition(":")
        found: type[Learner] = getattr(importlib.import_module(module), name)
        return found

    def build(self, spec: LearnerSpec) -> Learner:
        """A learner of this family."""
        return self.learner_class().build(spec)


@dataclass(frozen=True)
class Preset:
    """An algorithm's name, family, defaults and one sentence. ``fixed`` keys are what makes it this algorithm."""

    name: str
    family: Family
    defaults: Mapping[str, Any]
    summary: str
    fixed: tuple[str, ...] = ()
    asynchronous: bool = False  # collects asynchronously where the pool can
    exploration: str = ""  # its default where that is not the family's first

    def configure(self, **keys: Any) -> LearnerConfig:
        """The family's config with this preset's defaults and the given keys; what makes the preset cannot be changed."""
        for key in self.fixed:
            if key in keys and keys[key] != self.defaults[key]:
                remedy = self._remedy(key, keys[key])
                raise ConfigError(f"{self.name} has {key} {self.defaults[key]!r}, not {keys[key]!r}.{remedy}")
        return self.family.config(**{**self.defaults, **keys})

    def _remedy(self, key: str, wanted: Any) -> str:
        """Algorithms of the family that have the wanted value or, where none has, those that leave it to the user."""
        same: list[str] = []
        free: list[str] = []
        for name in ALGOS:
            other = ALGOS[name]
            if other.family is not self.family or other is self:
                continue
            if other.defaults.get(key) == wanted:
                same.append(other.name)
            if key not in other.fixed:
                free.append(other.name)
        better = same or free
        if not better:
            return f" Drop {key}."
        return f" Use algo {', '.join(better)}, or drop {key}."

    def reading(self) -> list[Passage]:
        """The code that runs in an update, in reading order."""
        learner = self.family.learner_class()
        try:
            config = self.configure()
        except ValidationError as error:  # defaults of a user's own algorithm
            raise explain(error, f"algorithm {self.name!r}: defaults") from None
        shown = learner.reading(config).shown
        return [passage_of(function) for function in with_relatives(learner, shown)]


class Algorithms(Registry[Preset]):
    """Presets by name; ``package.module:Class`` is an algorithm of the user's own, registered or not."""

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or (isinstance(name, str) and ":" in name)

    def __getitem__(self, name: str) -> Preset:
        from marl.algos.custom_algorithm import preset_of  # knows this register itself

        if ":" in name:
            return preset_of(load_object(name, Sort("algorithm", (Learner,), (Preset,), rooms=("marl.algos",))), name)
        try:
            return super().__getitem__(name)
        except UnknownNameError as error:
            raise UnknownNameError(
                f"{error} One of your own is named package.module:Class, or registered by marl.register_algorithm in a "
                "module under imports."
            ) from None


ALGOS: Registry[Preset] = Algorithms("algorithm")
"""Filled by ``marl.algos.presets``."""
