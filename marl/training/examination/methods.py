"""The registry of methods, and the choice among them."""

from __future__ import annotations

from dataclasses import dataclass

from marl.errors import ChanceError, ConfigError, UserError
from marl.populations.exploit_config import ExploitabilityConfig
from marl.training.examination.game import ExaminedGame
from marl.training.examination.method import Method
from marl.training.examination.trained import ByTraining
from marl.training.examination.tree import ByTree

METHODS: dict[str, type[Method]] = {method.name: method for method in (ByTree, ByTraining)}
"""By the names of ``exploitability.method``."""
BEST_FIRST = ("tree", "trained")
"""What ``method: auto`` tries, the most exact first; the last one works in every game."""
INSTEAD = {
    "tree": "Use trained, which gives a lower bound.",
}


@dataclass(frozen=True)
class Choice:
    """The methods that measure, the first of them as asked for; and why none before it in the order could."""

    methods: tuple[Method, ...]
    why: str = ""

    @property
    def first(self) -> Method:
        return self.methods[0]


def choose(game: ExaminedGame, config: ExploitabilityConfig) -> Choice:
    """The method that the config names, or the best one that this game allows."""
    if config.method == "auto":
        return _best(game, config)
    try:
        return Choice((METHODS[config.method](game, config),))
    except ChanceError:
        raise
    except UserError as error:
        if config.method not in INSTEAD:
            raise
        raise ConfigError(f"exploitability.method {config.method}: {error} {INSTEAD[config.method]}") from error


def _best(game: ExaminedGame, config: ExploitabilityConfig) -> Choice:
    refused: list[str] = []
    *exact, last = BEST_FIRST
    for name in exact:
        try:
            return Choice((METHODS[name](game, config),), " ".join(refused))
        except ChanceError:  # a mistake to mend, whatever the method: the env says something wrong about itself
            raise
        except UserError as error:
            refused.append(str(error))
    return Choice((METHODS[last](game, config),), " ".join(refused))
