"""What every method of measuring exploitability promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examination.figures import Effort, Exploitability
from marl.training.examination.game import Asked, ExaminedGame


class Method(ABC):
    """One way to measure. What it cannot do with this game it refuses when it is built, by a ``UserError`` that says why."""

    name: ClassVar[str]
    told: ClassVar[str]
    """What is done, in a few words."""
    effort: Effort = Effort()
    """What a measurement costs."""

    @abstractmethod
    def __init__(self, game: ExaminedGame, config: ExploitabilityConfig) -> None: ...

    @abstractmethod
    def measure(self, asked: Asked) -> Exploitability:
        """NashConv of these policies."""
