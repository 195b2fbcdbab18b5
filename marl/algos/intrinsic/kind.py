"""The base of all kinds of intrinsic rewards, and where their names are found.

A kind of your own is a class derived from ``IntrinsicReward`` and registered::

    class Far(marl.IntrinsicReward):
        description = "far from where everything begins"

        def bonus(self, rows):
            return np.abs(rows["new_obs"]).sum(axis=1)

    marl.register_intrinsic("far", Far)

Then ``algo: {intrinsic: {kind: far}}`` finds it, if the module is named under ``imports:`` (in full: docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch

from marl.data.batch import SampleBatch
from marl.data.task import AgentType, Floats
from marl.errors import ConfigError
from marl.policies.config import ModelConfig
from marl.registry import Registry

if TYPE_CHECKING:  # the config knows the kinds
    from marl.algos.intrinsic.config import IntrinsicConfig


@dataclass(frozen=True)
class IntrinsicSpec:
    """All that an intrinsic reward is built from: the keys, whose observations they are, and how the policy reads them."""

    config: IntrinsicConfig
    agents: AgentType
    model: ModelConfig
    device: torch.device
    seed: int


class IntrinsicReward(ABC):
    """What is new to one policy. In every round its rows are first observed, then valued, then learned from.

    ``rows`` are decisions: ``obs``, ``actions``, ``new_obs`` (what the decision led to), ``agent_index``, ``terminateds``, ...
    """

    description: ClassVar[str] = ""
    """What it pays for, in a few words: for the help, the reference and messages."""
    keys: ClassVar[tuple[str, ...]] = ("kind_config",)
    """Keys of ``intrinsic:`` that only some kinds take, and this one does."""
    rescaled: ClassVar[bool] = False
    """Whether bonuses have no scale of their own, and are divided by the deviation of their discounted sums."""

    def __init__(self, spec: IntrinsicSpec) -> None:
        self.spec, self.config = spec, spec.config

    def observe(self, rows: SampleBatch) -> None:
        """Take the round's decisions into account that nobody has seen yet."""
        del rows

    @abstractmethod
    def bonus(self, rows: SampleBatch) -> Floats:
        """``[N]``: how new the outcome of each decision is, before it is multiplied by ``coeff``."""

    def learn(self, rows: SampleBatch) -> dict[str, float]:
        """The same decisions as in ``observe``, after they were valued; returns numbers for the policy's learner stats."""
        del rows
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Numbers and arrays with which it goes on after a restart."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        del state


INTRINSIC: Registry[type[IntrinsicReward]] = Registry("intrinsic reward")


def register_intrinsic(name: str, kind: type[IntrinsicReward]) -> None:
    """Let ``algo: {intrinsic: {kind: name}}`` find this class."""
    if not isinstance(kind, type) or not issubclass(kind, IntrinsicReward):
        raise ConfigError(f"intrinsic reward {name!r} is {kind!r}; expected a class derived from marl.IntrinsicReward.")
    INTRINSIC.add(name, kind)


def kinds_in_words() -> str:
    """Every kind and what it pays for, as help and reference tell it."""
    told = []
    for name in INTRINSIC.names:
        told.append(f"{name}: {INTRINSIC[name].description}")
    return "; ".join(told) + "."
