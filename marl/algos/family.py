"""What an algorithm is, before anything is built: its family, its keys, how its policies act."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from marl.algos.config import LearnerConfig
from marl.algos.learner import Brief, Learner
from marl.errors import ConfigError
from marl.registry import Registry


@dataclass(frozen=True)
class Family:
    """A folder of ``algos/``.

    ``learner`` is the place of its class, which is imported only by runs that use it. ``acts`` names the kind of policy,
    ``explorations`` what fits it (the first is the default). ``on_policy``: it learns from its own policy's data only,
    in batches of ``train_batch_size`` env steps.
    """

    name: str
    config: type[LearnerConfig]
    learner: str
    acts: str
    explorations: tuple[str, ...]
    on_policy: bool

    def build(self, brief: Brief) -> Learner:
        """A learner of this family."""
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


ALGOS: Registry[Preset] = Registry("algorithm")
"""Filled by ``marl.algos.presets``."""
