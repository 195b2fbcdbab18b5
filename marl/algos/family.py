"""What an algorithm is, before anything is built: its family, its keys, how its policies act."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marl.algos.config import LearnerConfig
from marl.algos.learner import Learner, LearnerSpec
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

    def build(self, brief: LearnerSpec) -> Learner:
        """A learner of this family."""
        if not isinstance(self.learner, str):
            return self.learner.build(brief)
        module, _, name = self.learner.partition(":")
        built: Learner = getattr(importlib.import_module(module), name).build(brief)
        return built


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
                kin = [p for p in (ALGOS[name] for name in ALGOS) if p.family is self.family and p is not self]
                same = [p.name for p in kin if p.defaults.get(key) == keys[key]]
                free = [p.name for p in kin if key not in p.fixed]
                remedy = f" Use algo {', '.join(same or free)}, or drop {key}." if same or free else f" Drop {key}."
                raise ConfigError(f"{self.name} has {key} {self.defaults[key]!r}, not {keys[key]!r}.{remedy}")
        return self.family.config(**{**self.defaults, **keys})


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
